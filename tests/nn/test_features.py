import pytest
import torch

from ssnt.errors import DataError, ShapeError
from ssnt.nn import FeatureEncoder


def test_the_sum_of_the_embeddings():
    module = FeatureEncoder(6, 3)
    weight = module.embedding.weight
    condition = module(torch.tensor([[2, 5, 0], [1, 0, 0]]))
    assert condition.shape == (2, module.output_size)
    torch.testing.assert_close(condition, torch.stack([weight[2] + weight[5], weight[1]]))


def test_neither_order_nor_padding_nor_repetition_matter():
    module = FeatureEncoder(6, 3)
    same = module(torch.tensor([[2, 5, 3, 0], [5, 3, 2, 0], [0, 3, 5, 2], [2, 3, 5, 3]]))
    for row in same[1:]:
        assert torch.equal(row, same[0])
    assert torch.equal(module(torch.tensor([[2, 5, 3]])), same[:1])


def test_the_empty_set_is_zero():
    module = FeatureEncoder(6, 3)
    assert not module(torch.zeros(2, 4, dtype=torch.int64)).any()
    assert not module(torch.zeros(2, 0, dtype=torch.int64)).any()


def test_only_the_tags_of_the_set_are_trained():
    module = FeatureEncoder(6, 3)
    module(torch.tensor([[2, 5, 0]])).sum().backward()
    assert module.embedding.weight.grad.any(dim=1).tolist() == [False, False, True, False, False, True]


@pytest.mark.parametrize(
    ("features", "error", "message"),
    [
        (torch.tensor([2, 3]), ShapeError, r"features: expected shape \(B, F\), got \(2,\)"),
        (torch.tensor([[True]]), ShapeError, r"features: expected dtype torch.int64, got torch.bool"),
        (torch.tensor([[2, 6]]), DataError, r"features: expected symbols from 0 to 5 .*, got 6 at \[0, 1\]"),
    ],
)
def test_bad_input(features, error, message):
    with pytest.raises(error, match=message):
        FeatureEncoder(6, 3)(features)
