"""From settings to a model of the architecture that they name."""

from __future__ import annotations

from ssnt.config import ModelConfig
from ssnt.errors import ConfigError
from ssnt.nn.model import SSNT
from ssnt.nn.protocol import Model


def build_model(config: ModelConfig) -> Model:
    """Builds an untrained model of the architecture that the settings name.

    Raises:
        ConfigError: The settings are none of a model.
    """
    if not isinstance(config, ModelConfig):
        raise ConfigError(f"config: expected a ModelConfig, got {type(config).__name__}; use ModelConfig(...)")
    return _class_of(config)(config)


def _class_of(config: ModelConfig) -> type[Model]:
    # Imported where used: most runs need one architecture.
    if config.architecture == "ssnt":
        return SSNT
    if config.architecture == "rnnt":
        from ssnt.nn.rnnt import RNNT

        return RNNT
    if config.architecture == "prefix-attention":
        from ssnt.nn.prefix_attention import PrefixAttentionSSNT

        return PrefixAttentionSSNT
    if config.architecture == "joint-network":
        from ssnt.nn.joint_network import JointNetworkSSNT

        return JointNetworkSSNT
    from ssnt.nn.baselines import AdaptedSeq2Seq, AttentionSeq2Seq, Seq2Seq

    return {"seq2seq": Seq2Seq, "attention": AttentionSeq2Seq, "adapted-seq2seq": AdaptedSeq2Seq}[config.architecture]
