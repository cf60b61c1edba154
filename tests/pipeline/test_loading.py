"""Models as commands are given them: one, or several split by commas."""

from __future__ import annotations

from pathlib import Path

import pytest

from ssnt.errors import ModelError
from ssnt.pipeline import EnsembleTransducer, PerTagTransducer, Transducer
from ssnt.pipeline.loading import find_models, load_models
from transducers import copying_transducer, shaken


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A directory with models, one of which has a comma in its name, and one another vocabulary."""
    monkeypatch.chdir(tmp_path)
    copying_transducer().save_pretrained("one")
    shaken(copying_transducer(), 1).save_pretrained("two,three")
    shaken(copying_transducer(), 2).save_pretrained("four")
    copying_transducer(tags=("X", "Y")).save_pretrained("tagged")
    copying_transducer("tokens").save_pretrained("words")
    return tmp_path


def test_a_name_is_one_model_or_several(place: Path):
    assert find_models("one") == ("one",)
    assert find_models("two,three") == ("two,three",)  # there is such a directory
    assert find_models(f"one,{place / 'tagged'},one") == ("one", str(place / "tagged"), "one")


def test_spaces_beside_commas_are_no_part_of_a_name(place: Path):
    assert find_models("one, four") == ("one", "four")


def test_where_one_model_is_asked_for_several_are_refused_as_such(place: Path):
    with pytest.raises(ModelError, match="one,four: expected one model, got 2 split by commas"):
        Transducer.from_pretrained("one,four")
    with pytest.raises(ModelError, match="no,models: there is no such directory"):
        Transducer.from_pretrained("no,models")


@pytest.mark.parametrize("name", ["one,", ",one", "one,,tagged", ""])
def test_no_place_may_be_empty(place: Path, name: str):
    with pytest.raises(ModelError, match="split by commas"):
        find_models(name)


def test_several_are_an_ensemble(place: Path):
    assert type(load_models(find_models("one"))) is Transducer
    both = load_models(find_models("one,four"))
    assert isinstance(both, EnsembleTransducer)
    pairs = [("ab", "gab"), ("fed", "gfed")]
    members = [Transducer.from_pretrained(name) for name in ("one", "four")]
    assert both.score(pairs) == EnsembleTransducer(members).score(pairs)
    assert all(both.score(pairs) != one.score(pairs) for one in members)


def test_models_that_do_not_fit_are_named(place: Path):
    with pytest.raises(ModelError, match=r"members\[1\]: expected text to be divided.*members\[1\] is .*words"):
        load_models(find_models("one,words"))


def test_those_with_a_model_for_each_tag_set_are_joined_tag_set_by_tag_set(place: Path):
    def make(name: str, tags: str, seed: int) -> None:
        members = {(tag,): shaken(copying_transducer(), seed) for tag in tags}
        PerTagTransducer(members, copying_transducer().config).save_pretrained(name)

    make("first", "XY", 1)
    make("second", "XY", 2)
    both = load_models(find_models("first,second"))
    assert isinstance(both, PerTagTransducer)
    expected = EnsembleTransducer([shaken(copying_transducer(), seed) for seed in (1, 2)])
    assert both.score([("ab", "gab")], [["Y"]]) == expected.score([("ab", "gab")])
    all_three = load_models(find_models("tagged,first,second"))
    members = [copying_transducer(tags=("X", "Y")), *(shaken(copying_transducer(), seed) for seed in (1, 2))]
    assert all_three.score([("ab", "gab")], [["Y"]]) == EnsembleTransducer(members).score([("ab", "gab")], [["Y"]])
    assert all_three.config == copying_transducer(tags=("X", "Y")).config
    make("third", "X", 3)
    with pytest.raises(ModelError, match=r"members\[1\]: .* tag sets of members\[0\], .* only one of the two has 'Y'"):
        load_models(find_models("first,third"))
    make("fourth", "XYZ", 4)
    with pytest.raises(ModelError, match=r"members\[0\]: expected a model that knows .* got one without 'Z'"):
        load_models(find_models("tagged,fourth"))
