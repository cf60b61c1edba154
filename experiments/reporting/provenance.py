"""Where a section's numbers come from, and what is missing."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from experiments.plan import Trial, table_of
from experiments.reporting.gathered import Gathered
from experiments.reporting.markdown import duration, table
from experiments.results import CHANGED
from ssnt.config import Config

NOTES = "notes.md"
_MOST_HASHES = 12


def provenance(gathered: Gathered) -> str:
    """The command, commits, settings, seeds and training time of a table, and what is missing of it."""
    rows = gathered.rows
    members = [key for group in gathered.groups for trial in group.trials for key in trial.members]
    tables = dict.fromkeys([*map(table_of, members), gathered.table])  # what measures models needs them
    lines = [
        f"- Command: `python -m experiments run {' '.join(tables)}`, then `python -m experiments report`. "
        f"Data: `experiments/{gathered.table}/results.csv` and `outcomes.jsonl`."
    ]
    if rows:
        dates = sorted(row.date for row in rows)
        seeds = ", ".join(map(str, sorted({row.seed for row in rows})))
        lines += [
            f"- {len(rows)} finished trial{'s' * (len(rows) > 1)}, seeds {seeds}, "
            f"{duration(sum(row.seconds for row in rows))} of training, {threads_shown(gathered)}, "
            f"written down from {dates[0]} to {dates[-1]}.",
            f"- Commits: {_counted([row.commit for row in rows])}.{_uncommitted([row.commit for row in rows])}",
            f"- Settings by hash (see the last section): {_listed(list(dict.fromkeys(row.config for row in rows)))}.",
        ]
        lines += [
            f"- **{name} was not the same for all rows**: {_counted(hashes)}. Their figures must not be compared."
            for name in dict.fromkeys(row.dataset for row in rows)
            if len(set(hashes := [row.data for row in rows if row.dataset == name])) > 1
        ]
    lines += [*_lengths(gathered), *_other_precision(gathered), *_of_answers(gathered)]
    lines.append(f"- Missing: {_missing(gathered.missing)}.")
    if gathered.strays:
        lines.append(
            f"- {gathered.strays} further rows are of settings that are no longer in the plan; they are not shown."
        )
    return "\n".join(lines) + "\n"


def threads_shown(gathered: Gathered) -> str:
    """In how many threads its trainings were: what a trial says nothing of was in one."""
    more = [tuple(record["threads"]) for group in gathered.groups for record in group.records if "threads" in record]
    others = [
        f"{count} that had {' and then '.join(map(str, found))}" for found, count in sorted(Counter(more).items())
    ]
    return "each in one thread" + (f" but for {' and '.join(others)}" if others else "")


def _lengths(gathered: Gathered) -> list[str]:
    """Which trainings did not end because dev had stopped improving."""
    limited: Counter[str] = Counter()
    fixed: Counter[str] = Counter()
    trained: Counter[str] = Counter()
    configs: dict[str, Config] = {}
    for group in gathered.groups:
        trials = {trial.key: trial for trial in group.trials if not trial.members}
        for row in group.rows:
            if row.key not in trials:
                continue
            config = configs[row.config] = configs.get(row.config) or trials[row.key].config()
            trained[group.system] += 1
            if row.epochs >= config.training.max_epochs:
                falls = config.optimiser.schedule in ("linear", "cosine") and not config.optimiser.final_fraction
                (fixed if falls else limited)[group.system] += 1
    told = [
        (limited, "had all the epochs that they were allowed, and might have improved with more"),
        (fixed, "had all epochs of a plan in which the step size falls to zero, so that dev chose among them alone"),
    ]
    return [
        f"- These {text}: {', '.join(f'{name} ({count} of {trained[name]})' for name, count in found.items())}."
        for found, text in told
        if found
    ]


def _other_precision(gathered: Gathered) -> list[str]:
    """How many trials were trained in another precision than planned, as on a CPU without bfloat16."""
    trials = {trial.key: trial for group in gathered.groups for trial in group.trials}
    used = [
        (record["precision"], trials[record["key"]].config().hardware.precision)
        for group in gathered.groups
        for record in group.records
        if "precision" in record
    ]
    return [
        f"- {count} of them {'were' if count > 1 else 'was'} trained in {found}, and not in {planned} as planned."
        for (found, planned), count in Counter(used).items()
        if found != planned
    ]


def _of_answers(gathered: Gathered) -> list[str]:
    """What ensembles of kept answers are, and how much they may be off, if there are any."""
    records = [record for group in gathered.groups for record in group.records if "uncertain" in record]
    if not records:
        return []
    asked = sum(record["scores"]["test"][0]["count"] for record in records if "test" in record["scores"])
    unsure = sum(record["uncertain"].get("test", 0) for record in records)
    text = (
        "- Ensembles of answers have the mean of their models' probabilities for whole outputs, as far as these were "
        "kept (`answers.jsonl`); if each model's search has found its most probable outputs, what was rounded or not "
        f"kept could decide otherwise for {unsure} of {asked} test questions."
    )
    if again := sum(record["retrained"] > 0 for record in records):
        text += (
            f" In {again} of the {len(records)} ensembles there are members that were trained again for their answers, "
            "and have rows of another training."
        )
    return [text]


def notes(tables: Sequence[str], home: Path) -> str:
    """What was written by hand about some tables, as it is."""
    texts = [path.read_text(encoding="utf-8").strip() for one in tables if (path := home / one / NOTES).exists()]
    return "\n\n".join(text for text in texts if text)


def settings_appendix(gathered: Sequence[Gathered]) -> str:
    """All settings that results were found with, beside their hashes."""
    hashes: dict[tuple[str, str, str], dict[str, None]] = {}
    for one in gathered:
        for group in one.groups:
            done = {row.key for row in group.rows}
            for trial in group.trials:
                if trial.key in done:
                    hashes.setdefault((one.table, group.system, _settings(trial)), {})[trial.config_hash] = None
    rows = [[name, system, _listed(list(found)), f"`{text}`"] for (name, system, text), found in hashes.items()]
    return table(["table", "system", "hash", "settings"], rows, numbers=False) if rows else ""


def _settings(trial: Trial) -> str:
    if trial.members:
        parts: dict[str, object] = {
            "models": trial.model_count,
            "search": trial.search,
            "stream": trial.stream,
            "of_answers": trial.of_answers,
        }
        return json.dumps({name: value for name, value in parts.items() if value}, sort_keys=True)
    return json.dumps(trial.settings, sort_keys=True)


def _listed(hashes: Sequence[str]) -> str:
    more = len(hashes) - _MOST_HASHES
    return ", ".join(f"`{one}`" for one in hashes[:_MOST_HASHES]) + (f" and {more} more" if more > 0 else "")


def _counted(names: Sequence[str]) -> str:
    return ", ".join(f"`{name}` ({count})" for name, count in Counter(names).items())


def _uncommitted(commits: Sequence[str]) -> str:
    if not any(one.endswith(CHANGED) for one in commits):
        return ""
    return f" A commit with `{CHANGED}` had changes on top that were not committed."


def _missing(trials: Sequence[Trial]) -> str:
    if not trials:
        return "nothing of the plan"
    by_system: dict[str, Counter[str]] = {}
    for trial in trials:
        by_system.setdefault(trial.system, Counter())[trial.dataset] += 1
    parts = [f"{system} ({_by_set(sets)})" for system, sets in by_system.items()]
    return f"{len(trials)} planned trial{'s' * (len(trials) > 1)}, by the names for `--system`: " + "; ".join(parts)


def _by_set(sets: Counter[str]) -> str:
    """How many are missing of each data set; said once if it is the same number for many."""
    names = [name.partition("/")[2] or name for name in sets]
    counts = set(sets.values())
    if len(names) > 1 and len(counts) == 1:
        return f"{counts.pop()} on each of {', '.join(names)}"
    return ", ".join(f"{count} on {name}" for name, count in zip(names, sets.values(), strict=True))
