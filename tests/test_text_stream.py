"""Streams of text: the layer over the streams of symbols, whose own behaviour is tested elsewhere."""

import io
import unicodedata
from itertools import pairwise

import pytest
import torch
from hypothesis import example, given, settings
from hypothesis import strategies as st

from ssnt.data.units import make_unit, train_bpe
from ssnt.data.vocab import SymbolTable, Vocabulary
from ssnt.errors import ConfigError, DataError, ModelError
from ssnt.pipeline.arriving_text import ArrivingText
from transducers import copying_transducer, make_config, make_transducer, make_vocabulary

UNITS = ["characters", "graphemes", "tokens"]
# Letters, marks of several combining classes, singletons, marks that decompose, jamo, an Indic conjunct, emoji with
# joiners and flags, line ends, spaces that decompose, digits, and all that makes a sigma final or not.
NASTY = st.text(
    alphabet=st.sampled_from(
        "aeAEIi'.1 \t\n\r\u03a3\u03c3\u03c2\u0130\u00b7\u00ad\u02b0\u0663\u00e9\u0301\u0308\u0307\u0315\u031a\u0345"
        "\u1100\uac00\u1161\u11a8\uac01\uac1c\u0915\u094d\u0937\u200c\u200d\U0001f1e9\U0001f1ea\U0001f469\U0001f3fd"
        "\u212b\u0344\u2126\u2000\u2028\U0001d15e\U0001d165\u0f71\u0f72\u0f73\u09c7\u09be"
    ),
    max_size=14,
)


def cut(text: str, places: list[int]) -> list[str]:
    edges = sorted({0, len(text), *(place % (len(text) + 1) for place in places)})
    return [text[begin:end] for begin, end in pairwise(edges)]


@pytest.mark.parametrize("unit", UNITS)
@pytest.mark.parametrize("lowercase", [False, True])
@settings(max_examples=100)
@given(
    text=st.one_of(NASTY, st.text(max_size=12)), places=st.lists(st.integers(0, 20), max_size=8), digits=st.booleans()
)
@example(text="B\u03a3\u03a3B", places=[1, 2, 3], digits=False)
@example(text="B'\u03a3'.B", places=[1, 2, 3, 4, 5], digits=True)
def test_symbols_do_not_depend_on_how_text_is_cut(unit, lowercase, text, places, digits):
    vocabulary = make_vocabulary(unit=unit, lowercase=lowercase, digits_to_hash=digits)
    for pieces in (cut(text, places), list(text)):
        arriving = ArrivingText(make_unit(unit), lowercase=lowercase, digits_to_hash=digits)
        symbols = [symbol for piece in pieces for symbol in arriving.push(piece)] + arriving.finish()
        assert symbols == vocabulary.split_source(text)


@pytest.mark.parametrize(
    ("unit", "pieces", "read"),
    [
        ("characters", ["a", "b", "c"], [[], ["a"], ["b"]]),
        ("characters", ["e", "\u0301", "x"], [[], [], ["é"]]),
        ("characters", ["abc"], [["a", "b"]]),
        ("characters", ["1", " ", "q", "\u0301"], [["1"], [" "], ["q"], []]),  # with nothing do these combine
        ("graphemes", ["👩", "\u200d", "👩", "x", "y"], [[], [], [], [], ["👩\u200d👩"]]),
        ("tokens", ["one", " tw", "o ", "x"], [[], ["one"], ["two"], []]),
    ],
)
def test_a_symbol_is_read_as_soon_as_nothing_can_change_it(unit, pieces, read):
    arriving = ArrivingText(make_unit(unit))
    assert [arriving.push(piece) for piece in pieces] == read


def test_a_capital_sigma_waits_for_what_follows_it():
    arriving = ArrivingText(make_unit("characters"), lowercase=True)
    assert [arriving.push(piece) for piece in "B\u03a3B \u03a3."] == [[], ["b"], [], ["\u03c3", "b", " "], [], []]
    assert arriving.finish() == ["\u03c3", "."]  # after a space it is no final one


def run(stream, pieces):
    updates = [stream.push(piece) for piece in pieces]
    return [*updates, stream.finish()]


@pytest.mark.parametrize("unit", UNITS)
@settings(max_examples=10)
@given(
    symbols=st.lists(st.sampled_from(["a", "b", "c", "é", "z"]), min_size=1, max_size=5),
    places=st.lists(st.integers(0, 20), max_size=6),
    is_composed=st.booleans(),
)
def test_any_cut_gives_the_same_output_as_the_whole_text(unit, symbols, places, is_composed):
    transducer = copying_transducer(unit)
    text = unicodedata.normalize("NFC" if is_composed else "NFD", (" " if unit == "tokens" else "").join(symbols))
    whole = transducer.stream()
    expected = "".join(update.committed for update in run(whole, [text]))
    stream = transducer.stream()
    updates = run(stream, cut(text, places))
    assert "".join(update.committed for update in updates) == expected
    assert stream.log_prob == whole.log_prob
    assert updates[-1].read == len(transducer.vocabulary.split_source(text))


@pytest.mark.parametrize("unit", UNITS)
@pytest.mark.parametrize("options", [{}, {"max_delay": 0}, {"beam": 1, "emit_threshold": 0.5}])
def test_committed_pieces_are_the_output(unit, options):
    transducer = copying_transducer(unit)
    text = (" " if unit == "tokens" else "").join("abcdef")
    stream = transducer.stream(**options)
    updates = run(stream, list(text))
    symbols = [symbol for update in updates for symbol in update.symbols]
    written = "".join(update.committed for update in updates)
    assert symbols == ["g", *"abcdef"]
    assert written == transducer.vocabulary.join_target(symbols)
    if not options:
        (whole,) = transducer.transduce([text], search="online", end="last")
        assert (written, stream.log_prob) == (whole.text, pytest.approx(whole.log_prob))
        assert stream.is_complete


