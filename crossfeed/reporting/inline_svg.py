"""matplotlib's SVG as a part of a page.

It names no colours or fonts of its own but those of the style sheet, so light, dark and paper need no second drawing;
each series is a group that knows its name, its values and a hint, which the page's script reads.
"""

import json
import re
from collections.abc import Sequence

from markupsafe import Markup, escape

from crossfeed.plots import COLOURS

INK, SOFT, RULE = "#1b2430", "#56616e", "#dfe4ea"
# Colours on paper, and what the style sheet calls them.
_NAMES = {INK: "--ink", SOFT: "--soft", RULE: "--rule"} | {colour: f"--c{n}" for n, colour in enumerate(COLOURS)}


def series_tag(name: str, hint: str, values: Sequence[Sequence[float]]) -> str:
    """The tag that opens the group of one series."""
    data = f' data-values="{escape(json.dumps(values))}"' if values else ""
    title = f"<title>{escape(hint)}</title>" if hint else ""
    return f'<g class="series" data-name="{escape(name)}"{data}>{title}'


def inline(file: str, css_class: str, title: str, frame: Sequence[float], series: Sequence[str]) -> Markup:
    """A whole file as one element; group s0, s1... of the file becomes the series with that number.

    `frame` says where the axes lie and what they span: left, top, right, bottom, first and last x.
    """
    size = re.search(r'viewBox="0 0 (\S+) (\S+)"', file)
    assert size is not None
    body = file[file.index('<g id="figure_1"') : file.rindex("</svg>")]
    body = re.sub(r' id="(?!s\d+"|[pm][0-9a-f]+")[^"]*"', "", body).replace("xlink:href", "href")
    body = re.sub(r' (d|x|y|transform|width|height)="([^"]*)"', _rounded, body)
    body = re.sub(r' style="([^"]*)"', _coloured, body)
    body = re.sub(r">\s+<", "><", body)
    body = re.sub(r'<g id="s(\d+)">', lambda found: series[int(found[1])], body)
    box = f"0 0 {float(size[1]):.0f} {float(size[2]):.0f}"
    data = json.dumps([round(value, 4) for value in frame])
    return Markup(
        f'<svg class="panel {css_class}" viewBox="{box}" role="img" aria-label="{escape(title)}" data-frame="{data}">'
        f"{body}</svg>"
    )


def _rounded(found: re.Match[str]) -> str:
    text = re.sub(r"\s+", " ", re.sub(r"(\d+\.\d)\d+", r"\1", found[2])).strip()
    return "" if text.startswith("rotate(-0 ") else f' {found[1]}="{text}"'


def _coloured(found: re.Match[str]) -> str:
    text = re.sub(r"#[0-9a-f]{6}", lambda colour: f"var({_NAMES.get(colour[0], '--ink')})", found[1])
    return f' style="{re.sub(r"font-family: [^;]*;? ?", "", text)}"'
