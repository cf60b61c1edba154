"""Items: built from text, normalised, and refused where they make no sense."""

import math

import numpy as np
import pytest

from ssnt.errors import DataError
from ssnt.metrics import Item


def test_from_text_splits_into_code_points():
    item = Item.from_text("ab c", ["ab", "x"], group="V;PST", nll=1.5, tokens=3)
    assert item == Item(
        ("a", "b", " ", "c"), (("a", "b"), ("x",)), "ab c", ("ab", "x"), group="V;PST", nll=1.5, tokens=3
    )


def test_from_text_with_one_reference_and_a_splitter():
    item = Item.from_text("AA1 B", "AA1  B", split=str.split)
    assert item.prediction == ("AA1", "B")
    assert item.references == (("AA1", "B"),)
    assert (item.text, item.reference_texts) == ("AA1 B", ("AA1  B",))


COMBINING = "e\u0301"  # e and an accent of its own
COMPOSED = "\u00e9"


def test_text_is_composed_before_it_is_split():
    item = Item.from_text("caf" + COMBINING, ["caf" + COMPOSED], group=COMBINING)
    assert item.prediction == item.references[0] == ("c", "a", "f", COMPOSED)
    assert item.text == item.reference_texts[0] == "caf" + COMPOSED
    assert item.group == COMPOSED


def test_symbols_are_composed_one_by_one():
    item = Item((COMBINING, "x"), ((COMPOSED, "x"),), COMBINING, (COMBINING,))
    assert item.prediction == item.references[0] == (COMPOSED, "x")
    # The accent is a symbol here: only whoever splits the text can know that it should not be.
    apart = Item(("e", "\u0301"), (), "", ())
    assert apart.prediction == ("e", "\u0301")


def test_what_has_no_composed_form_stays_two_code_points():
    assert Item.from_text("q\u0301", "q").prediction == ("q", "\u0301")


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"prediction": "ab"}, r"prediction must be a tuple of strings, got 'ab' \(str\); Item.from_text builds"),
        ({"prediction": ["a"]}, r"prediction must be a tuple of strings, got \['a'\] \(list\)"),
        ({"prediction": (1,)}, r"prediction must be a tuple of strings, got \(1,\) \(tuple\)"),
        ({"references": [("a",)]}, r"references must be a tuple of tuples of strings, got \[\('a',\)\] \(list\)"),
        ({"references": ("a",)}, r"references\[0\] must be a tuple of strings, got 'a' \(str\)"),
        ({"text": None}, r"text must be a string, got None \(NoneType\)"),
        ({"text": b"a" * 99}, r"text must be a string, got b'a{55}\.\.\. \(bytes\)"),
        ({"group": 3}, r"group must be a string, got 3 \(int\)"),
        ({"reference_texts": ()}, "reference_texts must hold one text for each of the 1 references, got 0"),
        ({"reference_texts": "a"}, "reference_texts must be a tuple of strings"),
        ({"nll": math.nan, "tokens": 1}, "nll must be a number of at least 0, got nan"),
        ({"nll": "1", "tokens": 1}, "nll must be a number of at least 0, got '1'"),
        ({"nll": -1.0, "tokens": 1}, r"nll must be at least 0, got -1\.0; if this is a log likelihood, change its"),
        ({"nll": -math.inf, "tokens": 1}, "nll must be at least 0, got -inf"),
        ({"nll": 1.0}, "tokens must be a whole number of at least 1, got None"),
        ({"nll": 1.0, "tokens": 0}, "tokens must be a whole number of at least 1, got 0; the end symbol"),
        ({"nll": 1.0, "tokens": 1.5}, r"tokens must be a whole number of at least 1, got 1\.5"),
        ({"tokens": 3}, "nll must be a number of at least 0, got None; give nll and tokens together, or neither"),
    ],
)
def test_bad_fields_are_refused(fields, message):
    good = {"prediction": ("a",), "references": (("a",),), "text": "a", "reference_texts": ("a",)}
    assert Item(**good)
    with pytest.raises(DataError, match=message):
        Item(**{**good, **fields})


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((3, "a"), r"text must be a string, got 3 \(int\)"),
        (("a", [3]), r"references must be a tuple of strings, got \(3,\)"),
    ],
)
def test_bad_text_is_refused(arguments, message):
    with pytest.raises(DataError, match=message):
        Item.from_text(*arguments)


@pytest.mark.parametrize(("nll", "tokens"), [(math.inf, 1), (np.float32(2), np.int64(3)), (0, 1), (-1e-6, 2)])
def test_good_likelihoods(nll, tokens):
    assert Item((), (), "", (), nll=nll, tokens=tokens).nll == nll
