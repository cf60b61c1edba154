"""Units: what is split is joined again, and their states make them again."""

import json
import pickle
import subprocess
import sys
import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ssnt.config import DataConfig
from ssnt.data.text import normalise
from ssnt.data.units import (
    Bpe,
    Characters,
    Graphemes,
    Tokens,
    Unit,
    make_unit,
    train_bpe,
    unit_from_state,
    units_for,
)
from ssnt.errors import DataError
from ssnt.types import Example

TEXTS = ["walk walked walking", "talk  talked talking", "Straße stolpern", "日本語 日本"]
BPE = train_bpe(TEXTS, 60)
UNITS: list[Unit] = [Characters(), Graphemes(), Tokens(), BPE]
texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=40)


def nfc(text: str) -> str:
    return unicodedata.normalize("NFC", text)


@pytest.mark.parametrize("unit", UNITS, ids=lambda unit: unit.name)
@given(text=texts | st.sampled_from(TEXTS) | st.text("wal kedtg\r\n\t \u0301\u200d👩", max_size=20))
def test_splitting_loses_nothing(unit: Unit, text: str):
    text = nfc(text)
    symbols = unit.split(text)
    assert all(symbols), "no symbol is empty"
    expected = " ".join(text.split()) if unit.name == "tokens" else text
    assert unit.join(symbols) == expected


@pytest.mark.parametrize(
    ("unit", "text", "symbols"),
    [
        (Characters(), "gä b", ["g", "ä", " ", "b"]),
        (Characters(), "ą́", ["ą", "\u0301"]),
        (Graphemes(), "ną́", ["n", "ą́"]),
        (Graphemes(), "निन", ["नि", "न"]),
        (Graphemes(), "👩‍👧x🇩🇪", ["👩‍👧", "x", "🇩🇪"]),
        (Graphemes(), "a\r\nb", ["a", "\r\n", "b"]),
        (Tokens(), " a  b\u3000c ", ["a", "b", "c"]),
        (BPE, "xyz walk", ["x", "y", "z", " walk"]),
        (BPE, "", []),
    ],
)
def test_symbols(unit: Unit, text: str, symbols: list[str]):
    assert unit.split(text) == symbols


def test_frequent_pieces_are_units():
    assert len(BPE.split("walked talked")) <= 4


def test_bpe_splits_many_texts_alike():
    texts = [*TEXTS, "walks ü", "", "ünknown 日本"]
    assert BPE.split_many(texts) == [BPE.split(text) for text in texts]


def test_what_means_unknown_inside_is_not_looked_for_in_text():
    assert BPE.split("a\uffffb") == ["a", "\uffff", "b"]
    assert BPE.split("<unk> [UNK]")[0] == "<"


@pytest.mark.parametrize("unit", UNITS, ids=lambda unit: unit.name)
def test_a_state_is_json_and_makes_the_unit_again(unit: Unit):
    again = unit_from_state(json.loads(json.dumps(unit.state())))
    assert again == unit
    assert again.name == unit.name
    assert [again.split(text) for text in TEXTS] == [unit.split(text) for text in TEXTS]


def test_byte_pair_units_go_to_other_processes():
    assert pickle.loads(pickle.dumps(BPE)) == BPE


def test_bpe_keeps_to_its_size_and_every_character():
    unit = train_bpe(TEXTS, 40)
    vocabulary = unit.state()["tokenizer"]["model"]["vocab"]
    assert len(vocabulary) <= 41  # and the one that stands for the unknown
    assert set("".join(TEXTS)) <= set(train_bpe(TEXTS, 1).state()["tokenizer"]["model"]["vocab"])


def test_bpe_is_the_same_in_another_process():
    script = (
        "import json; from ssnt.data.units import train_bpe; "
        f"print(json.dumps(train_bpe({TEXTS!r}, 60).state(), sort_keys=True))"
    )
    run = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True, encoding="utf-8")
    assert run.stdout.strip() == json.dumps(BPE.state(), sort_keys=True)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: make_unit("bpe"), "byte-pair units are learnt from texts: expected train_bpe"),
        (lambda: make_unit("words"), "unknown unit 'words': expected one of characters, graphemes, tokens, bpe"),
        (lambda: unit_from_state([]), "a unit's state must be an object with the key 'unit', got []"),
        (lambda: unit_from_state({"unit": "bpe"}), "must have the key 'tokenizer'"),
        (lambda: unit_from_state({"unit": "bpe", "tokenizer": {}}), "the description of the byte-pair units cannot be"),
        (lambda: Bpe("{"), "the description of the byte-pair units cannot be read"),
        (lambda: train_bpe([], 10), "byte-pair units cannot be learnt from no text at all"),
        (lambda: train_bpe(["a"], 0), "the number of byte-pair units must be at least 1, got 0"),
    ],
)
def test_what_makes_no_unit(make, message: str):
    with pytest.raises(DataError) as caught:
        make()
    assert message in str(caught.value)


