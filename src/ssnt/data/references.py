"""Examples that ask the same, made into one that has several right answers."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from ssnt.data.text import normalise
from ssnt.errors import DataError
from ssnt.types import Example


@dataclass(frozen=True, slots=True)
class PooledExample:
    """A source with every target that the data has for it.

    Attributes:
        source: The source, as it is first written.
        tags: Its tags, as they are first written.
        references: The targets, normalised, each once, in the order of the data.
        indices: Which of the examples were pooled, counted from 0; the first is where ``source`` was found.
        line: The line of the first of them.
    """

    source: str
    tags: tuple[str, ...]
    references: tuple[str, ...]
    indices: tuple[int, ...]
    line: int


@dataclass(slots=True)
class _Pool:
    example: Example
    references: dict[str, None] = field(default_factory=dict)  # in order, each once
    indices: list[int] = field(default_factory=list)


def pool_references(
    examples: Iterable[Example], *, lowercase: bool = False, digits_to_hash: bool = False
) -> list[PooledExample]:
    """Pools the examples that have the same normalised source and the same set of tags.

    Args:
        examples: Examples with targets.
        lowercase: Whether case makes no difference; references are lowercased then.
        digits_to_hash: Whether digits make no difference; in references they become ``#`` then.

    Returns:
        One for each different question, in the order in which they first appear.

    Raises:
        DataError: An example has no target.
    """
    pools: dict[tuple[str, frozenset[str]], _Pool] = {}
    for index, example in enumerate(examples):
        if example.target is None:
            where = f"line {example.line}" if example.line else f"example {index + 1}"
            raise DataError(f"{where}: expected a target for the source {example.source!r}, got none")
        source = normalise(example.source, lowercase=lowercase, digits_to_hash=digits_to_hash)
        target = normalise(example.target, lowercase=lowercase, digits_to_hash=digits_to_hash)
        pool = pools.setdefault((source, frozenset(example.tags)), _Pool(example))
        pool.references[target] = None
        pool.indices.append(index)
    return [
        PooledExample(
            source=pool.example.source,
            tags=pool.example.tags,
            references=tuple(pool.references),
            indices=tuple(pool.indices),
            line=pool.example.line,
        )
        for pool in pools.values()
    ]
