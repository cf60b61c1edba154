"""The data sets by name: read in place, never written into the project.

A name is a folder and a set, such as ``inflection/de-N``, ``sigmorphon2017/german-high``, ``g2p/cmudict`` or
``summarisation/google``.
"""

from __future__ import annotations

import hashlib
import os
import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from ssnt.data.text import normalise
from ssnt.errors import ConfigError, DataError, nearest_name
from ssnt.files import sha256_of
from ssnt.types import Example

ROOT = Path(__file__).parents[1]
MAX_SOURCE, MAX_TARGET, MAX_CELLS = 50, 25, 500
"""The paper's limits for the sentence pairs of training and validation."""

GOOGLE_DEV = 4000
"""How many of Google's sentence pairs for validation are used."""

CMUDICT_DEV_WORDS = 2670
"""How many words of CMUdict's training part are held out, as in the literature."""

SHUFFLE_SEED = 20161101
"""Of every draw from a data set: which words are held out, which pairs are sampled."""


class MissingDataError(ConfigError):
    """A data set is not on this machine."""


@dataclass(frozen=True)
class Parts:
    """A data set.

    Attributes:
        train: Training examples.
        dev: Those that everything is chosen on.
        test: Those that are looked at once.
        sha256: Of the files that they come from, and of what is drawn from these.
    """

    train: tuple[Example, ...]
    dev: tuple[Example, ...]
    test: tuple[Example, ...]
    sha256: str


@dataclass(frozen=True)
class _Source:
    """Where a data set comes from: the files, and what makes its parts of them."""

    files: list[Path]
    read: Callable[[str, list[Path]], Parts]


def data_root() -> Path:
    """Where the data sets are: ``$SSNT_DATA``, or ``shared/data`` beside the project."""
    return Path(os.environ.get("SSNT_DATA") or ROOT.parent / "shared" / "data")


@lru_cache(maxsize=2)
def load(name: str) -> Parts:
    """A data set by its name.

    Raises:
        ConfigError: There is no such data set, or it is not on this machine.
    """
    source, rest = _source(name)
    return source.read(rest, source.files)


def of_type(examples: Sequence[Example], tags: str) -> list[Example]:
    """The examples of one tag set, without their tags; all of them if none is named."""
    if not tags:
        return list(examples)
    return [Example(one.source, one.target, (), one.line) for one in examples if ";".join(one.tags) == tags]


def pairs_if_fewer(name: str, parts: Parts) -> int | None:
    """How many training pairs a set of sentences has, if they are fewer than its name says, as a sample's are."""
    folder, _, rest = name.partition("/")
    size = rest.partition("-")[2]
    return len(parts.train) if folder == "summarisation" and size and len(parts.train) < int(size) else None


def require(name: str) -> None:
    """Refuses a data set that cannot be read, before anything is trained.

    Raises:
        ConfigError: There is no such data set, or it is not on this machine.
    """
    _source(name)


def _source(name: str) -> tuple[_Source, str]:
    """The source of a data set, and its name without the folder."""
    folder, _, rest = name.partition("/")
    known = ("inflection", "sigmorphon2017", "g2p", "summarisation")
    if folder not in known or not rest:
        raise ConfigError(f"data set {name!r}: expected FOLDER/SET with a folder of {', '.join(known)}")
    parts = ("train", "dev", "test")
    if folder == "inflection":
        return _Source([_file(f"inflection/{rest}/{part}.tsv") for part in parts], _inflection), rest
    if folder == "sigmorphon2017":
        language, _, size = rest.partition("-")
        names = [f"{language}-{part}.tsv" for part in (f"train-{size}", "dev", "test")]
        return _Source([_file(f"sigmorphon2017/{one}") for one in names], _sigmorphon), rest
    if folder == "g2p":
        if rest != "cmudict":
            raise ConfigError(f"data set {name!r}: expected g2p/cmudict")
        return _Source([_file(f"g2p/cmudict-{part}.tsv") for part in ("train", "test")], _cmudict), rest
    corpus, _, size = rest.partition("-")
    if size and not size.isdecimal():
        raise ConfigError(f"data set {name!r}: expected a number of training pairs after {corpus!r}, got {size!r}")
    names = ["train", "valid", "test", *(["test.gold_cased"] if corpus == "google" else [])]
    return _Source([_file(f"summarisation/{corpus}/{one}.tsv") for one in names], _summarisation), rest


def _inflection(_: str, files: list[Path]) -> Parts:
    train, dev, test = (tuple(_triples(path, tags_at=1, separator=",")) for path in files)
    return Parts(train, dev, test, _hash(files))


def _sigmorphon(_: str, files: list[Path]) -> Parts:
    train, dev, test = (tuple(_triples(path, tags_at=2, separator=";")) for path in files)
    return Parts(train, dev, test, _hash(files))


