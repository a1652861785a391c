"""The page's own files: read once at the start, packed once, found by exact names alone."""

import base64
import gzip
import hashlib
import re
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from crossfeed.extras import need

_PAGE = Path(__file__).parent / "page"
_KINDS = {
    ".html": "text/html; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".svg": "image/svg+xml",
}
PLOTLY = "/page/plotly.min.js"
_MAP_STYLE = re.compile(rb"textContent='(\.maplibregl-map\{[^']*)'")


@dataclass(frozen=True)
class PageFile:
    """One file of the page."""

    content: bytes
    media_type: str
    kept: bool = False  # by the browser, without asking again

    @cached_property
    def packed(self) -> bytes:
        return gzip.compress(self.content, 9, mtime=0)

    @cached_property
    def tag(self) -> str:
        return f'"{hashlib.sha256(self.content).hexdigest()[:32]}"'


def page_files() -> dict[str, PageFile]:
    """What is served, by path."""
    files = {
        f"/page/{path.name}": PageFile(path.read_bytes(), _KINDS[path.suffix])
        for path in sorted(_PAGE.iterdir())
        if path.suffix in _KINDS
    }
    files["/"], files["/docs"] = files.pop("/page/index.html"), files.pop("/page/docs.html")
    files[PLOTLY] = PageFile(_plotly().read_bytes(), _KINDS[".js"], kept=True)
    return files


def _plotly() -> Path:
    """The plotly.js that the plotly package carries."""
    return Path(need("plotly", "The studio's page", "serve").__file__).parent / "package_data" / "plotly.min.js"


def map_style(plotly: bytes) -> str:
    """How a strict policy names the one style that plotly.js writes when it is loaded; it is for maps."""
    found = _MAP_STYLE.search(plotly)
    if found is None:
        return ""
    return f" 'sha256-{base64.b64encode(hashlib.sha256(found[1]).digest()).decode()}'"
