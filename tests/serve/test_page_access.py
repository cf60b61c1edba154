"""The page in a browser: for every eye, screen, direction of writing, and without a mouse."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ET
from typing import Any

import pytest

from browsing import MARKS, Visit, Visitor, playwright
from ssnt.pipeline import Transducer

pytestmark = MARKS


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


def test_axe_finds_nothing_serious(visit: Visitor) -> None:
    with visit() as one:
        one.page.uncheck("#pauses")
        one.page.click("#add")
        one.page.fill("#text", "abcabc")
        playwright.expect(one.panel(1)).to_have_attribute("data-state", "ended")
        one.open_all()
        assert one.serious() == []
