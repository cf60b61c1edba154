import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from ssnt.config import BatchConfig
from ssnt.data import batching
from ssnt.data.batching import collate, plan_batches, plan_in_length_order, shard_of
from ssnt.data.filters import FilterReport, Filters
from ssnt.data.prepared import Prepared
from ssnt.data.ragged import Ragged
from ssnt.data.units import Characters
from ssnt.data.vocab import SymbolTable, TagTable, Vocabulary
from ssnt.errors import DataError
from ssnt.types import EOS_ID, PAD_ID

pairs_of_lengths = st.lists(st.tuples(st.integers(1, 40), st.integers(1, 40)), max_size=150)
settings = st.builds(
    BatchConfig,
    size=st.integers(1, 20),
    max_cells=st.none() | st.integers(1, 3000),
    bucket=st.integers(1, 6),
)


def arrays(lengths):
    return np.array([one[0] for one in lengths], dtype=np.int64), np.array([one[1] for one in lengths], dtype=np.int64)


def as_sets(batches):
    return [frozenset(one.tolist()) for one in batches]


def cells(batch, src_lens, tgt_lens):
    return len(batch) * src_lens[batch].max() * tgt_lens[batch].max()


def lengths_like_gigaword(count):
    generator = np.random.default_rng(0)
    src = np.clip(generator.normal(31, 9, count).round(), 5, 50).astype(np.int64)
    return src, np.clip(generator.normal(8, 2.6, count).round(), 2, 25).astype(np.int64)


@given(pairs_of_lengths, settings, st.integers(0, 2**63), st.integers(0, 100), st.integers(1, 3))
def test_every_example_is_in_exactly_one_batch(lengths, batch, seed, epoch, shards):
    batches = plan_batches(*arrays(lengths), batch, seed=seed, epoch=epoch, shards=shards)
    assert sorted(index for one in batches for index in one.tolist()) == list(range(len(lengths)))
    assert all(1 <= len(one) <= batch.size * shards for one in batches)


@given(pairs_of_lengths, settings)
def test_in_length_order_every_example_is_in_exactly_one_batch(lengths, batch):
    src_lens, tgt_lens = arrays(lengths)
    batches = plan_in_length_order(src_lens, tgt_lens, batch)
    assert sorted(index for one in batches for index in one.tolist()) == list(range(len(lengths)))
    sizes = [cells(one, src_lens, tgt_lens) for one in batches]
    assert sizes == sorted(sizes, reverse=True)
    assert all(len(one) <= batch.size for one in batches)


@given(pairs_of_lengths, settings.filter(lambda one: one.max_cells is not None), st.integers(1, 3))
def test_a_batch_has_no_more_cells_than_allowed_unless_it_is_one_example(lengths, batch, shards):
    src_lens, tgt_lens = arrays(lengths)
    for one in plan_batches(src_lens, tgt_lens, batch, seed=1, epoch=1, shards=shards):
        assert len(one) == 1 or cells(one, src_lens, tgt_lens) <= batch.max_cells * shards
    for one in plan_in_length_order(src_lens, tgt_lens, batch):
        assert len(one) == 1 or cells(one, src_lens, tgt_lens) <= batch.max_cells


def test_batches_are_filled():
    lens = np.full(100, 10)
    by_count = plan_batches(lens, lens, BatchConfig(size=30), seed=1, epoch=0)
    assert sorted(len(one) for one in by_count) == [10, 30, 30, 30]
    by_cells = plan_batches(lens, lens, BatchConfig(size=60, max_cells=2500), seed=1, epoch=0)
    assert [len(one) for one in by_cells] == [25] * 4
    limited = plan_batches(lens, lens, BatchConfig(size=20, max_cells=2500), seed=1, epoch=0)
    assert [len(one) for one in limited] == [20] * 5


def cut_one_by_one(order, src_lens, tgt_lens, limits):
    """What a cut is: a batch takes the next example as long as it may have one more, and its cells are not too many."""
    batches = [[]]
    for index in order.tolist():
        more = np.array([*batches[-1], index])
        if batches[-1] and (len(more) > limits.size or cells(more, src_lens, tgt_lens) > limits.max_cells):
            batches.append([])
        batches[-1].append(index)
    return batches if batches[-1] else []


@pytest.mark.parametrize("first_look", [1, 2, 64])
@given(st.data(), st.lists(st.tuples(st.integers(1, 9), st.integers(1, 9)), max_size=150), st.integers(1, 200))
def test_a_batch_is_filled_until_the_next_example_is_too_much(first_look, data, lengths, size):
    limits = batching._Limits(size, data.draw(st.integers(1, 200) | st.integers(1, 20_000)))
    order = np.random.default_rng(data.draw(st.integers(0, 99))).permutation(len(lengths))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(batching, "_FIRST_LOOK", first_look)
        cut = batching._cut(order, *arrays(lengths), limits)
    assert [one.tolist() for one in cut] == cut_one_by_one(order, *arrays(lengths), limits)