def test_text_is_written_while_it_arrives():
    stream = copying_transducer().stream(max_delay=0)
    updates = [stream.push(letter) for letter in "abcdef"]
    assert "".join(update.committed for update in updates) == "gabcde"  # f waits: a mark may follow it
    assert [update.read for update in updates] == [0, 1, 2, 3, 4, 5]
    last = stream.finish()
    assert (last.committed, last.tentative, last.read) == ("f", "", 6)
    delays = [delay for update in [*updates, last] for delay in update.delays]
    assert delays == sorted(delays)
    assert len(delays) == 7


def test_the_tentative_text_goes_on_from_the_committed():
    stream = copying_transducer("tokens").stream(max_delay=1)
    shown, text = [], ""
    for token in "abcdef":
        update = stream.push(f"{token} ")
        text += update.committed
        shown.append(text + update.tentative)
    assert shown[-1] == "g a b c d e f"
    assert all(later.startswith(earlier[:-2]) for earlier, later in pairwise(shown))


@pytest.mark.parametrize("options", [{}, {"max_delay": 0}])
def test_unknown_symbols_are_copied(options):
    transducer = copying_transducer()
    stream = transducer.stream(**options)
    assert "".join(update.committed for update in run(stream, "aZbÜ")) == "gaZbÜ"
    assert stream.unknown == 2
    stream = transducer.stream(copy_unknown=False, **options)
    assert "".join(update.committed for update in run(stream, "aZb")) == "ga<unk>b"


def test_lowercase_and_digits_are_normalised():
    trained = copying_transducer()
    vocabulary = make_vocabulary(lowercase=True, digits_to_hash=True)
    transducer = type(trained)(trained.model, vocabulary, trained.config)
    outputs = ["".join(update.committed for update in run(transducer.stream(), text)) for text in ("AbC", "abc")]
    assert outputs == ["gabc", "gabc"]
    assert transducer.stream()._side._text.push("A1x") == ["a", "#"]


def test_a_state_can_be_saved_and_restored():
    transducer = copying_transducer()
    stream = transducer.stream(max_delay=1)
    before = [stream.push(piece) for piece in ("aZb", "e")]
    buffer = io.BytesIO()
    torch.save(stream.state_dict(), buffer)
    buffer.seek(0)
    restored = transducer.stream(max_delay=1)
    restored.load_state_dict(torch.load(buffer, weights_only=True))
    rest = ["\u0301", "Q", "d"]
    assert run(restored, rest) == run(stream, rest)
    assert restored.unknown == stream.unknown == 2
    assert any(update.committed for update in before)


def test_a_state_that_is_none_is_refused():
    transducer = copying_transducer()
    stream = transducer.stream()
    state = stream.state_dict()
    with pytest.raises(ModelError, match="not the state of a text stream: stream, text"):
        stream.load_state_dict({"source": {}, "unknown": 0, "has_written": False, "is_finished": False})
    with pytest.raises(ModelError, match="not the state of a text stream: KeyError"):
        stream.load_state_dict({**state, "source": {}})
    with pytest.raises(ConfigError, match="other options: beam"):
        transducer.stream(beam=2).load_state_dict(state)


def test_a_finished_stream_reads_no_more():
    stream = copying_transducer().stream()
    run(stream, "ab")
    with pytest.raises(ModelError, match="finished already and reads no more; open a new one"):
        stream.push("c")
    with pytest.raises(ModelError, match="finished already"):
        stream.finish()


def test_no_text_gives_no_output():
    stream = copying_transducer("tokens").stream()
    update = run(stream, ["  ", ""])[-1]
    assert (update.committed, update.read, stream.log_prob) == ("", 0, None)


def test_bytes_are_not_text():
    with pytest.raises(DataError, match="text must be a string, got bytes"):
        copying_transducer().stream().push(b"abc")


def test_a_bidirectional_model_cannot_stream():
    transducer = make_transducer(config=make_config(bidirectional=True))
    with pytest.raises(
        ModelError, match=r"^stream: 'biSSNT\+' reads the whole input .* \(ssnt train --model uniSSNT\+\)$"
    ):
        transducer.stream()


def test_byte_pair_units_cannot_stream():
    unit = train_bpe(["abc abd"], 8)
    table = SymbolTable.of("abc")
    transducer = make_transducer(vocabulary=Vocabulary(table, table, None, unit, unit))
    with pytest.raises(ModelError, match=r"reads bpe units.*data.source_unit=characters"):
        transducer.stream()


def test_tags_of_a_stream():
    transducer = copying_transducer(tags=("X", "Y"))
    for tags, expected in ((["X"], "gxab"), (["X", "?"], "gxab"), ([], "gab")):
        assert "".join(update.committed for update in run(transducer.stream(tags), "ab")) == expected
    with pytest.raises(DataError, match="trained with tags: give a list of tags"):
        transducer.stream()
    with pytest.raises(DataError, match="tags must be a list of strings such as"):
        transducer.stream("X")
    with pytest.raises(DataError, match="trained without tags: leave them out"):
        copying_transducer().stream(["X"])
