"""What the routes answer: the same as the library."""

from __future__ import annotations

import asyncio
import math
import unicodedata
from typing import Any

import pytest

from serving import PROBLEM, PRS, PST, client_of, served, service, transducers
from ssnt.decode import Failure
from ssnt.pipeline import EnsembleTransducer, PerTagTransducer
from ssnt.serve import Limits, ServedModel, WorkedExample, make_app
from ssnt.types import Example

NAMES = ("copy", "tagged", "whole", "attention", "per tag")
TEXTS = ["abc", "fade", "a", "aZb", "e\u0301a", "dédé", "אב", "a\U0001f600b", "f c#", "bcdefabcdef" * 3]
CLOSE = pytest.approx


def ask(path: str, body: Any, *names: str, method: str = "POST", headers: Any = None, **settings: Any) -> Any:
    """One request to a service of its own."""

    async def run() -> Any:
        async with service(*(names or ("copy",)), **settings) as client:
            return await client.request(method, path, json=body, headers=headers)

    return asyncio.run(run())


def near(value: float | None) -> Any:
    """The number that an answer should have."""
    return None if value is None or not math.isfinite(value) else CLOSE(value, abs=2e-5, rel=2e-5)


def matrix(tensor: Any) -> list[Any]:
    return [[CLOSE(value, abs=3e-5) for value in row] for row in tensor.tolist()]


def expected_output(one: Any, *, posteriors: bool) -> dict[str, Any]:
    has_path = bool(one.alignment.positions)
    return {
        "text": one.text,
        "symbols": list(one.target_symbols),
        "log_prob": near(one.log_prob),
        "probability": CLOSE(one.probability, abs=1e-5),
        "score": near(one.score),
        "is_complete": one.is_complete,
        "alignment": list(one.alignment.positions) if has_path else None,
        "path_log_prob": near(one.alignment.log_prob) if has_path else None,
        "delays": list(one.delays) if has_path else None,
        "posteriors": matrix(one.emit) if posteriors and one.emit is not None else None,
    }


def expected(one: Any, *, posteriors: bool) -> dict[str, Any]:
    if isinstance(one, Failure):
        return {"error": str(one.error)}
    return {
        "source_symbols": list(one.source_symbols),
        "outputs": [expected_output(each, posteriors=posteriors) for each in (one, *one.alternatives)],
        "unknown": one.unknown,
        "unknown_tags": one.unknown_tags,
    }


def tags_for(name: str) -> list[str]:
    return {"tagged": ["X"], "per tag": list(PST)}.get(name, [])


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("search", ["marginal", "path", "online", None])
def test_outputs_are_those_of_the_library(name, search):
    transducer, tags = transducers()[name], tags_for(name)
    settings = {"beam": 3, "nbest": 2} | ({} if search is None else {"search": search})
    answer = ask("/v1/transduce", {"inputs": [{"text": text, "tags": tags} for text in TEXTS], **settings}, name)
    if (search == "path" and not transducer.has_alignment) or (search == "online" and not transducer.is_online):
        assert answer.status_code == 422
        assert answer.headers["content-type"] == PROBLEM
        assert search in answer.json()["detail"]
        return
    assert answer.status_code == 200, answer.text
    found = transducer.transduce_each([Example(text, None, tuple(tags)) for text in TEXTS], **settings)
    assert answer.json() == {"model": name, "results": [expected(one, posteriors=False) for one in found]}


def test_posteriors_come_if_asked_for_and_alignments_unless_not():
    transducer = transducers()["copy"]
    body = {"inputs": ["abc", "fe"], "nbest": 2, "posteriors": True}
    found = ask("/v1/transduce", body).json()["results"]
    assert found == [expected(one, posteriors=True) for one in transducer.transduce(["abc", "fe"], nbest=2)]
    first = found[0]["outputs"][0]
    assert len(first["posteriors"]) == len(first["symbols"]) + 1
    assert {len(row) for row in first["posteriors"]} == {4}
    assert [sum(row) for row in first["posteriors"]] == CLOSE([1.0] * 5, abs=1e-3)
    plain = ask("/v1/transduce", {"inputs": ["abc"], "alignments": False}).json()["results"][0]["outputs"][0]
    assert (plain["alignment"], plain["path_log_prob"], plain["delays"], plain["posteriors"]) == (None,) * 4


@pytest.mark.parametrize(
    "settings",
    [
        {"length_normalisation": 1.0, "nbest": 3},
        {"length_normalisation": 2, "nbest": 3},
        {"max_length": 2},
        {"end": "last"},
        {"end": "any"},
        {"copy_unknown": False},
        {"copy_unknown": True},
        {"beam": 1},
        {"beam": 32, "nbest": 32},
        {"nbest": 6},
    ],
)
def test_settings_of_a_search_are_passed_on(settings):
    answer = ask("/v1/transduce", {"inputs": ["abZ", "cde"], **settings})
    found = transducers()["copy"].transduce(["abZ", "cde"], **settings)
    assert answer.json()["results"] == [expected(one, posteriors=False) for one in found]


