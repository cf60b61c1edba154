"""Several models as one: an output's next symbol has the mean of the probabilities that they give it.

Each model sums its own alignments first, so that the models may differ in where they write, and even in kind.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any

import torch
from torch import Tensor

from ssnt.decode import EnsembleScorer, MarginalisedScorer, Scorer
from ssnt.errors import ModelError
from ssnt.loss import ssnt_loss
from ssnt.pipeline.per_tag import PerTagTransducer
from ssnt.pipeline.transducer import Transducer
from ssnt.types import Batch


class EnsembleTransducer(Transducer):
    """Several models that were trained on the same data, used like a single one.

    It transduces and scores. It has no alignment, as its models need not agree on one: it can neither align nor stream.

    Args:
        members: The models, at least one, of any kinds, all with the same vocabulary. How to search is what the first
            one's settings say.

    Attributes:
        members: The models.

    Raises:
        ModelError: There are none, they are not loaded, or they have different vocabularies.
    """

    def __init__(self, members: Sequence[Transducer]) -> None:
        _require_models(members)
        for place, one in enumerate(members):
            if isinstance(one, PerTagTransducer):
                raise ModelError(
                    f"members[{place}]: expected one model, got one for each tag set; make an ensemble of the models "
                    "of each tag set, and a PerTagTransducer of the ensembles"
                )
        first = members[0]
        super().__init__(first.model, first.vocabulary, first.config)
        for place, one in enumerate(members):
            if one.vocabulary.to_json() != first.vocabulary.to_json():
                raise ModelError(
                    f"members[{place}]: expected the vocabulary of members[0], got another one; an ensemble is of "
                    "models that were trained on the same data with the same data settings"
                )
        self.members = tuple(members)

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

    def save_pretrained(
        self, directory: str | os.PathLike[str], *, overwrite: bool = False, name: str | None = None
    ) -> None:
        """An ensemble has no directory of its own.

        Raises:
            ModelError: Always; it says what to save.
        """
        raise ModelError("an ensemble has no directory of its own: save each of .members, and join them when loaded")

    def _scorer(self) -> Scorer[Any, Any]:
        return EnsembleScorer([_scorer_of(one) for one in self.members])

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


def _scorer_of(one: Transducer) -> Scorer[Any, Any]:
    scorer = one._scorer()  # its own way: it may be an ensemble itself
    return MarginalisedScorer(scorer, end=one.config.training.end) if one.has_alignment else scorer
