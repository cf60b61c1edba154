import torch

from ssnt.nn.checks import check_lengths


def test_values_beyond_the_cpu_are_not_looked_at():
    # a meta tensor has no values: a check that asked for one, and so made a GPU wait, would raise
    symbols = torch.zeros(2, 3, dtype=torch.int64, device="meta")
    check_lengths("src_lens", symbols[:, 0], "src", symbols)
