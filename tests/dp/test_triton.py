"""The Triton kernels: their results in Triton's interpreter, and that they compile for GPUs."""

from __future__ import annotations

import importlib.util
import math
import os
import subprocess
import sys

import pytest
import torch

from ssnt.dp.reference import ReferenceBackend
from ssnt.dp.triton_kernel import TritonBackend
from ssnt.errors import ConfigError
from ssnt.types import Grid

from conftest import require  # turns the interpreter on, which Triton looks for when it is first imported

ENDS = ["any", "last"]
GRIDS = ["log_word", "log_emit", "log_shift"]
CPU = torch.device("cpu")
LONG = 11  # source positions: with blocks of four, two full ones and a part


@pytest.fixture
def triton() -> None:
    require("triton", "the Triton backend cannot be tested")


def random_grid(src_lens: list[int], tgt_lens: list[int], seed: int = 0, dtype=torch.float64) -> Grid:
    """Finite in every valid cell; NaN in padding, of which there is one row and one column at least."""
    generator = torch.Generator().manual_seed(seed)
    shape = (len(src_lens), max(tgt_lens) + 1, max(src_lens) + 1)
    grids = [torch.randn(shape, generator=generator, dtype=torch.float64).sub(1).to(dtype) for _ in GRIDS]
    for b, (src_len, tgt_len) in enumerate(zip(src_lens, tgt_lens, strict=True)):
        for grid in grids:
            grid[b, tgt_len:] = math.nan
            grid[b, :, src_len:] = math.nan
    return Grid(*grids, torch.tensor(src_lens), torch.tensor(tgt_lens))


def sprinkle(grid: Grid, rate: float, seed: int = 0) -> None:
    """Puts minus infinity into some valid cells."""
    generator = torch.Generator().manual_seed(seed)
    for name in GRIDS:
        values = getattr(grid, name)
        hit = torch.rand(values.shape, generator=generator) < rate
        values[hit & ~values.isnan()] = -math.inf


def assert_same(grid: Grid, end: str, block_limit: int) -> None:
    expected = ReferenceBackend().solve(grid, end, want_posteriors=True)
    got = TritonBackend(block_limit).solve(grid, end, want_posteriors=True)
    rtol, atol = (1e-10, 1e-12) if grid.log_word.dtype == torch.float64 else (1e-5, 1e-7)
    torch.testing.assert_close(got.nll, expected.nll, equal_nan=True, rtol=rtol, atol=atol)
    torch.testing.assert_close(got.emit, expected.emit, rtol=rtol, atol=atol)
    torch.testing.assert_close(got.shift, expected.shift, rtol=rtol, atol=atol)


