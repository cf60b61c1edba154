import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ssnt.config import DataConfig
from ssnt.data.units import Characters, Tokens, make_unit, train_bpe
from ssnt.data.vocab import SPECIAL, SymbolTable, TagTable, Vocabulary, make_vocabulary
from ssnt.errors import DataError
from ssnt.types import BOS_ID, EOS_ID, PAD_ID, UNK_ID


def vocabulary(**changes):
    settings = {
        "source": SymbolTable.of("ab"),
        "target": SymbolTable.of("xyz"),
        "tags": TagTable(("V", "PST")),
        "source_unit": Characters(),
        "target_unit": Tokens(),
    }
    return Vocabulary(**{**settings, **changes})


def through_file(value, tmp_path):
    path = tmp_path / "vocab.json"
    path.write_text(json.dumps(value.to_json(), ensure_ascii=False), encoding="utf-8")
    return Vocabulary.from_json(json.loads(path.read_text(encoding="utf-8")))


def test_special_names_are_at_their_numbers():
    table = SymbolTable.of(["a"])
    assert [table.names[number] for number in (PAD_ID, BOS_ID, EOS_ID, UNK_ID)] == ["<pad>", "<s>", "</s>", "<unk>"]
    assert len(table) == 5
    assert table.names[4] == "a"


def test_unknown_symbols_have_the_number_of_unknown():
    assert SymbolTable.of("ab").numbers(["b", "?", "a"]) == [5, UNK_ID, 4]


@pytest.mark.parametrize("name", SPECIAL)
def test_a_symbol_written_like_a_special_one_is_unknown_or_has_its_own_number(name):
    assert SymbolTable.of(["a"]).numbers([name]) == [UNK_ID]
    table = SymbolTable.of(["a", name])
    assert table.numbers([name]) == [5]
    assert table.names[5] == name


@given(st.lists(st.text(min_size=1, max_size=3) | st.sampled_from(SPECIAL), unique=True))
def test_numbers_lead_back_to_the_symbols(symbols):
    table = SymbolTable.of(symbols)
    numbers = table.numbers(symbols)
    assert [table.names[number] for number in numbers] == symbols
    assert all(number > UNK_ID for number in numbers)
    assert len(set(numbers)) == len(symbols)
    assert table.symbols == tuple(symbols)


def test_frequent_symbols_come_first_and_equal_ones_by_code_point():
    counts = {"z": 2, "b": 5, "é": 2, "a": 2}
    assert SymbolTable.from_counts(counts).symbols == ("b", "a", "z", "é")
    assert SymbolTable.from_counts(dict(reversed(counts.items()))).symbols == ("b", "a", "z", "é")


def test_minimum_count_and_maximum_size():
    counts = {"a": 1, "b": 2, "c": 3, "d": 4}
    assert SymbolTable.from_counts(counts, min_count=3).symbols == ("d", "c")
    assert SymbolTable.from_counts(counts, max_size=3).symbols == ("d", "c", "b")
    assert SymbolTable.from_counts(counts, min_count=5).symbols == ()


@pytest.mark.parametrize(
    ("names", "message"),
    [
        (("a", "b", "c", "d"), r"symbols: expected the first names to be \('<pad>', .*got \('a', 'b', 'c', 'd'\)"),
        ((*SPECIAL, "a", ""), "symbols: expected strings that are not empty, got ''"),
        ((*SPECIAL, "a", "b", "a"), "symbols: expected each once, got 'a' twice"),
    ],
)
def test_bad_symbols_are_refused(names, message):
    with pytest.raises(DataError, match=message):
        SymbolTable(names)


@pytest.mark.parametrize(
    ("names", "message"),
    [((), "tags: expected at least one"), (("V", "V"), "tags: expected each once, got 'V' twice")],
)
def test_bad_tags_are_refused(names, message):
    with pytest.raises(DataError, match=message):
        TagTable(names)


def test_tags_count_from_one_and_unknown_ones_are_counted():
    assert vocabulary().tag_numbers(["PST", "FUT", "V", "3"]) == ([2, 1], 2)
    assert vocabulary().tag_numbers([]) == ([], 0)
    assert vocabulary(tags=None).tag_numbers(["PST"]) == ([], 0)


def test_model_sizes():
    assert vocabulary().model_sizes() == {"src_vocab_size": 6, "tgt_vocab_size": 7, "feature_vocab_size": 3}
    assert vocabulary(tags=None).model_sizes()["feature_vocab_size"] == 0


def test_text_is_normalised_before_it_is_divided():
    assert vocabulary().split_source("A1") == ["A", "1"]
    normalising = vocabulary(lowercase=True, digits_to_hash=True)
    assert normalising.split_source("A1") == ["a", "#"]
    assert normalising.split_target("In 1999") == ["in", "####"]
    assert normalising.join_target(["in", "####"]) == "in ####"


