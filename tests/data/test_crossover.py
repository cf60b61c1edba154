from __future__ import annotations

from collections import Counter
from itertools import product

import numpy as np
import pytest

from ssnt.config import DataConfig
from ssnt.data import crossover as module
from ssnt.data.crossover import LONGEST_INSERTION, Crossover
from ssnt.data.prepared import Prepared, prepare_examples
from ssnt.types import Example

VERBS = [
    Example("machen", "gemacht", ("part",), 1),
    Example("lachen", "gelacht", ("part",), 2),
    Example("verlieren", "verloren", ("part",), 3),
    Example("verzagen", "verzagt", ("part",), 4),
    Example("machen", "macht", ("3rd",), 5),
    Example("sagen", "sagt", ("3rd",), 6),
    Example("sein", "ist", ("3rd",), 7),
    Example("gehen", "ging", ("past",), 8),
    Example("opbergen", "opgeborgen", ("part",), 9),
]
Row = tuple[str, str, tuple[str, ...]]


def prepared_of(examples: list[Example], **data) -> Prepared:
    return prepare_examples(examples, DataConfig(**data), None, is_training=True)


def rows_of(prepared: Prepared) -> list[Row]:
    vocabulary = prepared.vocabulary

    def text(names, numbers) -> str:
        assert numbers[-1] == 2
        return "".join(names[number] for number in numbers[:-1])

    tags = (
        [()] * len(prepared)
        if prepared.tags is None
        else [
            tuple(vocabulary.tags.names[number - 1] for number in row)
            for row in map(prepared.tags.__getitem__, range(len(prepared)))
        ]
    )
    return [
        (text(vocabulary.source.names, prepared.src[row]), text(vocabulary.target.names, prepared.tgt[row]), tags[row])
        for row in range(len(prepared))
    ]


def copied(source: str, target: str) -> str:
    """What both begin with, letter by letter."""
    common = ""
    for one, other in zip(source, target, strict=False):
        if one != other:
            break
        common += one
    return common


def cuts_of_affix(source: str, target: str, affixes: set[str]) -> tuple[str, str]:
    """What is inserted at the very beginning, and what is copied behind it."""
    plain = copied(source, target)
    found = [(one, copied(source, target[len(one) :])) for one in sorted(affixes, key=len) if target.startswith(one)]
    found = [(one, copy) for one, copy in found if copy and len(plain) - len(copy) < 3]
    return max(found, key=lambda one: len(one[1])) if found else ("", plain)


def affixes_of(rows: list[Row]) -> set[str]:
    """What the targets of some examples, all with the same tags, clearly begin with."""
    shown = Counter()
    for source, target, _ in rows:
        plain = copied(source, target)
        shown.update(
            target[:n] for n in range(1, LONGEST_INSERTION + 1) if len(copied(source, target[n:])) >= len(plain) + 3
        )
    return {one for one, count in shown.items() if count >= 2}


def places_of(source: str, target: str, affixes: set[str]) -> list[tuple[int, int, str, bool]]:
    """All cuts: behind how many letters of source and target, what was inserted, whether a whole word follows."""
    affix, first = cuts_of_affix(source, target, affixes)
    found = []
    for end in range(len(first), max(len(first) - LONGEST_INSERTION, 1) - 1, -1):
        rest = target[len(affix) + end :]
        for one in sorted(affixes, key=len):
            if rest.startswith(one) and (copy := copied(source[end:], rest[len(one) :])):
                found.append((end, one, copy))
    end, inserted, copy = max(found, key=lambda one: len(one[2]), default=(len(first), "", ""))
    cuts = [(cut, len(affix) + cut, affix, cut == 0) for cut in range(end)]
    if len(source) - end >= 4:
        cuts += [(end + n, len(affix + inserted) + end + n, affix + inserted, n == 0) for n in range(len(copy))]
    return cuts


def all_crossed(rows: list[Row], keep: int | None) -> set[Row]:
    """All that can be made of two of some examples, by trying every pair and every cut."""
    found = set()
    longest = [max(len(row[side]) for row in rows) for side in (0, 1)]
    cells = max((len(source) + 1) * (len(target) + 1) for source, target, _ in rows)
    asked = [(source, sorted(tags)) for source, _, tags in rows]
    for (place, begin), (other, end) in product(enumerate(rows), repeat=2):
        if place == other or sorted(begin[2]) != sorted(end[2]):
            continue
        affixes = affixes_of([row for row in rows if sorted(row[2]) == sorted(end[2])])
        for begins, ends in product(places_of(*begin[:2], affixes), places_of(*end[:2], affixes)):
            source = begin[0][: begins[0]] + end[0][ends[0] :]
            target = begin[1][: begins[1]] + end[1][ends[1] :]
            leaves = ends[3] or (keep is not None and len(end[0]) - ends[0] >= keep)
            is_new = len(source) <= longest[0] and len(target) <= longest[1]
            is_new = is_new and (len(source) + 1) * (len(target) + 1) <= cells
            is_new = is_new and (source, sorted(end[2])) not in asked
            if begins[0] and leaves and is_new and begins[2] == ends[2]:
                found.add((source, target, end[2]))
    return found


