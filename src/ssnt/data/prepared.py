"""Data files as numbers, in flat memory-mapped arrays that are made once and found again by content.

A file is prepared when it is first used with some settings. After that its content is hashed, which takes a fraction of
a second for a million pairs, and the arrays are mapped. What decides is content: a file that was renamed is found, one
that was changed is prepared anew, whatever its date.
"""

from __future__ import annotations

import errno
import hashlib
import json
import os
import tempfile
import unicodedata
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from ssnt.__about__ import __version__
from ssnt.config.run import DataConfig
from ssnt.data.cache import cache_directory, new_entry, read_entry, storage_errors
from ssnt.data.filters import FilterReport, Filters
from ssnt.data.formats import resolve_format
from ssnt.data.lines import STDIN, shown
from ssnt.data.numbering import NumberWriter, RaggedWriter
from ssnt.data.ragged import Ragged
from ssnt.data.readers import files_of, read_examples
from ssnt.data.units import units_for
from ssnt.data.vocab import SymbolTable, Vocabulary, make_vocabulary
from ssnt.errors import DataError, StorageError
from ssnt.files import sha256_of, write_json
from ssnt.types import Example

FORMAT_VERSION = 1
"""Changes when entries of the cache are laid out in another way, or when the same text gives other numbers."""

_VOCABULARY = "vocab.json"


@dataclass(frozen=True, eq=False)
class Prepared:
    """Examples as numbers.

    Attributes:
        src: Source symbols, each row with its ``EOS_ID``.
        tgt: Target symbols, each row with its ``EOS_ID``.
        tags: Tags, in the order of the file; None for a vocabulary without.
        lines: The line of the file that each example comes from.
        vocabulary: What the numbers mean.
        report: What the filters did.
        data_hash: SHA-256 of the file's content; for parallel text, of the list of its files' SHA-256; empty for
            examples that come from no file.
        unseen_source: How often there are source symbols that a given vocabulary does not have.
        unseen_target: The same for target symbols.
        unseen_tags: The same for tags, which are left out.
    """

    src: Ragged
    tgt: Ragged
    tags: Ragged | None
    lines: npt.NDArray[np.int32]
    vocabulary: Vocabulary
    report: FilterReport
    data_hash: str
    unseen_source: Counter[str]
    unseen_target: Counter[str]
    unseen_tags: Counter[str]

    def __len__(self) -> int:
        return len(self.src)

    @property
    def src_lens(self) -> npt.NDArray[np.int64]:
        """Source lengths, the end symbol counted."""
        return self.src.lens

    @property
    def tgt_lens(self) -> npt.NDArray[np.int64]:
        """Target lengths, the end symbol counted."""
        return self.tgt.lens

    @property
    def unseen(self) -> Counter[str]:
        """How often there are symbols, on either side, that a given vocabulary does not have."""
        return self.unseen_source + self.unseen_target


def prepare(path: str, data: DataConfig, vocabulary: Vocabulary | None, *, is_training: bool) -> Prepared:
    """Opens a file's examples as numbers, and prepares them first if that has not been done before.

    Args:
        path: The file; for ``parallel``, the name without ``.src`` and ``.tgt``.
        data: How the file is laid out, which pairs are used, and where prepared data is kept.
        vocabulary: What divides text into symbols and numbers them, whatever ``data`` says about that; None: it is made
            from the file.
        is_training: Whether the filters apply. Only from training data a vocabulary can be made.

    Raises:
        DataError: A line cannot be used, no example is left after the filters or there is but one to train on, or the
            file cannot be read twice.
        StorageError: The cache cannot be written.
    """
    _check_purpose(vocabulary, is_training)
    files = regular_files(path, data)
    states, hashes = _states(files), _hashes(files)
    filters = Filters.of(data) if is_training else Filters()
    settings = {"files": hashes, **_settings(data, vocabulary, filters)}
    key = _hash(settings)[:40]
    root = cache_directory(data) / "prepared"
    # whose tags nobody asks for need not have any
    needs_tags = None if vocabulary is None else vocabulary.tags is not None
    for _ in range(3):
        if (found := _open(root, key, vocabulary)) is not None:
            if is_training and found.report.kept == 1:
                raise DataError(f"{path}:{found.lines[0]}: {found.report.only_one()}")
            return found
        with new_entry(root, key) as (directory, manifest), storage_errors(root):
            manifest["settings"] = settings
            manifest["data_hash"] = hashes[0] if len(hashes) == 1 else _hash(hashes)
            source = _Source(path, lambda: read_examples(path, data, needs_tags=needs_tags))
            manifest.update(_fill(directory, source, data, vocabulary, filters))
            if _states(files) != states:
                raise DataError(f"{path}: was changed while it was read; try again")
    reason = "what was prepared is gone or damaged as soon as it is written; set data.cache to another directory"
    raise StorageError(errno.EIO, f"{root / key}: {reason}")


