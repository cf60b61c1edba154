"""Decoding many sources: order, batches, failures, copying."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from decoding import all_outputs, random_model, random_sources, take
from ssnt.decode import (
    EnsembleScorer,
    Failure,
    MarginalisedScorer,
    ModelScorer,
    SearchOptions,
    Stream,
    StreamOptions,
    copy_unknowns,
    decode,
    number_symbols,
    online_search,
    run,
)
from ssnt.errors import ConfigError, DataError, ModelError
from ssnt.types import Alignment, Hypothesis

SOURCES = [[4, 5, 4], [5], [4, 4, 4, 5, 5], [5, 4], [4, 5]]


def test_batches_are_small_where_sources_are_long_or_the_vocabulary_is_large(monkeypatch):
    sizes = []

    def spy(scorer, batch, options):
        sizes.append(tuple(batch.src.shape))
        return [[] for _ in batch.src]

    monkeypatch.setitem(run._SEARCHES, "marginal", spy)
    scorer = ModelScorer(random_model(0))
    monkeypatch.setattr(run, "_MOST_LOGITS", 40 * scorer.vocab_size)
    decode(scorer, [[5] * length for length in (30, 3, 100, 3, 4, 3)], options=SearchOptions(beam=6), batch_size=3)
    # three of 3 symbols, the end and 6 hypotheses have 30; one of 101 goes alone, however long it is
    assert sizes == [(3, 4), (1, 5), (1, 31), (1, 101)]
    sizes.clear()
    ensemble = EnsembleScorer([MarginalisedScorer(random_model(0)), MarginalisedScorer(random_model(1))])
    decode(ensemble, [[5] * 3] * 3, options=SearchOptions(beam=6), batch_size=3)
    assert sizes == [(2, 4), (1, 4)]  # as each of two models has its logits


@pytest.mark.parametrize("search", ["marginal", "path", "online"])
@pytest.mark.parametrize("batch_size", [1, 2, 64])
def test_order_and_batches_do_not_matter(search, batch_size):
    scorer = ModelScorer(random_model(3, vocab=7))
    found = decode(scorer, SOURCES, search, SearchOptions(beam=3), batch_size=batch_size)
    for source, hypotheses in zip(SOURCES, found, strict=True):
        (alone,) = decode(scorer, [source], search, SearchOptions(beam=3))
        assert hypotheses[0].symbols == alone[0].symbols
        np.testing.assert_allclose(hypotheses[0].log_prob, alone[0].log_prob)


def test_bad_sources_are_reported_and_the_others_answered():
    scorer = ModelScorer(random_model(4))
    found = decode(scorer, [[4], [], [4] * 9, [-1, 4], [5]], max_source_length=8)
    assert [isinstance(result, Failure) for result in found] == [False, True, True, True, False]
    texts = [str(result.error) for result in found if isinstance(result, Failure)]
    assert [result.index for result in found if isinstance(result, Failure)] == [1, 2, 3]
    assert texts[0] == "source 1 is empty; give at least one symbol"
    assert texts[1] == "source 2 has 9 symbols, more than max_source_length (8); split it"
    assert texts[2] == "source 3 holds -1, which is no symbol; unknown ones are UNK_ID (3)"
    assert decode(scorer, []) == []


def test_a_symbol_outside_the_vocabulary_spares_the_others():
    scorer = ModelScorer(random_model(4))
    found = decode(scorer, [[4], [99], [5, 4]])
    assert isinstance(found[1], Failure)
    assert "99" in str(found[1].error)
    assert found[0][0].is_complete
    assert found[2][0].is_complete


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ([4, 2], "source 1 holds a padding, start or end symbol"),
        ([4, 0], "source 1 holds a padding, start or end symbol"),
        ("ab", "expected a list of sources"),
        (None, "source 1 and its tags must be sequences of symbols"),
        ([4.5], "source 1 and its tags must be sequences of symbols"),
        ([2**70], "which is no symbol"),
    ],
)
def test_mistaken_sources(source, message):
    scorer = ModelScorer(random_model(4))
    if isinstance(source, str):
        with pytest.raises(DataError, match=message):
            decode(scorer, [[4], source])
        return
    found = decode(scorer, [[4], source])
    assert message in str(found[1].error)
    assert found[0][0].is_complete


def test_models_numbers_and_tensors_are_taken_as_they_come():
    model = random_model(4)
    (plain,) = decode(ModelScorer(model), [[4, 5]])
    for sources in ([torch.tensor([4, 5])], [np.array([4, 5])], [(4, 5)]):
        (found,) = decode(model, sources)
        assert found[0].symbols == plain[0].symbols
    with pytest.raises(ModelError, match="expected a model such as an SSNT, or a scorer, got dict"):
        decode({}, [[4]])
    with pytest.raises(DataError, match=r"for a single one, \[\[5, 6\]\]"):
        decode(model, [5, 6])


def test_dropout_that_is_still_on_is_noticed():
    model = random_model(4, input_dropout=0.5).train()
    with pytest.warns(UserWarning, match="call model.eval"):
        decode(model, [[4]])


@pytest.mark.parametrize("search", ["marginal", "path", "online"])
@pytest.mark.parametrize("option", ["prefix", "banned"])
def test_symbols_outside_the_vocabulary_in_options(search, option):
    model = random_model(4)
    for symbol in (99, -1):
        with pytest.raises(ConfigError, match=rf"{option}: expected symbols from 0 to 3, got \[{symbol}\]"):
            decode(model, [[4]], search, SearchOptions(**{option: (symbol,)}))


def test_wrong_settings_are_named():
    scorer = ModelScorer(random_model(4))
    with pytest.raises(ConfigError, match="search must be one of 'marginal', 'path', 'online', got 'beam'"):
        decode(scorer, SOURCES, "beam")
    with pytest.raises(DataError, match="features must have 5 entries, one a source, got 1"):
        decode(scorer, SOURCES, features=[[1]])


def test_tags_reach_the_model():
    model = random_model(5, feature_vocab_size=4, feature_size=3)
    found = decode(ModelScorer(model), [[4, 5], [4, 5]], features=[[1, 2], [3]])
    again = decode(ModelScorer(model), [[4, 5]], features=[[3]])
    np.testing.assert_allclose(found[1][0].log_prob, again[0][0].log_prob)
    assert found[0][0].log_prob != pytest.approx(found[1][0].log_prob)


def test_unknown_symbols_are_copied_from_where_they_were_written():
    hypothesis = Hypothesis((3, 5, 3), -1.0, -1.0, Alignment((0, 1, 2, 2), -1.0), (1, 2, 3, 3))
    names = ["<pad>", "<s>", "</s>", "<unk>", "a", "b"]
    assert copy_unknowns(hypothesis, ["x", "y"], names) == ["x", "b", "<unk>"]  # nothing stands at the end symbol


def test_an_ensemble_streams():
    models = [random_model(1), random_model(2)]
    scorer = EnsembleScorer([ModelScorer(model) for model in models])
    batch = random_sources(6, [4, 2])
    found = online_search(scorer, batch, SearchOptions(beam=200, max_length=3), max_emissions=4)
    for b, hypotheses in enumerate(found):
        truth = all_outputs(models, take(batch, b), 3)
        assert hypotheses[0].symbols == truth[0].symbols
        np.testing.assert_allclose(hypotheses[0].log_prob, truth[0].log_prob, rtol=1e-8)
    stream = Stream(scorer, StreamOptions(beam=50, max_emissions=4, end="any"))
    written = stream.push(batch.src[0, :3].tolist()).committed
    (expected,) = online_search(scorer, take(batch, 0), SearchOptions(beam=50), max_emissions=4)
    assert (*written, *stream.finish().symbols) == expected[0].symbols


def test_unknown_symbols_are_counted():
    numbered = number_symbols(["a", "ß", "b", "ß"], {"a": 4, "b": 5})
    assert numbered.symbols == (4, 3, 5, 3)
    assert numbered.unknown == 2


def test_bad_tags_are_reported_with_their_source():
    model = random_model(5, feature_vocab_size=4, feature_size=3)
    found = decode(model, [[4], [5], [4, 5]], features=[[1], ["a"], [9]])
    assert found[0][0].is_complete
    assert "source 1 and its tags must be sequences" in str(found[1].error)
    assert "source 2: features: expected symbols from 0 to 3" in str(found[2].error)


def test_a_stream_reads_text():
    model = random_model(7)
    spelt, numbered = Stream(model, table={"a": 4, "b": 5}), Stream(model)
    assert spelt.push("ab?") == numbered.push([4, 5, 3])
    assert spelt.unknown == 1
    assert spelt.finish().symbols == numbered.finish().symbols
    with pytest.raises(DataError, match="expected a source symbol"):
        Stream(model).push("a")
