"""Models as commands are given them: one, or several split by commas."""

from __future__ import annotations

from pathlib import Path

import pytest

from ssnt.errors import ModelError
from ssnt.pipeline import EnsembleTransducer, PerTagTransducer, Transducer
from ssnt.pipeline.loading import find_models, load_models
from transducers import copying_transducer


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A directory with three models, of which the third has another vocabulary, and the second a comma in its name."""
    monkeypatch.chdir(tmp_path)
    copying_transducer().save_pretrained("one")
    copying_transducer().save_pretrained("two,three")
    copying_transducer(tags=("X", "Y")).save_pretrained("tagged")
    return tmp_path


def test_a_name_is_one_model_or_several(place: Path):
    assert find_models("one") == (str(place / "one"),)
    assert find_models("two,three") == (str(place / "two,three"),)  # there is such a directory
    assert find_models("one,tagged,one") == tuple(str(place / name) for name in ("one", "tagged", "one"))


@pytest.mark.parametrize("name", ["one,", ",one", "one,,tagged", ""])
def test_no_place_may_be_empty(place: Path, name: str):
    with pytest.raises(ModelError, match="split by commas"):
        find_models(name)


def test_several_are_an_ensemble(place: Path):
    assert type(load_models(find_models("one"))) is Transducer
    both = load_models(find_models("one,one"))
    assert isinstance(both, EnsembleTransducer)
    (alone,), (joined,) = (model.score([("ab", "AB")]) for model in (load_models(["one"]), both))
    assert joined == pytest.approx(alone)


def test_models_that_do_not_fit_are_named(place: Path):
    with pytest.raises(ModelError, match=r"members\[1\]: expected the vocabulary.*members\[1\] is .*tagged"):
        load_models(find_models("one,tagged"))


def test_those_with_a_model_for_each_tag_set_are_joined_tag_set_by_tag_set(place: Path):
    def make(*tags: str) -> None:
        members = {(tag,): copying_transducer() for tag in tags}
        PerTagTransducer(members, copying_transducer().config).save_pretrained("".join(tags))

    make("X", "Y")
    both = load_models(find_models("XY,XY"))
    assert isinstance(both, PerTagTransducer)
    assert all(isinstance(one, EnsembleTransducer) for one in both.models.values())
    assert both.transduce(["ab"], [["Y"]])[0].text == copying_transducer().transduce(["ab"])[0].text
    make("X")
    with pytest.raises(ModelError, match="tag sets"):
        load_models(find_models("XY,X"))
