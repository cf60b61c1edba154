from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.numpy import load_file

from ssnt.config import ModelConfig
from ssnt.errors import ModelError
from ssnt.nn import SSNT
from ssnt.training.checkpoints import AtomicCheckpointIO, average_weights, load_weights, read_checkpoint, write_weights


def model(seed: int, **settings) -> SSNT:
    torch.manual_seed(seed)
    sizes = {"embed_size": 8, "hidden_size": 8, "src_vocab_size": 7, "tgt_vocab_size": 9}
    return SSNT(ModelConfig(**sizes, **settings))


@pytest.fixture
def checkpoint() -> dict:
    return {"progress": {"epoch": 1}, "state_dict": {"weight": torch.arange(3.0)}}


def test_a_checkpoint_comes_back(tmp_path: Path, checkpoint: dict):
    path = tmp_path / "training" / "last.ckpt"
    AtomicCheckpointIO().save_checkpoint(checkpoint, path)
    found = AtomicCheckpointIO().load_checkpoint(path)
    assert found["progress"] == {"epoch": 1}
    assert torch.equal(found["state_dict"]["weight"], torch.arange(3.0))
    AtomicCheckpointIO().remove_checkpoint(path)
    assert not path.exists()


def test_an_error_while_writing_leaves_the_old_checkpoint(tmp_path: Path, checkpoint: dict, monkeypatch):
    path = tmp_path / "last.ckpt"
    AtomicCheckpointIO().save_checkpoint(checkpoint, path)

    def full(value, file) -> None:
        Path(file).write_bytes(b"half")
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(torch, "save", full)
    with pytest.raises(OSError, match="what was there before is unchanged; free some space"):
        AtomicCheckpointIO().save_checkpoint({}, path)
    assert read_checkpoint(path)["progress"] == {"epoch": 1}
    assert [one.name for one in tmp_path.iterdir()] == ["last.ckpt"]


class Evil:
    def __reduce__(self):
        return print, ("run",)


def test_nothing_in_a_checkpoint_is_run(tmp_path: Path, capsys, checkpoint: dict):
    path = tmp_path / "last.ckpt"
    torch.save({**checkpoint, "evil": Evil()}, path)
    with pytest.raises(ModelError, match=r"last.ckpt: is damaged and cannot be read"):
        AtomicCheckpointIO().load_checkpoint(path, weights_only=False)
    assert capsys.readouterr().out == ""


@pytest.mark.parametrize("size", [0, 10, 500])
def test_a_truncated_checkpoint_is_told(tmp_path: Path, checkpoint: dict, size: int):
    path = tmp_path / "last.ckpt"
    torch.save(checkpoint, path)
    path.write_bytes(path.read_bytes()[:size])
    with pytest.raises(ModelError, match=r"last.ckpt: is damaged .*; start the training anew with --overwrite"):
        read_checkpoint(path)


def test_what_is_no_checkpoint_is_told(tmp_path: Path):
    torch.save({"weights": 1}, tmp_path / "other.ckpt")
    with pytest.raises(ModelError, match="is not a checkpoint of a training by ssnt"):
        read_checkpoint(tmp_path / "other.ckpt")
    with pytest.raises(ModelError, match=r"none.ckpt: is missing"):
        read_checkpoint(tmp_path / "none.ckpt")


@pytest.mark.parametrize("settings", [{}, {"tie_target_embedding": True}])
def test_the_average_is_numpys_mean(tmp_path: Path, settings: dict):
    paths = [tmp_path / f"{seed}.safetensors" for seed in range(3)]
    for seed, path in enumerate(paths):
        write_weights(path, model(seed, **settings))
    target = model(9, **settings)
    load_weights(target, average_weights(paths))
    tables = [load_file(path) for path in paths]
    for name in tables[0]:
        expected = np.mean([table[name].astype(np.float64) for table in tables], axis=0).astype(np.float32)
        assert np.array_equal(target.state_dict()[name].numpy(), expected), name
    if settings:
        assert target.word.tgt_weight is target.decoder.embedding.weight


def test_sums_of_lengths_are_not_averaged_but_kept(tmp_path: Path):
    paths = []
    for seed in range(2):
        one = model(seed, transition="geometric")
        one.estimate_transition([3, 4], [5, 6])
        paths.append(tmp_path / f"{seed}.safetensors")
        write_weights(paths[-1], one)
    assert average_weights(paths)["transition.length_sums"].tolist() == [7, 11]


def test_weights_of_another_model_and_damaged_ones_are_refused(tmp_path: Path):
    write_weights(tmp_path / "a.safetensors", model(0))
    write_weights(tmp_path / "b.safetensors", model(0, encoder_layers=2))
    with pytest.raises(ModelError, match=r"b.safetensors: has other weights than .*a.safetensors"):
        average_weights([tmp_path / "a.safetensors", tmp_path / "b.safetensors"])
    with pytest.raises(ModelError, match="not those of this model: encoder"):
        load_weights(model(0), average_weights([tmp_path / "b.safetensors"]))
    (tmp_path / "a.safetensors").write_bytes(b"no")
    with pytest.raises(ModelError, match=r"a.safetensors: is damaged"):
        average_weights([tmp_path / "a.safetensors"])
    with pytest.raises(ModelError, match=r"c.safetensors: is missing"):
        average_weights([tmp_path / "c.safetensors"])
