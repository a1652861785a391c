"""The page: self-contained, every foreign name escaped, and well-behaved in a real browser."""

import json
import re
import shutil
import subprocess
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest

from crossfeed.front.report.artefacts import gather
from crossfeed.front.report.page import page
from crossfeed.front.report.report import compose
from tests.front.report import material
from tests.front.report.conftest import TWO
from tests.front.report.runs import run_folder
from tests.study.conftest import Invented, begin

EVIL = "<script>alert(1)</script>"
QUOTED = "\"><img src=x onerror='alert(2)'>"
BROWSER = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")


class Tags(HTMLParser):
    """Counts tags and collects what would be loaded from elsewhere."""

    def __init__(self) -> None:
        super().__init__()
        self.count: dict[str, int] = {}
        self.loads: list[str] = []
        self.anchors: set[str] = set()
        self.links: set[str] = set()

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        self.count[tag] = self.count.get(tag, 0) + 1
        for name, value in attributes:
            if name == "id" and value:
                self.anchors.add(value)
            if name in ("src", "srcset", "data", "action") or (name == "href" and not (value or "").startswith("#")):
                self.loads.append(f"{tag} {name}={value}")
            if name == "href" and value:
                self.links.add(value.removeprefix("#"))
            if name.startswith("on"):
                self.loads.append(f"{tag} {name}")


def read(text: str) -> Tags:
    tags = Tags()
    tags.feed(text)
    return tags


def renamed(value: Any, old: str, new: str) -> Any:
    """The same data with a name changed wherever it stands, also as a key."""
    if isinstance(value, dict):
        return {renamed(key, old, new): renamed(item, old, new) for key, item in value.items()}
    if isinstance(value, list):
        return [renamed(item, old, new) for item in value]
    return value.replace(old, new) if isinstance(value, str) else value


def test_the_page_loads_nothing_and_its_links_lead_somewhere(complete: Path) -> None:
    text = page(compose(gather(complete)))
    tags = read(text)
    assert tags.loads == []
    assert tags.links <= tags.anchors
    assert not re.search(r"url\((?!#)|@import|<link|https?://(?!www\.w3\.org/2000/svg)", text)
    assert tags.count["script"] == 1
    assert tags.count["svg"] > 20


def test_names_from_users_cannot_become_tags(complete: Path, contents: dict[bool, dict[str, Any]]) -> None:
    clean = read(page(compose(gather(complete))))
    beside = complete.parent
    evaluation = renamed(renamed(contents[False], "lathe", EVIL), "power", QUOTED)
    material.write(beside / "evaluation" / "target" / "evaluation.json", evaluation)
    material.write(beside / "forecast" / "forecast.json", renamed(material.forecast(QUOTED), "fast.csv", EVIL))
    material.write(beside / "comparison" / "table.json", renamed(material.comparison(), "gru", EVIL))
    material.write(beside / "audit.json", renamed(material.audit(), "lathe: power", QUOTED))
    text = page(compose(gather(complete)))
    found = read(text)
    assert EVIL not in text
    assert "&lt;script&gt;alert(1)&lt;/script&gt;" in text
    assert found.loads == []
    assert {tag: found.count.get(tag) for tag in ("script", "img", "section", "svg")} == {
        tag: clean.count.get(tag) for tag in ("script", "img", "section", "svg")
    }


def test_a_study_of_a_machine_called_script_is_escaped(tmp_path: Path) -> None:
    study = begin(tmp_path / "<b>study")
    study.plan({EVIL: study.candidates(TWO[:1])[TWO[0]]}, seeds=1)
    study.search(Invented(lambda _candidate, _seed: 0.5))
    text = page(compose(gather(study.store.folder)))
    assert EVIL not in text
    assert "<b>study" not in text
    assert read(text).count["script"] == 1