def test_a_vocabulary_of_counts():
    data = DataConfig(min_count=2, max_target_vocab=1, lowercase=True)
    made = make_vocabulary({"a": 5, "b": 1}, {"a": 2, "c": 3}, {"V": 1, "N": 2}, Characters(), Tokens(), data)
    assert made.source.symbols == ("a",)
    assert made.target.symbols == ("c",)
    assert made.tags == TagTable(("N", "V"))  # no minimum for tags
    assert (made.lowercase, made.digits_to_hash) == (True, False)
    assert make_vocabulary({"a": 1}, {"a": 1}, {}, Characters(), Tokens(), data).tags is None


def test_a_shared_vocabulary_adds_the_counts_of_both_sides():
    data = DataConfig(min_count=2, share_vocab=True)
    made = make_vocabulary({"a": 1, "b": 1}, {"a": 1, "c": 3}, {}, Characters(), Characters(), data)
    assert made.source.symbols == ("c", "a")
    assert made.target is made.source


@pytest.mark.parametrize(
    ("limits", "size"), [((None, None), 3), ((2, None), 2), ((None, 1), 1), ((2, 1), 1), ((1, 2), 1)]
)
def test_a_shared_vocabulary_keeps_both_limits(limits, size):
    data = DataConfig(share_vocab=True, max_source_vocab=limits[0], max_target_vocab=limits[1])
    made = make_vocabulary({"a": 1, "b": 1}, {"c": 1}, {}, Characters(), Characters(), data)
    assert len(made.source.symbols) == size


@pytest.mark.parametrize("unit", ["characters", "graphemes", "tokens"])
def test_a_file_gives_the_vocabulary_back(tmp_path, unit):
    first = vocabulary(
        source=SymbolTable.of(["</s>", "\u2028", "\\", '"', "e\u0301", "\U0001f468\u200d\U0001f469"]),
        source_unit=make_unit(unit),
        lowercase=True,
    )
    again = through_file(first, tmp_path)
    assert again == first
    assert again.target is not again.source


def test_a_file_gives_byte_pair_units_back(tmp_path):
    unit = train_bpe(["the cat sat on the mat", "the hat"], 20)
    again = through_file(vocabulary(target_unit=unit), tmp_path)
    assert again.split_target("the cats") == unit.split("the cats")


def test_a_shared_vocabulary_is_written_once(tmp_path):
    table = SymbolTable.of("ab")
    first = vocabulary(source=table, target=table)
    assert "symbols" not in first.to_json()["target"]
    again = through_file(first, tmp_path)
    assert again == first
    assert again.target is again.source


def test_the_file_is_for_people():
    assert vocabulary(digits_to_hash=True).to_json() == {
        "format_version": 1,
        "lowercase": False,
        "digits_to_hash": True,
        "special": ["<pad>", "<s>", "</s>", "<unk>"],
        "is_shared": False,
        "tags": ["V", "PST"],
        "source": {"unit": {"unit": "characters"}, "symbols": ["a", "b"]},
        "target": {"unit": {"unit": "tokens"}, "symbols": ["x", "y", "z"]},
    }


def changed(*keys, to=None, without=False):
    value = vocabulary().to_json()
    inner = value
    for key in keys[:-1]:
        inner = inner[key]
    if without:
        del inner[keys[-1]]
    else:
        inner[keys[-1]] = to
    return value


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ([], "vocabulary: expected an object, got list"),
        (changed("format_version", without=True), "vocabulary: 'format_version' is missing"),
        (changed("format_version", to=True), "'format_version': expected a number, got True"),
        (changed("format_version", to=0), "'format_version': expected 1 to 1, got 0"),
        (changed("format_version", to=2), "newer ssnt .format_version 2, this ssnt reads up to 1.; upgrade ssnt"),
        (changed("special", to=["<unk>"]), r"'special': expected \['<pad>', .*got \['<unk>'\]"),
        (changed("lowercase", to="yes"), "'lowercase': expected true or false, got 'yes'"),
        (changed("source", without=True), "vocabulary: 'source' is missing"),
        (changed("source", "symbols", without=True), "vocabulary: 'source.symbols' is missing"),
        (changed("target", "symbols", to="xyz"), "'target.symbols': expected a list, got 'xyz'"),
        (changed("target", "symbols", to=["x", 7]), "'target': symbols: expected strings that are not empty, got 7"),
        (changed("target", "symbols", to=["x", "x"]), "'target': symbols: expected each once, got 'x' twice"),
        (changed("tags", without=True), "vocabulary: 'tags' is missing"),
        (changed("tags", to=[]), "vocabulary: tags: expected at least one"),
        (changed("tags", to="V"), "'tags': expected a list or null, got 'V'"),
        (changed("source", "unit", to="characters"), "'source.unit': expected an object, got 'characters'"),
        (changed("target", "unit", to={"unit": "letters"}), "'target.unit': unknown unit 'letters'"),
    ],
)
def test_a_wrong_file_is_refused_with_what_is_wrong(value, message):
    with pytest.raises(DataError, match=message):
        Vocabulary.from_json(value)
