"""Headless Chromium through a pipe (the DevTools protocol): opens a page, and says what went on in it."""

from __future__ import annotations

import base64
import json
import os
import shutil
import subprocess
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

PROGRAM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
FLAGS = [
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--remote-debugging-pipe",
]
# Of everything that sticks out: what is not inside something that scrolls by itself.
OVERFLOWING = """
[...document.querySelectorAll('body *')].filter(each =>
  each.getBoundingClientRect().right > document.documentElement.clientWidth + 1 &&
  !each.parentElement.closest('.scroll') && !each.closest('svg *')
).map(each => each.tagName + '.' + each.className).slice(0, 5)
"""


@dataclass
class Visit:
    """What a page did."""

    width: int = 0  # of its content, in pixels
    overflowing: list[str] = field(default_factory=list)
    messages: list[str] = field(default_factory=list)  # errors and whatever else the console says
    requests: list[str] = field(default_factory=list)  # other than for the page itself and data: in it
    background: str = ""
    height: int = 0


class Browser:
    """One Chromium for many visits."""

    def __init__(self, profile: Path) -> None:
        assert PROGRAM is not None
        to_read, self.to = os.pipe()
        self.back, to_write = os.pipe()
        # Chromium reads commands from descriptor 3 and answers on 4, whatever these are here.
        command = [PROGRAM, *FLAGS, f"--user-data-dir={profile}", "about:blank"]
        shell = ["bash", "-c", f'exec "$@" 3<&{to_read} 4>&{to_write}', "bash", *command]
        self.process = subprocess.Popen(
            shell, pass_fds=(to_read, to_write), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        os.close(to_read)
        os.close(to_write)
        self.buffer, self.number, self.events = b"", 0, []
        target = self.ask("Target.createTarget", url="about:blank")["targetId"]
        self.session = self.ask("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.tell(f"{domain}.enable")

    def close(self) -> None:
        self.ask("Browser.close")
        self.process.wait(timeout=30)
        os.close(self.to)
        os.close(self.back)

    def visit(self, path: Path, *, width: int, dark: bool, screenshot: Path | None = None) -> Visit:
        """The page at this width and in this colour scheme."""
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self.tell("Emulation.setEmulatedMedia", features=[scheme])
        size = {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": width < 600}
        self.tell("Emulation.setDeviceMetricsOverride", **size)
        self.events.clear()
        url = path.resolve().as_uri()
        self.tell("Page.navigate", url=url)
        while not any(event["method"] == "Page.loadEventFired" for event in self.events):
            self.receive()
        found = Visit(
            width=self.value("document.documentElement.scrollWidth"),
            overflowing=self.value(OVERFLOWING),
            background=self.value("getComputedStyle(document.body).backgroundColor"),
            height=self.value("document.documentElement.scrollHeight"),
        )
        for event in self.events:
            kind, params = event["method"], event.get("params", {})
            if kind == "Network.requestWillBeSent":
                asked = params["request"]["url"]
                if asked != url and not asked.startswith("data:"):
                    found.requests.append(asked)
            elif kind in ("Runtime.consoleAPICalled", "Runtime.exceptionThrown", "Log.entryAdded"):
                found.messages.append(json.dumps(params))
        if screenshot is not None:
            self.photograph(screenshot, width, found.height)
        return found

    def photograph(self, path: Path, width: int, height: int) -> None:
        """All of the page, not only what a window shows."""
        clip = {"x": 0, "y": 0, "width": width, "height": height, "scale": 1}
        shot = self.tell("Page.captureScreenshot", captureBeyondViewport=True, clip=clip)
        path.write_bytes(base64.b64decode(shot["data"]))

    def value(self, expression: str) -> Any:
        answer = self.tell("Runtime.evaluate", expression=expression, returnByValue=True)
        assert "exceptionDetails" not in answer, answer
        return answer["result"]["value"]

    def tell(self, method: str, **params: Any) -> dict[str, Any]:
        return self.ask(method, self.session, **params)

    def ask(self, method: str, session: str | None = None, **params: Any) -> dict[str, Any]:
        self.number += 1
        number = self.number
        message = {"id": number, "method": method, "params": params}
        if session:
            message["sessionId"] = session
        os.write(self.to, json.dumps(message).encode() + b"\0")
        while True:
            answer = self.receive()
            if answer.get("id") == number:
                assert "error" not in answer, answer
                return answer["result"]

    def receive(self) -> dict[str, Any]:
        while b"\0" not in self.buffer:
            piece = os.read(self.back, 1 << 16)
            assert piece, "Chromium has ended"
            self.buffer += piece
        text, _, self.buffer = self.buffer.partition(b"\0")
        message = json.loads(text)
        if "method" in message:
            self.events.append(message)
        return message