@pytest.mark.usefixtures("triton")
class TestResults:
    @pytest.mark.parametrize("block_limit", [4, 1024])
    @pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
    @pytest.mark.parametrize("end", ENDS)
    def test_ragged_batch(self, end, dtype, block_limit):
        assert_same(random_grid([LONG, 8, 5, 4, 1], [3, 2, 4, 1, 2], dtype=dtype), end, block_limit)

    @pytest.mark.parametrize("seed", range(3))
    @pytest.mark.parametrize("end", ENDS)
    def test_minus_infinity_anywhere(self, end, seed):
        grid = random_grid([LONG, 9, 6], [3, 2, 3], seed)
        sprinkle(grid, 0.15, seed)
        assert_same(grid, end, block_limit=4)

    @pytest.mark.parametrize("size", [1, 2, 4, 5, 8, 9])
    def test_sizes_around_the_block(self, size):
        assert_same(random_grid([size], [2]), "last", block_limit=4)

    def test_extreme_values_need_the_log_domain(self):
        grid = random_grid([LONG], [3])
        for name in GRIDS:
            getattr(grid, name).mul_(1000.0)
        assert_same(grid, "last", block_limit=4)

    @pytest.mark.parametrize("end", ENDS)
    def test_without_posteriors_the_loss_is_the_same(self, end):
        grid = random_grid([LONG, 3], [2, 3])
        full, brief = (TritonBackend(4).solve(grid, end, want_posteriors=want) for want in (True, False))
        assert brief.emit is None
        assert brief.shift is None
        torch.testing.assert_close(brief.nll, full.nll, rtol=0, atol=0)

    def test_single_cell(self):
        grids = [torch.full((1, 1, 1), value) for value in (-1.5, -0.25, -math.inf)]
        one = torch.ones(1, dtype=torch.int64)
        solution = TritonBackend().solve(Grid(*grids, one, one), "last", want_posteriors=True)
        assert (solution.nll.item(), solution.emit.item(), solution.shift.item()) == (1.75, 1.0, 0.0)

    def test_strided_grids_with_gradients(self):
        grid = random_grid([LONG, 7], [2, 3])
        expected = TritonBackend(4).solve(grid, "any", want_posteriors=True)
        turned = (getattr(grid, name).mT.contiguous().mT.requires_grad_() for name in GRIDS)
        lens = (torch.stack([lens, lens], dim=1)[:, 0] for lens in (grid.src_lens, grid.tgt_lens))
        got = TritonBackend(4).solve(Grid(*turned, *lens), "any", want_posteriors=True)
        torch.testing.assert_close(got.emit, expected.emit, rtol=0, atol=0)
        assert not got.nll.requires_grad

    @pytest.mark.parametrize("shape", [(0, 2, 3), (2, 0, 3), (2, 3, 0)])
    def test_empty_grids(self, shape):
        lens = torch.ones(shape[0], dtype=torch.int64)
        solution = TritonBackend().solve(Grid(*(torch.zeros(shape) for _ in GRIDS), lens, lens), "any", True)
        assert solution.nll.shape == shape[:1]
        assert solution.nll.isnan().all()
        assert solution.emit.shape == solution.shift.shape == shape


@pytest.mark.usefixtures("triton")
class TestNoSolution:
    @pytest.mark.parametrize("end", ENDS)
    def test_no_path_is_infinite_loss_and_zero_posteriors(self, end):
        grid = random_grid([LONG, LONG, LONG], [3, 3, 3])
        grid.log_emit[0, 1, :LONG] = -math.inf  # nowhere to write the second symbol
        grid.log_word[1, 2, 2:LONG] = -math.inf  # the third must be written early,
        grid.log_word[1, 0, :6] = -math.inf  # but the first late
        solution = TritonBackend(4).solve(grid, end, want_posteriors=True)
        assert solution.nll[:2].tolist() == [math.inf, math.inf]
        assert solution.nll[2].isfinite()
        assert not solution.emit[:2].any()
        assert not solution.shift[:2].any()
        assert_same(grid, end, block_limit=4)

    # The interpreter computes with numpy, which warns of the NaN that comes of +inf; a GPU does not.
    @pytest.mark.filterwarnings("ignore:invalid value:RuntimeWarning")
    @pytest.mark.parametrize("value", [math.nan, math.inf])
    @pytest.mark.parametrize("name", GRIDS)
    def test_improper_value_makes_only_its_own_loss_nan(self, name, value):
        cells = [(j, i) for j in (0, 1) for i in (0, 3, 4, LONG - 1)]  # with both sides of a block's edge
        lens = [LONG] * (len(cells) + 1), [2] * (len(cells) + 1)
        grid = random_grid(*lens)
        # A pair that is improper has NaN even if it has no path, or none that comes by the cell.
        grid.log_emit[: len(cells) : 2, 0, :LONG] = -math.inf
        for b, cell in enumerate(cells):
            getattr(grid, name)[(b, *cell)] = value
        solution = TritonBackend(4).solve(grid, "last", want_posteriors=True)
        assert solution.nll[:-1].isnan().all()
        assert solution.nll[-1].isfinite()
        expected = ReferenceBackend().solve(grid, "last", want_posteriors=True)
        torch.testing.assert_close(solution.emit, expected.emit)

    @pytest.mark.parametrize("want_posteriors", [True, False])
    def test_lengths_out_of_range(self, want_posteriors):
        grid = random_grid([5] * 7, [2] * 7)  # of size 6 and 3
        values = [getattr(grid, name).nan_to_num(-1.0) for name in GRIDS]
        src_lens = torch.tensor([0, -1, 7, 2**40, 5, 5, 5])
        tgt_lens = torch.tensor([2, 2, 2, 2, 0, 4, 2])
        solution = TritonBackend(4).solve(Grid(*values, src_lens, tgt_lens), "any", want_posteriors)
        assert solution.nll[:-1].isnan().all()
        assert solution.nll[-1].isfinite()
        if want_posteriors:
            assert not solution.emit[:-1].any()
            assert not solution.shift[:-1].any()


