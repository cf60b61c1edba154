import torch
from torch import nn

from ssnt.nn import WordDistribution


def test_log_grid_reads_the_distribution_at_the_targets():
    module = WordDistribution(3, 4, 6).double()
    src_states, tgt_states = torch.randn(2, 5, 3).double(), torch.randn(2, 4, 4).double()
    targets = torch.randint(6, (2, 4))
    lens = torch.tensor([5, 5]), torch.tensor([4, 4])
    grid = module.log_grid(src_states, tgt_states, targets, *lens)
    whole = module.log_probs(src_states[:, None], tgt_states[:, :, None])  # (B, J, I, V)
    assert whole.shape == (2, 4, 5, 6)
    index = targets[:, :, None, None].expand(2, 4, 5, 1)
    torch.testing.assert_close(grid, whole.gather(-1, index).squeeze(-1))


def test_log_probs_is_a_distribution_for_any_leading_axes():
    module = WordDistribution(3, 4, 6)
    for src_shape, tgt_shape, shape in (
        ((3,), (4,), (6,)),
        ((7, 3), (7, 4), (7, 6)),
        ((7, 1, 3), (5, 4), (7, 5, 6)),
    ):
        log_probs = module.log_probs(torch.randn(src_shape), torch.randn(tgt_shape))
        assert log_probs.shape == shape
        torch.testing.assert_close(log_probs.exp().sum(-1), torch.ones(shape[:-1]))


def test_log_probs_are_float32_at_least():
    module = WordDistribution(3, 4, 6).bfloat16()
    log_probs = module.log_probs(torch.randn(2, 3).bfloat16(), torch.randn(2, 4).bfloat16())
    assert log_probs.dtype == torch.float32


def test_a_tied_weight_is_one_parameter():
    embedding = nn.Embedding(6, 4)
    module = WordDistribution(3, 4, 6, tie_to=embedding)
    assert module.tgt_weight is embedding.weight
    assert {name for name, _ in module.named_parameters()} == {"src_weight", "tgt_weight", "bias"}
