"""How long a newcomer waits for the page beside a machine, after the demo."""

import os
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path


def demo(folder: Path) -> None:
    """`crossfeed demo --live` after a finished demo: until the page is there, and until it forecasts."""
    from tests.studio.browser import Browser

    begin = time.monotonic()
    command = [sys.executable, "-m", "crossfeed", "demo", "--out", str(folder), "--live", "--port", "0"]
    quiet = os.environ | {"COLUMNS": "400", "BROWSER": "true"}  # our own browser opens the page
    with subprocess.Popen(command, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True, env=quiet) as server:
        assert server.stderr is not None
        try:
            link = next(line.split()[1] for line in server.stderr if line.startswith("Open"))
            threading.Thread(target=server.stderr.read, daemon=True).start()
            ready = time.monotonic() - begin
            with tempfile.TemporaryDirectory() as profile, Browser(Path(profile)) as browser:
                browser.go(link)
                browser.wait("document.querySelectorAll('#live-figure path.js-line').length > 3")
                shown = time.monotonic() - begin
                browser.wait("!document.querySelector('#live-facts').textContent.includes('forecast fromnone')")
                forecast = time.monotonic() - begin
        finally:
            server.terminate()
    print(f"| `crossfeed demo --live` after the demo: link / rows on the page / first forecast (after 32 rows) | "
          f"{ready:.0f} s / {shown:.0f} s / {forecast:.0f} s |")  # fmt: skip
