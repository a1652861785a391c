"""The docs site: every page is there, links lead somewhere, and no page asks another host for anything."""

import re
from pathlib import Path

import pytest

pytest.importorskip("mkdocs", reason="the site is built with the extra docs: pip install crossfeed[docs]")
pytest.importorskip("material", reason="the site is built with the extra docs: pip install crossfeed[docs]")
pytest.importorskip("mkdocstrings", reason="the site is built with the extra docs: pip install crossfeed[docs]")

ROOT = Path(__file__).parent.parent


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    from mkdocs.commands.build import build
    from mkdocs.config import load_config

    folder = tmp_path_factory.mktemp("site")
    config = load_config(str(ROOT / "mkdocs.yml"), site_dir=str(folder))
    config.plugins.on_startup(command="build", dirty=False)
    build(config)
    return folder


def test_every_page_is_built(site: Path) -> None:
    for page in (ROOT / "docs").glob("*.md"):
        assert (site / f"{page.stem}.html").is_file(), page.name
    assert (site / "index.html").is_file()
    assert (site / "benchmarks" / "rollout.html").is_file()


def test_nothing_is_asked_of_other_hosts(site: Path) -> None:
    loaded = re.compile(r'<(?:script|link|img|iframe)[^>]+(?:src|href)="(https?:[^"]+|//[^"]+)"')
    for page in site.rglob("*.html"):
        assert loaded.findall(page.read_text(encoding="utf-8")) == [], page.name


def test_pages_point_to_pages(site: Path) -> None:
    for page in site.rglob("*.html"):
        text = page.read_text(encoding="utf-8")
        for target in re.findall(r'(?:href|src)="([^"#?]+)', text):
            if not re.match(r"(https?:|mailto:|data:|//)", target) and page.name != "404.html":
                assert (page.parent / target).exists(), f"{page.name} points to {target}"


def test_named_blocks_were_shown_as_running_text(site: Path) -> None:
    """A fence with a second word, by which a test finds it, is no fence to the site."""
    for page in site.rglob("*.html"):
        assert "```" not in page.read_text(encoding="utf-8"), page.name


def test_lists_were_shown_as_running_text(site: Path) -> None:
    """A list needs an empty line before it here, and none on GitHub, so that nobody saw it."""
    for page in site.rglob("*.html"):
        for text in re.findall(r"<p>(.*?)</p>", page.read_text(encoding="utf-8"), re.DOTALL):
            assert not re.search(r"\n(- |\d+\. |\|)", text), f"{page.name}: {text[:80]}"


def test_the_api_and_the_search_know_the_verbs(site: Path) -> None:
    api = (site / "api.html").read_text(encoding="utf-8")
    for verb in ("audit", "fit", "load", "evaluate", "adapt", "what_if", "forecast", "from_frame"):
        assert re.search(rf'id="crossfeed[\w.]*\.{verb}"', api), verb
    index = next(iter((site / "search").glob("search_index.*"))).read_text(encoding="utf-8")
    assert "what_if" in index
