"""Several models as one: an output's next symbol has the mean of the probabilities that they give it.

Each model sums its own alignments first, so that the models may differ in where they write, and even in kind. Nor need
they have the same vocabulary, if one of them knows all that the others know: a model for one tag set, which has seen
few letters, goes with a model for all of them.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any

import torch
from torch import Tensor

from ssnt.checkpoint import SavedModel
from ssnt.data.vocab import Vocabulary
from ssnt.decode import EnsembleScorer, MarginalisedScorer, Numbering, RenumberedScorer, Scorer
from ssnt.errors import ModelError
from ssnt.loss import ssnt_loss
from ssnt.pipeline.per_tag import PerTagTransducer
from ssnt.pipeline.transducer import Transducer
from ssnt.types import Batch


class EnsembleTransducer(Transducer):
    """Several models for the same task, used like a single one.

    It transduces and scores. It has no alignment, as its models need not agree on one: it can neither align nor stream.

    Args:
        members: The models, at least one, of any kinds; one of them knows all symbols and tags that the others know. A
            symbol that a model does not know has no probability in it: where rare symbols were left out of a
            vocabulary, that model speaks against them. How to search is what the first one's settings say.

    Attributes:
        members: The models.

    Raises:
        ModelError: There are none, they are not loaded, or their vocabularies do not fit.
    """

    def __init__(self, members: Sequence[Transducer]) -> None:
        _require_models(members)
        for place, one in enumerate(members):
            if isinstance(one, PerTagTransducer):
                raise ModelError(
                    f"members[{place}]: expected one model, got one for each tag set; make an ensemble of the models "
                    "of each tag set, and a PerTagTransducer of the ensembles"
                )
        widest = _most_knowing(members)
        super().__init__(widest.model, widest.vocabulary, members[0].config)
        self.members = tuple(members)
        self._numberings = [_numbering(one.vocabulary, widest.vocabulary) for one in members]

    def __repr__(self) -> str:
        return f"{type(self).__name__}({', '.join(one.config.model.name for one in self.members)}, on {self.device})"

    @property
    def has_alignment(self) -> bool:
        """The models need not agree on one."""
        return False

    @property
    def is_online(self) -> bool:
        """It has to see the whole input."""
        return False

    def to(self, device: torch.device | str) -> Transducer:
        """Moves all models, and gives this transducer back."""
        for one in self.members:
            one.to(device)
        return self

    def _saved(self) -> SavedModel:
        """An ensemble has no directory of its own.

        Raises:
            ModelError: Always; it says what to save.
        """
        raise ModelError("an ensemble has no directory of its own: save each of .members, and join them when loaded")

    def _scorer(self) -> Scorer[Any, Any]:
        return EnsembleScorer([_scorer_of(*pair) for pair in zip(self.members, self._numberings, strict=True)])

    def _nll(self, batch: Batch) -> Tensor:
        scorer = self._scorer()
        if batch.tgt is None or batch.tgt_lens is None:
            raise ModelError("tgt and tgt_lens: expected the targets of every pair, got None")
        grid = scorer.grid(scorer.read(batch), batch.tgt, batch.tgt_lens)
        parts = (grid.log_word, grid.log_emit, grid.log_shift, grid.src_lens, grid.tgt_lens)
        return ssnt_loss(*parts, reduction="none")

    def require_online(self, what: str) -> None:
        """It has to see the whole input.

        Raises:
            ModelError: Always.
        """
        self._require_alignment(what)

    def _require_alignment(self, what: str) -> None:
        raise ModelError(
            f"{what}: expected a single model, got an ensemble, whose models need not agree on an alignment; it "
            "scores, and transduces with search='marginal'; for all else use a single one"
        )

    @contextmanager
    def _ready(self) -> Iterator[None]:
        with ExitStack() as stack:
            for one in self.members:
                stack.enter_context(one._ready())
            yield


def _require_models(members: Sequence[Transducer]) -> None:
    if isinstance(members, str | os.PathLike) or not isinstance(members, Iterable):
        raise ModelError(
            f"members: expected a list of models, got {members!r}; load each with Transducer.from_pretrained"
        )
    if not members:
        raise ModelError("members: expected at least one model, got none")
    for place, one in enumerate(members):
        if not isinstance(one, Transducer):
            named = isinstance(one, str | os.PathLike)
            got, how = (repr(one), f"({os.fspath(one)!r})") if named else (type(one).__name__, "")
            raise ModelError(
                f"members[{place}]: expected a model, got {got}; load it with Transducer.from_pretrained{how}"
            )


def _most_knowing(members: Sequence[Transducer]) -> Transducer:
    """The model that knows all that the others know."""
    first = members[0].vocabulary
    for place, one in enumerate(members):
        if others := one.vocabulary.divides_unlike(first):
            raise ModelError(
                f"members[{place}]: expected text to be divided as for members[0], got another {' and '.join(others)}; "
                "train both with the same settings for data"
            )
    lacking = [
        list(dict.fromkeys(name for other in members for name in one.vocabulary.lacks(other.vocabulary)))
        for one in members
    ]
    place = min(range(len(members)), key=lambda at: len(lacking[at]))
    if lacking[place]:
        raise ModelError(
            f"members: expected one that knows all symbols and tags of the others, got none: members[{place}], which "
            f"lacks the fewest, lacks {len(lacking[place])}, such as the {lacking[place][0]}; train it on all of the "
            "data"
        )
    return members[place]


def _scorer_of(one: Transducer, numbering: Numbering | None) -> Scorer[Any, Any]:
    scorer = one._scorer()  # its own way: it may be an ensemble itself
    if one.has_alignment:
        scorer = MarginalisedScorer(scorer, end=one.config.training.end)
    return scorer if numbering is None else RenumberedScorer(scorer, numbering.to(one.device))


def _numbering(own: Vocabulary, vocabulary: Vocabulary) -> Numbering | None:
    """A model's numbers by those of a vocabulary that has all of its symbols; None if they are the same."""
    if own is vocabulary or own.to_json() == vocabulary.to_json():
        return None
    tags = None
    if own.tags is not None and vocabulary.tags is not None:
        tags = torch.tensor([0, *(own.tags.table.get(name, 0) for name in vocabulary.tags.names)])
    return Numbering(
        source=torch.tensor(own.source.numbers_of(vocabulary.source)),
        target=torch.tensor(own.target.numbers_of(vocabulary.target)),
        tags=tags,
        known=torch.tensor(vocabulary.target.numbers_of(own.target)),
    )
