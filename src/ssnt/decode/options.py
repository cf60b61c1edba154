"""What all searches can be told."""

from __future__ import annotations

import math
from collections.abc import Collection
from dataclasses import dataclass
from typing import get_args

from ssnt.errors import ConfigError
from ssnt.types import EOS_ID, End


def as_symbols(name: str, values: object) -> tuple[int, ...]:
    """A collection of symbols as a tuple."""
    if not isinstance(values, Collection) or not all(isinstance(value, int) for value in values):
        raise ConfigError(f"{name} must be a tuple of symbols, which are whole numbers, got {values!r}")
    return tuple(values)


def require_symbols(name: str, symbols: Collection[int], vocab_size: int) -> None:
    """Raises if a symbol is not in the vocabulary."""
    outside = sorted(symbol for symbol in symbols if not 0 <= symbol < vocab_size)
    if outside:
        raise ConfigError(f"{name}: expected symbols from 0 to {vocab_size - 1}, got {outside}")


@dataclass(frozen=True)
class SearchOptions:
    """Settings of a search, checked when made.

    Attributes:
        beam: How many hypotheses are kept (a cell in path search, an item in the others).
        nbest: How many are returned, best first; at most ``beam``.
        max_length: Longest output in symbols, the end symbol not counted.
        max_length_ratio: Longest output as a multiple of the source length (its end symbol counted), plus
            ``max_length_margin``; the smaller of the two limits holds.
        max_length_margin: Added to the relative limit, so that short inputs may have longer outputs.
        length_normalisation: Finished outputs are ranked by ``log_prob / length ** length_normalisation``, the end
            symbol counted; 0 ranks by probability.
        beam_threshold: Hypotheses whose log probability is lower than the best by more than this are dropped.
        min_log_prob: Hypotheses with a lower log probability than this are dropped.
        end: Where a path may end: ``"any"`` (the paper) or ``"last"``.
        prefix: Symbols that the output must begin with, even if they are more than the limit allows.
        banned: Symbols that the output may not hold.
    """

    beam: int = 8
    nbest: int = 1
    max_length: int = 500
    max_length_ratio: float = 3.0
    max_length_margin: int = 20
    length_normalisation: float = 0.0
    beam_threshold: float = math.inf
    min_log_prob: float = -math.inf
    end: End = "any"
    prefix: tuple[int, ...] = ()
    banned: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        """Checks every setting."""
        for name in ("prefix", "banned"):
            object.__setattr__(self, name, as_symbols(name, getattr(self, name)))
        for name, least in (("beam", 1), ("nbest", 1), ("max_length", 0), ("max_length_margin", 0)):
            value = getattr(self, name)
            if not isinstance(value, int) or value < least:
                raise ConfigError(f"{name} must be a whole number of at least {least}, got {value!r}")
        if self.nbest > self.beam:
            raise ConfigError(f"nbest must be at most beam ({self.beam}), got {self.nbest}; widen the beam")
        if not self.max_length_ratio >= 0.0:
            raise ConfigError(f"max_length_ratio must be at least 0, got {self.max_length_ratio!r}")
        if not 0.0 <= self.length_normalisation < math.inf:
            raise ConfigError(f"length_normalisation must be at least 0, got {self.length_normalisation!r}")
        if not self.beam_threshold >= 0.0:
            raise ConfigError(f"beam_threshold must be at least 0, got {self.beam_threshold!r}")
        if not self.min_log_prob <= 0.0:
            raise ConfigError(f"min_log_prob must be at most 0, got {self.min_log_prob!r}")
        if self.end not in get_args(End):
            raise ConfigError(f"end must be one of {', '.join(map(repr, get_args(End)))}, got {self.end!r}")
        if EOS_ID in self.prefix:
            raise ConfigError("prefix must not hold the end symbol: what follows it could not be written")
        if EOS_ID in self.banned:
            raise ConfigError("banned must not hold the end symbol: no output could end")
        clash = set(self.prefix) & set(self.banned)
        if clash:
            raise ConfigError(f"prefix and banned must not share symbols, got {sorted(clash)} in both")

    def require_vocabulary(self, vocab_size: int) -> None:
        """Raises if a forced or banned symbol is not in the vocabulary."""
        require_symbols("prefix", self.prefix, vocab_size)
        require_symbols("banned", self.banned, vocab_size)

    def longest(self, src_len: int) -> int:
        """The length limit for a source of ``src_len`` symbols (its end symbol counted), at least the prefix."""
        relative = self.max_length_ratio * src_len + self.max_length_margin
        return max(len(self.prefix), min(self.max_length, int(min(relative, self.max_length))))

    def score(self, log_prob: float, length: int) -> float:
        """The ranking score of a finished output of ``length`` symbols, the end symbol counted."""
        return log_prob / math.pow(length, self.length_normalisation)
