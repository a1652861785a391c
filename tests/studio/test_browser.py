"""The page in a real Chromium: the link, a stream that moves, a slider, an upload, a phone, the keyboard, the dark."""

import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from crossfeed.studio.service import Service
from tests.evaluation.small_machine import HORIZONS
from tests.studio.accessibility import complaints, stops
from tests.studio.browser import Browser, chromium
from tests.studio.conftest import Running, running

pytest.importorskip("fastapi", reason="needs the extra 'serve'")
pytest.importorskip("websockets", reason="needs the extra 'serve'")
pytestmark = pytest.mark.skipif(chromium() is None, reason="no Chromium on this machine")

READY = "document.documentElement.dataset.ready === 'yes'"
ROWS = """Number([...document.querySelectorAll('#live-facts div')].find((one) => one.textContent.startsWith('rows'))
  ?.querySelector('dd').textContent)"""
OTHER_SESSION = """(() => { const choice = document.querySelector('#session'); choice.selectedIndex = 1;
  choice.dispatchEvent(new Event('change')); })()"""
DRAWN = "document.querySelectorAll('#{} path.js-line').length > 3"


@pytest.fixture
def server(make_service: Callable[..., Service]) -> Iterator[Running]:
    """Ten rows a second: what plays them must leave the browser its share of a busy machine."""
    with running(make_service(port=0, speed=10.0)) as found:
        yield found


def look(browser: Browser, name: str) -> None:
    """Keep a picture where somebody wants to look at it."""
    if folder := os.environ.get("CROSSFEED_PICTURES"):
        browser.picture(Path(folder) / f"{name}.png")


def check(browser: Browser, server: Running) -> None:
    """Nothing complained, nothing came from elsewhere, everything has a name and can be read."""
    assert browser.complaints == []
    assert all(address.startswith((server.address, "data:", "blob:")) for address in browser.requested)
    assert complaints(browser) == []


def test_a_newcomer_walks_through_the_studio(server: Running, tmp_path: Path) -> None:
    with Browser(tmp_path / "profile") as browser:
        browser.go(server.link)
        browser.wait(READY)
        assert browser.ask("location.pathname") == "/"
        browser.wait(DRAWN.format("live-figure"))
        first = browser.wait(ROWS)
        browser.wait(f"{ROWS} > {first} + 10")
        look(browser, "live")
        browser.click("#live-figure summary")
        browser.wait("document.querySelectorAll('#live-figure tbody tr').length > 5")
        check(browser, server)

        browser.click("#tab-whatif")
        browser.wait(DRAWN.format("whatif-figure"))
        browser.wait("document.querySelectorAll('#compared tbody tr').length === 2")
        assert "energy" in browser.ask("document.querySelector('#compared .reading').textContent")
        browser.ask(OTHER_SESSION)
        browser.ask("document.querySelector('#feed-1').focus()")
        browser.press("ArrowLeft", 37)
        browser.wait("performance.getEntriesByName('slider to picture').length > 0")
        assert browser.ask("document.querySelector('#feed-1').value") == "75"
        browser.wait("document.querySelector('#compared tbody').textContent.includes('feed 75 %')")
        look(browser, "what-if")
        check(browser, server)

        program = tmp_path / "part.mpf"
        program.write_text("G54 G90\nS1000 M3\nG1 X50 F600\nX0\nM30\n")
        browser.choose_file("#upload", program)
        browser.wait("document.querySelector('#upload-told').textContent.includes('part.mpf is plan 3')")
        browser.wait("document.querySelector('#compared tbody').textContent.includes('part.mpf')")
        program.write_bytes(b"\0\1\2")
        browser.choose_file("#upload", program)
        browser.wait("document.querySelector('#upload-told').textContent.includes('binary file')")
        # The refusal itself is logged by the browser as a failed request; nothing else may be.
        assert all("422" in complaint for complaint in browser.complaints), browser.complaints
        browser.complaints.clear()

        browser.click("#tab-trust")
        browser.wait("document.querySelectorAll('#trust-body tbody tr').length === 3")
        check(browser, server)
        browser.click("#tab-runs")
        browser.wait("document.querySelector('#runs-body').textContent.includes('No study')")
        browser.click("#another-device")
        link = browser.wait("document.querySelector('#device-link').textContent")
        assert link.startswith(f"{server.address}/enter/")
        browser.go(f"{server.address}/docs")
        browser.wait("document.querySelectorAll('#docs section').length > 8")
        check(browser, server)


def test_what_is_planned_further_ahead_is_rolled_beside_the_stream(
    make_service: Callable[..., Service], tmp_path: Path
) -> None:
    widest = "Math.max(...document.querySelector('#live-figure .canvas').data.map((one) => Math.max(...one.x)))"
    with running(make_service(port=0, speed=2.0)) as server, Browser(tmp_path / "profile") as browser:
        browser.go(server.link)
        browser.wait(DRAWN.format("live-figure"))
        assert browser.ask(widest) <= HORIZONS[-1]
        browser.click("#live-roll")
        browser.wait(f"{widest} > 3 * {HORIZONS[-1]}")
        look(browser, "live-rolled")
        browser.click("#live-roll")
        browser.wait(f"{widest} <= {HORIZONS[-1]}")
        check(browser, server)


