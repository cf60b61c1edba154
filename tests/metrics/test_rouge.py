"""ROUGE, against examples worked by hand and an implementation from the definitions."""

import random
from collections import Counter

import pytest

from ssnt.errors import ConfigError
from ssnt.metrics import Item, Rouge, evaluate, find_metric

VARIANTS = ("1", "2", "l")


def rouge(text, references, *, use_stemmer=False):
    item = Item.from_text(text, references)
    scores = evaluate([item], [Rouge(variant, use_stemmer=use_stemmer) for variant in VARIANTS], resamples=0)
    return [score.value for score in scores]


# output, references: ROUGE-1, ROUGE-2, ROUGE-L
CASES = {
    "the same": ("police kill the gunman", ["police kill the gunman"], 1, 1, 1),
    # From the paper: S1 = "police killed the gunman" is the reference.
    # 3 of 4 words; of the 3 pairs only "the gunman"; the subsequence is "police the gunman"
    "paper, S2": ("police kill the gunman", ["police killed the gunman"], 3 / 4, 1 / 3, 3 / 4),
    # the same 3 words; again "the gunman"; the subsequence is "the gunman"
    "paper, S3": ("the gunman kill police", ["police killed the gunman"], 3 / 4, 1 / 3, 1 / 2),
    # one "the" in common: P = 1/3, R = 1/2, F1 = 2 * 1/6 / (5/6) = 2/5
    "a word counts as often as in both": ("the the the", ["the cat"], 2 / 5, 0, 2 / 5),
    # P = 2/2, R = 2/4: F1 = 2/3. Pairs: P = 1/1, R = 1/3: F1 = 1/2
    "short output": ("a b", ["a b c d"], 2 / 3, 1 / 2, 2 / 3),
    "nothing in common": ("a b", ["c d"], 0, 0, 0),
    "one word has no pairs": ("a", ["a"], 1, 0, 1),
    "empty output": ("", ["a b"], 0, 0, 0),
    "empty reference": ("a b", [""], 0, 0, 0),
    "both empty": ("", [""], 0, 0, 0),
    "digits of Gigaword": ("rose ## percent", ["fell # percent"], 1 / 3, 0, 1 / 3),
    "punctuation is a token": ("a .", ["b ."], 1 / 2, 0, 1 / 2),
    "another alphabet": ("кот спит дома", ["кот спит тут"], 2 / 3, 1 / 2, 2 / 3),
    "combining characters": ("cafe\u0301 noir", ["caf\u00e9 noir"], 1, 1, 1),
    "case": ("The CAT", ["the cat"], 1, 1, 1),
    # the first reference is best by single words and the second by pairs and by subsequence:
    # {a, b, c} of "c b a": 1, 0, 1/3; of "a b x": 2/3, 1/2, 2/3
    "each variant takes its best reference": ("a b c", ["c b a", "a b x"], 1, 1 / 2, 2 / 3),
}


@pytest.mark.parametrize("case", CASES)
def test_worked_by_hand(case):
    text, references, *expected = CASES[case]
    assert rouge(text, references) == pytest.approx(expected)


def test_stems():
    assert rouge("police killing the gunmen", "police killed the gunmen", use_stemmer=True) == [1, 1, 1]
    # words of up to three letters are left alone; nothing else is dropped
    assert rouge("bus #", "bu #", use_stemmer=True) == pytest.approx([1 / 2, 0, 1 / 2])
    assert rouge("buses #", "buse #", use_stemmer=True) == [1, 1, 1]


def f1(common, output, reference):
    return 2 * common / (output + reference) if common else 0.0


def from_the_definition(a, b, variant):
    if variant == "l":
        table = [[0] * (len(b) + 1) for _ in range(len(a) + 1)]
        for i, x in enumerate(a):
            for j, y in enumerate(b):
                table[i + 1][j + 1] = table[i][j] + 1 if x == y else max(table[i][j + 1], table[i + 1][j])
        return f1(table[-1][-1], len(a), len(b))
    n = int(variant)
    grams_a, grams_b = (Counter(tuple(c[i : i + n]) for i in range(len(c) - n + 1)) for c in (a, b))
    return f1((grams_a & grams_b).total(), grams_a.total(), grams_b.total())


@pytest.mark.parametrize("variant", VARIANTS)
def test_against_the_definitions(variant):
    rng = random.Random(7)
    items, expected = [], []
    for _ in range(100):
        a, *others = [[rng.choice(["a", "#", "é", "я"]) for _ in range(rng.randint(0, 6))] for _ in range(3)]
        items.append(Item.from_text(" ".join(a), [" ".join(b) for b in others]))
        expected.append(max(from_the_definition(a, b, variant) for b in others))
    assert len(set(expected)) > 5
    (score,) = evaluate(items, f"rouge_{variant}", resamples=0)
    assert score.value == pytest.approx(sum(expected) / len(items))


def test_the_signature_names_the_tokenizer():
    item = Item.from_text("a", ["a", "b"])
    fields = "refs:best-of-2|tok:whitespace|case:lower|stem:{}|norm:NFC|bootstrap:none|v:"
    plain, stemmed = evaluate([item], ["rouge_l", Rouge("l", use_stemmer=True)], resamples=0)
    assert plain.signature.startswith("rouge_l|formula:mean-F1|" + fields.format("none"))
    assert stemmed.signature.startswith("rouge_l|formula:mean-F1|" + fields.format("porter"))


def test_an_unknown_variant_is_refused():
    with pytest.raises(ConfigError, match="variant must be '1', '2' or 'l', got '3'"):
        Rouge("3")
    assert find_metric("rouge_2").name == "rouge_2"
