"""The feature encoder: a set of tags to one vector."""

from __future__ import annotations

from torch import Tensor, nn

from ssnt.symbols import check_symbols
from ssnt.types import PAD_ID


class FeatureEncoder(nn.Module):
    """The sum of the embeddings of a set of tags, such as the attributes of an inflected form.

    It is a set: neither order, padding nor repetition matter, and the empty set is the zero vector.
    """

    def __init__(self, vocab_size: int, output_size: int) -> None:
        super().__init__()
        self.vocab_size = vocab_size
        self.output_size = output_size
        self.embedding = nn.Embedding(vocab_size, output_size)

    def forward(self, features: Tensor) -> Tensor:
        """Maps tags (B, F), padded with ``PAD_ID``, to a condition (B, C)."""
        check_symbols("features", features, ("B", "F"), self.vocab_size)
        weight = self.embedding.weight
        members = weight.new_zeros(features.size(0), self.vocab_size)  # (B, V)
        members = members.scatter(1, features, 1.0)
        members[:, PAD_ID] = 0.0
        return members @ weight  # (B, C)
