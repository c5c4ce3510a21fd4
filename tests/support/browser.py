"""Chromium without a window, controlled through the pipe of its DevTools protocol: no further package is needed."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from select import select
from typing import Any

PROGRAMS = ("chromium-headless-shell", "chromium", "chromium-browser", "google-chrome")
TIMEOUT = 60.0  # s, of one command
# The browser reads commands from descriptor 3 and writes to descriptor 4.
LAUNCHER = (
    "import os, sys; a, b = map(int, sys.argv[1:3]); os.dup2(a, 13); os.dup2(b, 14); "
    "os.dup2(13, 3); os.dup2(14, 4); os.execvp(sys.argv[3], sys.argv[3:])"
)


def find_browser() -> str | None:
    """Path of the first of PROGRAMS that is installed and starts."""
    for name in PROGRAMS:
        path = shutil.which(name)
        # On some systems the program is a script that asks the user to install it.
        if path and subprocess.run([path, "--version"], capture_output=True, check=False, timeout=60).returncode == 0:
            return path
    return None


class Browser:
    """A browser with one page. messages : console messages and exceptions; requests : addresses that were requested."""

    def __init__(self, program: str, width: int = 1200, height: int = 900) -> None:
        self._profile = tempfile.mkdtemp(prefix="browser-")
        commands, self._commands = os.pipe()
        self._answers, answers = os.pipe()
        arguments = [
            program, "--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage",
            "--remote-debugging-pipe",
            "--no-first-run", "--disable-background-networking", "--disable-component-update", "--hide-scrollbars",
            f"--user-data-dir={self._profile}", "about:blank",
        ]  # fmt: skip
        self._process = subprocess.Popen(
            [sys.executable, "-c", LAUNCHER, str(commands), str(answers), *arguments],
            pass_fds=(commands, answers), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        )  # fmt: skip
        os.close(commands)
        os.close(answers)
        self._number, self._buffer, self._events = 0, b"", []
        self._session: str | None = None
        target = self._send("Target.createTarget", url="about:blank")["targetId"]
        self._session = self._send("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        self.messages: list[str] = []
        self.requests: list[str] = []
        for domain in ("Page", "Runtime", "Network", "Log"):
            self._send(f"{domain}.enable")
        self.resize(width, height)

    def __enter__(self) -> Browser:
        return self

    def __exit__(self, *_: object) -> None:
        for descriptor in (self._commands, self._answers):
            os.close(descriptor)
        try:
            self._process.wait(timeout=10)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        shutil.rmtree(self._profile, ignore_errors=True)

    def open(self, path: Path) -> None:
        """Open a file and wait until it is loaded."""
        self.messages, self.requests = [], []
        self._send("Page.navigate", url=path.resolve().as_uri())
        deadline = time.monotonic() + TIMEOUT
        while self.evaluate("document.readyState") != "complete":
            if time.monotonic() > deadline:
                raise TimeoutError(f"{path} is not loaded")
            time.sleep(0.05)

    def evaluate(self, expression: str) -> Any:
        """Value of a JavaScript expression, or of the promise that it returns."""
        answer = self._send("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
        if "exceptionDetails" in answer:
            raise RuntimeError(json.dumps(answer["exceptionDetails"])[:500])
        return answer["result"].get("value")

    def resize(self, width: int, height: int, dark: bool = False) -> None:
        """Set the size of the screen, and the color scheme."""
        self._send(
            "Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=width < 600
        )
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self._send("Emulation.setEmulatedMedia", features=[scheme])

    def drag(self, start: tuple[float, float], end: tuple[float, float]) -> None:
        """Press the mouse button at one point of the screen, move to another point and release it there."""
        steps = [("mouseMoved", start), ("mousePressed", start)]
        steps += [("mouseMoved", tuple(a + part * (b - a) for a, b in zip(start, end, strict=True)))
                  for part in (0.3, 0.6, 1.0)]  # fmt: skip
        for kind, (x, y) in [*steps, ("mouseReleased", end)]:
            pressed = kind != "mouseMoved"
            self._send(
                "Input.dispatchMouseEvent", type=kind, x=x, y=y, button="left" if pressed else "none",
                buttons=0 if kind == "mouseReleased" else 1, clickCount=int(pressed),
            )  # fmt: skip
            time.sleep(0.05)

    def _send(self, method: str, **parameters: Any) -> dict[str, Any]:
        self._number += 1
        command = {"id": self._number, "method": method, "params": parameters}
        if self._session:
            command["sessionId"] = self._session
        os.write(self._commands, json.dumps(command).encode() + b"\0")
        while True:
            answer = self._receive()
            if answer.get("id") == self._number:
                if "error" in answer:
                    raise RuntimeError(f"{method}: {answer['error']}")
                return answer["result"]
            self._note(answer.get("method", ""), answer.get("params", {}))

    def _receive(self) -> dict[str, Any]:
        while b"\0" not in self._buffer:
            if not select([self._answers], [], [], TIMEOUT)[0]:
                raise TimeoutError("the browser does not answer")
            block = os.read(self._answers, 1 << 20)
            if not block:
                raise RuntimeError("the browser has ended")
            self._buffer += block
        message, _, self._buffer = self._buffer.partition(b"\0")
        return json.loads(message)

    def _note(self, method: str, event: dict[str, Any]) -> None:
        if method == "Network.requestWillBeSent":
            self.requests.append(event["request"]["url"])
        elif method == "Runtime.exceptionThrown":
            self.messages.append(json.dumps(event["exceptionDetails"])[:500])
        elif method == "Runtime.consoleAPICalled" and event["type"] in ("error", "warning", "assert"):
            self.messages.append(json.dumps(event["args"])[:500])
        elif method == "Log.entryAdded" and event["entry"]["level"] in ("error", "warning"):
            self.messages.append(event["entry"]["text"])
