"""Which training pairs are left out because of their lengths."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Self

if TYPE_CHECKING:
    from ssnt.config import DataConfig


@dataclass(frozen=True, slots=True)
class Filters:
    """The limits that a training pair must keep; None is no limit.

    Lengths count symbols without the end symbol. The names are those of the settings in the section ``data``.

    Attributes:
        max_source_length: Most source symbols.
        max_target_length: Most target symbols.
        max_cells: Largest product of the two lengths.
    """

    max_source_length: int | None = None
    max_target_length: int | None = None
    max_cells: int | None = None

    @classmethod
    def of(cls, data: DataConfig) -> Self:
        """The filters of the settings."""
        return cls(data.max_source_length, data.max_target_length, data.max_cells)

    @property
    def is_active(self) -> bool:
        """Whether there is any limit."""
        return any(limit is not None for limit in (self.max_source_length, self.max_target_length, self.max_cells))

    def verdict(self, src_len: int, tgt_len: int) -> str | None:
        """The name of the first filter that takes a pair, None if the pair is kept."""
        if self.max_source_length is not None and src_len > self.max_source_length:
            return "max_source_length"
        if self.max_target_length is not None and tgt_len > self.max_target_length:
            return "max_target_length"
        if self.max_cells is not None and src_len * tgt_len > self.max_cells:
            return "max_cells"
        return None


@dataclass(slots=True)
class FilterReport:
    """What the filters did to a file.

    Attributes:
        filters: The limits.
        kept: How many pairs are used.
        taken: How many pairs each filter took, by its name.
    """

    filters: Filters
    kept: int = 0
    taken: Counter[str] = field(default_factory=Counter)

    def count(self, verdict: str | None) -> None:
        """Counts a pair by the verdict on it."""
        if verdict is None:
            self.kept += 1
        else:
            self.taken[verdict] += 1

    @property
    def total(self) -> int:
        """How many pairs there were."""
        return self.kept + self.taken.total()

    def sentence(self) -> str:
        """Says how many pairs are used and which filter took the others, without a full stop."""
        if not self.taken:
            return f"all {self.total} pairs are used" if self.total != 1 else "the only pair is used"
        which = ", ".join(
            f"{self.taken[name]} by data.{name} ({getattr(self.filters, name)})"
            for name in ("max_source_length", "max_target_length", "max_cells")
            if self.taken[name]
        )
        if self.kept:
            return f"{self.kept} of {self.total} pairs are used; left out: {which}"
        return f"none of {self.total} pairs is left after the filters, which took {which}; raise these limits"

    def only_one(self) -> str:
        """Says that the one pair that is left is not enough to train on, and which filters took others."""
        message = "there is only one example; a model cannot be trained on one"
        return f"{message} ({self.sentence()}; raise these limits)" if self.taken else message

    def to_json(self) -> dict[str, Any]:
        """The report as JSON values."""
        names = ("max_source_length", "max_target_length", "max_cells")
        limits = {name: getattr(self.filters, name) for name in names}
        return {"filters": limits, "kept": self.kept, "taken": dict(self.taken)}

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> Self:
        """The report that :meth:`to_json` wrote."""
        return cls(Filters(**value["filters"]), value["kept"], Counter(value["taken"]))