def prepare_examples(
    examples: Sequence[Example], data: DataConfig, vocabulary: Vocabulary | None, *, is_training: bool
) -> Prepared:
    """Turns examples that are in memory already into numbers, like :func:`prepare`; nothing is cached.

    Raises:
        DataError: An example has no target, or none is left after the filters.
        StorageError: The directory for temporary files, through which they go, cannot be written.
    """
    _check_purpose(vocabulary, is_training)
    filters = Filters.of(data) if is_training else Filters()
    source = _Source("examples", lambda: examples)
    try:
        with tempfile.TemporaryDirectory(prefix="ssnt-") as name:
            manifest = _fill(Path(name), source, data, vocabulary, filters)
            return _load(Path(name), {**manifest, "data_hash": ""}, vocabulary, mmap_mode=None)
    except OSError as error:
        reason = (
            f"could not be written ({error.strerror or error}); free some space, or set TMPDIR to another directory"
        )
        raise StorageError(error.errno or errno.EIO, f"{tempfile.gettempdir()}: {reason}") from error


@dataclass(frozen=True)
class _Source:
    """Where examples come from: a name for messages, and how to begin to read them."""

    name: str
    read: Callable[[], Iterable[Example]]


def _check_purpose(vocabulary: Vocabulary | None, is_training: bool) -> None:
    if vocabulary is None and not is_training:
        raise DataError("a vocabulary is made from training data only: expected one for data that is not for training")


def regular_files(path: str, data: DataConfig) -> tuple[str, ...]:
    """The files to read, which must be such that they can be read twice."""
    files = files_of(path, data)
    again = "it is read more than once, which only a file can be; save it to one first"
    if path == STDIN:
        raise DataError(f"{shown(path)}: training and dev data cannot come from standard input: {again}")
    for name in files:
        if not os.path.exists(name) or os.path.isdir(name) or not os.access(name, os.R_OK):
            for _ in read_examples(path, data):  # which says what is wrong
                break
        if not os.path.isfile(name):
            raise DataError(f"{name}: training and dev data cannot come from a pipe or device: {again}")
    return files


def _states(files: Iterable[str]) -> list[tuple[int, ...]]:
    """What changes when files are written to, replaced or removed."""
    try:
        return [(state.st_ino, state.st_size, state.st_mtime_ns) for state in map(os.stat, files)]
    except OSError:
        return []


def _hashes(files: Iterable[str]) -> list[str]:
    try:
        return [sha256_of(name) for name in files]
    except OSError as error:
        raise DataError(f"{error.filename}: cannot be read ({error.strerror or error})") from error


def _settings(data: DataConfig, vocabulary: Vocabulary | None, filters: Filters) -> dict[str, Any]:
    """All that the numbers depend on besides the files."""
    form = resolve_format(data)
    settings: dict[str, Any] = {
        "format_version": FORMAT_VERSION,
        "ssnt_version": __version__,
        "unicode_version": unicodedata.unidata_version,
        "format": asdict(form),
        "filters": asdict(filters),
    }
    if vocabulary is not None:
        settings["vocabulary"] = _hash(vocabulary.to_json())
        units = {vocabulary.source_unit.name, vocabulary.target_unit.name}
    else:
        names = ("lowercase", "digits_to_hash", "min_count", "max_source_vocab", "max_target_vocab", "share_vocab")
        settings["vocabulary"] = {name: getattr(data, name) for name in names}
        units = {form.source_unit, form.target_unit}
        if "bpe" in units:
            settings["vocabulary"]["bpe_size"] = data.bpe_size
    packages = {"graphemes": "regex", "bpe": "tokenizers"}
    settings["packages"] = {packages[unit]: version(packages[unit]) for unit in sorted(units & packages.keys())}
    return settings


def _hash(value: Any) -> str:
    return hashlib.sha256(json.dumps(value, sort_keys=True).encode("ascii")).hexdigest()


