"""Accuracy, edit distance and error rates, against examples worked by hand and a plain dynamic programme."""

import random

import pytest

from ssnt.errors import DataError
from ssnt.metrics import Item, evaluate, tabulate


def value(metric, *items):
    (score,) = evaluate(items, metric, resamples=0)
    assert score.count == len(items)
    assert (score.low, score.high) == (None, None)
    return score.value


def levenshtein(a, b):
    """The full table, cell by cell."""
    table = [[i + j for j in range(len(b) + 1)] for i in range(len(a) + 1)]
    for i, x in enumerate(a, 1):
        for j, y in enumerate(b, 1):
            table[i][j] = min(table[i - 1][j] + 1, table[i][j - 1] + 1, table[i - 1][j - 1] + (x != y))
    return table[-1][-1]


# output, references: accuracy, edit distance, symbol edits / reference symbols, token edits / reference tokens
ONE = {
    "right": ("abc", ["abc"], 1, 0, 0, 0),
    "substitution": ("abd", ["abc"], 0, 1, 1 / 3, 1),
    "insertion": ("abcd", ["abc"], 0, 1, 1 / 3, 1),
    "deletion": ("ab", ["abc"], 0, 1, 1 / 3, 1),
    "kitten": ("sitting", ["kitten"], 0, 3, 3 / 6, 1),
    "empty output": ("", ["abc"], 0, 3, 1, 1),
    "far too long": ("abcabcabc", ["abc"], 0, 6, 2, 1),
    "words": ("the cat sat", ["the black cat sat"], 0, 6, 6 / 17, 1 / 4),
    # the tokens are the same, the symbols are not
    "spaces": ("a  b ", ["a b"], 0, 2, 2 / 3, 0),
    "second reference": ("abc", ["xyz", "abc"], 1, 0, 0, 0),
    # 1 edit to either: of 2 symbols or of 4. The longer one gives the lower rate, in whatever order they come.
    "tie of references": ("abc", ["ab", "abcd"], 0, 1, 1 / 4, 1),
    "tie, other order": ("abc", ["abcd", "ab"], 0, 1, 1 / 4, 1),
    # 2 edits to "a", of rate 2; 3 to "abcxyz", of rate 1/2: the fewest edits count, not the lowest rate
    "fewest edits": ("abc", ["abcxyz", "a"], 0, 2, 2, 1),
    "one empty reference of two": ("a", ["", "b"], 0, 1, 1, 1),
    "combining characters": ("cafe\u0301", ["caf\u00e9"], 1, 0, 0, 0),
    "combining without a composed form": ("q", ["q\u0301"], 0, 1, 1 / 2, 1),
    "beyond the first plane": ("\U0001f600\U0001f601", ["\U0001f600\U0001f602"], 0, 1, 1 / 2, 1),
}


@pytest.mark.parametrize("case", ONE)
def test_one_item(case):
    text, references, accuracy, distance, per, wer = ONE[case]
    item = Item.from_text(text, references)
    assert value("accuracy", item) == accuracy
    assert value("macro_accuracy", item) == accuracy
    assert value("item_error_rate", item) == 1 - accuracy
    assert value("edit_distance", item) == distance
    assert value("per", item) == pytest.approx(per, abs=0)
    assert value("wer", item) == pytest.approx(wer, abs=0)


def test_symbols_longer_than_a_character():
    item = Item.from_text("K AE1 T", "K AE2 T S", split=str.split)
    assert value("edit_distance", item) == 2
    assert value("per", item) == 2 / 4
    assert value("wer", item) == 2 / 4


def test_rates_pool_lengths_before_dividing():
    items = [Item.from_text("a", "b"), Item.from_text("abcdefghi", "abcdefghi")]
    assert value("per", *items) == 1 / 10  # not (1 + 0) / 2
    assert value("edit_distance", *items) == 1 / 2
    assert value("item_error_rate", *items) == 1 / 2


def test_an_empty_reference_adds_edits_and_no_length():
    items = [Item.from_text("xy", ""), Item.from_text("ab", "ab")]
    assert value("per", *items) == 2 / 2
    assert value("wer", *items) == 1 / 1
    assert value("accuracy", *items) == 1 / 2
    assert value("accuracy", Item.from_text("", "")) == 1
    assert value("edit_distance", Item.from_text("xy", "")) == 2


