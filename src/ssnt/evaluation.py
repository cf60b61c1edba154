"""How good a model is: examples through a transducer, outputs through the metrics."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from ssnt.data.references import PooledExample, pool_references
from ssnt.data.units import Characters
from ssnt.data.vocab import Vocabulary
from ssnt.decode import Failure
from ssnt.decode.run import SearchName
from ssnt.errors import ConfigError, DataError
from ssnt.metrics import METRICS, Item, LatencyScore, Score, evaluate, find_metric, latency, latency_scores
from ssnt.pipeline import EnsembleTransducer, PairScore, Streamed, StreamSettings, Transducer, Transduction
from ssnt.pipeline.settings import plan_search, plan_stream
from ssnt.types import Example

LATENCY = "latency"
"""Asks for the four measures of latency, of a model that can stream."""

METRIC_NAMES = (*METRICS, LATENCY)
"""What can be asked for by name."""

_PERPLEXITY = "perplexity"


@dataclass(frozen=True)
class Evaluation:
    """What an evaluation has found.

    Attributes:
        scores: The scores, in the order of the metrics that were asked for; latency gives four.
        predictions: What the model has written for each item, or why it could not; none if no metric looks at outputs,
            or if they are the outputs of streams.
        items: The outputs beside their references, one for each different input.
        questions: The inputs of the items, with the places of their examples.
        streamed: What streams have written for each item, or why they could not; none if nothing looks at that.
    """

    scores: list[Score]
    predictions: list[Transduction | Failure]
    items: list[Item]
    questions: list[PooledExample]
    streamed: list[Streamed | Failure] = field(default_factory=list)

    @property
    def failures(self) -> list[Failure]:
        """The inputs that could not be used: they count as wrong, and latency leaves them out. Indices are of items."""
        return [one for one in self.predictions or self.streamed if isinstance(one, Failure)]


def evaluate_model(
    transducer: Transducer,
    examples: Sequence[Example],
    metrics: Sequence[str],
    *,
    beam: int | None = None,
    search: SearchName | None = None,
    nbest: int = 1,
    resamples: int = 1000,
    stream: StreamSettings | None = None,
    is_streamed: bool = False,
) -> Evaluation:
    """Evaluates a model on examples.

    Examples with the same source and tags are one item with several right answers. References are normalised as the
    vocabulary says, and outputs and references are divided by its target unit (into characters, if that is byte-pair
    units). An input that cannot be used counts as an empty, and so usually a wrong, output. Perplexity is over the
    targets of all examples; one that cannot be scored makes it infinite.

    Args:
        transducer: The model.
        examples: Examples with targets.
        metrics: Names from :data:`METRIC_NAMES`.
        beam: Of the search; None: as the model's settings say.
        search: Which search; None: as the model's settings say.
        nbest: How many outputs the search gives for each item; the first is measured. A beam that was not asked for is
            at least as wide.
        resamples: How many resamples an interval is read from; 0 for no intervals.
        stream: How to stream, for latency.
        is_streamed: Whether the outputs that are measured are those that streams have committed, and not those of a
            search over whole inputs: quality and latency are then of the same outputs.

    Raises:
        ConfigError: A metric is unknown, or there are settings of a search that is not done.
        DataError: There are no examples, or one has no target.
        ModelError: Latency or the outputs of streams are asked for, and the model cannot stream.
    """
    if isinstance(metrics, str) or not metrics:
        raise ConfigError(f"metrics must be a list of names such as ['accuracy'], got {metrics!r}")
    names = [name if name == LATENCY else find_metric(name).name for name in metrics]
    if is_streamed:
        _refuse_search(beam, search, nbest)
    if not examples:
        raise DataError("examples must hold at least one example, got none; is the file empty?")
    vocabulary = transducer.vocabulary_for(examples[0].tags)
    questions = pool_references(examples, lowercase=vocabulary.lowercase, digits_to_hash=vocabulary.digits_to_hash)
    streamed: list[Streamed | Failure] = []
    if LATENCY in names or is_streamed:
        transducer.require_online(LATENCY if LATENCY in names else "stream")
        streamed = transducer.stream_each([_asked(one) for one in questions], **(stream or {}))
    predictions: list[Transduction | Failure] = []
    if set(names) - {LATENCY, _PERPLEXITY} and not is_streamed:
        asked = [_asked(one) for one in questions]
        predictions = transducer.transduce_each(asked, beam=beam, search=search, nbest=nbest)
    likelihoods = transducer.score_each(examples) if _PERPLEXITY in names else []
    items = _items(transducer, questions, streamed if is_streamed else predictions, likelihoods)
    stream_notes = _stream_notes(transducer, stream or {}) if streamed else []
    notes = ["search:stream", *stream_notes] if is_streamed else _search_notes(transducer, beam, search, nbest)
    scores: list[Score] = []
    for name in names:
        if name == LATENCY:
            delays = _delays(transducer, questions, streamed)
            found, own = latency_scores(delays, paced_by="reference", resamples=resamples), stream_notes
        else:
            found = evaluate(items, name, unit=scoring_unit(vocabulary), resamples=resamples)
            own = _likelihood_notes(transducer, likelihoods) if name == _PERPLEXITY else notes
        scores += [_noted(score, own) for score in found]
    return Evaluation(scores, predictions, items, questions, streamed)


def _refuse_search(beam: int | None, search: SearchName | None, nbest: int) -> None:
    """Refuses settings of a search where streams are measured."""
    if beam is not None or search is not None or nbest != 1:
        raise ConfigError(
            f"beam, search and nbest: expected none of them with is_streamed, as nothing is searched, got {beam!r}, "
            f"{search!r} and {nbest!r}; say how to stream, such as stream={{'beam': 4}}"
        )


def scoring_unit(vocabulary: Vocabulary) -> str:
    """What signatures say about symbols: the unit, and how references were normalised."""
    name = vocabulary.target_unit.name
    parts: list[str] = ["characters" if name == "bpe" else name]
    parts += ["lowercase"] * vocabulary.lowercase + ["digits-to-hash"] * vocabulary.digits_to_hash
    return "+".join(parts)


def _noted(score: Score, notes: Sequence[str]) -> Score:
    """A score whose signature says also what was done to get the outputs."""
    name, _, rest = score.signature.partition("|")
    return replace(score, signature="|".join([name, *notes, rest]))


def _search_notes(transducer: Transducer, beam: int | None, search: SearchName | None, nbest: int) -> list[str]:
    plan = plan_search(transducer.config, beam=beam, search=search, nbest=nbest)
    options = plan.options
    return [
        f"search:{plan.search}",
        f"beam:{options.beam}",
        f"lennorm:{options.length_normalisation:g}",
        *_end_notes(transducer),
    ]


def _end_notes(transducer: Transducer) -> list[str]:
    """Where paths may end, which means something only for models that have paths."""
    ends = sorted({one.config.training.end for one in _single_models(transducer) if one.config.model.has_alignment})
    return [f"end:{'+'.join(ends)}"] if ends else []


def _single_models(transducer: Transducer) -> list[Transducer]:
    """The models that are asked, those of ensembles too."""
    if not isinstance(transducer, EnsembleTransducer):
        return [transducer]
    return [model for one in transducer.members for model in _single_models(one)]


def _likelihood_notes(transducer: Transducer, likelihoods: Sequence[PairScore | Failure]) -> list[str]:
    """With more unknown symbols a perplexity is lower and means less."""
    scored = [one for one in likelihoods if isinstance(one, PairScore)]
    unknown, tokens = sum(one.unknown for one in scored), sum(one.tokens for one in scored)
    return [*_end_notes(transducer), f"unk:{unknown}/{tokens}"]


def _stream_notes(transducer: Transducer, settings: StreamSettings) -> list[str]:
    options, _ = plan_stream(transducer.config, **settings)
    return [
        f"beam:{options.beam}",
        f"threshold:{options.beam_threshold:g}",
        f"max-delay:{'none' if options.max_delay is None else options.max_delay}",
        f"emit:{'search' if options.emit_threshold is None else f'{options.emit_threshold:g}'}",
        f"end:{options.end}",
    ]


def _items(
    transducer: Transducer,
    questions: Sequence[PooledExample],
    predictions: Sequence[Transduction | Streamed | Failure],
    likelihoods: Sequence[PairScore | Failure],
) -> list[Item]:
    items = []
    for index, question in enumerate(questions):
        prediction = predictions[index] if predictions else None
        unit = transducer.vocabulary_for(question.tags).target_unit
        scored = [likelihoods[place] for place in question.indices] if likelihoods else []
        nll = math.fsum(math.inf if isinstance(one, Failure) else -one.log_prob for one in scored) if scored else None
        tokens = sum(1 if isinstance(one, Failure) else one.tokens for one in scored) if scored else None
        items.append(
            Item.from_text(
                "" if prediction is None or isinstance(prediction, Failure) else prediction.text,
                [unit.join(unit.split(reference)) for reference in question.references],
                split=Characters().split if unit.name == "bpe" else unit.split,
                group=";".join(sorted(question.tags)),
                nll=nll,
                tokens=tokens,
            )
        )
    return items


def _delays(
    transducer: Transducer, questions: Sequence[PooledExample], streamed: Sequence[Streamed | Failure]
) -> list[LatencyScore]:
    """Measures by when each symbol was committed, end symbols counted on both sides."""
    scores = []
    for question, one in zip(questions, streamed, strict=True):
        if isinstance(one, Failure):
            scores.append(latency((), 1))  # nothing was written: it has no latency, and is counted as empty
            continue
        reference = transducer.vocabulary_for(question.tags).target_unit.split(question.references[0])
        scores.append(latency(one.delays, one.src_len, ref_len=len(reference) + 1))
    return scores


def _asked(question: PooledExample) -> Example:
    return Example(question.source, None, question.tags, question.line)
