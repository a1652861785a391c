"""What a checker such as axe would call serious, asked of the page as it stands: a list of complaints, empty if none.

Names, roles, states, references, structure, contrast as WCAG counts it, sizes for fingers, and where the focus goes.
"""

import json
from pathlib import Path

from tests.studio.browser import Browser

_RULES, _FOCUS = (Path(__file__).with_name(name).read_text("utf-8") for name in ("accessibility.js", "focus.js"))


def complaints(browser: Browser) -> list[str]:
    """Whatever is wrong with the page as it is shown now."""
    return list(browser.ask(_RULES))


def stops(browser: Browser, most: int = 80) -> list[str]:
    """Press Tab through the whole page; an error at the first stop that cannot be seen or comes too early."""
    browser.ask("(() => { window.before = null; document.activeElement.blur(); })()")
    found: list[str] = []
    for _ in range(most):
        browser.press("Tab", 9)
        at = browser.ask(_FOCUS)
        if at["body"] or (found and at["what"] == found[0]):
            return found
        assert all(at[quality] for quality in ("ringed", "seen", "follows")), json.dumps(at)
        found.append(at["what"])
    raise AssertionError(f"the focus never came to the end of the page: {found[-3:]}")
