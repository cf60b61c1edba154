"""The page in a real browser, on the running service."""

from __future__ import annotations

import json
import os
import re
import shutil
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
import xml.etree.ElementTree as ET
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from ssnt.pipeline import Transducer
from transducers import copying_transducer, make_config, make_transducer, make_vocabulary

from conftest import IN_CI, require

require("fastapi", "the service")
playwright = require("playwright.sync_api", "the page in a browser")
axe = require("axe_playwright_python.sync_playwright", "the page's accessibility")

CHROMIUM = os.environ.get("CHROMIUM") or shutil.which("chromium") or shutil.which("chromium-browser")
if CHROMIUM is None:
    message = "no Chromium is installed: the page in a browser (apt install chromium, or set CHROMIUM)"
    if IN_CI:
        pytest.fail(message, pytrace=False)
    pytest.skip(message, allow_module_level=True)

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("browser")]

TOKEN = "open sesame"
TAGS = ("CASE", *(f"T{number}" for number in range(20)))
HEBREW_SOURCE = "אבגדהוזחטיכל"
HEBREW_TARGET = "אבגדהומנסעפצק"
TIMEOUT = 15_000
playwright.expect.set_options(timeout=TIMEOUT)


def hebrew_transducer() -> Transducer:
    """The transducer that copies, in another alphabet."""
    learnt = copying_transducer()
    return Transducer(learnt.model, make_vocabulary(HEBREW_SOURCE, HEBREW_TARGET), learnt.config, learnt.metrics)


def whole_transducer() -> Transducer:
    """A transducer with tags that reads the whole input first; its outputs are random, but always the same."""
    return make_transducer(5, make_vocabulary(tags=TAGS), make_config({"max_length": 8}, bidirectional=True))


@dataclass
class Service:
    """`ssnt serve` as a process."""

    arguments: list[str]
    log: Path
    port: int = 0
    process: subprocess.Popen[bytes] | None = None

    def __post_init__(self) -> None:
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self.port = probe.getsockname()[1]

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/"

    def start(self, *more: str) -> None:
        command = [sys.executable, "-m", "ssnt", "serve", *self.arguments, "--port", str(self.port), *more]
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(command, stdout=log, stderr=log, env={**os.environ, "OMP_NUM_THREADS": "1"})
        deadline = time.monotonic() + 60
        while time.monotonic() < deadline and self.process.poll() is None:
            try:
                with urllib.request.urlopen(f"{self.url}readyz", timeout=5):
                    return
            except (urllib.error.URLError, ConnectionError, TimeoutError):
                time.sleep(0.1)
        pytest.fail(f"the service does not start:\n{self.log.read_text(encoding='utf-8')[-2000:]}")

    def stop(self) -> None:
        if self.process is not None:
            self.process.terminate()
            try:
                self.process.wait(20)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()


@pytest.fixture(scope="module")
def transducers() -> dict[str, Transducer]:
    return {"copy": copying_transducer(), "whole": whole_transducer(), "hebrew": hebrew_transducer()}


