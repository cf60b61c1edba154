"""The values that flow between the parts of ssnt.

Axes: ``B`` batch, ``J`` target, ``I`` source, ``F`` features; the source axis is innermost. Importing this does not
import torch, so that what reads and scores files need not wait for it.
"""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from typing import TYPE_CHECKING, Literal, Self

if TYPE_CHECKING:
    import torch
    from torch import Tensor

PAD_ID = 0
BOS_ID = 1
EOS_ID = 2
UNK_ID = 3

End = Literal["any", "last"]
"""Where a path may end: at any source position (the paper), or only at the last one."""


class MovesBetweenDevices:
    """Gives a dataclass of tensors a ``to`` method."""

    def to(self, device: torch.device | str) -> Self:
        """Returns the same value with every tensor on ``device``."""
        values = [getattr(self, one.name) for one in fields(self)]  # type: ignore[arg-type]
        return type(self)(*(None if value is None else value.to(device) for value in values))


@dataclass(frozen=True, slots=True)
class Example:
    """One line of data as text, normalised to NFC.

    Attributes:
        source: The input.
        target: The output; None where there is nothing but sources.
        tags: A set beside the source, such as ``("V", "PST")``: each tag once, in the order of the file.
        line: Where it was read, counted from 1; 0 for what comes from no file.
    """

    source: str
    target: str | None = None
    tags: tuple[str, ...] = ()
    line: int = 0


@dataclass(frozen=True)
class Batch(MovesBetweenDevices):
    """A padded batch of pairs, or of sources alone.

    Both sides of a pair end in ``EOS_ID``, and the lengths count it. That is a convention and is not checked: a model
    trained without end symbols does not know where to stop.

    Attributes:
        src: Source symbols, ``(B, I)``, padded with ``PAD_ID``.
        src_lens: Source lengths, ``(B,)``.
        tgt: Target symbols, ``(B, J)``, padded with ``PAD_ID``; None where there is nothing but sources.
        tgt_lens: Target lengths, ``(B,)``; None where ``tgt`` is.
        features: Tag sets, ``(B, F)``, or None; ``PAD_ID`` (0) stands for no tag, so tags count from 1.
    """

    src: Tensor
    src_lens: Tensor
    tgt: Tensor | None = None
    tgt_lens: Tensor | None = None
    features: Tensor | None = None


@dataclass(frozen=True)
class Grid(MovesBetweenDevices):
    """The alignment lattice of a batch, in log space.

    Cells beyond a pair's lengths are padding: they are never read, whatever they hold.

    Attributes:
        log_word: ``log p(y_j | h_i, s_j)``, ``(B, J, I)``.
        log_emit: Log probability of emitting at the cell, ``(B, J, I)``.
        log_shift: Log probability of shifting at the cell, ``(B, J, I)``.
        src_lens: Source lengths, ``(B,)``.
        tgt_lens: Target lengths, ``(B,)``.
    """

    log_word: Tensor
    log_emit: Tensor
    log_shift: Tensor
    src_lens: Tensor
    tgt_lens: Tensor


@dataclass(frozen=True)
class Posteriors:
    """How often each decision is taken, given the pair.

    Attributes:
        emit: ``P(a_j = i | x, y)``, ``(B, J, I)``; sums to one over ``i``. Zero in padding.
        shift: Probability of shifting from ``i`` to ``i + 1`` while waiting to write ``y_j``, ``(B, J, I)``. Zero in
            padding.
    """

    emit: Tensor
    shift: Tensor


@dataclass(frozen=True)
class Alignment:
    """One path through the lattice.

    Attributes:
        positions: For each target symbol the zero-based source position at which it was written.
        log_prob: Joint log probability of the path and the output, ``log p(y, a | x)``.
    """

    positions: tuple[int, ...]
    log_prob: float


@dataclass(frozen=True)
class Hypothesis:
    """One output of a search, with the alignment that wrote it.

    Attributes:
        symbols: The output, without its end symbol.
        log_prob: ``log p(y|x)``, or ``log p(y, a|x)`` from a search for paths.
        score: What hypotheses were ranked by: the log probability after length normalisation.
        alignment: The best path, with one position for each symbol and one for the end symbol if there is one.
        delays: For each symbol (and the end symbol) how many source symbols had been read where the path writes it.
        is_complete: Whether the output ended in its end symbol rather than at the length limit.
        emit: Emission posteriors ``(J, I)``, where the search gives them.
    """

    symbols: tuple[int, ...]
    log_prob: float
    score: float
    alignment: Alignment
    delays: tuple[int, ...]
    is_complete: bool = True
    emit: Tensor | None = field(default=None, repr=False, compare=False)