def test_a_beam_narrower_than_the_outputs_wanted_is_refused():
    answer = ask("/v1/transduce", {"inputs": ["abc"], "beam": 2, "nbest": 3})
    assert answer.status_code == 422
    assert "nbest" in answer.json()["detail"]


@pytest.mark.parametrize("name", ["copy", "tagged", "whole", "per tag"])
def test_alignments_are_those_of_the_library(name):
    tags = tags_for(name)
    pairs = [("abc", "gabc"), ("a", "a"), ("e\u0301", "é"), ("ab", ""), ("fade", "gxfade"), ("aZ", "Z")]
    examples = [Example(source, target, tuple(tags)) for source, target in pairs]
    body = {"pairs": [{"input": source, "output": target, "tags": tags} for source, target in pairs]}
    for more in ({}, {"link_threshold": 0.9, "posteriors": False}):
        answer = ask("/v1/align", body | more, name)
        threshold = {"link_threshold": 0.9} if more else {}
        found = transducers()[name].align_each(examples, **threshold)
        assert answer.status_code == 200, answer.text
        for one, result in zip(answer.json()["results"], found, strict=True):
            assert one == {
                "source_symbols": list(result.source_symbols),
                "target_symbols": list(result.target_symbols),
                "log_prob": near(result.log_prob),
                "probability": CLOSE(math.exp(result.log_prob), abs=1e-5),
                "alignment": list(result.path.positions),
                "path_log_prob": near(result.path.log_prob),
                "segments": [
                    {"source": [each.src_start, each.src_end], "target": [each.tgt_start, each.tgt_end]}
                    for each in result.segments
                ],
                "posteriors": None if more else matrix(result.emit),
                "unknown": result.unknown,
                "unknown_tags": result.unknown_tags,
            }


def test_an_encoder_decoder_aligns_nothing():
    answer = ask("/v1/align", {"pairs": [{"input": "a", "output": "b"}]}, "attention")
    assert answer.status_code == 422
    assert "align" in answer.json()["detail"]


@pytest.mark.parametrize("name", NAMES)
def test_scores_are_those_of_the_library(name):
    tags = tags_for(name)
    pairs = [("abc", "gabc"), ("abc", "zzz"), ("a", ""), ("e\u0301", "ge\u0301")]
    body = {"pairs": [{"input": source, "output": target, "tags": tags} for source, target in pairs]}
    answer = ask("/v1/score", body, name)
    found = transducers()[name].score_each([Example(source, target, tuple(tags)) for source, target in pairs])
    assert answer.json()["results"] == [
        {
            "log_prob": near(one.log_prob),
            "probability": CLOSE(math.exp(one.log_prob), abs=1e-5),
            "tokens": one.tokens,
            "unknown": one.unknown,
            "unknown_source": one.unknown_source,
            "unknown_tags": one.unknown_tags,
        }
        for one in found
    ]


def test_an_impossible_output_has_probability_zero(monkeypatch):
    from ssnt.pipeline import PairScore

    impossible = PairScore(log_prob=-math.inf, tokens=2, unknown=0, unknown_source=0, unknown_tags=0)
    monkeypatch.setattr(type(transducers()["copy"]), "score_each", lambda _, examples: [impossible] * len(examples))
    (found,) = ask("/v1/score", {"pairs": [{"input": "abc", "output": "a"}]}).json()["results"]
    assert found["log_prob"] is None
    assert found["probability"] == 0.0


def test_tags_unknown_tags_and_tag_sets():
    inputs = [{"text": "abc", "tags": tags} for tags in (["X"], [], ["X", "ODD"])]
    results = ask("/v1/transduce", {"inputs": inputs}, "tagged").json()["results"]
    assert [one["outputs"][0]["text"] for one in results] == ["gxabc", "gabc", "gxabc"]
    assert [one["unknown_tags"] for one in results] == [0, 0, 1]
    inputs = [{"text": "ab", "tags": tags} for tags in (["V", "PST"], ["PL"], [], PRS)]
    results = ask("/v1/transduce", {"inputs": inputs}, "per tag").json()["results"]
    assert results[0]["outputs"][0]["text"] == "gab"
    assert "there is no model for the tags PL" in results[1]["error"]
    assert "there is no model for the tags (none)" in results[2]["error"]
    assert results[3]["outputs"][0]["text"] == transducers()["per tag"].models[PRS].transduce(["ab"])[0].text


def test_tags_that_a_model_wants_have_to_be_given():
    inputs = ["abc", {"text": "abc"}, {"text": "abc", "tags": ["X"]}]
    results = ask("/v1/transduce", {"inputs": inputs}, "tagged").json()["results"]
    assert ["error" in one for one in results] == [True, True, False]
    assert "give those of every input" in results[0]["error"]
    for path in ("/v1/align", "/v1/score"):
        answer = ask(path, {"pairs": [{"input": "abc", "output": "gabc"}]}, "tagged")
        assert answer.status_code == 422
        assert "pairs[0]: the model was trained with tags" in answer.json()["detail"]


