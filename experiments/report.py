"""REPORT.md and its plots, from the committed results alone: neither models nor data are needed.

Only a table of one's own with a model for each type of a data set whose types are not in ``types.yaml`` needs its data.
The same results give the same bytes. What was written by hand is in ``TABLE/notes.md`` and is put into its section as
it is, so that no number is edited by hand.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from experiments.datasets import MissingDataError
from experiments.figures import NAME as FIGURES
from experiments.figures import WANTED
from experiments.plan import HOME, tables
from experiments.reporting import bars, inflection, online, others, pictures, summarisation
from experiments.reporting.bootstrap import RESAMPLES, SEED
from experiments.reporting.gathered import Gathered, gather
from experiments.reporting.markdown import shown
from experiments.reporting.measured import TEST
from experiments.reporting.provenance import notes, provenance, settings_appendix
from experiments.reporting.published import published
from ssnt.files import write_text

if TYPE_CHECKING:
    from matplotlib.figure import Figure

REPORT = "REPORT.md"
_HEAD = f"""# The paper's tables, on real data

<!-- Written by `python -m experiments report` from experiments/*/results.csv and outcomes.jsonl: do not edit. -->

Figures are in percent unless said otherwise. `[low, high]` is a 95 % interval: {RESAMPLES:,} resamples (seed {SEED}) of
the test lemmas with all their cells, or of sentences, or of words, of the models at hand; how much another training
would differ is shown by the seeds, not by the interval. With several seeds a figure is their mean. p-values are
two-sided, from paired resamples. Accuracy on an inflection set is the mean over its inflection types; an average over
sets is the mean of the sets. A figure that is called *partial* covers only a part of what it should, and is not
compared with anything. How many seeds a mean is of stands under "Seeds", or beside it; otherwise it is of one. A mean
that lacks planned seeds says so, and is compared all the same. Where one of several systems is picked out as the best,
it is the best on dev. Each finished trial is measured on dev and test at once, so that the test figures of older
systems were known when later ones were planned; the notes say where that may matter. "—": there is none, or not yet.
"""


@dataclass
class Page:
    """A report under way.

    Attributes:
        home: The folder of the tables.
        gathered: The results by table.
        text: What is written so far.
        plots: The pictures by their file names.
        bars: What was asked for.
        left_out: The tables that cannot be shown, as the data that says what their types are is not here.
    """

    home: Path
    gathered: dict[str, Gathered]
    text: list[str] = field(default_factory=list)
    plots: dict[str, Figure] = field(default_factory=dict)
    bars: list[bars.Bar] = field(default_factory=list)
    left_out: list[str] = field(default_factory=list)
    _systems: dict[str, list[inflection.System]] = field(default_factory=dict)

    def add(self, *parts: str) -> None:
        """Adds paragraphs; empty ones are left out."""
        self.text += [part.rstrip("\n") + "\n" for part in parts if part.strip()]

    def titled(self, title: str, part: str) -> None:
        """Adds a part under a title, if there is any."""
        if part.strip():
            self.add(f"### {title}", part)

    def picture(self, name: str, figure: Figure | None, alt: str) -> None:
        """Adds a picture, if there is any."""
        if figure is not None:
            self.plots[name] = figure
            self.add(f"![{alt}]({pictures.FOLDER}/{name})")

    def ending(self, *names: str) -> None:
        """Adds what was written by hand about some tables, and where their numbers come from."""
        self.titled("Discussion", notes(names, self.home))
        known = [self.gathered[name] for name in names if name in self.gathered]
        self.titled("Where this comes from", "\n".join(provenance(one) for one in known) or "There is no plan yet.")

    def of(self, name: str) -> Gathered:
        """A table's results, or none at all."""
        return self.gathered.get(name) or Gathered(name, (), (), 0)

    def systems(self, name: str) -> list[inflection.System]:
        """The systems of a table of inflection, resampled once."""
        if name not in self._systems:
            self._systems[name] = inflection.systems_of(self.of(name))
        return self._systems[name]


def write_report(home: Path = HOME, target: Path | None = None) -> Path:
    """Writes the report and its plots.

    Args:
        home: The folder of the tables; the plans are those of the package.
        target: Where to write; None: in the same folder.

    Returns:
        Where it is.
    """
    page = Page(home, {})
    for name in tables():
        try:
            page.gathered[name] = gather(name, home)
        except MissingDataError:  # a table of one's own asks its data set for its types
            page.left_out.append(name)
    for section in (_inflection, _beyond, _summarisation, _online, _fields, _figures, _selection, _rest):
        section(page)
    page.add("## Settings", settings_appendix(list(page.gathered.values())) or "There are no results yet.")
    top = [_HEAD, "## What was asked for, and what was seen\n", bars.bars_table(page.bars)]
    target = target or home
    folder = target / pictures.FOLDER
    for name, figure in page.plots.items():
        pictures.save(figure, folder / name)
    for name in _shown_before(target / REPORT) - page.plots.keys():
        (folder / name).unlink(missing_ok=True)
    write_text(target / REPORT, "\n".join([*top, *page.text]))
    return target / REPORT


def _shown_before(report: Path) -> set[str]:
    """The plots of the report that is replaced; a directory of results may have other pictures, which are not ours."""
    text = report.read_text(encoding="utf-8") if report.exists() else ""
    return set(re.findall(rf"\]\({pictures.FOLDER}/([\w.-]+\.png)\)", text))


def _inflection(page: Page) -> None:
    systems = page.systems("inflection")
    page.bars += bars.inflection_bars(systems, page.systems("beyond"))
    page.add("## 1. Inflection: Tables 3 and 4")
    page.add("\n".join(f"- {note}" for note in published()["inflection"]["notes"]))
    page.titled("Table 4", inflection.table4(systems))
    page.titled("Table 3", inflection.table3(systems))
    page.titled("All systems by set", inflection.by_set(systems) if systems else "")
    page.picture("inflection.png", pictures.inflection_picture(systems), "Accuracy by set")
    reference = inflection.find(systems, inflection.PAPERS)
    page.titled("Comparisons", inflection.comparisons(systems, reference) if reference else "")
    page.titled("Seeds", inflection.seeds_table(systems))
    page.ending("inflection")


def _beyond(page: Page) -> None:
    systems = page.systems("beyond")
    page.add("## 2. Beyond the paper")
    page.add("Bold: at least the best figure that was published on the set, to two places.")
    reference = inflection.find(page.systems("inflection"), inflection.PAPERS)
    crossed = inflection.find(page.systems("inflection"), inflection.CROSSED)
    beside = [*filter(None, (reference, crossed)), *systems]
    page.add(inflection.beyond_table(beside))
    page.picture("beyond.png", pictures.inflection_picture(systems), "Accuracy by set")
    page.titled("On dev", inflection.dev_table(beside))
    best = inflection.best_of_each_set([*page.systems("inflection"), *systems])
    page.titled("The best on dev of each set", f"{best.kind}: on test {shown(best.average)}." if best.kind else "")
    page.titled(
        "Comparisons with one model for each type", inflection.comparisons(systems, reference) if reference else ""
    )
    page.titled("Seeds", inflection.seeds_table(systems))
    page.ending("beyond")


def _summarisation(page: Page) -> None:
    gathered = page.of("summarisation")
    rouge, perplexities = summarisation.rouge_of(gathered), summarisation.perplexities_of(gathered)
    page.bars += bars.summarisation_bars(rouge, perplexities)
    page.add("## 3. Summarisation: Tables 1 and 2")
    page.add(
        "The paper's figures are of Gigaword, ours of the data that a row names: only their order can be compared."
    )
    page.titled("Table 1: ROUGE F1 on test", summarisation.table1(rouge))
    page.picture("summarisation.png", pictures.rouge_picture(rouge), "ROUGE with 95 % intervals")
    page.titled("All pairs", summarisation.comparisons(rouge))
    page.titled("Seeds", summarisation.seeds_table(rouge))
    page.titled("Table 2: perplexity on dev", summarisation.table2(perplexities))
    page.ending("summarisation")
    _gigaword(page)


def _gigaword(page: Page) -> None:
    """The same on the paper's own data, if somebody has had it."""
    gathered = page.of("gigaword")
    if not gathered.rows:
        page.add(
            "`python -m experiments run gigaword` does the same on the paper's own data, for whoever has it; "
            "there are no results of it."
        )
        return
    rouge = summarisation.rouge_of(gathered)
    page.titled("Gigaword, Table 1: ROUGE F1 on test", summarisation.table1(rouge))
    page.titled("Gigaword, all pairs", summarisation.comparisons(rouge))
    page.titled("Gigaword, Table 2: perplexity on dev", summarisation.table2(summarisation.perplexities_of(gathered)))
    page.ending("gigaword")


def _online(page: Page) -> None:
    page.add("## 4. Online: quality against latency")
    page.add(
        "AL (average lagging), LAAL (length-adaptive) and DAL (differentiable) count source symbols, AP (average "
        "proportion) is a share of the source. Systems whose names differ in a number "
        "only make one curve; a system without latency was not streamed: it reads everything before it writes."
    )
    names = [name for name in page.gathered if name.startswith("online")] or ["online"]
    for name in names:
        points = online.points_of(page.of(name))
        for dataset in dict.fromkeys(one.dataset for one in points):
            some = [one for one in points if one.dataset == dataset]
            page.titled(dataset, online.points_table(some))
            picture = f"{name}-{dataset.replace('/', '-')}.png"
            page.picture(picture, pictures.online_picture(some), f"Quality against latency on {dataset}")
    page.ending(*names)


def _fields(page: Page) -> None:
    pronunciations = others.pronunciations_of(page.of("g2p"))
    languages = others.languages_of(page.of("sigmorphon2017"))
    page.bars += bars.other_bars(pronunciations, languages) + bars.other_asks(page.of("subset"))
    page.add("## 5. Other fields")
    page.add(
        "### CMUdict", "WER is the share of words for which no reference pronunciation is met; PER has no interval."
    )
    page.add(others.pronunciation_table(pronunciations))
    page.ending("g2p")
    page.add(
        "### SIGMORPHON 2017", "Accuracy over all questions of a language, as in the shared task; lemmas are resampled."
    )
    for size in dict.fromkeys(one.size for one in languages):
        page.add(others.languages_table(languages, size))
    best = published()["sigmorphon2017"]
    page.add(best["note"] if best["best"] is None else f"Best published average: {best['best']}.")
    page.ending("sigmorphon2017")


def _figures(page: Page) -> None:
    page.add("## 6. Figures 1 and 3")
    folder = page.home / FIGURES
    drawn = [one for one in WANTED if (folder / f"{one.name}.png").exists()]
    for one in drawn:
        page.add(one.caption, *(f"![{name}]({FIGURES}/{name}.png)" for name in (one.name, f"{one.name}-path")))
    if not drawn:
        page.add("There are none yet.")
        return
    page.add("Command: `python -m experiments figures`, where the models of these tables are in the work directory.")


def _selection(page: Page) -> None:
    page.add("## 7. What was tried on dev")
    gathered = page.of("selection")
    if gathered.groups:
        has_test = any(trial.has_test for group in gathered.groups for trial in group.trials)
        looked = "" if has_test else " None of these trials looks at the test data."
        page.add(
            "Means over the types that the plan names for a system, and over all questions of SIGMORPHON's, with "
            "intervals of their dev lemmas." + looked
        )
        page.add(others.tried_table(gathered))
    page.ending("selection")


def _rest(page: Page) -> None:
    """Tables that no section above is about, so that nothing is left out."""
    known = {"inflection", "beyond", "summarisation", "gigaword", "g2p", "sigmorphon2017", "selection"}
    for name, gathered in page.gathered.items():
        if name in known or name.startswith("online") or not gathered.groups:
            continue
        page.add(f"## {name}")
        has_test = any(trial.has_test for group in gathered.groups for trial in group.trials)
        page.titled("On dev", others.tried_table(gathered))
        if has_test:
            page.titled("On test", others.tried_table(gathered, TEST))
        page.ending(name)
    for name in page.left_out:
        page.add(f"## {name}", "Left out: which types it has its data says, and that is not in `$SSNT_DATA`.")
