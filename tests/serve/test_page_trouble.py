"""The page in a browser: what it does with what it cannot use, and without its service."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest

from browsing import MARKS, Service, Visitor, playwright

pytestmark = MARKS

TOKEN = "open sesame"


@pytest.fixture
def mortal(service: Service) -> Iterator[Service]:
    """The service, to be stopped and started; afterwards it is as it was."""
    yield service
    service.stop()
    service.start()


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


def test_the_page_finds_a_service_that_went_away_and_gives_it_the_token(visit: Visitor, mortal: Service) -> None:
    with visit() as one:
        one.type("abc")
        mortal.stop()
        state = one.page.locator("#connection")
        playwright.expect(state).to_have_attribute("data-state", "lost")
        playwright.expect(state).to_contain_text(re.compile("No connection|Connecting"))
        one.page.fill("#text", "fed")  # kept until there is someone to ask
        mortal.start("--token", TOKEN)
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
