"""A sample to learn from: German verbs and their past participles.

Three files of two columns, infinitive and participle, that come with the package (``zocken<TAB>gezockt``); every
verb is written from the rules of the language, none is taken from a data set. ``train`` has most verbs, ``dev`` and
``test`` hold out whole stems: ``machen``, ``aufmachen`` and ``vermachen`` are always in the same split. What exactly
is held out, and why, is in ``README.md`` in this folder. ``stems.tsv`` is what the three files are made from;
``python -m ssnt.data.sample.build`` makes them again.
"""

from __future__ import annotations

from importlib.resources import files
from pathlib import Path
from typing import Literal, TypeAlias, get_args

from ssnt.errors import ConfigError

Split: TypeAlias = Literal["train", "dev", "test"]
"""A part of the sample."""

SPLITS: tuple[Split, ...] = get_args(Split)
"""All parts of the sample; no two have a stem in common."""

__all__ = ["SPLITS", "Split", "sample_path"]


def sample_path(split: Split) -> Path:
    """Returns the file of one split: UTF-8, a verb a line, infinitive and participle with a tab between them.

    Raises:
        ConfigError: There is no such split.
    """
    if split not in SPLITS:
        raise ConfigError(f"split: expected one of {', '.join(SPLITS)}, got {split!r}")
    return Path(str(files(__name__))) / f"{split}.tsv"