@pytest.mark.parametrize(("metric", "reference"), [("per", ""), ("wer", ""), ("wer", "  ")])
def test_no_reference_length_no_rate(metric, reference):
    with pytest.raises(DataError, match=f"references must not all be empty for {metric}, .* got 2 empty ones"):
        value(metric, Item.from_text("a", reference), Item.from_text("", reference))


def test_macro_accuracy_averages_groups():
    items = [Item.from_text("a", right, group=group) for group, right in zip("xxxxyyz", "aaabbab", strict=True)]
    # 3 of 4, 1 of 2, 0 of 1
    assert value("macro_accuracy", *items) == pytest.approx((3 / 4 + 1 / 2 + 0) / 3)
    assert value("accuracy", *items) == pytest.approx(4 / 7)


def random_items(seed, many):
    rng = random.Random(seed)

    def text():
        return "".join(rng.choice("ab \u0301\u05d0") for _ in range(rng.randint(0, 7)))

    return [
        Item.from_text(text(), [text() for _ in range(rng.randint(1, 3))], group=rng.choice("xyz")) for _ in range(many)
    ]


def rate(pairs):
    """Edits by length, with the plain distance: fewest edits, then lowest rate."""
    edits, lengths = 0, 0
    for output, references in pairs:
        best = min((levenshtein(output, one), levenshtein(output, one) / max(len(one), 0.1), one) for one in references)
        edits += best[0]
        lengths += len(best[2])
    return edits / lengths


@pytest.mark.parametrize("seed", range(3))
def test_against_a_plain_distance(seed):
    items = random_items(seed, 150)
    nearest = [min(levenshtein(item.prediction, one) for one in item.references) for item in items]
    assert 0 < sum(edits == 0 for edits in nearest) < len(items)
    assert value("accuracy", *items) == pytest.approx(sum(edits == 0 for edits in nearest) / 150)
    assert value("edit_distance", *items) == pytest.approx(sum(nearest) / 150)
    assert value("per", *items) == pytest.approx(rate((item.prediction, item.references) for item in items))
    words = [(item.text.split(), [one.split() for one in item.reference_texts]) for item in items]
    assert value("wer", *items) == pytest.approx(rate(words))
    groups = {group: [e == 0 for e, item in zip(nearest, items, strict=True) if item.group == group] for group in "xyz"}
    assert value("macro_accuracy", *items) == pytest.approx(sum(sum(g) / len(g) for g in groups.values()) / 3)


def test_a_table_of_items():
    items = [Item.from_text("ab", "abc"), Item.from_text("xy", ""), Item.from_text("", ["", "a"])]
    table = tabulate(items, "per", unit="letters")
    assert table.columns == ("edits", "reference_symbols")
    assert table.rows.tolist() == [[1, 3], [2, 0], [0, 0]]
    assert table.values.tolist() == pytest.approx([1 / 3, float("inf"), 0])
    assert list(table.to_records()) == [
        {"item": 0, "per": pytest.approx(1 / 3), "edits": 1, "reference_symbols": 3},
        {"item": 1, "per": None, "edits": 2, "reference_symbols": 0},
        {"item": 2, "per": 0, "edits": 0, "reference_symbols": 0},
    ]
    assert table.signature.startswith("per|formula:edits/reference-symbols|refs:best-of-1..2|unit:letters|norm:NFC|")


@pytest.mark.parametrize(
    ("metric", "columns", "rows", "values"),
    [
        ("accuracy", ("exact", "items"), [[1, 1], [0, 1]], [1, 0]),
        ("macro_accuracy", ("wrong", "exact"), [[0, 1], [1, 0]], [1, 0]),
        ("item_error_rate", ("wrong", "items"), [[0, 1], [1, 1]], [0, 1]),
        ("edit_distance", ("edits", "items"), [[0, 1], [2, 1]], [0, 2]),
        ("wer", ("edits", "reference_tokens"), [[0, 1], [1, 2]], [0, 1 / 2]),
        ("rouge_1", ("f1", "items"), [[1, 1], [2 / 3, 1]], [1, 2 / 3]),
    ],
)
def test_tables(metric, columns, rows, values):
    table = tabulate([Item.from_text("a", "a", group="x"), Item.from_text("a", "a b", group="y")], metric)
    assert table.columns == columns
    assert [pytest.approx(row) for row in rows] == table.rows.tolist()
    assert table.values.tolist() == pytest.approx(values)