class CountedReads(np.ndarray):
    """Lengths that count how many of them are looked at."""

    read = 0

    def __getitem__(self, key):
        CountedReads.read += len(key)
        return np.asarray(self)[key]


@pytest.mark.parametrize("bucket", [1, 2])
def test_few_examples_are_looked_at_for_a_batch_however_large_it_may_be(bucket, monkeypatch):
    monkeypatch.setattr(CountedReads, "read", 0)
    lens = np.where(np.arange(5000) % 2, 100, 1)  # a short one leaves room for very many
    batch = BatchConfig(size=1_000_000, max_cells=20_000, bucket=bucket)
    batches = plan_batches(lens.view(CountedReads), lens, batch, seed=1, epoch=0)
    assert len(batches) > 1000
    assert CountedReads.read < 100 * len(lens)


@given(pairs_of_lengths, settings, st.integers(0, 5), st.integers(2, 4))
def test_shards_have_the_batches_of_one_process_with_larger_ones(lengths, batch, epoch, shards):
    src_lens, tgt_lens = arrays(lengths)
    larger = batch.model_copy(
        update={
            "size": batch.size * shards,
            "max_cells": None if batch.max_cells is None else batch.max_cells * shards,
        }
    )
    shared = plan_batches(src_lens, tgt_lens, batch, seed=7, epoch=epoch, shards=shards)
    alone = plan_batches(src_lens, tgt_lens, larger, seed=7, epoch=epoch)
    assert as_sets(shared) == as_sets(alone)


@pytest.mark.parametrize("max_cells", [700, 1000, 1300, 1700])
def test_shards_do_not_change_how_examples_are_sorted(max_cells):
    # about so many examples fill a batch that half of them, rounded, and all of them make different strips
    lengths = lengths_like_gigaword(400)
    shared = plan_batches(*lengths, BatchConfig(max_cells=max_cells), seed=1, epoch=0, shards=2)
    alone = plan_batches(*lengths, BatchConfig(size=64, max_cells=2 * max_cells), seed=1, epoch=0)
    assert as_sets(shared) == as_sets(alone)


@given(st.integers(0, 40), st.integers(1, 5))
def test_shards_divide_a_batch_equally(size, shards):
    indices = np.arange(size) * 3
    parts = [shard_of(indices, shard, shards) for shard in range(shards)]
    assert sorted(np.concatenate(parts).tolist()) == indices.tolist()
    sizes = [len(part) for part in parts]
    assert max(sizes) - min(sizes) <= 1


def test_shards_are_of_similar_lengths():
    src_lens, tgt_lens = lengths_like_gigaword(3200)
    batches = plan_batches(src_lens, tgt_lens, BatchConfig(), seed=1, epoch=0, shards=2)
    parts = [[shard_of(one, shard, 2) for one in batches] for shard in range(2)]
    first, second = (np.array([cells(part, src_lens, tgt_lens) for part in some]) for some in parts)
    assert np.abs(first - second).mean() < 0.1 * first.mean()


def test_seed_and_epoch_determine_the_order():
    lengths = lengths_like_gigaword(500)
    batch = BatchConfig(size=8, bucket=4)

    def plan(seed, epoch):
        return [one.tolist() for one in plan_batches(*lengths, batch, seed=seed, epoch=epoch)]

    assert plan(1, 2) == plan(1, 2)
    others = [plan(1, 3), plan(2, 2), plan(2, 1)]
    for other in others:
        assert as_sets(map(np.array, other)) != as_sets(map(np.array, plan(1, 2)))


def test_a_plan_leaves_its_arguments_and_numpys_own_generator_alone():
    src_lens, tgt_lens = lengths_like_gigaword(100)
    before = src_lens.copy(), tgt_lens.copy(), np.random.get_state()[1].copy()
    plan_batches(src_lens, tgt_lens, BatchConfig(), seed=1, epoch=0)
    plan_in_length_order(src_lens, tgt_lens, BatchConfig())
    for value, old in zip((src_lens, tgt_lens, np.random.get_state()[1]), before, strict=True):
        np.testing.assert_array_equal(value, old)


def test_batches_come_in_no_order_of_length():
    src_lens, tgt_lens = lengths_like_gigaword(3200)
    batches = plan_batches(src_lens, tgt_lens, BatchConfig(), seed=1, epoch=0)
    means = [src_lens[one].mean() for one in batches]
    assert abs(np.corrcoef(means, np.arange(len(means)))[0, 1]) < 0.35