def crossed(crossover: Crossover, prepared: Prepared, epoch: int) -> list[Row]:
    rows = rows_of(crossover.epoch(epoch))
    assert rows[: len(prepared)] == rows_of(prepared)
    return rows[len(prepared) :]


def test_what_is_inserted_belongs_to_the_beginning_and_must_be_the_same():
    prepared = prepared_of([*VERBS, Example("y" * 12, "z" * 12, (), 10)])  # so that others may be that long
    found = {row[:2] for row in crossed(Crossover(prepared, ratio=300, keep=None, seed=1), prepared, 1)}
    assert {("masagen", "masagt"), ("lamachen", "gelamacht"), ("opmachen", "opgemacht")} <= found
    assert ("mbergen", "gemborgen") in found
    assert ("verzverlieren", "verzverloren") not in found  # longer than all
    assert ("vverlieren", "vverloren") in found
    assert ("verbergen", "verborgen") not in found  # op- takes ge-, ver- does not
    assert ("laachen", "gelaacht") not in found  # -achen is no word
    with_parts = Crossover(prepared, ratio=300, keep=3, seed=1)
    assert ("laachen", "gelaacht") in {row[:2] for row in crossed(with_parts, prepared, 1)}


@pytest.mark.parametrize("keep", [None, 1, 3, 5])
def test_crossed_examples_are_all_that_two_examples_can_make(keep: int | None):
    prepared = prepared_of(VERBS)
    crossover = Crossover(prepared, ratio=400, keep=keep, seed=3)
    assert set(crossed(crossover, prepared, 1)) == all_crossed(rows_of(prepared), keep)


@pytest.mark.parametrize("keep", [None, 1])
@pytest.mark.parametrize("seed", range(30))
def test_of_random_words_too(seed: int, keep: int | None):
    generator = np.random.default_rng(seed)

    def word(low: int) -> str:
        return "".join(generator.choice(list("ab"), size=generator.integers(low, 6)))

    examples = []
    for line in range(8):
        source = word(1)
        middle = generator.integers(0, 6)
        inserted = ["", "x", "ab"][generator.integers(3)]
        target = (
            ["", "x", "ab"][generator.integers(3)]
            + source[:middle]
            + inserted
            + source[middle:][: generator.integers(0, 6)]
            + word(0)
        )
        tags = [(), ("t", "u"), ("u", "t")][generator.integers(3)]
        examples.append(Example(source, target or "z", tags, line + 1))
    prepared = prepared_of(examples)
    expected = all_crossed(rows_of(prepared), keep)
    crossover = Crossover(prepared, ratio=100, keep=keep, seed=seed)
    found = {row for epoch in range(20) for row in crossed(crossover, prepared, epoch)}
    assert found == expected


def participles(*pairs: str) -> Prepared:
    examples = [Example(*pair.split(), (), line) for line, pair in enumerate(pairs, 1)]
    return prepared_of([*examples, Example("y" * 15, "z" * 15, (), 99)])  # so that others may be that long


def test_an_affix_is_seen_though_the_word_begins_like_it():
    prepared = participles(
        "machen gemacht", "lachen gelacht", "gießen gegossen", "gehen gegangen", "gewinnen gewonnen", "verzagen verzagt"
    )
    crossover = Crossover(prepared, ratio=300, keep=None, seed=1)
    found = {row[:2] for row in crossed(crossover, prepared, 1)}
    assert {("mgießen", "gemgossen"), ("magehen", "gemagangen"), ("vergewinnen", "vergewonnen")} <= found
    assert not {("vergießen", "vergegossen"), ("vergehen", "vergegangen"), ("gmachen", "gmacht")} & found
    assert crossover.able == 6


def test_a_single_copied_letter_behind_an_affix_is_a_word_but_behind_anything_else_an_accident():
    prepared = participles("machen gemacht", "lachen gelacht", "bergen geborgen", "sprechen gesprochen")
    found = {row[:2] for row in crossed(Crossover(prepared, ratio=300, keep=None, seed=1), prepared, 1)}
    assert {("labergen", "gelaborgen"), ("masprechen", "gemasprochen")} <= found
    assert not [source for source, _ in found if source.endswith("echen") and not source.endswith("sprechen")]


