"""Makes the files of the sample from its stems: ``python -m ssnt.data.sample.build``.

``stems.tsv`` has a line for each stem, with five columns:

==============  =====================================================================================================
column          what
==============  =====================================================================================================
``split``       ``train``, ``dev`` or ``test``
``kind``        ``weak`` (*gespielt*), ``plain`` (weak without *ge-*: *studiert*), ``strong`` (irregular too)
``infinitive``  the verb without a prefix; in parentheses if it is no verb of its own (*lauben*, for *erlauben*)
``participle``  where the rules do not give it: of every strong verb, and of *knien*; otherwise ``-``
``prefixes``    with which of them the stem is a verb too; ``vor+be`` is two of them, one after the other
==============  =====================================================================================================
"""

from __future__ import annotations

import csv
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, TypeAlias, get_args

from ssnt.data.sample import SPLITS, Split, sample_path
from ssnt.errors import DataError

Kind: TypeAlias = Literal["weak", "plain", "strong"]
KINDS: tuple[Kind, ...] = get_args(Kind)

STEMS = Path(__file__).with_name("stems.tsv")

SEPARABLE = frozenset({"ab", "an", "auf", "aus", "ein", "vor"})
"""Prefixes with *ge* behind them: *aufgemacht*."""
INSEPARABLE = frozenset({"be", "emp", "ent", "er", "ge", "miss", "ver", "zer"})
"""Prefixes without *ge*: *besucht*."""

VOWELS = "aeiouyäöü"


@dataclass(frozen=True)
class Stem:
    """A line of ``stems.tsv``: a stem, and with it all verbs that are built on it.

    Attributes:
        split: The split that all of them are in.
        kind: How the participle is made.
        infinitive: The verb without a prefix.
        is_verb: Whether that is a verb by itself.
        participle: Its participle if no rule gives it, otherwise None.
        prefixes: The prefixes that it takes; one that is two of them is written ``vor+be``.
    """

    split: Split
    kind: Kind
    infinitive: str
    is_verb: bool
    participle: str | None
    prefixes: tuple[str, ...]

    def verbs(self) -> dict[str, str]:
        """Returns the participles of all its verbs, by infinitive."""
        ge, ending = self._parts()
        verbs = {self.infinitive: ge + ending} if self.is_verb else {}
        for prefix in self.prefixes:
            parts = prefix.split("+")
            written = "".join(parts)
            inner = ge if SEPARABLE.issuperset(parts) else ""
            verbs[written + self.infinitive] = written + inner + ending
        return verbs

    def _parts(self) -> tuple[str, str]:
        """What stands before the participle's stem, ``ge`` or nothing, and the rest."""
        if self.participle is not None:
            return "ge", self.participle.removeprefix("ge")
        return "" if self.kind == "plain" else "ge", weak_ending(self.infinitive)


def weak_ending(infinitive: str) -> str:
    """Returns the participle of a weak verb without ``ge``: the stem with ``-t``, or with ``-et`` to be spoken."""
    stem = infinitive[:-1] if infinitive.endswith(("eln", "ern")) else infinitive[:-2]
    return stem + ("et" if _needs_e(stem) else "t")


def _needs_e(stem: str) -> bool:
    """Whether no ``t`` can follow: after d and t, and after m and n behind a consonant (*öffnet*, *atmet*).

    Not behind l, r or another m or n (*filmt*, *lernt*, *kennt*), nor behind an h that is not spoken (*wohnt*).
    """
    if stem[-1] in "dt":
        return True
    if stem[-1] not in "mn" or stem[-2] in VOWELS + "lrmn":
        return False
    return not (stem[-2] == "h" and stem[-3] in VOWELS)


def read_stems(path: Path = STEMS) -> list[Stem]:
    """Returns all stems of a file.

    Raises:
        DataError: A line is not as this module says.
    """
    with path.open(encoding="utf-8", newline="") as file:
        rows = list(csv.reader(file, delimiter="\t", quoting=csv.QUOTE_NONE))
    return [_stem(row, f"{path}:{number}") for number, row in enumerate(rows[1:], start=2)]


def _stem(row: list[str], place: str) -> Stem:
    """One line of ``stems.tsv``; the place is for the message if it is wrong."""
    if len(row) != 5:
        raise DataError(f"{place}: expected 5 columns, got {len(row)}")
    split, kind, infinitive, participle, prefixes = row
    if split not in SPLITS or kind not in KINDS:
        raise DataError(f"{place}: expected one of {SPLITS} and one of {KINDS}, got {split!r} and {kind!r}")
    if (kind == "strong" and participle == "-") or not participle.startswith(("-", "ge")):
        raise DataError(f"{place}: expected a participle with ge-, or - if it is regular, got {participle!r}")
    for prefix in prefixes.split():
        for part in prefix.split("+"):
            if part not in SEPARABLE | INSEPARABLE:
                raise DataError(f"{place}: unknown prefix {part!r}")
    return Stem(
        split=split,
        kind=kind,
        infinitive=infinitive.strip("()"),
        is_verb=not infinitive.startswith("("),
        participle=None if participle == "-" else participle,
        prefixes=tuple(prefixes.split()),
    )


def split_text(stems: Iterable[Stem], split: Split) -> str:
    """Returns the text of one split's file.

    Raises:
        DataError: A verb comes from two stems.
    """
    verbs: dict[str, str] = {}
    for stem in stems:
        if stem.split == split:
            new = stem.verbs()
            if twice := verbs.keys() & new.keys():
                raise DataError(f"{', '.join(sorted(twice))}: expected each verb once, got it from two stems")
            verbs |= new
    return "".join(f"{infinitive}\t{participle}\n" for infinitive, participle in sorted(verbs.items()))


def main() -> None:
    """Writes the files of all splits."""
    stems = read_stems()
    for split in SPLITS:
        text = split_text(stems, split)
        sample_path(split).write_text(text, encoding="utf-8", newline="\n")
        print(f"{sample_path(split)}: {text.count(chr(10))} verbs")


if __name__ == "__main__":
    main()
