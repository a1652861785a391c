"""What the site adds to the pages of `docs/`: the README as its first page, how to work here, and the benchmarks."""

import re
from pathlib import Path
from typing import Any

from mkdocs.structure.files import File, Files

ROOT = Path(__file__).resolve().parent.parent
_SEARCH = (ROOT / "docs" / "offline_search.js").read_text(encoding="utf-8")
_NAMED_BLOCK = re.compile(r"^(```\w+) \w+$", re.MULTILINE)
_FOREIGN = re.compile(r'<script[^>]+src="https?:[^"]*"[^>]*></script>')


def on_files(files: Files, config: Any) -> Files:
    """README.md becomes index.html; benchmarks/*.md keep their folder."""
    added = {"index.md": (ROOT / "README.md").read_text(encoding="utf-8")}
    added |= {
        f"benchmarks/{page.name}": page.read_text(encoding="utf-8") for page in (ROOT / "benchmarks").glob("*.md")
    }
    added["changelog.md"] = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    added["contributing.md"] = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    for name, text in added.items():
        files.append(File.generated(config, name, content=_links(text, name)))
    return files


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    """Links lead to where those pages lie in the site; a block loses the name by which a test finds it."""
    return _NAMED_BLOCK.sub(r"\1", _links(markdown, page.file.src_uri))


def _links(text: str, name: str) -> str:
    if name in ("index.md", "changelog.md", "contributing.md"):
        text = re.sub(r"\]\(docs/", "](", text).replace("](CONTRIBUTING.md)", "](contributing.md)")
        return re.sub(r"\[([^\]]*)\]\((benchmarks/?|LICENSE|Makefile)\)", r"\1", text)
    if name.startswith("benchmarks/"):
        text = re.sub(r"\]\(\.\./docs/", "](../", text)
        return re.sub(r"\[([^\]]*)\]\([\w./]+\.(?:py|jsonl?)\)", r"\1", text)
    return text.replace("](../benchmarks/", "](benchmarks/").replace("](../README.md", "](index.md")


def on_post_page(output: str, **_: Any) -> str:
    """No page asks another host for anything; what the theme would fetch to search from the disk is our own."""
    return _FOREIGN.sub(lambda _: f"<script>{_SEARCH}</script>", output)


def on_post_template(output_content: str, **_: Any) -> str:
    """Nor does the page for addresses that are not there."""
    return _FOREIGN.sub("", output_content)
