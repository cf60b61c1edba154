"""Models of every architecture in model directories and behind text."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import pytest
import torch
import yaml

from model_directories import rewritten
from ssnt.checkpoint import load_model
from ssnt.checkpoint.shapes import LENGTH_SUMS, expected_shapes
from ssnt.checkpoint.weights import expected_specs
from ssnt.config import MODEL_NAMES, ArchitectureConfig, Config, ModelConfig, named_settings
from ssnt.decode import Failure
from ssnt.errors import ConfigError, ModelError
from ssnt.evaluation import evaluate_model
from ssnt.nn import build_model
from ssnt.pipeline import EnsembleTransducer, PerTagTransducer, Transducer
from ssnt.types import UNK_ID, Example
from transducers import make_config, make_vocabulary

ARCHITECTURES = ("ssnt", "seq2seq", "attention", "adapted-seq2seq", "rnnt", "prefix-attention", "joint-network")
WITHOUT = ("seq2seq", "attention", "adapted-seq2seq")


def transducer_of(architecture: str, *, tags: tuple[str, ...] = (), **settings: Any) -> Transducer:
    config, vocabulary = make_config(architecture=architecture, **settings), make_vocabulary(tags=tags)
    torch.manual_seed(2)
    model = build_model(ModelConfig(**config.model.model_dump(), **vocabulary.model_sizes())).eval()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.mul_(2.0)
    model.prepare([4, 5], [3, 6])
    return Transducer(model, vocabulary, config)


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_the_shapes_of_a_model_are_known_without_it(architecture: str):
    layers, yes_and_no = ((1, 1), (2, 1), (1, 2)), (False, True)
    kinds = itertools.product(yes_and_no, layers, (0, 5), ("bahdanau", "luong"), ("neural", "geometric"), yes_and_no)
    for bidirectional, (encoder_layers, decoder_layers), tags, attention, transition, tied in kinds:
        has_skip = tied and architecture not in WITHOUT
        config = ModelConfig(
            src_vocab_size=9,
            tgt_vocab_size=8,
            architecture=architecture,
            embed_size=5,
            hidden_size=5,
            bidirectional=bidirectional,
            encoder_layers=encoder_layers,
            decoder_layers=decoder_layers,
            feature_vocab_size=tags,
            feature_size=3,
            attention=attention,
            transition=transition,
            transition_hidden_size=4,
            tie_target_embedding=tied,
            source_skip=has_skip,
        )
        tensors = build_model(config).state_dict()
        assert {name: tuple(one.shape) for name, one in tensors.items()} == expected_shapes(config)
        whole = [name for name, one in expected_specs(config).items() if one.dtype == "I64"]
        assert whole == [LENGTH_SUMS] * (transition == "geometric" and architecture not in (*WITHOUT, "rnnt"))
        assert ("word.tgt_weight" in expected_specs(config)) == (not tied)


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_a_model_is_saved_and_loaded(architecture: str, tmp_path: Path):
    for number, settings in enumerate(({}, {"bidirectional": True, "tie_target_embedding": True, "embed_size": 6})):
        before = transducer_of(architecture, tags=("V", "PST"), **settings)
        place = tmp_path / str(number)
        before.save_pretrained(place)
        after = Transducer.from_pretrained(place)
        assert type(after.model) is type(before.model)
        assert after.config.model == before.config.model
        pairs, tags = [("abc", "gabx"), ("f", "e")], [("V",), ()]
        assert after.score(pairs, tags) == before.score(pairs, tags)
        outputs = [one.transduce(["abc", "de"], tags, nbest=2) for one in (before, after)]
        assert outputs[0] == outputs[1]
        card = (place / "README.md").read_text(encoding="utf-8")
        assert before.config.model.name.split(" (", maxsplit=1)[0] in card
        assert ("alignment" in card) == (architecture not in WITHOUT)
        assert ("streaming" in card) == (architecture not in WITHOUT and not settings)


def test_a_directory_from_before_there_were_others_holds_an_ssnt(tmp_path: Path):
    transducer_of("ssnt").save_pretrained(tmp_path / "model")
    config = yaml.safe_load((tmp_path / "model" / "config.yaml").read_text(encoding="utf-8"))["config"]
    del config["model"]["architecture"], config["model"]["attention"]
    rewritten(tmp_path / "model", config=config)
    assert load_model(tmp_path / "model").config.model.architecture == "ssnt"


def test_weights_of_another_architecture_are_refused(tmp_path: Path):
    transducer_of("seq2seq").save_pretrained(tmp_path / "model")
    config = yaml.safe_load((tmp_path / "model" / "config.yaml").read_text(encoding="utf-8"))["config"]
    rewritten(tmp_path / "model", config={**config, "model": {**config["model"], "architecture": "attention"}})
    with pytest.raises(ModelError, match=r"does not fit config.yaml and vocab.json: context_layer.weight is missing"):
        load_model(tmp_path / "model")


@pytest.mark.parametrize("architecture", WITHOUT)
def test_without_an_alignment_there_is_none(architecture: str):
    transducer = transducer_of(architecture)
    assert not transducer.has_alignment
    assert not transducer.is_online  # though its encoder reads in one direction
    (best,) = transducer.transduce(["abcd"])
    assert best.alignment.positions == ()
    assert best.alignment_svg() == ""
    assert "svg" not in best._repr_html_()
    assert set(best.delays) <= {5}
    ((score,), (same,)) = transducer.score([("abcd", best.text)]), [best.log_prob]
    if best.is_complete and not best.unknown:
        assert score == pytest.approx(same, rel=1e-4)
    for what, refused in (
        ("align", lambda: transducer.align([("a", "b")])),
        ("align", lambda: PerTagTransducer({("V",): transducer}, transducer.config).align([("a", "b")], [["V"]])),
        ("stream", transducer.stream),
        ("stream", lambda: transducer.stream_each([Example("a")])),
        ("search 'path'", lambda: transducer.transduce(["a"], search="path")),
        ("search 'online'", lambda: transducer.transduce(["a"], search="online")),
    ):
        is_online = what in ("stream", "search 'online'")
        reason, can = ("reads the whole input", "uniSSNT") if is_online else ("has no alignment", "biSSNT")
        with pytest.raises(
            ModelError, match=rf"^{what}: '{architecture}.*' {reason}.* \(ssnt train --model {can}\+\)$"
        ):
            refused()
    assert not PerTagTransducer({("V",): transducer}, transducer.config).has_alignment
    assert isinstance(transducer.transduce_each([Example("")])[0], Failure)


def test_unknown_symbols_are_copied_from_where_attention_looks():
    transducer = transducer_of("attention")
    with torch.no_grad():  # it writes the unknown symbol, and little else
        transducer.model.word.bias.fill_(-1e3)
        transducer.model.word.bias[UNK_ID] = 0.0
        transducer.model.word.bias[2] = -3.0
    sources = ["abcdef", "éa", "b"]
    copied = transducer.transduce(sources, nbest=2, max_length=4)
    plain = transducer.transduce(sources, nbest=2, max_length=4, copy_unknown=False)
    unknown = transducer.vocabulary.target.names[UNK_ID]
    seen = 0
    for source, one, other in zip(sources, copied, plain, strict=True):
        for output, same in zip((one, *one.alternatives), (other, *other.alternatives), strict=True):
            assert output.symbols == same.symbols
            assert set(same.target_symbols) <= {unknown}
            assert set(output.target_symbols) <= {*source, unknown}
            seen += sum(symbol in source for symbol in output.target_symbols)
    assert seen > 0
    (one,) = transducer_of("seq2seq").transduce(["abc"])
    assert len(one.target_symbols) == len(one.symbols)


def test_the_names_of_models():
    for name in MODEL_NAMES:
        settings = ArchitectureConfig(**named_settings(name))
        if "SSNT" in name:
            assert settings.name == name
        else:
            assert settings.architecture == name
    with pytest.raises(ConfigError, match="setting 'architecture': expected none beside the variant 'biSSNT'"):
        ModelConfig.variant("biSSNT", architecture="rnnt", src_vocab_size=9, tgt_vocab_size=9)
    with pytest.raises(ConfigError, match="unknown model variant 'seq2seq'"):
        ModelConfig.variant("seq2seq", src_vocab_size=9, tgt_vocab_size=9)


@pytest.mark.parametrize("architecture", WITHOUT)
def test_settings_that_need_an_alignment_are_refused(architecture: str):
    for section in ({"search": {"search": "path"}}, {"search": {"search": "online"}}, {"training": {"fastemit": 0.1}}):
        ((name, values),) = section.items()
        ((key, _),) = values.items()
        with pytest.raises(ConfigError, match=f"setting '{name}.{key}': expected .* for model.architecture"):
            Config.model_validate({"model": {"architecture": architecture, "bidirectional": False}, **section})
    Config.model_validate({"model": {"architecture": architecture}, "training": {"end": "last"}})


def test_models_beside_the_paper_s_stream_in_one_direction():
    for architecture in ("rnnt", "prefix-attention", "joint-network"):
        refusal = (
            rf"^stream: 'bi {architecture}' reads .* \(ssnt train --model {architecture} model.bidirectional=false\)"
        )
        with pytest.raises(ModelError, match=refusal):
            transducer_of(architecture, bidirectional=True).stream()
        transducer_of(architecture, bidirectional=False).stream()


def test_an_encoder_of_one_s_own_that_cannot_be_stepped(monkeypatch: pytest.MonkeyPatch):
    transducer = transducer_of("ssnt", bidirectional=False)
    monkeypatch.setattr(type(transducer.model.encoder), "is_streaming", False)
    with pytest.raises(
        ModelError, match=r"^stream: the encoder cannot read one symbol at a time; use one that follows"
    ):
        transducer.stream()


def test_names_that_are_nearly_right():
    for wrong, meant in (("BISSNT", "biSSNT"), ("rnn-t", "rnnt"), ("Attention", "attention")):
        with pytest.raises(ConfigError, match=f"unknown model '{wrong}': did you mean '{meant}'"):
            named_settings(wrong)
    with pytest.raises(ConfigError, match="unknown model 'x': expected one of uniSSNT, "):
        named_settings("x")


def test_signatures_say_where_paths_end_only_where_there_are_paths():
    def signatures(transducer: Transducer) -> list[str]:
        examples = [Example("abc", "ab")]
        return [one.signature for one in evaluate_model(transducer, examples, ["accuracy", "perplexity"]).scores]

    ours, other = transducer_of("ssnt"), transducer_of("attention")
    assert all("|end:any|" in one for one in signatures(ours))
    assert all("end:" not in one for one in signatures(other))
    assert all("|end:any|" in one for one in signatures(EnsembleTransducer([other, EnsembleTransducer([ours])])))
    assert all("end:" not in one for one in signatures(EnsembleTransducer([other, other])))


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_a_class_refuses_settings_of_another_architecture(architecture: str):
    sizes = {"src_vocab_size": 9, "tgt_vocab_size": 8, "hidden_size": 5}
    kind = type(build_model(ModelConfig(architecture=architecture, **sizes)))
    other = "rnnt" if architecture != "rnnt" else "ssnt"
    with pytest.raises(
        ConfigError, match=rf"architecture='{architecture}' for {kind.__name__}, got '{other}'; use .*build_model"
    ):
        kind(ModelConfig(architecture=other, **sizes))


@pytest.mark.parametrize("architecture", ARCHITECTURES)
@pytest.mark.parametrize("layers", [(1, 1), (2, 1), (1, 2)])
def test_models_answer_under_autocast_on_any_cpu(architecture: str, layers: tuple[int, int]):
    one = transducer_of(architecture, encoder_layers=layers[0], decoder_layers=layers[1], bidirectional=True)
    both = EnsembleTransducer([one, transducer_of(architecture)])
    for transducer in (one, both):
        expected = transducer.transduce(["abc", "fed"])
        with torch.autocast("cpu", dtype=torch.bfloat16):
            found = transducer.transduce(["abc", "fed"])
        for ours, theirs in zip(found, expected, strict=True):
            assert ours.log_prob == pytest.approx(theirs.log_prob, abs=0.3)