def changed(change: dict[str, object]) -> dict[str, object]:
    """The state of byte-pair units with some of it replaced; a dot leads inside."""
    state = json.loads(json.dumps(BPE.state()))
    for name, value in change.items():
        inside = state["tokenizer"]
        *parents, last = name.split(".")
        for parent in parents:
            inside = inside[parent]
        inside[last] = value
    return state


@pytest.mark.parametrize(
    ("change", "message"),
    [
        # this one loads, and panics when it splits
        (
            {"truncation": {"max_length": 2, "stride": 5, "strategy": "LongestFirst", "direction": "Right"}},
            "truncation: expected nothing, got {'max_length': 2",
        ),
        ({"padding": {"strategy": {"Fixed": 9}}}, "padding: expected nothing, got {'strategy': {'Fixed': 9}}"),
        ({"normalizer": {"type": "Lowercase"}}, "normalizer: expected nothing, got {'type': 'Lowercase'}"),
        ({"post_processor": {"type": "ByteLevel"}}, "post_processor: expected nothing, got {'type': 'ByteLevel'}"),
        ({"added_tokens": [{"id": 0, "content": "a"}]}, "added_tokens: expected nothing, got [{'id': 0"),
        ({"model.dropout": 0.5}, "model.dropout: expected nothing, got 0.5"),
        ({"model.fuse_unk": True}, "model.fuse_unk: expected nothing, got True"),
        ({"model.byte_fallback": True}, "model.byte_fallback: expected nothing, got True"),
        ({"model.continuing_subword_prefix": "##"}, "model.continuing_subword_prefix: expected nothing, got '##'"),
        ({"model.end_of_word_suffix": "@"}, "model.end_of_word_suffix: expected nothing, got '@'"),
        ({"model.unk_token": "nowhere"}, "model.unk_token: expected one of model.vocab, got 'nowhere'"),
        ({"model.unk_token": None}, "model.unk_token: expected one of model.vocab, got None"),
        ({"model.vocab": []}, "model.vocab: expected an object, got []"),
        ({"model.type": "WordPiece"}, "a model BPE of words that are split and isolated, got ('WordPiece', 'Split', "),
        ({"pre_tokenizer.behavior": "Removed"}, "that are split and isolated, got ('BPE', 'Split', 'Removed')"),
        ({"pre_tokenizer.type": "ByteLevel"}, "that are split and isolated, got ('BPE', 'ByteLevel', 'Isolated')"),
        ({"pre_tokenizer": None}, "pre_tokenizer: expected an object, got None"),
        ({"model": "BPE"}, "model: expected an object, got 'BPE'"),
    ],
)
def test_more_than_byte_pairs_is_refused(change: dict[str, object], message: str):
    with pytest.raises(DataError) as caught:
        unit_from_state(changed(change))
    assert str(caught.value).startswith("the description of the byte-pair units cannot be used: ")
    assert message in str(caught.value)


def test_a_description_without_end_is_refused():
    with pytest.raises(DataError, match="the description of the byte-pair units cannot be read: maximum recursion"):
        Bpe("[" * 100_000)


def test_units_for_the_settings():
    examples = [Example("WALK walk", "talk talk"), Example("walk", "talked")]
    source, target = units_for(DataConfig(format="g2p"), lambda: examples)
    assert (source, target) == (Characters(), Tokens())
    data = DataConfig(source_unit="bpe", target_unit="bpe", lowercase=True, bpe_size=50)
    source, target = units_for(data, lambda: examples)
    assert source.split("walk") == ["walk"]  # lowercased before it is learnt
    assert "walk" not in target.split("walk")
    shared, also = units_for(data.model_copy(update={"share_vocab": True}), lambda: examples)
    assert shared is also
    assert shared.split("walk") == ["walk"]
    assert shared.split("talk") == ["talk"]


@pytest.mark.parametrize(
    ("text", "options", "expected"),
    [
        ("e\u0301", {}, "é"),
        ("ÄB1", {"lowercase": True}, "äb1"),
        ("İ", {"lowercase": True}, "i\u0307"),
        ("ΟΔΟΣ", {"lowercase": True}, "οδος"),
        ("a12.3", {"digits_to_hash": True}, "a##.#"),
        ("٣ä१²", {"digits_to_hash": True}, "#ä#²"),
        ("A1", {"lowercase": True, "digits_to_hash": True}, "a#"),
        ("J\u030c", {"lowercase": True}, "ǰ"),
    ],
)
def test_normalise(text: str, options: dict[str, bool], expected: str):
    assert normalise(text, **options) == expected


@given(texts, st.booleans(), st.booleans())
def test_normalised_text_is_nfc_and_stays(text: str, lowercase: bool, digits_to_hash: bool):
    once = normalise(text, lowercase=lowercase, digits_to_hash=digits_to_hash)
    assert once == nfc(once)
    assert normalise(once, lowercase=lowercase, digits_to_hash=digits_to_hash) == once
