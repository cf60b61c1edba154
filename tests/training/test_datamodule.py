import numpy as np
import pytest

from ssnt.config import Config
from ssnt.data.crossover import Crossover
from ssnt.data.prepared import Prepared, prepare
from ssnt.training import datamodule
from ssnt.training.datamodule import Share, TrainingData
from ssnt.training.progress import Progress
from trainings import MakeConfig


@pytest.fixture
def config(make_config: MakeConfig) -> Config:
    return make_config(training={"max_epochs": 3})


@pytest.fixture
def prepared(config: Config) -> Prepared:
    return prepare(str(config.data.train), config.data, None, is_training=True)


def same(one: Share, other: Share) -> bool:
    tensors = ("src", "src_lens", "tgt", "tgt_lens")
    return (one.scale, one.pairs, one.symbols) == (other.scale, other.pairs, other.symbols) and all(
        np.array_equal(getattr(one.batch, name), getattr(other.batch, name)) for name in tensors
    )


def test_the_whole_training_is_one_stream_of_batches(config: Config, prepared: Prepared):
    data = TrainingData(prepared, config, Progress())
    shares = list(data.train_dataloader())
    assert len(shares) == 3 * len(data.plan(1)) == data.total_steps()
    assert sum(share.pairs for share in shares) == 3 * len(prepared)
    assert sum(share.symbols for share in shares) == 3 * prepared.tgt_lens.sum()
    assert not np.array_equal(data.plan(1)[0], data.plan(2)[0])


def test_a_training_that_goes_on_loads_only_what_is_left(config: Config, prepared: Prepared, monkeypatch):
    whole = list(TrainingData(prepared, config, Progress()).train_dataloader())
    loaded = []
    collate = datamodule.collate
    monkeypatch.setattr(datamodule, "collate", lambda data, indices: loaded.append(indices) or collate(data, indices))
    batches = len(TrainingData(prepared, config, Progress()).plan(1))
    rest = list(TrainingData(prepared, config, Progress(epoch=2, epoch_step=3)).train_dataloader())
    assert len(loaded) == len(rest) == len(whole) - batches - 3
    assert all(same(one, other) for one, other in zip(rest, whole[batches + 3 :], strict=True))


def test_at_the_end_of_an_epoch_the_next_one_begins(config: Config, prepared: Prepared):
    data = TrainingData(prepared, config, Progress())
    batches = len(data.plan(1))
    after = TrainingData(prepared, config, Progress(epoch=1, epoch_step=batches)).train_dataloader()
    assert same(next(after), data.share(2, data.plan(2)[0]))


def test_max_steps_shortens_schedules(make_config: MakeConfig, prepared: Prepared):
    config = make_config(training={"max_epochs": 3, "max_steps": 10})
    assert TrainingData(prepared, config, Progress()).total_steps() == 10


def test_shares_divide_a_batch_and_an_empty_one_has_no_weight(config: Config, prepared: Prepared):
    shares = [TrainingData(prepared, config, Progress(), rank, 3).share(1, np.array([4, 7])) for rank in range(3)]
    assert [share.scale for share in shares] == [1.5, 1.5, 0.0]
    assert [share.batch.src.size(0) for share in shares] == [1, 1, 1]
    assert {share.pairs for share in shares} == {2}
    assert {share.symbols for share in shares} == {int(prepared.tgt_lens[[4, 7]].sum())}


def test_crossed_examples_are_in_an_epoch_too_others_in_each(make_config: MakeConfig):
    # letters become capitals there, which are copies only in lowercase
    config = make_config(data={"lowercase": True}, training={"max_epochs": 3})
    prepared = prepare(str(config.data.train), config.data, None, is_training=True)
    crossover = Crossover(prepared, ratio=0.5, keep=None, seed=1)
    data = TrainingData(prepared, config, Progress(), crossover=crossover)
    sizes = [len(data.examples(epoch)) for epoch in (1, 2, 3)]
    assert all(len(prepared) < size <= 1.5 * len(prepared) for size in sizes)
    assert sum(share.pairs for share in data.train_dataloader()) == sum(sizes)
    assert not np.array_equal(data.examples(1).src.values, data.examples(2).src.values)
    rest = TrainingData(prepared, config, Progress(epoch=3, epoch_step=2), crossover=crossover)
    assert same(next(iter(rest.train_dataloader())), data.share(3, data.plan(3)[2]))
    crossovers = [Crossover(prepared, ratio=0.5, keep=None, seed=1) for _ in range(2)]  # each process has its own
    of_two = [TrainingData(prepared, config, Progress(), rank, 2, crossovers[rank]) for rank in (0, 1)]
    assert np.array_equal(*(one.examples(2).src.values for one in of_two))
    assert [len(one.plan(2)) for one in of_two] == [len(of_two[0].plan(2))] * 2
    step = of_two[0].plan(2)[0]
    assert sum(len(one.share(2, step).batch.src) for one in of_two) == len(step)