def test_tags_for_a_model_without_are_one_inputs_mistake():
    results = ask("/v1/transduce", {"inputs": ["abc", {"text": "abc", "tags": ["X"]}]}).json()["results"]
    expected_one = transducers()["copy"].transduce_each([Example("abc", None, ("X",))])[0]
    assert ("error" in results[1]) == isinstance(expected_one, Failure)
    assert results[0]["outputs"][0]["text"] == "gabc"


def test_inputs_that_cannot_be_used_have_an_error_in_their_place():
    body = {"inputs": [{"text": "ab", "tags": ["PST", "V"]}, {"text": "ab", "tags": ["NO"]}]}
    answer = ask("/v1/transduce", body, "per tag")
    assert answer.status_code == 200
    assert list(answer.json()["results"][1]) == ["error"]
    body = {"inputs": [{"text": "ab", "tags": ["NO"]}, {"text": "cd", "tags": ["NEITHER"]}]}
    answer = ask("/v1/transduce", body, "per tag")
    assert answer.status_code == 422
    assert answer.headers["content-type"] == PROBLEM
    assert [one["where"] for one in answer.json()["errors"]] == ["inputs[0]", "inputs[1]"]
    pairs = {"pairs": [{"input": "ab", "output": "c", "tags": ["NO"]}]}
    for path in ("/v1/align", "/v1/score"):
        answer = ask(path, pairs, "per tag")
        assert answer.status_code == 422
        assert answer.json()["errors"][0]["where"] == "pairs[0]"


def test_composed_and_decomposed_text_are_the_same():
    one, other = (
        ask("/v1/transduce", {"inputs": [unicodedata.normalize(form, "dédé")]}).json() for form in ("NFC", "NFD")
    )
    assert one["results"][0]["source_symbols"] == ["d", "é", "d", "é"]
    assert one == other


def test_an_ensemble_is_called_one_and_says_of_what():
    both = EnsembleTransducer([transducers()["whole"], transducers()["attention"]])
    per_tag = PerTagTransducer({("V",): both}, transducers()["per tag"].config, {"scores": {}})

    async def run() -> None:
        models = [ServedModel("both", both), ServedModel("by tag", per_tag), *served("per tag")]
        async with client_of(make_app(models)) as client:
            about = (await client.get("/v1/models")).json()["models"]
        found = [(one["kind"], one["members"]) for one in about]
        members = ["biSSNT+", "attention (bahdanau)"]
        assert found == [("ensemble", members), ("ensemble", members), ("uniSSNT+", [])]

    asyncio.run(run())


def test_several_models():
    async def run() -> None:
        async with service(*NAMES) as client:
            about = (await client.get("/v1/models")).json()
            assert [one["name"] for one in about["models"]] == list(NAMES)
            by_name = {one["name"]: one for one in about["models"]}
            assert by_name["copy"] == {
                "name": "copy",
                "kind": "uniSSNT+",
                "members": [],
                "is_online": True,
                "has_alignment": True,
                "has_tags": False,
                "tags": [],
                "tag_sets": [],
                "source_unit": "characters",
                "target_unit": "characters",
                "searches": ["marginal", "path", "online"],
                "search": {"search": "marginal", "beam": 4, "nbest": 1},
                "example": None,
            }
            assert by_name["whole"]["searches"] == ["marginal", "path"]
            assert by_name["attention"]["searches"] == ["marginal"]
            assert by_name["tagged"]["tags"] == ["X"]
            assert by_name["per tag"]["tag_sets"] == [list(PRS), list(PST)]
            assert by_name["per tag"]["tags"] == ["3", "PRS", "PST", "V"]
            limits = Limits()
            assert all(about["limits"][name] == getattr(limits, name) for name in about["limits"])
            assert {"max_inputs", "max_text_length", "max_beam", "max_nbest", "max_stream_length"} <= {*about["limits"]}
            for name in NAMES:
                body = {"model": name, "inputs": [{"text": "ab", "tags": tags_for(name)}]}
                answer = (await client.post("/v1/transduce", json=body)).json()
                assert answer["model"] == name
                text = transducers()[name].transduce(["ab"], [tags_for(name)] if tags_for(name) else None)[0].text
                assert answer["results"][0]["outputs"][0]["text"] == text
            nameless = await client.post("/v1/transduce", json={"inputs": ["ab"]})
            assert nameless.status_code == 422
            assert "copy" in nameless.json()["detail"]
            for wrong in ("copi", "../copy", "a\x1b[31m", ""):
                answer = await client.post("/v1/transduce", json={"model": wrong, "inputs": ["ab"]})
                assert answer.status_code == 404
                assert answer.headers["content-type"] == PROBLEM
                assert "\x1b" not in answer.text
            assert (
                "did you mean 'copy'"
                in (
                    await client.post("/v1/score", json={"model": "copi", "pairs": [{"input": "a", "output": "a"}]})
                ).json()["detail"]
            )

    asyncio.run(run())


def test_a_worked_example_is_told():
    example = WorkedExample("abc", ("X",), "gxabc")
    app = make_app([ServedModel("m", transducers()["tagged"], example)])

    async def run() -> Any:
        async with client_of(app) as client:
            return (await client.get("/v1/models")).json()["models"][0]["example"]

    assert asyncio.run(run()) == {"text": "abc", "tags": ["X"], "output": "gxabc"}