class TestAvailability:
    def test_interpreter_runs_on_the_cpu(self, triton, monkeypatch):
        monkeypatch.setenv("TRITON_INTERPRET", "1")
        assert TritonBackend().unavailable(CPU) is None

    def test_cpu_without_the_interpreter(self, triton, monkeypatch):
        monkeypatch.delenv("TRITON_INTERPRET")
        assert "not on 'cpu'" in TritonBackend().unavailable(CPU)
        assert TritonBackend().unavailable(torch.device("cuda")) is None

    def test_missing_triton_says_how_to_get_it(self, monkeypatch):
        monkeypatch.setattr(importlib.util, "find_spec", lambda *_: None)
        for device in (CPU, torch.device("cuda")):
            assert "pip install 'ssnt[triton]'" in TritonBackend().unavailable(device)

    @pytest.mark.parametrize("limit", [0, -4, 3, 1000])
    def test_block_limit_is_a_power_of_two(self, limit):
        with pytest.raises(ConfigError, match=f"power of two.*got {limit}$"):
            TritonBackend(limit)

    def test_gpu_blocks_have_a_column_for_every_thread(self, monkeypatch):
        monkeypatch.delenv("TRITON_INTERPRET")
        assert [TritonBackend()._block_size(size) for size in (1, 64, 65, 5000)] == [64, 64, 128, 1024]

    def test_import_leaves_triton_alone(self):
        run_python("import sys, ssnt.dp.triton_kernel; assert 'triton' not in sys.modules")


# Goes all the way that a call on a GPU goes, except that a kernel is compiled and then not started.
COMPILE = """
import itertools
import sys
import torch
from triton.backends.compiler import GPUTarget
from triton.runtime import JITFunction, driver
from ssnt.dp.triton_kernel import TritonBackend
from ssnt.types import Grid

backend, arch, warp_size, product, *shapes = sys.argv[1:]

class NoDriver:
    def get_current_target(self):
        return GPUTarget(backend, int(arch) if arch.isdigit() else arch, int(warp_size))

    def get_current_device(self):
        return 0

    def get_current_stream(self, device):
        return 0

def compile_only(kernel, grid):
    def launch(*args, **options):
        compiled.append(kernel.__name__)
        assert kernel.warmup(*args, grid=grid, **options).asm[product]
    return launch

driver.set_active(NoDriver())
JITFunction.__getitem__ = compile_only
for text, dtype in itertools.product(shapes, (torch.float32, torch.float64)):
    shape = tuple(map(int, text.split("x")))
    for want_posteriors in (False, True):
        compiled = []
        lens = torch.ones(shape[0], dtype=torch.int64)
        TritonBackend().solve(Grid(*torch.zeros(3, *shape, dtype=dtype), lens, lens), "last", want_posteriors)
        wanted = {"forward_kernel", "backward_kernel"} if want_posteriors else {"forward_kernel"}
        assert set(compiled) == wanted, compiled
"""


def run_python(script: str, *args: str, **environment: str) -> None:
    """Runs a script in a new interpreter, where Triton compiles instead of interpreting."""
    env = {name: value for name, value in os.environ.items() if name != "TRITON_INTERPRET"}
    env |= {"PYTHONPATH": os.pathsep.join(filter(None, sys.path)), **environment}
    command = [sys.executable, "-c", script, *args]
    done = subprocess.run(command, env=env, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


@pytest.mark.usefixtures("triton")
@pytest.mark.parametrize("target", ["cuda 80 32 cubin", "hip gfx942 64 hsaco"])
def test_kernels_compile_for_gpus(target, tmp_path):
    shapes = "1x1x1", "2x3x20", "1x2x2050"  # in one interpreter, since starting one takes seconds
    run_python(COMPILE, *target.split(), *shapes, TRITON_CACHE_DIR=str(tmp_path))