@pytest.fixture(scope="module")
def service(transducers: dict[str, Transducer], tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    place = tmp_path_factory.mktemp("served")
    for name, transducer in transducers.items():
        transducer.save_pretrained(place / name)
    served = Service([f"{name}={place / name}" for name in transducers], place / "log")
    served.start()
    yield served
    served.stop()


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with playwright.sync_playwright() as driver:
        chromium = driver.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield chromium
        chromium.close()


@dataclass
class Visit:
    """A page that is open, with what went wrong on it."""

    page: Any
    errors: list[str] = field(default_factory=list)
    requests: list[str] = field(default_factory=list)

    def type(self, text: str) -> None:
        """Replaces the input, and waits until all panels have an answer to it."""
        self.page.fill("#text", text)
        self.page.press("#text", "Enter")
        self.settle()

    def settle(self) -> None:
        panels = self.page.locator(".panel")
        for index in range(panels.count()):
            playwright.expect(panels.nth(index)).to_have_attribute("data-state", "ended")

    def choose(self, name: str, panel: int = 0) -> Any:
        """Lets a panel use a model; gives the panel."""
        self.panel(panel).locator(".model-select").select_option(name)
        return self.panel(panel)

    def panel(self, index: int = 0) -> Any:
        return self.page.locator(".panel").nth(index)

    def set_slider(self, panel: Any, name: str, value: int) -> None:
        slider = panel.get_by_label(name, exact=True)
        slider.fill(str(value))

    def output(self, panel: int = 0) -> str:
        return str(self.panel(panel).locator(".output-box").get_attribute("data-committed"))

    def path(self, panel: int = 0) -> list[int]:
        numbers = self.panel(panel).locator(".grid").get_attribute("data-path")
        return [int(number) for number in numbers.split(",")] if numbers else []

    def cells(self, panel: int = 0) -> dict[tuple[int, int], float]:
        """The probabilities that the grid shows, by target and source position."""
        rows = self.panel(panel).locator(".cell").evaluate_all("cells => cells.map((cell) => ({...cell.dataset}))")
        return {(int(row["j"]), int(row["i"])): float(row["p"]) for row in rows}

    def open_all(self) -> None:
        """Unfolds everything that is folded."""
        self.page.evaluate("for (const one of document.querySelectorAll('details')) one.open = true")

    def no_sideways(self) -> bool:
        return bool(self.page.evaluate("document.documentElement.scrollWidth <= document.documentElement.clientWidth"))

    def serious(self) -> list[str]:
        """What axe finds serious or critical."""
        found = axe.Axe().run(self.page).response["violations"]
        return [
            f"{one['id']}: {one['help']}: {[node['html'][:200] for node in one['nodes'][:3]]}"
            for one in found
            if one["impact"] in {"serious", "critical"}
        ]


Visitor = Callable[..., Any]


@pytest.fixture
def visit(browser: Any, service: Service) -> Iterator[Visitor]:
    """Opens the page, and sees to it that nothing went wrong there and nothing came from elsewhere."""
    visits: list[Visit] = []

    @contextmanager
    def opened(**settings: Any) -> Iterator[Visit]:
        defaults = {"viewport": {"width": 1280, "height": 900}, "reduced_motion": "reduce"}
        context = browser.new_context(**{**defaults, **settings})
        context.set_default_timeout(TIMEOUT)
        page = context.new_page()
        one = Visit(page)
        page.on("pageerror", lambda error: one.errors.append(str(error)))
        page.on("console", lambda line: one.errors.append(line.text) if line.type == "error" else None)
        page.on("request", lambda request: one.requests.append(request.url))
        page.goto(service.url)
        page.locator(".panel").wait_for()
        visits.append(one)
        try:
            yield one
        finally:
            context.close()

    yield opened
    for one in visits:
        assert one.errors == []
        assert [url for url in one.requests if not url.startswith((service.url, "data:", "blob:"))] == []


def assert_shows(visit: Visit, emit: Any, path: list[int], panel: int = 0) -> None:
    """The grid has all cells of the library's alignment, with its probabilities, and its path."""
    shown = visit.cells(panel)
    target, source = emit.shape
    assert set(shown) == {(j, i) for j in range(target) for i in range(source)}
    for (j, i), p in shown.items():
        assert p == pytest.approx(float(emit[j, i]), abs=1e-4), (j, i)
    assert visit.path(panel) == path


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


def test_the_downloaded_picture_is_well_formed_and_shows_the_same(visit: Visitor) -> None:
    with visit() as one:
        one.type("ab<d")
        with one.page.expect_download() as download:
            one.page.get_by_role("button", name="Download SVG").click()
        assert download.value.suggested_filename == "alignment-copy-ab-d.svg"
        root = ET.parse(download.value.path()).getroot()
        names = {element.tag.removeprefix("{http://www.w3.org/2000/svg}") for element in root.iter()}
        assert names == {"svg", "title", "rect", "text", "polyline", "circle"}
        drawn = {
            (int(cell.attrib["data-j"]), int(cell.attrib["data-i"])): float(cell.attrib["data-p"])
            for cell in root.iter()
            if "data-p" in cell.attrib
        }
        assert drawn == one.cells()
        labels = [element.text for element in root.iter() if element.tag.endswith("text")]
        assert labels[-5:] == ["a", "b", "<", "d", "</s>"]


def test_a_phone_needs_no_sideways_scrolling(visit: Visitor) -> None:
    with visit(viewport={"width": 320, "height": 700}, has_touch=True, is_mobile=True) as one:
        one.type("abcdefabcdefabcdefabcdef")
        one.page.locator("#add").tap()
        one.choose("whole", 1)
        one.settle()
        one.open_all()
        assert one.no_sideways()
        one.page.set_viewport_size({"width": 390, "height": 700})
        assert one.no_sideways()
        one.page.set_viewport_size({"width": 320, "height": 700})
        one.type("ab")
        one.panel().locator(".cell").first.tap()
        tip = one.panel().locator(".tip")
        playwright.expect(tip).to_contain_text("P = ")
        box = tip.bounding_box()
        assert box["x"] >= 0
        assert box["x"] + box["width"] <= 320
        assert one.no_sideways()
        assert one.serious() == []


def test_everything_is_reached_by_keyboard(visit: Visitor) -> None:
    def focused(one: Visit, script: str) -> Any:
        return one.page.evaluate(f"(() => {{ const e = document.activeElement; return {script}; }})()")

    def tab_to(one: Visit, script: str) -> None:
        for _ in range(60):
            one.page.keyboard.press("Tab")
            if focused(one, script):
                return
        pytest.fail(f"the Tab key does not reach {script}")

    with visit() as one:
        tab_to(one, "e.id === 'text'")
        one.page.keyboard.press("Control+A")
        one.page.keyboard.type("abc")
        one.page.keyboard.press("Enter")
        one.settle()
        outline = "getComputedStyle(e).outlineStyle !== 'none'"
        tab_to(one, "e.classList.contains('play')")
        assert focused(one, outline)
        tab_to(one, "e.matches('input[type=range]') && e.closest('.controls')")
        one.page.keyboard.press("ArrowRight")
        one.settle()
        tab_to(one, "e.classList.contains('cell')")
        one.page.keyboard.press("ArrowRight")
        one.page.keyboard.press("ArrowDown")
        assert focused(one, "[e.dataset.i, e.dataset.j]") == ["1", "1"]
        label = focused(one, "e.getAttribute('aria-label')")
        assert label.startswith("a at b: ")
        assert one.panel().locator(".tip").is_visible()
        assert one.panel().locator(".cursor").get_attribute("visibility") == "visible"
        assert label.removeprefix("a at b: ") == one.panel().locator(".tip strong").inner_text().removeprefix("P = ")
        one.page.keyboard.press("Escape")
        assert not one.panel().locator(".tip").is_visible()
        tab_to(one, "e.type === 'radio'")
        one.page.keyboard.press("ArrowDown")
        playwright.expect(one.panel().locator(".grid-note")).to_contain_text("The alignment of")
        assert one.panel().locator(".nbest input:checked").input_value() == "1"
        tab_to(one, "e.tagName === 'SUMMARY' && e.closest('.table')")
        one.page.keyboard.press("Enter")
        playwright.expect(one.panel().locator("table")).to_be_visible()
        tab_to(one, "e.id === 'add'")
        one.page.keyboard.press("Enter")
        assert one.page.locator(".panel").count() == 2


def test_committed_output_is_announced_and_not_letter_by_letter(visit: Visitor) -> None:
    with visit() as one:
        one.page.evaluate(
            """() => {
                window.said = [];
                const region = document.getElementById("announcements");
                const note = () => said.push(region.textContent);
                new MutationObserver(note).observe(region, {childList: true, characterData: true, subtree: true});
            }"""
        )
        one.set_slider(one.panel(), "Delay bound", 0)  # something is committed at each letter
        one.page.focus("#text")
        one.page.keyboard.type("abcdefab", delay=40)
        one.page.keyboard.press("Enter")
        one.settle()
        playwright.expect(one.page.locator("#announcements")).to_contain_text("gabcdefab, probability")
        assert len(one.page.evaluate("said")) <= 3
        assert one.page.locator("#announcements").get_attribute("aria-live") == "polite"


def test_the_alignment_is_there_as_a_table(visit: Visitor, transducers: dict[str, Transducer]) -> None:
    with visit() as one:
        one.type("ace")
        one.page.get_by_text("Alignment as a table").click()
        rows = one.panel().locator("tbody tr")
        path = one.path()
        texts = [row.split("\t") for row in rows.evaluate_all("all => all.map((row) => row.innerText)")]
        names = ["a", "c", "e", "end"]
        assert [row[0].strip() for row in texts] == ["g", "a", "c", "e", "end"]
        assert [row[1].strip() for row in texts] == [f"{names[i]} ({i + 1})" for i in path]


def test_dark_mode_is_dark_and_has_contrast(visit: Visitor) -> None:
    with visit(color_scheme="dark") as one:
        one.type("abc")
        colour = one.page.evaluate("getComputedStyle(document.body).backgroundColor")
        assert max(int(part) for part in re.findall(r"\d+", colour)) < 64
        assert one.serious() == []


def test_right_to_left_text_runs_from_right_to_left(visit: Visitor) -> None:
    with visit() as one:
        one.choose("hebrew")
        one.type("אבג")
        assert one.page.locator("#text").evaluate("e => e.matches(':dir(rtl)')")
        assert one.panel().locator(".output").evaluate("e => e.matches(':dir(rtl)')")
        assert one.output() == "מאבג"
        places = "(all) => all.map((e) => Number(e.getAttribute('x')))"
        targets = one.panel().locator(".column-label").evaluate_all(places)
        assert targets == sorted(targets, reverse=True)
        one.page.get_by_role("button", name="Swap axes").click()
        sources = one.panel().locator(".column-label").evaluate_all(places)
        assert len(sources) == 4
        assert sources == sorted(sources, reverse=True)
        rows = one.panel().locator(".row-label").evaluate_all(places)
        assert min(rows) > max(sources)
        assert one.serious() == []
        # the arrow keys go where they point
        one.panel().locator(".cell[data-i='1'][data-j='0']").focus()
        one.page.keyboard.press("ArrowLeft")
        assert one.page.evaluate("document.activeElement.dataset.i") == "2"


def test_nothing_typed_is_taken_for_markup(visit: Visitor) -> None:
    with visit() as one:
        one.page.evaluate("window.onerror = null; window.hurt = false")
        text = "<img src=x onerror=hurt=true>"
        one.type(text)
        assert one.page.locator("main img").count() == 0
        assert one.page.evaluate("hurt") is False
        assert one.page.input_value("#text") == text


def test_refusals_are_shown_in_words(visit: Visitor) -> None:
    with visit() as one:
        panel = one.choose("whole")
        one.page.fill("#text", "a" * 600)
        playwright.expect(panel.locator(".problem")).to_contain_text("500")
        assert panel.get_attribute("data-state") == "problem"
        assert panel.locator(".problem").inner_text().count("inputs[0]") == 1
        assert one.serious() == []
        one.page.get_by_role("button", name="Clear").click()
        playwright.expect(panel.locator(".problem")).to_be_hidden()
        one.type("ab")
        assert panel.locator(".grid-box").is_visible()
        with one.page.expect_request("**/v1/transduce") as asked:
            one.type("ab" * 75)  # more cells than anyone would want to see, or a browser to draw
        assert asked.value.post_data_json["posteriors"] is False
        assert panel.locator(".grid-box").is_hidden()
        playwright.expect(panel.locator(".grid-note")).to_contain_text("too long for a grid")
        # a refused request is a line in the console, and no other is there
        assert all("422" in error for error in one.errors)
        one.errors.clear()


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


def test_axe_finds_nothing_serious(visit: Visitor) -> None:
    with visit() as one:
        one.page.uncheck("#pauses")
        one.page.click("#add")
        one.page.fill("#text", "abcabc")
        playwright.expect(one.panel(1)).to_have_attribute("data-state", "ended")
        one.open_all()
        assert one.serious() == []


def test_the_page_finds_a_service_that_went_away_and_gives_it_the_token(visit: Visitor, service: Service) -> None:
    with visit() as one:
        one.type("abc")
        service.stop()
        state = one.page.locator("#connection")
        playwright.expect(state).to_have_attribute("data-state", "lost")
        playwright.expect(state).to_contain_text(re.compile("No connection|Connecting"))
        one.page.fill("#text", "fed")  # kept until there is someone to ask
        service.start("--token", TOKEN)
        one.page.evaluate("document.getElementById('retry').click()")  # it would try again by itself, but later
        dialog = one.page.locator("#token-dialog")
        playwright.expect(dialog).to_be_visible()
        assert one.serious() == []
        one.page.get_by_label("Token", exact=True).fill("\u05d0")  # no header could hold it
        one.page.keyboard.press("Enter")
        assert one.page.locator("#token:invalid").count() == 1
        one.page.get_by_label("Token", exact=True).fill("wrong")
        one.page.keyboard.press("Enter")
        playwright.expect(one.page.locator("#token-refused")).to_be_visible()
        one.page.get_by_label("Token", exact=True).fill(TOKEN)
        one.page.keyboard.press("Enter")
        playwright.expect(state).to_have_attribute("data-state", "connected")
        one.page.press("#text", "Enter")
        one.settle()
        assert one.output() == "gfed"
        assert one.page.evaluate("[localStorage.length, sessionStorage.length, document.cookie]") == [0, 0, ""]
        assert all(re.search("ERR_CONNECTION|401|503|WebSocket|ERR_SOCKET", error) for error in one.errors)
        one.errors.clear()