@pytest.mark.skipif(BROWSER is None, reason="no Chromium is installed here")
@pytest.mark.parametrize("width", [390, 1280])
def test_a_browser_shows_it_without_errors_and_without_sideways_scrolling(
    complete: Path, tmp_path: Path, width: int
) -> None:
    (tmp_path / "report.html").write_text(page(compose(gather(complete))), encoding="utf-8")
    # Windows of a headless browser have a least width, frames have none.
    (tmp_path / "frame.html").write_text(
        f"""<body style="margin:0"><iframe src="report.html" style="width:{width}px;height:900px;border:0"></iframe>
        <script>window.onload = () => {{
            const inner = document.querySelector("iframe").contentDocument;
            const root = inner.documentElement, select = inner.querySelector("select");
            select.selectedIndex = select.options.length - 1; select.dispatchEvent(new Event("change"));
            inner.querySelector(".legend button").click();
            const shown = [...inner.querySelectorAll(".choice figure:not([hidden])")].map(one => one.dataset.option);
            const hidden = inner.querySelectorAll("g.series.off").length;
            const chosen = shown.includes(select.value);
            inner.defaultView.scrollTo({{ top: root.scrollHeight / 2, behavior: "instant" }});
            const seen = inner.querySelector("nav").getBoundingClientRect().top;
            const wide = [...inner.querySelectorAll(".scroll")].filter(box => box.scrollWidth > box.clientWidth + 1);
            const told = wide.every(box => getComputedStyle(box.nextElementSibling).display !== "none");
            const page = [root.scrollWidth, root.clientWidth, chosen, hidden > 0];
            document.title = JSON.stringify([...page, seen, wide.length, told]);
        }};</script>""",
        encoding="utf-8",
    )
    result = subprocess.run(
        [str(BROWSER), "--headless=new", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", "--dump-dom",
         "--allow-file-access-from-files", "--enable-logging=stderr", "--virtual-time-budget=4000",
         f"--user-data-dir={tmp_path / 'profile'}", f"file://{tmp_path / 'frame.html'}"],
        capture_output=True, text=True, timeout=600, check=False,
    )  # fmt: skip
    title = re.search(r"<title>(.*?)</title>", result.stdout)
    assert title is not None, result.stderr[-2000:]
    scroll, client, switched, toggled, contents_at, wider, told = json.loads(title[1])
    assert scroll <= client == width
    assert switched
    assert toggled
    assert 0 <= contents_at < 60, "the contents stay in sight"
    assert told, "a table that goes on says so"
    assert width < 1280 or not wider, "tables fit the screen"
    assert "CONSOLE" not in result.stderr


def test_the_demo_never_said_that_its_machines_are_simulated(complete: Path) -> None:
    assert "simulated" not in page(compose(gather(complete)))
    material.write(complete.parent / "demo.json", {"data": "simulated", "logs": None, "seed": 0})
    text = page(compose(gather(complete)))
    assert text.index("The machines of this report are simulated") < text.index('id="verdict"')
    material.write(complete.parent / "demo.json", {"data": "michigan", "logs": "logs", "seed": 0})
    assert "simulated" not in page(compose(gather(complete)))


def test_a_what_if_without_power_had_no_figure_to_look_at(complete: Path) -> None:
    content = material.forecast("x_torque")
    units = {"x_temp": "degC", "x_torque": "Nm"}
    content["sensors"] = {name: {"quantity": "any", "unit": unit} for name, unit in units.items()}
    content["history"]["sensors"]["x_temp"] = [40.0, 40.0]
    for level, plan in enumerate(content["plans"].values()):
        still = {"mean": [40.0, 40.0 + 0.01 * level], "quantiles": {"0.05": [39.0, 39.0], "0.95": [41.0, 41.0]}}
        plan["sensors"]["x_temp"] = still
        plan["energy"] = None
    content["comparisons"] = []
    material.write(complete.parent / "forecast" / "forecast.json", content)
    section = next(one for one in compose(gather(complete)).sections if one.anchor == "what-if")
    (figure,) = section.figures()
    assert figure.name == "what-if-x_torque", "the sensor on which the plans differ is shown first"
    peaks = next(table for table in section.tables() if table.name == "what-if-peaks")
    assert [row["plan"] for row in peaks.rows] == ["fast.csv", "slow.csv"]


def test_bounds_stand_below_their_estimate(complete: Path) -> None:
    text = page(compose(gather(complete)))
    assert re.search(r"<td[^>]*>[−0-9.]+<small>[−0-9.]+ to [−0-9.]+</small></td>", text)


def test_a_run_without_a_summary_is_titled_by_its_folder(tmp_path: Path) -> None:
    assert "<title>Training run mill</title>" in page(compose(gather(run_folder(tmp_path / "mill", finished=False))))
