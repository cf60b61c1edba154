"""The page in a browser: what is typed is read, and what is shown is what the library says."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest

from browsing import MARKS, TAGS, Visitor, assert_shows, playwright
from ssnt.pipeline import Transducer

pytestmark = MARKS


def test_typed_letters_are_streamed_and_the_grid_is_the_librarys(
    visit: Visitor, transducers: dict[str, Transducer]
) -> None:
    text, copy = "abcadfe", transducers["copy"]
    stream, committed = copy.stream(max_delay=2), ""
    with visit() as one:
        one.page.uncheck("#pauses")
        box = one.panel().locator(".output-box")
        one.page.focus("#text")
        for letter in text:
            one.page.keyboard.type(letter)
            update = stream.push(letter)
            committed += update.committed
            playwright.expect(one.panel().locator(".facts")).to_have_text(
                re.compile(rf"^{update.read} symbols? read" if update.read else "^$")
            )
            playwright.expect(box).to_have_attribute("data-committed", committed)
            playwright.expect(box).to_have_attribute("data-tentative", update.tentative)
        assert one.panel().get_attribute("data-state") == "reading"
        one.page.keyboard.press("Enter")
        one.settle()
        committed += stream.finish().committed
        assert one.output() == committed == f"g{text}"
        assert one.panel().locator(".output .committed").inner_text() == committed
        (pair,) = ending_last(copy).align([(text, committed)])  # as streams do
        assert_shows(one, pair.emit, list(pair.path.positions))


def ending_last(one: Transducer) -> Transducer:
    """The same model, whose paths end at the last source position."""
    training = one.config.training.model_copy(update={"end": "last"})
    return Transducer(one.model, one.vocabulary, one.config.model_copy(update={"training": training}), one.metrics)


def test_only_new_characters_are_pushed_and_other_edits_open_anew(visit: Visitor) -> None:
    with visit() as one:
        one.page.uncheck("#pauses")
        sent: list[dict[str, Any]] = []
        one.page.on("websocket", lambda opened: opened.on("framesent", lambda data: sent.append(json.loads(data))))
        one.page.fill("#text", "")
        # the socket that is open already cannot be listened to any more: another model opens another
        one.choose("hebrew")
        one.choose("copy")
        one.page.focus("#text")
        for letter in "abc":
            one.page.keyboard.type(letter)
        playwright.expect(one.panel().locator(".facts")).to_contain_text("2 symbols read")
        kinds = [(message["type"], message.get("text")) for message in sent]
        assert kinds == [("open", None), ("push", "a"), ("push", "b"), ("push", "c")]
        one.page.keyboard.press("Backspace")
        one.page.keyboard.press("Backspace")
        one.page.keyboard.press("Enter")
        one.settle()
        assert one.output() == "ga"
        assert [message["type"] for message in sent].count("open") >= 2


def test_a_pause_ends_the_input(visit: Visitor) -> None:
    with visit() as one:
        one.page.focus("#text")
        one.page.keyboard.type("bad")
        one.settle()
        assert one.output() == "gbad"


def test_a_model_that_reads_everything_first_shows_its_alignment(
    visit: Visitor, transducers: dict[str, Transducer]
) -> None:
    (best,) = transducers["whole"].transduce(["abcd"], [["CASE"]], nbest=4, beam=4)
    (pair,) = transducers["whole"].align([("abcd", best.text)], [["CASE"]])
    with visit() as one:
        panel = one.choose("whole")
        panel.get_by_role("button", name="CASE", exact=True).click()
        one.type("abcd")
        assert one.output() == best.text
        assert_shows(one, pair.emit, list(best.alignment.positions))
        lines = panel.locator(".nbest li").evaluate_all("all => all.map((line) => ({...line.dataset}))")
        expected = [best, *best.alternatives]
        assert [line["text"] for line in lines] == [other.text for other in expected]
        for line, other in zip(lines, expected, strict=True):
            assert float(line["probability"]) == pytest.approx(other.probability, rel=1e-3)


def test_another_output_of_the_list_shows_its_own_alignment(visit: Visitor, transducers: dict[str, Transducer]) -> None:
    with visit() as one:
        one.type("abca")
        lines = one.panel().locator(".nbest li")
        second = lines.nth(1).get_attribute("data-text")
        lines.nth(1).click()
        (pair,) = transducers["copy"].align([("abca", second)])
        playwright.expect(one.panel().locator(".grid")).to_have_attribute(
            "data-path", ",".join(map(str, pair.path.positions))
        )
        assert_shows(one, pair.emit, list(pair.path.positions))


def test_models_and_settings_are_compared_side_by_side(visit: Visitor, transducers: dict[str, Transducer]) -> None:
    with visit() as one:
        one.type("fade")
        one.page.click("#add")
        one.choose("copy", 1)
        one.set_slider(one.panel(1), "Beam", 1)
        one.set_slider(one.panel(1), "Delay bound", 0)
        one.settle()
        boxes = [one.panel(index).bounding_box() for index in (0, 1)]
        assert boxes[0]["y"] == boxes[1]["y"]
        assert boxes[0]["x"] + boxes[0]["width"] <= boxes[1]["x"]
        stream = transducers["copy"].stream(beam=1, max_delay=0)
        early = stream.push("fade").delays + stream.finish().delays
        mean = f"mean delay {sum(early) / len(early):.1f}"
        playwright.expect(one.panel(1).locator(".facts")).to_contain_text(mean)
        one.choose("whole", 1)
        one.type("cab")
        (best,) = transducers["whole"].transduce(["cab"], [[]])
        assert (one.output(0), one.output(1)) == ("gcab", best.text)
        one.panel(1).get_by_role("button", name="Remove this model").click()
        assert one.page.locator(".panel").count() == 1


def test_tags_are_found_chosen_and_taken_back(visit: Visitor) -> None:
    with visit() as one:
        panel = one.choose("whole")
        assert panel.locator(".chip").count() == len(TAGS)
        panel.get_by_label("Find a tag").fill("t1")
        assert panel.locator(".chip").all_inner_texts() == [tag for tag in sorted(TAGS) if "T1" in tag]
        panel.get_by_label("Find a tag").press("Enter")
        chosen = panel.locator(".chip[aria-pressed=true]")
        assert chosen.all_inner_texts() == ["T1"]
        with one.page.expect_request("**/v1/transduce") as asked:
            one.page.fill("#text", "ab")
        assert asked.value.post_data_json["inputs"] == [{"text": "ab", "tags": ["T1"]}]
        with one.page.expect_request("**/v1/transduce") as asked:
            chosen.first.click()
        assert asked.value.post_data_json["inputs"] == [{"text": "ab", "tags": []}]


def test_replay_steps_through_the_reading(visit: Visitor, transducers: dict[str, Transducer]) -> None:
    text = "abcdab"
    with visit() as one:
        one.type(text)
        replay = one.page.locator(".replay")
        steps = int(replay.get_attribute("data-steps"))
        stream, committed = transducers["copy"].stream(max_delay=2), ""
        states = {0: ("", "")}
        for letter in text:
            update = stream.push(letter)
            committed += update.committed
            states[update.read] = (committed, update.tentative)
        assert steps == len(states)  # and the end
        back = one.page.get_by_role("button", name="One step back")
        box = one.panel().locator(".output-box")
        for step in reversed(range(steps)):
            back.click()
            playwright.expect(replay).to_have_attribute("data-step", str(step))
            assert (box.get_attribute("data-committed"), box.get_attribute("data-tentative")) == states[step]
        assert back.is_disabled()
        one.page.get_by_role("button", name="Replay", exact=True).click()
        playwright.expect(one.page.get_by_role("button", name="Pause")).to_be_visible()
        playwright.expect(replay).to_have_attribute("data-step", str(steps))
        assert one.output() == f"g{text}"


def test_examples_tag_sets_and_models_without_alignment_have_their_places(visit: Visitor) -> None:
    """The answers of the service are changed on their way, to have models that would take long to train."""

    def changed(route: Any) -> None:
        answer = route.fetch().json()
        copy, whole, _ = answer["models"]
        copy["example"] = {"text": "decaf", "tags": [], "output": "gdecaf"}
        whole.update(tag_sets=[["CASE"], ["T1", "T2"]], has_alignment=False, searches=["marginal"])
        route.fulfill(json=answer)

    def unaligned(route: Any) -> None:
        answer = route.fetch().json()
        for output in answer["results"][0]["outputs"]:
            output.update(alignment=None, posteriors=None, path_log_prob=None, delays=None)
        route.fulfill(json=answer)

    with visit() as one:
        one.page.route("**/v1/models", changed)
        one.page.route("**/v1/transduce", unaligned)
        one.page.reload()
        one.page.locator(".panel").wait_for()
        one.settle()
        assert (one.page.input_value("#text"), one.output()) == ("decaf", "gdecaf")
        panel = one.choose("whole")
        one.settle()
        assert panel.locator(".grid-box").is_hidden()
        playwright.expect(panel.locator(".grid-note")).to_contain_text("no alignment")
        with one.page.expect_request("**/v1/transduce") as asked:
            panel.get_by_label("Tags").select_option("T1 · T2")
        assert asked.value.post_data_json["inputs"] == [{"text": "decaf", "tags": ["T1", "T2"]}]
        one.settle()
        assert one.serious() == []