def test_what_one_example_alone_inserts_may_be_an_accident():
    pairs = ["xabcd yyxabcd", "ucd yyuc", "cdefg cdefgh"]
    alone, twice = participles(*pairs), participles(*pairs, "zabcd yyzabcd")
    assert Crossover(alone, ratio=50, keep=None, seed=1).able == 0
    assert Crossover(twice, ratio=50, keep=None, seed=1).able == 3
    assert ("xaucd", "yyxauc", ()) in crossed(Crossover(twice, ratio=50, keep=None, seed=1), twice, 1)


def test_an_affix_within_a_word_is_seen_too_and_ends_the_copy_before_it():
    prepared = participles(
        "machen gemacht", "lachen gelacht", "aufgießen aufgegossen", "weggespen weggegespt", "opbergen opgeborgen"
    )
    found = {row[:2] for row in crossed(Crossover(prepared, ratio=300, keep=None, seed=1), prepared, 1)}
    assert {("opgießen", "opgegossen"), ("aufgespen", "aufgegespt"), ("wegmachen", "weggemacht")} <= found
    assert not [source for source, _ in found if source.endswith("spen") and not source.endswith("gespen")]


def test_a_vowel_that_changes_is_no_insertion():
    prepared = participles("werpen wierpen", "wegwerpen wegwierpen", "helpen hielpen", "loven loofden", "wegen woegen")
    found = {row[:2] for row in crossed(Crossover(prepared, ratio=300, keep=None, seed=1), prepared, 1)}
    assert ("wegloven", "wegloofden") in found
    assert not [source for source, _ in found if source.endswith("erpen") and not source.endswith("werpen")]


def test_nothing_is_asked_twice_in_an_epoch():
    prepared = prepared_of(VERBS)
    rows = crossed(Crossover(prepared, ratio=400, keep=1, seed=1), prepared, 1)
    questions = [(source, tags) for source, _, tags in rows]
    assert len(questions) == len(set(questions)) > 50


def test_an_example_with_two_places_gives_its_end_no_more_often():
    words = [f"{prefix}{stem}en {prefix}ge{stem}t" for prefix, stem in product(("ab", "op"), ("mach", "hack"))]
    words += [f"{prefix}{stem}en {prefix}{stem}t" for prefix, stem in product(("be", "er"), ("lach", "back"))]
    prepared = participles(*words)
    crossover = Crossover(prepared, ratio=0.5, keep=None, seed=1)
    uses = Counter(line for epoch in range(300) for line in crossover.epoch(epoch).lines[len(prepared) :])
    assert crossover.able == len(uses) == 8
    assert all(abs(count - 150) < 45 for count in uses.values())


def test_all_beginnings_are_as_likely_and_each_example_gives_its_end_as_often():
    words = [
        Example(f"{letter}{number}aen", f"{letter}{number}ae", (), line)
        for line, (letter, number) in enumerate(product("abc", "12"), 1)
    ]
    prepared = prepared_of([*words, Example("y" * 9, "z" * 9, (), 7)])  # so that others may be that long
    many = Crossover(prepared, ratio=2, keep=3, seed=1)
    rows = [row for epoch in range(200) for row in crossed(many, prepared, epoch)]
    counts = {letter: sum(source[0] == letter for source, _, _ in rows) / len(rows) for letter in "abc"}
    assert all(abs(share - 1 / 3) < 0.03 for share in counts.values())
    twice = Crossover(prepared, ratio=2, keep=3, seed=1)
    assert twice.able == len(prepared) - 1 == 6
    assert Counter(twice.epoch(1).lines) == {**dict.fromkeys(range(1, 7), 3), 7: 1}
    assert len(Crossover(prepared, ratio=0.4, keep=3, seed=1).epoch(1)) == 7 + 3


def test_epochs_and_seeds_differ_and_the_same_ones_do_not():
    prepared = prepared_of(VERBS)
    epochs = {
        (seed, epoch): crossed(Crossover(prepared, ratio=10, keep=3, seed=seed), prepared, epoch)
        for seed, epoch in product((1, 2), (1, 2))
    }
    again = Crossover(prepared, ratio=10, keep=3, seed=2)
    again.epoch(1)
    assert crossed(again, prepared, 2) == epochs[2, 2]
    assert len({tuple(rows) for rows in epochs.values()}) == 4


def test_lines_and_tags_are_those_of_the_end():
    prepared = prepared_of(VERBS)
    whole = Crossover(prepared, ratio=50, keep=5, seed=1).epoch(1)
    for row, (source, _, tags) in enumerate(rows_of(whole)):
        example = VERBS[whole.lines[row] - 1]
        assert source.endswith(example.source[-5:])
        assert tags == example.tags