def _triples(path: Path, *, tags_at: int, separator: str) -> Iterator[Example]:
    """Rows of lemma, form and tags; a few rows of one set have no form, and nothing can be learnt from these."""
    for number, columns in _rows(path, 3):
        target = columns[3 - tags_at]
        if target:
            tags = tuple(sorted(one for one in columns[tags_at].split(separator) if one))
            yield Example(columns[0], target, tags, number)


def _cmudict(_: str, files: list[Path]) -> Parts:
    """CMUdict in the literature's split. All pronunciations of a word are on one side of any split."""
    rows, test = (
        [Example(word, phones, (), number) for number, (word, *several) in _rows(path) for phones in several]
        for path in files
    )
    words = sorted({one.source for one in rows})
    held_out = set(random.Random(SHUFFLE_SEED).sample(words, CMUDICT_DEV_WORDS))
    train = tuple(one for one in rows if one.source not in held_out)
    dev = tuple(one for one in rows if one.source in held_out)
    return Parts(train, dev, tuple(test), _hash(files, SHUFFLE_SEED, CMUDICT_DEV_WORDS))


def _summarisation(name: str, files: list[Path]) -> Parts:
    """Sentence pairs: ``google``, ``gigaword``, or a sample of so many training pairs: ``google-20000``.

    Training and validation pairs are within the paper's limits, in a random order; a sentence of the validation or test
    part is not trained on. The references of Google's test part are the human compressions.
    """
    corpus, _, size = name.partition("-")
    train, dev, test = (
        [Example(_words(source), target, (), number) for number, (source, target) in _rows(path, 2)]
        for path in files[:3]
    )
    if corpus == "google":
        test = [
            Example(one.source, _human(target), (), one.line)
            for one, (_, (_, target)) in zip(test, _rows(files[3], 2), strict=True)
        ]
    elsewhere = {one.source for one in (*dev, *test)}
    train, dev = _short([one for one in train if one.source not in elsewhere]), _short(dev)
    random.Random(SHUFFLE_SEED).shuffle(train)
    random.Random(SHUFFLE_SEED).shuffle(dev)
    train_size, dev_size = int(size) if size else len(train), GOOGLE_DEV if corpus == "google" else len(dev)
    data_hash = _hash(files, SHUFFLE_SEED, MAX_SOURCE, MAX_TARGET, MAX_CELLS, train_size, dev_size)
    return Parts(tuple(train[:train_size]), tuple(dev[:dev_size]), tuple(test), data_hash)


def _words(source: str) -> str:
    """A source sentence; Gigaword's test part writes an unknown word in another way than its training part."""
    return " ".join("<unk>" if token == "UNK" else token for token in source.split(" "))


def _short(pairs: list[Example]) -> list[Example]:
    lengths = [(len(one.source.split()), len(str(one.target).split())) for one in pairs]
    return [
        one
        for one, (src_len, tgt_len) in zip(pairs, lengths, strict=True)
        if src_len <= MAX_SOURCE and tgt_len <= MAX_TARGET and src_len * tgt_len <= MAX_CELLS
    ]


def _human(text: str) -> str:
    """A human compression as the other texts of the set are written: lowercased, tokens with digits as ``##``."""
    tokens = normalise(text, lowercase=True, digits_to_hash=False).split()
    return " ".join("##" if any(sign.isdigit() for sign in token) else token for token in tokens)


def _rows(path: Path, width: int | None = None) -> Iterator[tuple[int, list[str]]]:
    """Numbers and columns of the lines; any number of columns if no width is given."""
    with path.open(encoding="utf-8") as lines:
        for number, line in enumerate(lines, start=1):
            columns = line.rstrip("\n").split("\t")
            if width is not None and len(columns) != width:
                raise DataError(f"{path}:{number}: expected {width} columns split by tabs, got {len(columns)}")
            yield number, columns


def _file(name: str) -> Path:
    path, root = data_root() / name, data_root()
    if path.exists():
        return path
    if not root.is_dir():
        why = "names no folder" if os.environ.get("SSNT_DATA") else "is not set"
        raise MissingDataError(
            f"{path}: there is no such file: $SSNT_DATA {why}; let it name the folder of the data sets"
        )
    wrong, place = (path, path.parent) if path.parent.is_dir() else (path.parent, path.parents[1])
    there = [one.name for one in place.iterdir() if one.is_dir() == (wrong != path)] if place.is_dir() else []
    nearest = nearest_name(wrong.name, there)
    hint = (
        f"did you mean {nearest!r}?" if nearest else "put it there, or name another folder of data sets in $SSNT_DATA"
    )
    raise MissingDataError(f"{path}: there is no such file; {hint}")


def _hash(files: list[Path], *choices: int) -> str:
    """Of the files, and of what was chosen in making parts of them."""
    text = "".join(map(sha256_of, files)) + "".join(f" {choice}" for choice in choices)
    return hashlib.sha256(text.encode()).hexdigest()[:16]
