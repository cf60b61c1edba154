"""Settings of streams."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal, get_args

from ssnt.decode.rounds import Rules
from ssnt.errors import ConfigError
from ssnt.types import EOS_ID, End

Merge = Literal["sum", "max"]
"""What a prefix is worth: the sum over its alignments, or the best of them."""


@dataclass(frozen=True)
class StreamOptions:
    """Settings of a stream, checked when made.

    Attributes:
        beam: How many hypotheses a stream keeps.
        merge: Whether a prefix has the summed probability of its alignments or that of the best one.
        max_emissions: How many symbols may be written at one input symbol, the end symbol not counted.
        end: Where the output may end: ``"last"``, only at the end of the input, or ``"any"`` (the paper). An output
            that has ended is a hypothesis like the others: it has to agree before anything is committed, and if it is
            the best when ``max_delay`` or ``max_tail`` decide, what goes on differently is dropped.
        banned: Symbols that the output may not hold.
        beam_threshold: Hypotheses whose log probability is lower than the best by more than this are dropped.
        min_log_prob: Hypotheses with a lower log probability than this are dropped, the best one excepted. The
            probability of everything falls with the length of a stream, so this is for short ones.
        max_delay: A symbol of the best hypothesis is committed after at most so many further inputs, and hypotheses
            that disagree are dropped; None: only when all agree.
        emit_threshold: Instead of a beam search, write the likeliest symbol while the probability of emitting is at
            least this, and commit at once; needs ``beam=1``. At the end of the input it writes until the end symbol,
            or ``max_emissions`` symbols.
        max_tail: How many symbols may wait to be committed. Beyond it the oldest symbols of the best hypothesis are
            committed, which bounds a stream's memory and its time for an input symbol.
    """

    beam: int = 8
    merge: Merge = "sum"
    max_emissions: int = 8
    end: End = "last"
    banned: tuple[int, ...] = ()
    beam_threshold: float = math.inf
    min_log_prob: float = -math.inf
    max_delay: int | None = None
    emit_threshold: float | None = None
    max_tail: int = 1000

    def __post_init__(self) -> None:
        """Checks every setting."""
        for name, least in (("beam", 1), ("max_emissions", 1), ("max_delay", 0), ("max_tail", 1)):
            value = getattr(self, name)
            if name == "max_delay" and value is None:
                continue
            if not isinstance(value, int) or isinstance(value, bool) or value < least:
                raise ConfigError(f"{name} must be a whole number of at least {least}, got {value!r}")
        for name, choices in (("merge", get_args(Merge)), ("end", get_args(End))):
            if getattr(self, name) not in choices:
                expected = ", ".join(map(repr, choices))
                raise ConfigError(f"{name} must be one of {expected}, got {getattr(self, name)!r}")
        if not self.beam_threshold >= 0.0:
            raise ConfigError(f"beam_threshold must be at least 0, got {self.beam_threshold!r}")
        if not self.min_log_prob <= 0.0:
            raise ConfigError(f"min_log_prob must be at most 0, got {self.min_log_prob!r}")
        if EOS_ID in self.banned:
            raise ConfigError("banned must not hold the end symbol: no output could end")
        if self.emit_threshold is None:
            return
        if not 0.0 < self.emit_threshold <= 1.0:
            raise ConfigError(f"emit_threshold must be above 0 and at most 1, got {self.emit_threshold!r}")
        if self.beam != 1:
            raise ConfigError(f"emit_threshold writes at once and keeps one hypothesis: set beam=1, got {self.beam}")

    def rules(self) -> Rules:
        """What a step of the search must know of these options."""
        return Rules(
            beam=self.beam,
            is_max=self.merge == "max",
            max_emissions=self.max_emissions,
            end=self.end,
            prefix=(),
            banned=tuple(self.banned),
            beam_threshold=self.beam_threshold,
            min_log_prob=self.min_log_prob,
            emit_threshold=self.emit_threshold,
        )
