import copy
import pickle

import pytest

from ssnt.config import VARIANTS, ModelConfig, Settings
from ssnt.errors import ConfigError

SIZES = {"src_vocab_size": 10, "tgt_vocab_size": 12}


def test_defaults():
    config = ModelConfig(**SIZES)
    assert config.name == "biSSNT+"
    assert config.feature_vocab_size == 0
    assert (config.embed_size, config.hidden_size) == (128, 128)
    assert (config.encoder_layers, config.decoder_layers) == (1, 1)
    assert config.transition_hidden_size is None
    assert not config.tie_target_embedding


@pytest.mark.parametrize(
    ("name", "bidirectional", "transition"),
    [
        ("uniSSNT", False, "geometric"),
        ("biSSNT", True, "geometric"),
        ("uniSSNT+", False, "neural"),
        ("biSSNT+", True, "neural"),
    ],
)
def test_variants(name: str, bidirectional: bool, transition: str):
    config = ModelConfig.variant(name, hidden_size=7, **SIZES)
    assert config.bidirectional is bidirectional
    assert config.transition == transition
    assert config.hidden_size == 7
    assert config.name == name
    assert name in VARIANTS


def test_a_config_is_a_value():
    config = ModelConfig(**SIZES, input_dropout=0.5)
    assert config == ModelConfig(**config.model_dump()) == ModelConfig.model_validate(config.model_dump())
    assert config == copy.deepcopy(config) == pickle.loads(pickle.dumps(config))
    assert hash(config) == hash(copy.deepcopy(config))
    assert config.model_copy(update={"hidden_size": 3}).hidden_size == 3
    with pytest.raises(ValueError, match="frozen"):
        config.hidden_size = 3


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"hiden_size": 3}, "unknown setting 'hiden_size' (got 3): did you mean 'hidden_size'?"),
        ({"xyz": 3}, "unknown setting 'xyz' (got 3): expected one of architecture, attention, embed_size, "),
        ({"hidden_size": "3"}, "setting 'hidden_size': expected a valid integer, got '3'"),
        ({"hidden_size": True}, "setting 'hidden_size': expected a valid integer, got True"),
        ({"hidden_size": 0}, "setting 'hidden_size': expected a value greater than 0, got 0"),
        ({"src_vocab_size": 3}, "setting 'src_vocab_size': expected a value greater than 3, got 3"),
        ({"bidirectional": 1}, "setting 'bidirectional': expected a valid boolean, got 1"),
        ({"transition": 1}, "setting 'transition': expected 'neural' or 'geometric', got 1"),
        ({"input_dropout": 1.0}, "setting 'input_dropout': expected a value less than 1, got 1.0"),
        ({"output_dropout": float("nan")}, "setting 'output_dropout': expected a finite number, got nan"),
        (
            {"feature_vocab_size": 1},
            "setting 'feature_vocab_size': expected 0 (no tags) or at least 2 (padding and one tag), got 1",
        ),
        (
            {"tie_target_embedding": True, "embed_size": 3},
            "setting 'tie_target_embedding': expected embed_size equal to hidden_size, got embed_size=3 and "
            "hidden_size=128; make them equal, or do not tie",
        ),
    ],
)
def test_a_wrong_setting_is_explained(settings: dict[str, object], message: str):
    config = ModelConfig(**SIZES)
    for build in (
        lambda: ModelConfig(**{**SIZES, **settings}),
        lambda: ModelConfig.model_validate({**SIZES, **settings}),
        lambda: config.model_copy(update=settings),
    ):
        with pytest.raises(ConfigError) as caught:
            build()
        assert str(caught.value).startswith(message)


@pytest.mark.parametrize(
    ("value", "hint"),
    [("nueral", "; did you mean 'neural'?"), ("GEOMETRIC", "; did you mean 'geometric'?"), ("x", ""), ("", "")],
)
def test_the_value_that_may_be_meant_is_named(value: str, hint: str):
    with pytest.raises(ConfigError) as caught:
        ModelConfig(**SIZES, transition=value)
    assert str(caught.value) == f"setting 'transition': expected 'neural' or 'geometric', got {value!r}{hint}"


def test_a_missing_setting_is_named():
    with pytest.raises(ConfigError) as caught:
        ModelConfig(src_vocab_size=10)  # type: ignore[call-arg]
    assert str(caught.value) == "setting 'tgt_vocab_size': expected a value, got none; it has no default"


def test_every_wrong_setting_gets_a_line():
    with pytest.raises(ConfigError) as caught:
        ModelConfig(**SIZES, hidden_size=0, embed_siz=3)
    first, second = str(caught.value).splitlines()
    assert "hidden_size" in first
    assert "did you mean 'embed_size'?" in second


def test_settings_inside_settings():
    class Outer(Settings):
        model: ModelConfig

    assert Outer(model=SIZES).model == ModelConfig(**SIZES)
    with pytest.raises(ConfigError, match=r"unknown setting 'model.hiden_size' .*did you mean 'model.hidden_size'"):
        Outer(model={**SIZES, "hiden_size": 3})


def test_an_unknown_variant_lists_all_four():
    with pytest.raises(ConfigError) as caught:
        ModelConfig.variant("SSNT", **SIZES)
    assert str(caught.value) == ("unknown model variant 'SSNT': expected one of uniSSNT, biSSNT, uniSSNT+, biSSNT+")


@pytest.mark.parametrize("settings", [{"bidirectional": True}, {"transition": "neural"}])
def test_a_variant_fixes_its_settings(settings: dict[str, object]):
    with pytest.raises(ConfigError, match="expected none beside the variant 'uniSSNT', which fixes it"):
        ModelConfig.variant("uniSSNT", **SIZES, **settings)
