"""Measuring a model on the development data while it is trained, and when it is finished."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ssnt.config import Config
from ssnt.data.vocab import Vocabulary
from ssnt.evaluation import evaluate_model
from ssnt.metrics import Score
from ssnt.nn import Model
from ssnt.pipeline import Transducer
from ssnt.types import Example

PERPLEXITY = "perplexity"
FINAL_METRICS = ("accuracy", "edit_distance", PERPLEXITY)
"""What the finished model is measured in, besides the metric that it was chosen by."""


@dataclass(frozen=True)
class Measured:
    """What a validation has found.

    Attributes:
        metric: The name of the metric that decides.
        value: Its value.
        dev_perplexity: Perplexity on the development data; None without any.
    """

    metric: str
    value: float
    dev_perplexity: float | None


class Validation:
    """Measures a model on the development data.

    Without any, as for a tag set that the development data does not have, the training perplexity of the epoch decides:
    it says nothing about new data, but it does say when a model has stopped learning.

    Args:
        config: The settings of the run.
        vocabulary: What numbers mean.
        examples: The development data, maybe none.
    """

    def __init__(self, config: Config, vocabulary: Vocabulary, examples: Sequence[Example]) -> None:
        self._config = config
        self._vocabulary = vocabulary
        self._all = examples
        self._first = examples[: config.validation.examples]

    @property
    def metric(self) -> str:
        """The metric that decides."""
        return self._config.validation.metric if self._all else PERPLEXITY

    def __call__(self, model: Model, train_perplexity: float) -> Measured:
        """Measures a model that is being trained, in the way that ``validation`` says."""
        if not self._all:
            return Measured(PERPLEXITY, train_perplexity, None)
        names = list(dict.fromkeys([self.metric, PERPLEXITY]))
        scores = self._scores(model, self._first, names, beam=self._config.validation.beam, resamples=0)
        values = {name: score.value for name, score in zip(names, scores, strict=True)}
        return Measured(self.metric, values[self.metric], values[PERPLEXITY])

    def final(self, model: Model) -> list[Score]:
        """Measures the finished model on all development data, in the way that ``search`` says, with intervals."""
        if not self._all:
            return []
        return self._scores(model, self._all, list(dict.fromkeys([self.metric, *FINAL_METRICS])))

    def difference(self) -> str | None:
        """In what the measurement of the finished model differs from those of its epochs; None if in nothing."""
        validation, beam = self._config.validation, self._config.search.beam
        ways = []
        if self.metric != PERPLEXITY and validation.beam not in (None, beam):  # perplexity is not searched for
            ways.append((f"beam {beam}", f"beam {validation.beam}"))
        if len(self._first) < len(self._all):
            ways.append((f"all {len(self._all)} development examples", f"the first {len(self._first)}"))
        if not ways:
            return None
        now, before = (" and ".join(side) for side in zip(*ways, strict=True))
        return f"that is with {now}; the epochs were measured with {before}"

    def _scores(
        self,
        model: Model,
        examples: Sequence[Example],
        names: list[str],
        *,
        beam: int | None = None,
        resamples: int = 1000,
    ) -> list[Score]:
        transducer = Transducer(model, self._vocabulary, self._config)
        return evaluate_model(transducer, examples, names, beam=beam, resamples=resamples).scores
