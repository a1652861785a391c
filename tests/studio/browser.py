"""A real Chromium, driven over its DevTools protocol: enough to click, type, look, and hear every complaint."""

import base64
import json
import shutil
import subprocess
import time
import urllib.request
from pathlib import Path
from typing import Any

PATIENCE = 180.0


def chromium() -> str | None:
    """The browser of this machine, if it has one."""
    return next(
        (path for name in ("chromium", "chromium-browser", "google-chrome") if (path := shutil.which(name))), None
    )


class Browser:
    """One browser with one page; use it in a `with` block."""

    def __init__(self, folder: Path, width: int = 1280, height: int = 1600, dark: bool = False) -> None:
        from websockets.sync.client import connect

        program = chromium()
        assert program is not None
        self._process = subprocess.Popen(
            [
                program, "--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run",
                "--remote-debugging-port=0", "--remote-allow-origins=*", f"--user-data-dir={folder}",
                f"--window-size={width},{height}", "about:blank",
            ],
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        )  # fmt: skip
        port = self._port(folder)
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/json/list", timeout=PATIENCE) as answer:
            page = next(one for one in json.load(answer) if one["type"] == "page")
        self._socket = connect(page["webSocketDebuggerUrl"], max_size=None, open_timeout=PATIENCE)
        self._number = 0
        self.complaints: list[str] = []
        self.requested: list[str] = []
        for domain in ("Page", "Runtime", "Log", "Network", "DOM"):
            self.call(f"{domain}.enable")
        self.resize(width, height)
        scheme = "dark" if dark else "light"
        self.call("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": scheme}])

    def _port(self, folder: Path) -> str:
        until = time.monotonic() + PATIENCE
        while time.monotonic() < until:
            file = folder / "DevToolsActivePort"
            if file.is_file() and (text := file.read_text()).strip():
                return text.splitlines()[0]
            time.sleep(0.05)
        raise TimeoutError("chromium did not open its debugging port")

    def __enter__(self) -> "Browser":
        return self

    def __exit__(self, *_: object) -> None:
        self._socket.close()
        self._process.terminate()
        self._process.wait(PATIENCE)

    def call(self, method: str, **parameters: Any) -> dict[str, Any]:
        """One command of the protocol, and its answer."""
        self._number += 1
        number = self._number
        self._socket.send(json.dumps({"id": number, "method": method, "params": parameters}))
        while True:
            message = json.loads(self._socket.recv(PATIENCE))
            if message.get("id") == number:
                if "error" in message:
                    raise RuntimeError(f"{method}: {message['error']['message']}")
                return dict(message["result"])
            self._hear(message)

    def _hear(self, message: dict[str, Any]) -> None:
        given = message.get("params", {})
        if message["method"] == "Runtime.exceptionThrown":
            details = given["exceptionDetails"]
            self.complaints.append(details.get("exception", {}).get("description", details["text"]))
        elif message["method"] == "Runtime.consoleAPICalled" and given["type"] in ("error", "warning", "assert"):
            self.complaints.append(" ".join(str(one.get("value", one)) for one in given["args"]))
        elif message["method"] == "Log.entryAdded" and given["entry"]["level"] in ("error", "warning"):
            self.complaints.append(given["entry"]["text"])
        elif message["method"] == "Network.requestWillBeSent":
            self.requested.append(given["request"]["url"])

    def resize(self, width: int, height: int) -> None:
        """Another window, such as that of a phone."""
        phone = width < 600
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=phone)

    def go(self, address: str) -> None:
        self.call("Page.navigate", url=address)

    def ask(self, script: str) -> Any:
        """The value of an expression in the page; promises are waited for."""
        told = self.call("Runtime.evaluate", expression=script, awaitPromise=True, returnByValue=True)
        if "exceptionDetails" in told:
            raise RuntimeError(str(told["exceptionDetails"]))
        return told["result"].get("value")

    def wait(self, script: str) -> Any:
        """The value of an expression once it is true."""
        until = time.monotonic() + PATIENCE
        while time.monotonic() < until:
            try:
                if value := self.ask(script):
                    return value
            except RuntimeError:  # the page is just being loaded
                pass
            time.sleep(0.05)
        raise TimeoutError(f"never became true: {script}\ncomplaints: {self.complaints}")

    def click(self, selector: str) -> None:
        self.ask(f"document.querySelector({json.dumps(selector)}).click()")

    def press(self, key: str, code: int = 0) -> None:
        """A key of the keyboard, wherever the focus is."""
        for kind in ("keyDown", "keyUp"):
            self.call("Input.dispatchKeyEvent", type=kind, key=key, code=key, windowsVirtualKeyCode=code)

    def choose_file(self, selector: str, file: Path) -> None:
        root = self.call("DOM.getDocument")["root"]["nodeId"]
        node = self.call("DOM.querySelector", nodeId=root, selector=selector)["nodeId"]
        self.call("DOM.setFileInputFiles", nodeId=node, files=[str(file)])

    def picture(self, path: Path) -> None:
        """What the page looks like, as PNG."""
        size = self.call("Page.getLayoutMetrics")["cssContentSize"]
        clip = {"x": 0, "y": 0, "width": size["width"], "height": min(size["height"], 4000), "scale": 1}
        told = self.call("Page.captureScreenshot", format="png", captureBeyondViewport=True, clip=clip)
        path.write_bytes(base64.b64decode(told["data"]))