def _fill(
    directory: Path, source: _Source, data: DataConfig, vocabulary: Vocabulary | None, filters: Filters
) -> dict[str, Any]:
    """Writes the arrays of all examples to a directory, and returns what is to be known about them."""
    splitter = vocabulary or _splitter(source, data)
    known_tags = splitter.tags.table if splitter.tags is not None else None
    src, tgt = RaggedWriter(directory, "src", has_end=True), RaggedWriter(directory, "tgt", has_end=True)
    tags, lines = RaggedWriter(directory, "tags", has_end=False), NumberWriter(directory / "lines.npy")
    report = FilterReport(filters)
    unseen_tags: Counter[str] = Counter()
    for example in source.read():
        if example.target is None:
            raise DataError(f"{source.name}:{example.line}: has no target")
        src_symbols, tgt_symbols = splitter.split_source(example.source), splitter.split_target(example.target)
        verdict = filters.verdict(len(src_symbols), len(tgt_symbols))
        report.count(verdict)
        if verdict is not None:
            continue
        src.add(src_symbols)
        tgt.add(tgt_symbols)
        lines.add(example.line)
        if known_tags is None:
            tags.add(example.tags)
        else:
            tags.add([tag for tag in example.tags if tag in known_tags])
            unseen_tags.update(tag for tag in example.tags if tag not in known_tags)
    if not report.kept:
        raise DataError(f"{source.name}: {report.sentence() if report.total else 'there is no example'}")
    made = vocabulary
    if made is None:
        made = make_vocabulary(
            src.counts(), tgt.counts(), tags.counts(), splitter.source_unit, splitter.target_unit, data
        )
        write_json(directory / _VOCABULARY, made.to_json())
    unseen = {"source": src.finish(made.source.table), "target": tgt.finish(made.target.table), "tags": unseen_tags}
    lines.finish()
    if made.tags is None:
        tags.discard()
    else:
        tags.finish(made.tags.table)
    # what is too rare for the vocabulary that was just made is not unseen
    return {"report": report.to_json(), "unseen": {} if vocabulary is None else unseen}


def _splitter(source: _Source, data: DataConfig) -> Vocabulary:
    """A vocabulary that knows how to divide text but has no symbols yet; byte-pair units are learnt here."""
    source_unit, target_unit = units_for(data, source.read)
    none = SymbolTable.of(())
    return Vocabulary(none, none, None, source_unit, target_unit, data.lowercase, data.digits_to_hash)


def _open(root: Path, key: str, vocabulary: Vocabulary | None) -> Prepared | None:
    """An entry of the cache, None if there is none or if it is damaged."""
    manifest = read_entry(root, key)
    if manifest is None:
        return None
    try:
        return _load(root / key, manifest, vocabulary, mmap_mode="r")
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        # sizes are right, but what is there is not what was written
        return None


def _load(
    directory: Path, manifest: Mapping[str, Any], vocabulary: Vocabulary | None, *, mmap_mode: Literal["r"] | None
) -> Prepared:
    """Reads what :func:`_fill` wrote.

    Raises:
        ValueError: Arrays do not belong together.
    """
    if vocabulary is None:
        vocabulary = Vocabulary.from_json(json.loads((directory / _VOCABULARY).read_text(encoding="utf-8")))

    def array(name: str) -> npt.NDArray[Any]:
        # a plain array over the mapped one, which is slower to take elements from
        return np.asarray(np.load(directory / f"{name}.npy", mmap_mode=mmap_mode, allow_pickle=False))

    def ragged(name: str) -> Ragged:
        rows = Ragged(array(name), array(f"{name}_offsets"))
        if len(rows) != manifest["report"]["kept"] or rows.offsets[-1] != len(rows.values):
            raise ValueError(f"{name}: the arrays do not belong together")
        return rows

    unseen = {name: Counter(manifest["unseen"].get(name, {})) for name in ("source", "target", "tags")}
    return Prepared(
        src=ragged("src"),
        tgt=ragged("tgt"),
        tags=None if vocabulary.tags is None else ragged("tags"),
        lines=array("lines"),
        vocabulary=vocabulary,
        report=FilterReport.from_json(manifest["report"]),
        data_hash=manifest["data_hash"],
        unseen_source=unseen["source"],
        unseen_target=unseen["target"],
        unseen_tags=unseen["tags"],
    )
