"""Examples as numbers, with what is wrong with each of them."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from unicodedata import normalize

import numpy as np

from ssnt.arrays import NumpyDevice, padded_rows, placed
from ssnt.data.vocab import Vocabulary
from ssnt.decode import Failure
from ssnt.errors import DataError
from ssnt.types import EOS_ID, UNK_ID, Batch, Example

if TYPE_CHECKING:
    import torch
    from torch import Tensor

HOW_TO_GIVE_TAGS = (
    "the model was trained with tags: give a list of tags for every input, such as tags=[['V', 'PST']], or a file with "
    "a column of tags"
)
HOW_TO_LEAVE_TAGS = "the model was trained without tags: leave them out"

_INDEX = re.compile(r"^(source|pair) \d+")


@dataclass(frozen=True)
class Numbers:
    """An example as a model sees it.

    Attributes:
        source: Source symbols.
        source_numbers: Their numbers, without the end symbol.
        target: Target symbols; none without a target.
        target_numbers: Their numbers, without the end symbol.
        tags: Numbers of the known tags.
        unknown: How many source symbols are unknown.
        unknown_target: How many target symbols are unknown.
        unknown_tags: How many tags are unknown.
    """

    source: tuple[str, ...]
    source_numbers: tuple[int, ...]
    target: tuple[str, ...]
    target_numbers: tuple[int, ...]
    tags: tuple[int, ...]
    unknown: int
    unknown_target: int
    unknown_tags: int


def number_example(vocabulary: Vocabulary, example: Example, *, needs_target: bool) -> Numbers:
    """Turns an example into numbers.

    Raises:
        DataError: It is not text, has tags and the model has none, or lacks the target.
    """
    for name in ("source", "target") if needs_target else ("source",):
        if not isinstance(value := getattr(example, name), str):
            missing = "; give the output that belongs to the input" if value is None else ""
            raise DataError(f"the {name} must be text, got {value!r:.80}{missing}")
    tags = checked_tags(example.tags)
    if tags and vocabulary.tags is None:
        raise DataError(f"the input has tags ({';'.join(tags):.80}), and {HOW_TO_LEAVE_TAGS}")
    source = tuple(vocabulary.split_source(example.source))
    target = tuple(vocabulary.split_target(example.target or "")) if needs_target else ()
    source_numbers = tuple(vocabulary.source.numbers(source))
    target_numbers = tuple(vocabulary.target.numbers(target))
    tag_numbers, unknown_tags = vocabulary.tag_numbers(tags)
    unknown, unknown_target = source_numbers.count(UNK_ID), target_numbers.count(UNK_ID)
    return Numbers(
        source, source_numbers, target, target_numbers, tuple(tag_numbers), unknown, unknown_target, unknown_tags
    )


def number_examples(
    vocabulary: Vocabulary, examples: Sequence[Example], *, needs_target: bool
) -> list[Numbers | Failure]:
    """Turns examples into numbers, with a failure in the place of each that cannot be."""
    results: list[Numbers | Failure] = []
    for index, example in enumerate(examples):
        if not isinstance(example, Example):
            raise DataError(f"examples[{index}]: expected an Example, got {type(example).__name__}")
        try:
            results.append(number_example(vocabulary, example, needs_target=needs_target))
        except DataError as error:
            results.append(failure(index, error))
    return results


def usable_examples(
    vocabulary: Vocabulary, examples: Sequence[Example], max_length: int, *, needs_target: bool
) -> tuple[dict[int, Numbers], list[Failure | None]]:
    """The examples that can be used, and in the places of the others what is wrong with them."""
    usable: dict[int, Numbers] = {}
    failures: list[Failure | None] = []
    for index, one in enumerate(number_examples(vocabulary, examples, needs_target=needs_target)):
        problem = one if isinstance(one, Failure) else None
        if isinstance(one, Numbers):
            try:
                _check_lengths(one, max_length)
                usable[index] = one
            except DataError as error:
                problem = failure(index, error)
        failures.append(problem)
    return usable, failures


def failure(index: int, error: DataError) -> Failure:
    """A failure whose message leaves it to the caller to say which example it is about."""
    return Failure(index, DataError(_INDEX.sub(r"the \1", str(error))))


def checked_tags(tags: Iterable[str]) -> tuple[str, ...]:
    """Tags in NFC, each once, in the order given.

    Raises:
        DataError: They are a string, or hold something else than strings.
    """
    if isinstance(tags, str) or not isinstance(tags, Iterable):
        raise DataError(f"tags must be a list of strings such as ['V', 'PST'], got {tags!r:.80}")
    found: list[object] = list(tags)
    if wrong := [tag for tag in found if not isinstance(tag, str)]:
        raise DataError(f"tags must be a list of strings such as ['V', 'PST'], got {wrong[0]!r:.80} in it")
    return tuple(dict.fromkeys(normalize("NFC", tag) for tag in found if isinstance(tag, str)))


def make_examples(
    sources: Sequence[str],
    targets: Sequence[str] | None,
    tags: Sequence[Sequence[str]] | None,
    *,
    has_tags: bool,
    argument: str,
) -> list[Example]:
    """Puts texts and tags together.

    Raises:
        DataError: There are tags for a model without or none for a model with tags, or their number is wrong.
    """
    if tags is None:
        if has_tags:
            raise DataError(f"tags: {HOW_TO_GIVE_TAGS}")
    elif isinstance(tags, str) or len(tags) != len(sources):
        got = repr(tags)[:80] if isinstance(tags, str) else f"{len(tags)}"
        raise DataError(f"tags: expected a list of tags for each of the {len(sources)} {argument}, got {got}")
    elif not has_tags and any(tags):
        raise DataError(f"tags: {HOW_TO_LEAVE_TAGS}")
    examples = []
    for index, source in enumerate(sources):
        try:
            own = checked_tags(() if tags is None else tags[index])
        except DataError as error:
            raise DataError(f"tags[{index}]: {error}") from None
        examples.append(Example(source, None if targets is None else targets[index], own))
    return examples


def pair_examples(
    pairs: Sequence[tuple[str, str]], tags: Sequence[Sequence[str]] | None, *, has_tags: bool
) -> list[Example]:
    """Puts pairs of input and output together with their tags.

    Raises:
        DataError: One is not a pair, or as for :func:`make_examples`.
    """
    check_list("pairs", pairs, "[('one', 'two')]")
    for index, pair in enumerate(pairs):
        check_list(f"pairs[{index}]", pair, "('one', 'two')")
        if len(pair) != 2:
            raise DataError(f"pairs[{index}]: expected an input and an output, got {len(pair)} of them")
    sources, targets = [pair[0] for pair in pairs], [pair[1] for pair in pairs]
    return make_examples(sources, targets, tags, has_tags=has_tags, argument="pairs")


def check_list(name: str, values: Any, example: str) -> None:
    """Refuses what is not a list.

    Raises:
        DataError: It is a string, or something else.
    """
    if isinstance(values, str) or not isinstance(values, Sequence):
        raise DataError(f"{name}: expected a list such as {example}, got {values!r:.80}")


def make_batch(numbers: Sequence[Numbers], *, has_tags: bool, device: torch.device | NumpyDevice) -> Batch:
    """Pairs as a padded batch, both sides with their end symbol."""
    src, src_lens = _padded([one.source_numbers for one in numbers], device)
    tgt, tgt_lens = _padded([one.target_numbers for one in numbers], device)
    features = tag_features([one.tags for one in numbers], device) if has_tags else None
    return Batch(src, src_lens, tgt, tgt_lens, features)


def tag_features(rows: Sequence[Sequence[int]], device: torch.device | NumpyDevice) -> Tensor:
    """Tag numbers as a padded array ``(B, F)``."""
    return padded_rows(rows, device)


def _padded(rows: Sequence[Sequence[int]], device: torch.device | NumpyDevice) -> tuple[Tensor, Tensor]:
    ended = [(*row, EOS_ID) for row in rows]
    return padded_rows(ended, device), placed(np.array([len(row) for row in ended]), device)


def _check_lengths(one: Numbers, max_length: int) -> None:
    if not one.source:
        raise DataError("the source is empty; give at least one symbol")
    for name, symbols in (("source", one.source), ("target", one.target)):
        if len(symbols) > max_length:
            raise DataError(f"the {name} has {len(symbols)} symbols, more than max_length ({max_length}); split it")
