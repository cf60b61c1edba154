"""The symbols and tags that a model knows, how text is divided into them, and the JSON file that keeps both."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Self

from ssnt.config.run import DataConfig
from ssnt.data.text import normalise
from ssnt.data.units import Unit, unit_from_state
from ssnt.errors import DataError
from ssnt.types import UNK_ID

SPECIAL = ("<pad>", "<s>", "</s>", "<unk>")
"""Names of ``PAD_ID``, ``BOS_ID``, ``EOS_ID`` and ``UNK_ID``."""

FORMAT_VERSION = 1
"""Changes when a vocabulary file is laid out in another way."""


@dataclass(frozen=True)
class SymbolTable:
    """The symbols of one side and their numbers.

    A number is a place in ``names``. The special symbols are not in ``table``: a symbol of the data that is written
    like one of them, such as the word ``</s>``, has a number of its own.

    Attributes:
        names: The four special names, then the symbols of the data, each once.

    Raises:
        DataError: The names are not that.
    """

    names: tuple[str, ...]

    def __post_init__(self) -> None:
        if self.names[: len(SPECIAL)] != SPECIAL:
            raise DataError(f"symbols: expected the first names to be {SPECIAL}, got {self.names[: len(SPECIAL)]}")
        _check_names("symbols", self.names[len(SPECIAL) :])

    @classmethod
    def of(cls, symbols: Iterable[str]) -> Self:
        """The table of some symbols of the data, without the special ones."""
        return cls((*SPECIAL, *symbols))

    @classmethod
    def from_counts(cls, counts: Mapping[str, int], *, min_count: int = 1, max_size: int | None = None) -> Self:
        """The table of the most frequent symbols.

        More frequent ones come first, and equally frequent ones in the order of their code points, so that the table
        depends on how often symbols are seen and not on where.

        Args:
            counts: How often each symbol is in the training data.
            min_count: Symbols that are seen less often are left out.
            max_size: How many symbols there may be, the special ones not counted; None: no limit.
        """
        return cls.of(_by_frequency(counts, min_count)[:max_size])

    def __len__(self) -> int:
        return len(self.names)

    @cached_property
    def table(self) -> Mapping[str, int]:
        """The number of each symbol of the data."""
        return {name: number for number, name in enumerate(self.names) if number >= len(SPECIAL)}

    @property
    def symbols(self) -> tuple[str, ...]:
        """The symbols of the data, without the special ones."""
        return self.names[len(SPECIAL) :]

    def numbers(self, symbols: Iterable[str]) -> list[int]:
        """The number of each of some symbols; ``UNK_ID`` for those that are not in the table."""
        table = self.table
        return [table.get(symbol, UNK_ID) for symbol in symbols]

    def numbers_of(self, other: SymbolTable) -> list[int]:
        """The number here of each number of another table; ``UNK_ID`` for symbols that are not in this one."""
        return [*range(len(SPECIAL)), *self.numbers(other.symbols)]


@dataclass(frozen=True)
class TagTable:
    """The tags that a model knows, numbered from 1; 0 is padding.

    Attributes:
        names: The tags, each once.

    Raises:
        DataError: The names are not that, or there are none.
    """

    names: tuple[str, ...]

    def __post_init__(self) -> None:
        if not self.names:
            raise DataError("tags: expected at least one; a vocabulary without tags has None")
        _check_names("tags", self.names)

    @classmethod
    def from_counts(cls, counts: Mapping[str, int]) -> Self:
        """The table of all tags, the most frequent first, equally frequent ones in the order of their code points."""
        return cls(tuple(_by_frequency(counts)))

    def __len__(self) -> int:
        return len(self.names)

    @cached_property
    def table(self) -> Mapping[str, int]:
        """The number of each tag."""
        return {name: number for number, name in enumerate(self.names, start=1)}


@dataclass(frozen=True)
class Vocabulary:
    """All that turns text into a model's numbers and back.

    Attributes:
        source: Source symbols.
        target: Target symbols; the same object as ``source`` if both sides share them.
        tags: Tags; None for a model without.
        source_unit: What divides source text into symbols.
        target_unit: What divides target text into symbols, and joins symbols to text.
        lowercase: Whether text is lowercased.
        digits_to_hash: Whether digits become ``#``.
    """

    source: SymbolTable
    target: SymbolTable
    tags: TagTable | None
    source_unit: Unit
    target_unit: Unit
    lowercase: bool = False
    digits_to_hash: bool = False

    def normalise(self, text: str) -> str:
        """Text as the model sees it, before it is divided."""
        return normalise(text, lowercase=self.lowercase, digits_to_hash=self.digits_to_hash)

    def split_source(self, text: str) -> list[str]:
        """The symbols of a source text."""
        return self.source_unit.split(self.normalise(text))

    def split_target(self, text: str) -> list[str]:
        """The symbols of a target text."""
        return self.target_unit.split(self.normalise(text))

    def join_target(self, symbols: Sequence[str]) -> str:
        """The text of some target symbols."""
        return self.target_unit.join(symbols)

    def tag_numbers(self, tags: Iterable[str]) -> tuple[list[int], int]:
        """The number of each known tag, and how many others there are; a model without tags takes no notice of any."""
        if self.tags is None:
            return [], 0
        table = self.tags.table
        numbers = [table.get(tag, 0) for tag in tags]
        known = [number for number in numbers if number]
        return known, len(numbers) - len(known)

    def model_sizes(self) -> dict[str, int]:
        """What a model must be told about its vocabulary, by the names that ``ModelConfig`` has for it."""
        return {
            "src_vocab_size": len(self.source),
            "tgt_vocab_size": len(self.target),
            "feature_vocab_size": 0 if self.tags is None else len(self.tags) + 1,
        }

    def divides_unlike(self, other: Vocabulary) -> list[str]:
        """The settings of data in which the two differ so that text is not made the same symbols of."""
        mine, theirs = (
            {
                "source_unit": one.source_unit.state(),
                "target_unit": one.target_unit.state(),
                "lowercase": one.lowercase,
                "digits_to_hash": one.digits_to_hash,
            }
            for one in (self, other)
        )
        return [f"data.{name}" for name in mine if mine[name] != theirs[name]]

    def lacks(self, other: Vocabulary) -> list[str]:
        """The symbols and tags of another vocabulary that this one does not have, such as ``tag 'PST'``."""
        tags = {} if self.tags is None else self.tags.table
        lists = [
            ("source symbol", self.source.table, other.source.symbols),
            ("target symbol", self.target.table, other.target.symbols),
            ("tag", tags, () if other.tags is None else other.tags.names),
        ]
        return [f"{what} {name!r}" for what, table, names in lists for name in names if name not in table]

    def to_json(self) -> dict[str, Any]:
        """The vocabulary as what can be written as JSON and read by people."""
        is_shared = self.target is self.source
        target = {} if is_shared else {"symbols": list(self.target.symbols)}
        return {
            "format_version": FORMAT_VERSION,
            "lowercase": self.lowercase,
            "digits_to_hash": self.digits_to_hash,
            "special": list(SPECIAL),
            "is_shared": is_shared,
            "tags": None if self.tags is None else list(self.tags.names),
            "source": {"unit": self.source_unit.state(), "symbols": list(self.source.symbols)},
            "target": {"unit": self.target_unit.state(), **target},
        }

    @classmethod
    def from_json(cls, value: Any) -> Self:
        """The vocabulary that :meth:`to_json` wrote.

        Raises:
            DataError: It is not one, or one of a newer version.
        """
        _check_version(value)
        special = _member(value, "special", list, "a list")
        if special != list(SPECIAL):
            raise DataError(f"vocabulary: 'special': expected {list(SPECIAL)}, got {special!r}")
        is_shared = _member(value, "is_shared", bool, "true or false")
        source = _symbols(value, "source")
        return cls(
            source=source,
            target=source if is_shared else _symbols(value, "target"),
            tags=_tags(value),
            source_unit=_unit(value, "source"),
            target_unit=_unit(value, "target"),
            lowercase=_member(value, "lowercase", bool, "true or false"),
            digits_to_hash=_member(value, "digits_to_hash", bool, "true or false"),
        )


def make_vocabulary(
    source_counts: Mapping[str, int],
    target_counts: Mapping[str, int],
    tag_counts: Mapping[str, int],
    source_unit: Unit,
    target_unit: Unit,
    data: DataConfig,
) -> Vocabulary:
    """The vocabulary of training data, given how often it has each symbol.

    Minimum counts and maximum sizes are for symbols; every tag is kept. With a shared vocabulary the counts of both
    sides are added, and of two maximum sizes the smaller holds.
    """
    if data.share_vocab:
        both = dict(source_counts)
        for symbol, count in target_counts.items():
            both[symbol] = both.get(symbol, 0) + count
        limits = [size for size in (data.max_source_vocab, data.max_target_vocab) if size is not None]
        source = SymbolTable.from_counts(both, min_count=data.min_count, max_size=min(limits, default=None))
        target = source
    else:
        source = SymbolTable.from_counts(source_counts, min_count=data.min_count, max_size=data.max_source_vocab)
        target = SymbolTable.from_counts(target_counts, min_count=data.min_count, max_size=data.max_target_vocab)
    return Vocabulary(
        source=source,
        target=target,
        tags=TagTable.from_counts(tag_counts) if tag_counts else None,
        source_unit=source_unit,
        target_unit=target_unit,
        lowercase=data.lowercase,
        digits_to_hash=data.digits_to_hash,
    )


def _by_frequency(counts: Mapping[str, int], min_count: int = 1) -> list[str]:
    frequent = [(-count, symbol) for symbol, count in counts.items() if count >= min_count]
    return [symbol for _, symbol in sorted(frequent)]


def _check_names(what: str, names: Sequence[Any]) -> None:
    """Refuses names that are not different strings with something in them."""
    for name in names:
        if not isinstance(name, str) or not name:
            raise DataError(f"{what}: expected strings that are not empty, got {name!r}")
    if len(set(names)) < len(names):
        seen: set[str] = set()
        repeated = next(name for name in names if name in seen or seen.add(name))  # type: ignore[func-returns-value]
        raise DataError(f"{what}: expected each once, got {repeated!r} twice")


def _check_version(value: Any) -> None:
    if not isinstance(value, dict):
        raise DataError(f"vocabulary: expected an object, got {type(value).__name__}")
    version = _member(value, "format_version", int, "a number")
    if version > FORMAT_VERSION:
        raise DataError(
            f"vocabulary: written by a newer ssnt (format_version {version}, this ssnt reads up to {FORMAT_VERSION}); "
            "upgrade ssnt"
        )
    if version < 1:
        raise DataError(f"vocabulary: 'format_version': expected 1 to {FORMAT_VERSION}, got {version}")


def _member(value: Any, name: str, kind: type, expected: str, inside: str = "") -> Any:
    """A member of an object, if it is there and what it should be."""
    if not isinstance(value, dict) or name not in value:
        raise DataError(f"vocabulary: '{inside}{name}' is missing")
    member = value[name]
    # true is an int for Python
    if not isinstance(member, kind) or (kind is int and isinstance(member, bool)):
        raise DataError(f"vocabulary: '{inside}{name}': expected {expected}, got {member!r:.80}")
    return member


def _symbols(value: Any, side: str) -> SymbolTable:
    section = _member(value, side, dict, "an object")
    symbols = _member(section, "symbols", list, "a list", f"{side}.")
    try:
        return SymbolTable.of(symbols)
    except DataError as error:
        raise DataError(f"vocabulary: '{side}': {error}") from error


def _tags(value: Any) -> TagTable | None:
    if "tags" in value and value["tags"] is None:
        return None
    tags = _member(value, "tags", list, "a list or null")
    try:
        return TagTable(tuple(tags))
    except DataError as error:
        raise DataError(f"vocabulary: {error}") from error


def _unit(value: Any, side: str) -> Unit:
    state = _member(_member(value, side, dict, "an object"), "unit", dict, "an object", f"{side}.")
    try:
        return unit_from_state(state)
    except DataError as error:
        raise DataError(f"vocabulary: '{side}.unit': {error}") from error
