"""The shapes of a model's tensors, from its settings alone.

Written out rather than asked of a model, as a file may ask for one that is too large to be made; a model on torch's
``meta`` device would do, but takes two seconds to prepare.
"""

from __future__ import annotations

from ssnt.config import ModelConfig

Shapes = dict[str, tuple[int, ...]]

LENGTH_SUMS = "transition.length_sums"
"""What a geometric transition is estimated from: the only tensor of whole numbers."""


def expected_shapes(config: ModelConfig) -> Shapes:
    """The tensors of a model with these settings by name, tied ones included."""
    condition = config.feature_size if config.feature_vocab_size else 0
    shapes = _lstm("encoder", config.src_vocab_size, config, condition, config.encoder_layers, config.bidirectional)
    beside = condition
    if config.architecture == "adapted-seq2seq":
        beside += config.embed_size + config.hidden_size
    shapes |= _lstm("decoder", config.tgt_vocab_size, config, beside, config.decoder_layers, False)
    if condition:
        shapes["features.embedding.weight"] = (config.feature_vocab_size, condition)
    return shapes | _words(config) | (_decisions(config) if config.has_alignment else _encoder_decoder(config))


def _src_size(config: ModelConfig) -> int:
    return config.hidden_size * (2 if config.bidirectional else 1) + (config.embed_size if config.source_skip else 0)


def _lstm(
    part: str, vocab_size: int, config: ModelConfig, condition: int, layers: int, is_bidirectional: bool
) -> Shapes:
    hidden, suffixes = config.hidden_size, ("", "_reverse") if is_bidirectional else ("",)
    shapes: Shapes = {f"{part}.embedding.weight": (vocab_size, config.embed_size)}
    for layer in range(layers):
        inputs = config.embed_size + condition if layer == 0 else hidden * len(suffixes)
        for end in (f"l{layer}{suffix}" for suffix in suffixes):
            shapes[f"{part}.lstm.weight_ih_{end}"] = (4 * hidden, inputs)
            shapes[f"{part}.lstm.weight_hh_{end}"] = (4 * hidden, hidden)
            shapes[f"{part}.lstm.bias_ih_{end}"] = shapes[f"{part}.lstm.bias_hh_{end}"] = (4 * hidden,)
    return shapes


def _words(config: ModelConfig) -> Shapes:
    vocab_size, hidden, src_size = config.tgt_vocab_size, config.hidden_size, _src_size(config)
    shapes: Shapes = {"word.tgt_weight": (vocab_size, hidden), "word.bias": (vocab_size,)}
    if config.has_alignment:
        shapes["word.src_weight"] = (vocab_size, src_size)
    if config.architecture == "prefix-attention":
        shapes["word.context_weight"] = (vocab_size, src_size)
        shapes["word.query_weight"] = (src_size, hidden)
    if config.architecture == "joint-network":
        shapes["word.src_layer.weight"], shapes["word.src_layer.bias"] = (hidden, src_size), (hidden,)
        shapes["word.tgt_layer.weight"], shapes["word.output_layer.weight"] = (hidden, hidden), (vocab_size, hidden)
    return shapes


def _decisions(config: ModelConfig) -> Shapes:
    hidden, src_size = config.hidden_size, _src_size(config)
    if config.architecture == "rnnt":
        return {"transition.src_weight": (src_size,), "transition.tgt_weight": (hidden,), "transition.bias": (1,)}
    if config.transition == "geometric":
        return {LENGTH_SUMS: (2,)}
    size = config.transition_hidden_size or hidden
    return {
        "transition.src_layer.weight": (size, src_size),
        "transition.src_layer.bias": (size,),
        "transition.tgt_layer.weight": (size, hidden),
        "transition.output_layer.weight": (1, size),
        "transition.output_layer.bias": (1,),
    }


def _encoder_decoder(config: ModelConfig) -> Shapes:
    hidden, src_size = config.hidden_size, _src_size(config)
    if config.architecture == "adapted-seq2seq":
        return {"summary_layer.weight": (hidden, src_size), "summary_layer.bias": (hidden,)}
    shapes: Shapes = {}
    if config.bidirectional or config.encoder_layers != config.decoder_layers:
        for part in ("hidden", "cell"):
            shapes[f"bridge.{part}.weight"] = (config.decoder_layers * hidden, config.encoder_layers * src_size)
            shapes[f"bridge.{part}.bias"] = (config.decoder_layers * hidden,)
    if config.architecture == "seq2seq":
        return shapes
    shapes |= {"score.src_layer.weight": (hidden, src_size), "context_layer.weight": (hidden, src_size)}
    shapes |= {"state_layer.weight": (hidden, hidden), "state_layer.bias": (hidden,)}
    if config.attention == "bahdanau":
        shapes |= {"score.src_layer.bias": (hidden,), "score.tgt_layer.weight": (hidden, hidden)}
        shapes["score.vector"] = (hidden,)
    return shapes