def test_sorting_in_buckets_saves_cells():
    src_lens, tgt_lens = lengths_like_gigaword(16_000)

    def padding(bucket):
        batches = plan_batches(src_lens, tgt_lens, BatchConfig(bucket=bucket), seed=1, epoch=0)
        return sum(cells(one, src_lens, tgt_lens) for one in batches) / (src_lens * tgt_lens).sum()

    assert padding(1) > 2
    assert padding(50) < 1.2  # 1.43 sorted by source and then target, 1.22 by target and then source
    in_order = plan_in_length_order(src_lens, tgt_lens, BatchConfig())
    assert sum(cells(one, src_lens, tgt_lens) for one in in_order) / (src_lens * tgt_lens).sum() < 1.1


def test_no_examples_give_no_batches():
    nothing = np.zeros(0, dtype=np.int64)
    for batch in (BatchConfig(), BatchConfig(max_cells=100)):
        assert plan_batches(nothing, nothing, batch, seed=1, epoch=0) == []
        assert plan_in_length_order(nothing, nothing, batch) == []


def ragged(rows):
    values = np.array([number for row in rows for number in row], dtype=np.int32)
    return Ragged(values, np.cumsum([0, *map(len, rows)], dtype=np.int64))


def prepared_of(src, tgt, tags=None):
    vocabulary = Vocabulary(
        SymbolTable.of("abcdef"),
        SymbolTable.of("abcdef"),
        None if tags is None else TagTable(("V", "PST", "3")),
        Characters(),
        Characters(),
    )
    report = FilterReport(Filters(), kept=len(src))
    lines = np.arange(1, len(src) + 1, dtype=np.int32)
    features = None if tags is None else ragged(tags)
    nothing = [type(report.taken)() for _ in range(3)]
    return Prepared(ragged(src), ragged(tgt), features, lines, vocabulary, report, "", *nothing)


def test_a_batch_is_padded_to_its_own_longest():
    prepared = prepared_of(
        src=[[4, EOS_ID], [5, 6, 7, 8, 9, EOS_ID], [9, 8, EOS_ID]],
        tgt=[[4, 4, 4, EOS_ID], [5, EOS_ID], [EOS_ID]],
        tags=[[1, 3], [2], []],
    )
    batch = collate(prepared, np.array([2, 0]))
    assert batch.src.tolist() == [[9, 8, EOS_ID], [4, EOS_ID, PAD_ID]]
    assert batch.src_lens.tolist() == [3, 2]
    assert batch.tgt.tolist() == [[EOS_ID, PAD_ID, PAD_ID, PAD_ID], [4, 4, 4, EOS_ID]]
    assert batch.tgt_lens.tolist() == [1, 4]
    assert batch.features.tolist() == [[PAD_ID, PAD_ID], [1, 3]]
    for tensor in (batch.src, batch.src_lens, batch.tgt, batch.tgt_lens, batch.features):
        assert tensor.dtype == torch.int64


def test_without_tags_there_are_no_features():
    assert collate(prepared_of([[EOS_ID]], [[EOS_ID]]), np.array([0])).features is None


def test_a_batch_in_which_nobody_has_tags_has_no_column_of_them():
    prepared = prepared_of([[EOS_ID]] * 2, [[EOS_ID]] * 2, tags=[[1], []])
    assert collate(prepared, np.array([1])).features.shape == (1, 0)


def test_an_empty_batch_is_refused():
    with pytest.raises(DataError, match="expected at least one example to put into a batch, got none"):
        collate(prepared_of([[EOS_ID]], [[EOS_ID]]), np.zeros(0, dtype=np.int64))


rows_of_numbers = st.lists(st.lists(st.integers(1, 99), max_size=8), min_size=1, max_size=20)


@given(rows_of_numbers, st.data())
def test_rows_padded_are_the_rows(rows, data):
    chosen = data.draw(st.lists(st.integers(0, len(rows) - 1), min_size=1))
    table = ragged(rows)
    rectangle, lens = table.padded(np.array(chosen))
    for row, padded, length in zip((rows[one] for one in chosen), rectangle.tolist(), lens.tolist(), strict=True):
        assert length == len(row)
        assert padded == row + [PAD_ID] * (rectangle.shape[1] - length)
    assert rectangle.shape[1] == max(lens)
    assert [table[number].tolist() for number in range(len(table))] == rows
    assert table.lens.tolist() == [len(row) for row in rows]
    assert table[-1].tolist() == rows[-1]


def test_a_row_that_is_not_there():
    with pytest.raises(IndexError, match="expected a row from 0 to 1, got 2"):
        ragged([[1], [2]])[2]
