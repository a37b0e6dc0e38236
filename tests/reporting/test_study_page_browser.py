"""The page of a folder of results in a browser without a window: it reacts, asks nothing of a network, and fits."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from farfield.reporting.gather import gather
from farfield.reporting.page import write_page
from helpers.study_pages import ENCODINGS, EVIL, fill, study

playwright = pytest.importorskip("playwright.sync_api", reason="needs playwright: make test-browser")


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> str:
    folder = fill(tmp_path_factory.mktemp("browser"), study(seeds=1))
    write_page(gather(folder), folder / "report.html", f"farfield report {EVIL}", "runs/report")
    return (folder / "report.html").as_uri()


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with playwright.sync_playwright() as driver:
        installed = filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome")))
        path = next(installed, driver.chromium.executable_path)
        if not Path(path).exists():
            pytest.skip("needs Chromium: install it, or run `playwright install chromium`")
        found = driver.chromium.launch(executable_path=path, args=["--no-sandbox"])
        yield found
        found.close()


@pytest.fixture
def visit(browser: Any, address: str) -> Iterator[Any]:
    """Opens the page; afterwards nothing may have gone wrong, and nothing been asked of anyone."""
    complaints: list[str] = []
    contexts: list[Any] = []

    def open_page(width: int = 1280, scheme: str = "light") -> Any:
        context = browser.new_context(viewport={"width": width, "height": 900}, color_scheme=scheme)
        contexts.append(context)
        page = context.new_page()
        page.on("console", lambda message: complaints.append(message.text))
        page.on("pageerror", lambda error: complaints.append(str(error)))
        page.on("dialog", lambda dialog: complaints.append(dialog.message))
        page.on("request", lambda request: request.url == address or complaints.append(request.url))
        page.goto(address)
        return page

    yield open_page
    for context in contexts:
        context.close()
    assert complaints == []


def shown(page: Any) -> set[tuple[str, str]]:
    """Row and column of the curves that can be seen."""
    found = page.evaluate(
        "[...document.querySelectorAll('.curve')].filter((one) => one.getClientRects().length)"
        ".map((one) => [one.dataset.r, one.dataset.c])"
    )
    return {(row, column) for row, column in found}


EVERYTHING = {(str(row), str(column)) for row in range(len(ENCODINGS)) for column in range(2)}


def test_a_click_on_a_square_leaves_its_curves_alone(visit: Any):
    page = visit()
    assert shown(page) == EVERYTHING
    square = page.locator('.sq[data-r="3"][data-c="1"]')
    square.click()
    assert shown(page) == {("3", "1")} and square.get_attribute("aria-pressed") == "true"
    assert page.locator("#status").inner_text() == "Only rope:base=13 on offset:2 is shown."
    assert page.locator("#statistics table").first.locator("tbody tr:visible").count() == 1
    other = page.locator('.sq[data-r="0"][data-c="0"]')
    other.click()
    assert shown(page) == {("0", "0")} and square.get_attribute("aria-pressed") == "false"
    other.click()
    assert shown(page) == EVERYTHING
    page.get_by_role("button", name="offset:2", exact=True).click()
    assert shown(page) == {(row, "1") for row, _ in EVERYTHING}
    page.get_by_role("button", name="Show everything").click()
    assert shown(page) == EVERYTHING


def test_the_keyboard_does_the_same(visit: Any):
    page = visit()
    square = page.locator('.sq[data-r="2"][data-c="0"]')
    square.focus()
    for key in ("Enter", "Space"):
        page.keyboard.press(key)
        assert shown(page) == {("2", "0")}
        assert page.evaluate("getComputedStyle(document.activeElement).outlineStyle") == "solid"
        page.keyboard.press("Escape")
        assert shown(page) == EVERYTHING
    entry = page.locator('.legend button[data-s="5"]')
    entry.focus()
    page.keyboard.press("Enter")
    assert shown(page) == {("5", "0"), ("5", "1")}


def test_the_atlas_shows_another_measurement_and_length(visit: Any):
    page = visit()
    square = page.locator('.sq[data-r="2"][data-c="0"]')
    assert square.locator("b").inner_text() == "0.40"
    page.select_option("#measure", "selected")
    assert square.locator("b").inner_text() == "0.97"
    page.select_option("#length", "16")
    assert square.locator("b").inner_text() == "1.00"
    label = "rope:base=12 on offset:1: Selection 1.00 at length 16; dilution at 128"
    assert square.get_attribute("aria-label") == label and square.locator("span").inner_text() == "dilution at 128"
    assert page.locator(".atlas caption").inner_text() == "Selection at length 16, 1 seed"
    page.select_option("#measure", "accuracy")
    assert square.locator("span").inner_text() == "dilution at 128"
    page.select_option("#length", "128")
    assert square.locator("span").inner_text() == "dilution"


def test_it_can_be_printed(visit: Any):
    page = visit(718)  # a page of A4 without its margins
    page.emulate_media(media="print")
    wide = "[...document.querySelectorAll('.scroll')].filter((one) => one.scrollWidth > one.clientWidth).length"
    assert page.evaluate(wide) == 0
    assert page.locator(".choose").is_hidden() and page.locator("#caption").is_visible()
    style = "getComputedStyle(document.querySelector('{}')).{}"
    assert page.evaluate(style.format(".sq", "printColorAdjust")) == "exact"
    for one in (".panels figure", "#statistics tr"):
        assert page.evaluate(style.format(one, "breakInside")) == "avoid"


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_it_fits_a_phone_in_either_scheme(visit: Any, scheme: str):
    page = visit(390, scheme)
    page.evaluate("for (const one of document.querySelectorAll('details')) one.open = true")
    widths = page.evaluate("[document.documentElement.scrollWidth, document.body.scrollWidth, innerWidth]")
    assert widths[0] <= 390 and widths[1] <= 390
    ground, ink = page.evaluate(
        "(() => { const style = getComputedStyle(document.body); return [style.backgroundColor, style.color]; })()"
    )
    light = sum(map(int, ground[4:-1].split(","))) > sum(map(int, ink[4:-1].split(",")))
    assert light == (scheme == "light")
    # The seventh colour is black on paper, and must not be on a dark page.
    line = page.evaluate("getComputedStyle(document.querySelector('.curve.k6 .line')).stroke")
    assert line == ("rgb(0, 0, 0)" if scheme == "light" else "rgb(244, 244, 244)")