def test_unknown_symbols_are_not_copied_since_they_need_not_be_the_same():
    words = [Example(f"{letter}aaaa", f"{letter}aaab", (), 1) for letter in "xyz"]
    assert Crossover(prepared_of(words), ratio=1, keep=1, seed=1).able == 3
    assert not Crossover(prepared_of(words, min_count=2), ratio=1, keep=1, seed=1).able


def test_symbols_that_the_target_does_not_know_are_not_copied():
    # q and z are known in sources, where they are twice, but not in targets
    words = [("qaaaa", "qaaa"), ("zaaaa", "zaaa"), ("aqaaaz", "a"), ("aaq", "a"), ("azz", "a")]
    prepared = prepared_of([Example(*pair, (), 1) for pair in words], min_count=2)
    assert {"q", "z"} <= set(prepared.vocabulary.source.symbols) - set(prepared.vocabulary.target.symbols)
    assert not Crossover(prepared, ratio=1, keep=1, seed=1).able


def test_where_nothing_is_copied_nothing_is_crossed():
    pronounced = prepared_of([Example("abc", "123", (), 1), Example("cab", "312", (), 2)])
    crossover = Crossover(pronounced, ratio=3, keep=1, seed=1)
    assert (crossover.able, len(crossover.epoch(1))) == (0, 2)


def test_an_example_alone_of_its_kind_cannot_be_crossed():
    prepared = prepared_of([Example("machen", "macht", ("a",), 1), Example("lachen", "lacht", ("b",), 2)])
    crossover = Crossover(prepared, ratio=3, keep=2, seed=1)
    assert (crossover.able, len(crossover.epoch(1))) == (0, 2)


def test_few_that_can_be_crossed_do_not_stand_for_all():
    others = [Example(f"x{line}", "123", (), line) for line in range(50)]
    prepared = prepared_of([Example("machen", "macht", (), 1), Example("sagen", "sagt", (), 2), *others])
    crossover = Crossover(prepared, ratio=1, keep=3, seed=1)
    assert (crossover.able, len(crossover.epoch(1))) == (2, len(prepared) + 2)


def test_what_an_example_answers_is_not_answered_otherwise():
    words = [("vergehen", "vergangen"), ("gehen", "gegangen"), ("verlachen", "verlacht"), ("verheben", "verhoben")]
    prepared = prepared_of([Example(*pair, (), line) for line, pair in enumerate(words, 1)])
    crossover = Crossover(prepared, ratio=50, keep=2, seed=1)
    sources = {row[0] for epoch in range(5) for row in crossed(crossover, prepared, epoch)}
    assert sources
    assert not sources & {source for source, _ in words}


def test_lengths_stay_within_those_of_the_data():
    pairs = [("a" * 20, "a" * 2 + "x" * 5), ("a" * 4 + "b", "a" * 4 + "y" * 18), ("ac", "ac")]
    prepared = prepared_of([Example(*pair, (), line) for line, pair in enumerate(pairs, 1)])
    cells = (prepared.src_lens * prepared.tgt_lens).max()
    whole = Crossover(prepared, ratio=100, keep=1, seed=1).epoch(1)
    assert len(whole) > len(prepared)
    assert (whole.src_lens * whole.tgt_lens).max() <= cells
    assert whole.src_lens.max() <= prepared.src_lens.max()
    assert whole.tgt_lens.max() <= prepared.tgt_lens.max()


def test_an_example_that_would_be_too_long_with_any_beginning_is_not_counted():
    prepared = prepared_of([Example("machen", "macht", (), 1), Example("lachen", "lacht", (), 2)])
    crossover = Crossover(prepared, ratio=3, keep=None, seed=1)
    assert (crossover.able, len(crossover.epoch(1))) == (0, 2)
    assert Crossover(prepared, ratio=3, keep=4, seed=1).able == 2
    long = [Example("a" * 19, "b", (), 3), Example("c", "d" * 19, (), 4)]
    prepared = prepared_of([Example("machen", "macht", (), 1), Example("lachen", "lacht", (), 2), *long])
    assert Crossover(prepared, ratio=3, keep=None, seed=1).able == 0


def test_long_examples_are_looked_at_in_smaller_parts(monkeypatch):
    prepared = prepared_of(VERBS)
    expected = crossed(Crossover(prepared, ratio=20, keep=2, seed=1), prepared, 1)
    monkeypatch.setattr(module, "_CELLS_AT_ONCE", 15)
    assert crossed(Crossover(prepared, ratio=20, keep=2, seed=1), prepared, 1) == expected
