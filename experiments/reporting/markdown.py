"""Tables and numbers as text."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

from experiments.reporting.estimates import Difference, Estimate

MISSING = "—"
PARTIAL = "partial"


def table(head: Sequence[str], rows: Iterable[Sequence[str]], *, numbers: bool = True) -> str:
    """A table whose first column is text, and the others numbers if they are said to be."""
    lines = [_line(head), _line(["---"] + ["---:" if numbers else "---"] * (len(head) - 1))]
    return "\n".join([*lines, *map(_line, rows)]) + "\n"


def _line(cells: Sequence[str]) -> str:
    return "| " + " | ".join(one.replace("|", "\\|") for one in cells) + " |"


def shown(estimate: Estimate | None) -> str:
    """A value with its interval, marked if it is not complete."""
    if estimate is None:
        return MISSING
    low, high = estimate.ends
    if estimate.is_partial:
        return f"*{PARTIAL}: {estimate.missing}, {estimate.value:.2f}*"
    missing = f" ({estimate.missing})" if estimate.missing else ""
    return f"{estimate.value:.2f} [{low:.1f}, {high:.1f}]{missing}"


def plain(value: float | None, places: int = 2) -> str:
    """A number, or a dash."""
    return MISSING if value is None or math.isnan(value) else f"{value:.{places}f}"


def difference_shown(found: Difference | None) -> str:
    """A difference with its interval and p-value."""
    if found is None:
        return MISSING
    return f"{found.value:+.2f} [{found.low:+.1f}, {found.high:+.1f}] {p_shown(found.p)}"


def p_shown(p: float) -> str:
    """A p-value; that of 2,000 resamples has no more than three places."""
    return "p<0.001" if p < 0.001 else f"p={p:.3f}"


def seeds_shown(estimate: Estimate | None) -> str:
    """Each seed's value: ``1: 86.50, 2: 87.25``."""
    if estimate is None:
        return MISSING
    return ", ".join(f"{seed}: {value:.2f}" for seed, value in estimate.seeds.items())


def spread_shown(estimate: Estimate | None) -> str:
    """The least and the greatest value of several seeds."""
    if estimate is None or len(estimate.seeds) < 2:
        return MISSING
    return f"{min(estimate.seeds.values()):.2f} to {max(estimate.seeds.values()):.2f}"


def duration(seconds: float) -> str:
    """Hours, or minutes if it is less than one."""
    return f"{seconds / 3600:.1f} h" if seconds >= 3600 else f"{seconds / 60:.1f} min"
