"""ROUGE, as the package ``rouge-score`` computes it, over tokens that keep every sign and every script."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import numpy as np

from ssnt.errors import ConfigError
from ssnt.metrics.item import Item
from ssnt.metrics.metric import Floats, Metric, references_field


class Rouge(Metric):
    """Mean ROUGE F1 over items, the best of several references: ``sum of F1 / items``.

    With ``P`` and ``R`` the shares of the output's and of the reference's n-grams that they have in common, counted as
    often as they occur in both (``rouge_1``, ``rouge_2``), or of their tokens in the longest common subsequence
    (``rouge_l``), ``F1 = 2 P R / (P + R)``. It is 0 where either side has no n-gram: an empty text, or one word for
    ``rouge_2``.

    Tokens are what stands between whitespace, in lower case as in the original ROUGE. The tokenizer of ``rouge-score``
    is not used: it drops everything but ``[a-z0-9]``, so the ``#`` of Gigaword and any other alphabet.

    "ROUGE: A Package for Automatic Evaluation of Summaries" (Lin, 2004).

    Args:
        variant: ``"1"``, ``"2"`` or ``"l"``.
        use_stemmer: Whether words of more than three letters are reduced to their stem by Porter's rules for English.

    Raises:
        ConfigError: There is no such variant.
    """

    columns = ("f1", "items")
    formula = "mean-F1"
    is_higher_better = True

    def __init__(self, variant: Literal["1", "2", "l"], *, use_stemmer: bool = False) -> None:
        if variant not in ("1", "2", "l"):
            raise ConfigError(f"variant must be '1', '2' or 'l', got {variant!r}")
        self.name = f"rouge_{variant}"
        self._kind = f"rouge{variant.upper()}"
        self._use_stemmer = use_stemmer

    def rows(self, items: Sequence[Item]) -> Floats:
        """``(F1, 1)``."""
        from rouge_score.rouge_scorer import RougeScorer

        scorer = RougeScorer([self._kind], tokenizer=_Tokenizer(use_stemmer=self._use_stemmer))
        rows = np.ones((len(items), 2))
        for row, item in zip(rows, items, strict=True):
            row[0] = max(scorer.score(text, item.text)[self._kind].fmeasure for text in item.reference_texts)
        return rows

    def fields(self, items: Sequence[Item], unit: str) -> tuple[str, ...]:
        """The tokenizer in place of the unit."""
        stem = "porter" if self._use_stemmer else "none"
        return (references_field(items), "tok:whitespace", "case:lower", f"stem:{stem}", "norm:NFC")


class _Tokenizer:
    """What ``rouge-score`` asks for: an object with a method ``tokenize``."""

    def __init__(self, *, use_stemmer: bool) -> None:
        self._stemmer = None
        if use_stemmer:
            # Through rouge-score, so that it is the stemmer that rouge-score uses: nltk is its dependency, not ours.
            from rouge_score.tokenizers import porter

            self._stemmer = porter.PorterStemmer()

    def tokenize(self, text: str) -> list[str]:
        words = text.lower().split()
        if self._stemmer is None:
            return words
        return [self._stemmer.stem(word) if len(word) > 3 else word for word in words]  # as rouge-score does