def test_the_keyboard_reaches_every_view(server: Running, tmp_path: Path) -> None:
    with Browser(tmp_path / "profile") as browser:
        browser.go(server.link)
        browser.wait(READY)
        browser.ask("document.querySelector('#tab-live').focus()")
        for view in ("whatif", "trust", "runs", "live"):
            browser.press("ArrowRight", 39)
            browser.wait(f"document.activeElement.id === 'tab-{view}'")
            assert browser.ask(f"!document.getElementById('{view}').hidden")
        assert browser.ask("document.querySelectorAll('[role=tab][tabindex=\"0\"]').length") == 1
        for view, fewest in (("live", 6), ("whatif", 15), ("trust", 3), ("runs", 3)):
            browser.click(f"#tab-{view}")
            browser.wait(f"!document.getElementById('{view}').hidden")
            assert len(stops(browser)) >= fewest, view


def test_a_phone_in_the_dark(server: Running, tmp_path: Path) -> None:
    with Browser(tmp_path / "profile", width=390, height=844, dark=True) as browser:
        browser.go(server.link)
        browser.wait(READY)
        browser.wait(DRAWN.format("live-figure"))
        for view in ("live", "whatif", "trust", "runs"):
            browser.click(f"#tab-{view}")
            browser.wait(f"!document.getElementById('{view}').hidden")
            if view == "whatif":
                browser.wait("document.querySelectorAll('#compared tbody tr').length === 2")
            assert browser.ask("document.documentElement.scrollWidth") <= 390, view
            look(browser, f"phone-{view}")
            check(browser, server)


def test_without_its_link_the_page_says_how_to_get_in(server: Running, tmp_path: Path) -> None:
    with Browser(tmp_path / "profile") as browser:
        browser.go(server.address)
        browser.wait("document.body?.textContent.includes('This page needs its link')")


def test_a_figure_fills_a_page_that_became_wider_while_another_view_was_shown(server: Running, tmp_path: Path) -> None:
    drawn = "document.querySelector('#whatif-figure .main-svg').clientWidth"
    with Browser(tmp_path / "profile", width=390, height=844) as browser:
        browser.go(f"{server.link}#whatif")
        browser.wait(READY)
        browser.click("#tab-whatif")
        browser.wait(DRAWN.format("whatif-figure"))
        browser.click("#tab-runs")
        browser.resize(1280, 1600)
        browser.click("#tab-whatif")
        browser.wait(f"{drawn} > 1000 && {drawn} === document.querySelector('#whatif-figure .canvas').clientWidth")
        browser.resize(390, 844)
        browser.wait(f"{drawn} < 390")


def test_the_figures_say_what_their_lines_and_bands_are(server: Running, tmp_path: Path) -> None:
    with Browser(tmp_path / "profile") as browser:
        browser.go(server.link)
        browser.wait(READY)
        browser.wait("document.querySelector('#live-figure').textContent.includes('Band: 90 % of it')")
        browser.click("#tab-whatif")
        browser.wait("document.querySelector('#whatif-figure').textContent.includes('Bands: half of it, and 90 %')")


PANELS = """(async () => {
  const { Figure } = await import("/page/figure.js");
  const place = document.body.appendChild(document.createElement("div")), figure = new Figure(place, "of a test");
  const titles = (feed, coolant) => {
    const commands = { spindle_speed: [0, 900], feed_path: feed, coolant };
    figure.draw({
      history: { time: [-1, 0], sensors: { power: [1, 2] }, commands }, fans: [],
      plans: [{ name: "plan", time: [1, 2], commands }],
      sensors: ["power"], commands: Object.keys(commands), units: {}, range: [-2, 2],
    });
    return figure.canvas.layout.annotations.map((one) => one.text.split(",")[0]);
  };
  return [titles([0, 0], [0, 0]), titles([0, 60], [0, 0]), titles([0, 0], [0, 0])];
})()"""


def test_commands_that_a_machine_does_not_have_took_half_of_a_figure(server: Running, tmp_path: Path) -> None:
    with Browser(tmp_path / "profile") as browser:
        browser.go(server.link)
        browser.wait(READY)
        first, second, third = browser.ask(PANELS)
    assert first == ["power", "spindle speed"]
    assert second == ["power", "spindle speed", "feed path"]
    assert third == second, "what was shown once stays, or the page jumps whenever a machine stands"


def test_lights_do_not_stay_lit_when_the_service_is_gone(make_service: Callable[..., Service], tmp_path: Path) -> None:
    with Browser(tmp_path / "profile") as browser:
        with running(make_service(port=0, speed=10.0)) as server:
            browser.go(server.link)
            browser.wait(READY)
            browser.wait("document.querySelectorAll('#live-lights .dot').length > 0")
        browser.wait("document.querySelector('#live-verdict').textContent.includes('Nothing is heard any more')")
        assert browser.ask("document.querySelectorAll('#live-lights .green, #live-lights .red').length") == 0
        assert "not known" in browser.ask("document.querySelector('#live-facts').textContent")
