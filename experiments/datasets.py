"""The data sets by name: read in place, never written into the project.

A name is a folder and a set, such as ``inflection/de-N``, ``sigmorphon2017/german-high``, ``g2p/cmudict`` or
``summarisation/google``.
"""

from __future__ import annotations

import hashlib
import os
import random
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from ssnt.data.text import normalise
from ssnt.errors import ConfigError, DataError
from ssnt.files import sha256_of
from ssnt.types import Example

ROOT = Path(__file__).parents[1]
MAX_SOURCE, MAX_TARGET, MAX_CELLS = 50, 25, 500
"""The paper's limits for the sentence pairs of training and validation."""

SUMMARISATION_DEV = 4000
"""How many of the sentence pairs for validation are used."""

CMUDICT_DEV_WORDS = 2670
"""How many words of CMUdict's training part are held out, as in the literature."""

SHUFFLE_SEED = 20161101
"""Of every draw from a data set: which words are held out, which pairs are sampled."""


@dataclass(frozen=True)
class Parts:
    """A data set.

    Attributes:
        train: Training examples.
        dev: Those that everything is chosen on.
        test: Those that are looked at once.
        sha256: Of the files that they come from.
    """

    train: tuple[Example, ...]
    dev: tuple[Example, ...]
    test: tuple[Example, ...]
    sha256: str


def data_root() -> Path:
    """Where the data sets are: ``$SSNT_DATA``, or ``shared/data`` beside the project."""
    return Path(os.environ.get("SSNT_DATA") or ROOT.parent / "shared" / "data")


@lru_cache(maxsize=2)
def load(name: str) -> Parts:
    """A data set by its name.

    Raises:
        ConfigError: There is no such data set, or it is not on this machine.
    """
    folder, _, rest = name.partition("/")
    readers = {
        "inflection": _inflection,
        "sigmorphon2017": _sigmorphon,
        "g2p": _cmudict,
        "summarisation": _summarisation,
    }
    if folder not in readers or not rest:
        raise ConfigError(f"data set {name!r}: expected FOLDER/SET with a folder of {', '.join(readers)}")
    return readers[folder](rest)


def _inflection(name: str) -> Parts:
    files = [_file(f"inflection/{name}/{part}.tsv") for part in ("train", "dev", "test")]
    train, dev, test = (tuple(_triples(path, tags_at=1, separator=",")) for path in files)
    return Parts(train, dev, test, _hash(files))


def _sigmorphon(name: str) -> Parts:
    language, _, size = name.partition("-")
    files = [_file(f"sigmorphon2017/{language}-{part}.tsv") for part in (f"train-{size}", "dev", "test")]
    train, dev, test = (tuple(_triples(path, tags_at=2, separator=";")) for path in files)
    return Parts(train, dev, test, _hash(files))


def _triples(path: Path, *, tags_at: int, separator: str) -> Iterator[Example]:
    """Rows of lemma, form and tags; a few rows of one set have no form, and nothing can be learnt from these."""
    for number, columns in _rows(path, 3):
        target = columns[3 - tags_at]
        if target:
            tags = tuple(sorted(one for one in columns[tags_at].split(separator) if one))
            yield Example(columns[0], target, tags, number)


def _cmudict(name: str) -> Parts:
    """CMUdict in the literature's split. All pronunciations of a word are on one side of any split."""
    if name != "cmudict":
        raise ConfigError(f"data set 'g2p/{name}': expected g2p/cmudict")
    files = [_file(f"g2p/cmudict-{part}.tsv") for part in ("train", "test")]
    rows, test = (
        [Example(word, phones, (), number) for number, (word, *several) in _rows(path) for phones in several]
        for path in files
    )
    words = sorted({one.source for one in rows})
    held_out = set(random.Random(SHUFFLE_SEED).sample(words, CMUDICT_DEV_WORDS))
    train = tuple(one for one in rows if one.source not in held_out)
    dev = tuple(one for one in rows if one.source in held_out)
    return Parts(train, dev, tuple(test), _hash(files))


def _summarisation(name: str) -> Parts:
    """Sentence pairs: ``google``, ``gigaword``, or a sample of so many training pairs: ``google-40000``.

    Training and validation pairs are within the paper's limits, in a random order. The references of Google's test
    part are the human compressions.
    """
    corpus, _, size = name.partition("-")
    files = [_file(f"summarisation/{corpus}/{part}.tsv") for part in ("train", "valid", "test")]
    train, dev, test = (
        [Example(source, target, (), number) for number, (source, target) in _rows(path, 2)] for path in files
    )
    if corpus == "google":
        gold = _file("summarisation/google/test.gold_cased.tsv")
        test = [
            Example(one.source, _human(target), (), one.line)
            for one, (_, (_, target)) in zip(test, _rows(gold, 2), strict=True)
        ]
        files.append(gold)
    train, dev = _short(train), _short(dev)
    random.Random(SHUFFLE_SEED).shuffle(train)
    random.Random(SHUFFLE_SEED).shuffle(dev)
    limit = int(size) if size else len(train)
    return Parts(tuple(train[:limit]), tuple(dev[:SUMMARISATION_DEV]), tuple(test), _hash(files))


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
    path = data_root() / name
    if not path.exists():
        raise ConfigError(f"{path}: there is no such file; name the folder of the data sets in $SSNT_DATA")
    return path


def _hash(files: list[Path]) -> str:
    return hashlib.sha256("".join(map(sha256_of, files)).encode()).hexdigest()[:16]
