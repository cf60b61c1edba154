"""The paper's Figures 1 and 3, redrawn from the models of the tables: what a model writes, and where it reads it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from experiments.datasets import load
from experiments.plan import HOME, Trial, trials_of

if TYPE_CHECKING:
    from ssnt.data.vocab import Vocabulary
    from ssnt.pipeline import Transducer

NAME = "figures"
"""The folder of the pictures."""


@dataclass(frozen=True)
class Wanted:
    """A figure that is wanted.

    Attributes:
        name: Of its files.
        table: Whose model is used.
        system: Which model.
        dataset: Trained on what.
        tags: The tag set of the model, or empty.
        source: The input; empty: the longest test input of the model's kind with at most ``longest`` symbols, all of
            which the model can write.
        longest: See ``source``.
    """

    name: str
    table: str
    system: str
    dataset: str
    tags: str = ""
    source: str = ""
    longest: int = 24

    @property
    def caption(self) -> str:
        """What its two pictures show."""
        model = f"{self.system} of table `{self.table}` for {self.dataset}{self.tags and f', {self.tags}'}"
        given = self.source or f"the longest test input of at most {self.longest} symbols that it can write"
        return (
            f"**{self.name}**, by {model}. Input: {given}. First the posterior of where each symbol of the output is "
            "written, with the best path as a line, then the best path alone."
        )


WANTED = (
    Wanted("zocken", "inflection", "biSSNT+", "inflection/de-V", "tense=past;type=participle", "zocken"),
    Wanted("finnish", "inflection", "biSSNT+", "inflection/fi-NA", "case=nominative;number=plural"),
    Wanted("compression", "summarisation", "biSSNT+", "summarisation/google-20000", longest=22),
)


def draw(work: Path, say: Callable[[str], None]) -> list[str]:
    """Draws what can be drawn and says it; gives what cannot, as there is no model of it."""
    from experiments.trial import has_model, model_directory
    from ssnt.pipeline import Transducer

    missing = []
    for wanted in WANTED:
        trial = _trial(wanted)
        if trial is not None and has_model(work, trial.key):
            say(_draw(wanted, Transducer.from_pretrained(model_directory(work, trial.key))))
        else:
            what = f"{wanted.system} for {wanted.dataset} {wanted.tags}".rstrip()
            missing.append(f"{wanted.name}: {what} (table {wanted.table})")
    return missing


def _draw(wanted: Wanted, transducer: Transducer) -> str:
    from ssnt.decode.formats import END
    from ssnt.plots import plot_alignment, plot_path, save_figure

    folder = HOME / NAME
    folder.mkdir(exist_ok=True)
    source = wanted.source or _longest(wanted, transducer.vocabulary)
    output = transducer.transduce([source])[0]
    pair = transducer.align([(source, output.text)])[0]
    symbols = [*pair.source_symbols, END], [*pair.target_symbols, END]
    save_figure(plot_alignment(pair.emit, *symbols, pair.path), folder / f"{wanted.name}.png")
    save_figure(plot_path(pair.path, *symbols), folder / f"{wanted.name}-path.png")
    return f"{wanted.name}: {source} -> {output.text}"


def _trial(wanted: Wanted) -> Trial | None:
    which = (wanted.system, wanted.dataset, wanted.tags)
    return next((one for one in trials_of(wanted.table) if (one.system, one.dataset, one.tags) == which), None)


def _longest(wanted: Wanted, vocabulary: Vocabulary) -> str:
    """The longest test input that still makes a picture, and has no symbol that the model cannot write; the first."""
    divided = {
        one.source: vocabulary.split_source(one.source)
        for one in load(wanted.dataset).test
        if ";".join(one.tags) == wanted.tags
    }
    known = vocabulary.target.table
    fitting = {
        source: len(symbols)
        for source, symbols in divided.items()
        if len(symbols) <= wanted.longest and all(one in known for one in symbols)
    }
    return max(fitting, key=lambda source: fitting[source])
