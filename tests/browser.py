"""A headless Chromium for tests, by the DevTools protocol over a pipe: no driver, no port, no network."""

import base64
import itertools
import json
import os
import select
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import processes

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
CHROMIUM = next(filter(None, map(shutil.which, NAMES)), None)
FLAGS = (
    "--headless=new",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-dev-shm-usage",
    "--disable-background-networking",
    "--disable-extensions",
    "--no-first-run",
    "--hide-scrollbars",
    "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1",  # no network, whatever a page asks for
    "--remote-debugging-pipe",
)
PATIENCE = 30.0  # seconds
START = """import fcntl, os, sys
read, write = (fcntl.fcntl(int(fd), fcntl.F_DUPFD, 10) for fd in sys.argv[1:3])  # out of the way of 3 and 4
os.dup2(read, 3), os.dup2(write, 4)
os.execv(sys.argv[3], sys.argv[3:])
"""


class Browser:
    """One page; its console, its errors and everything it asked for are kept."""

    def __init__(self, width: int = 1200, height: int = 900) -> None:
        assert CHROMIUM
        self.asked: list[str] = []  # addresses
        self.complaints: list[str] = []  # errors and warnings
        self._numbers, self._rest = itertools.count(1), b""
        self._home = tempfile.mkdtemp(prefix="baton-browser-")
        (theirs, self._to), (self._from, back) = os.pipe(), os.pipe()
        own = [f"--user-data-dir={self._home}", f"--window-size={width},{height}", "about:blank"]
        self._process = subprocess.Popen(
            [sys.executable, "-I", "-S", "-c", START, str(theirs), str(back), CHROMIUM, *FLAGS, *own],
            pass_fds=(theirs, back),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            env={**os.environ, "TMPDIR": self._home},
            process_group=0,
        )
        os.close(theirs)
        os.close(back)
        self._session = ""
        try:
            self._attach(width, height)
        except BaseException:
            self.__exit__(None, None, None)
            raise

    def _attach(self, width: int, height: int) -> None:
        targets = self.call("Target.getTargets")["targetInfos"]
        page = next(t["targetId"] for t in targets if t["type"] == "page")
        self._session = self.call("Target.attachToTarget", targetId=page, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.call(f"{domain}.enable")
        self.size(width, height)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        try:
            if self._session:
                self._session = ""
                self.call("Browser.close")
            else:
                self._process.terminate()
            self._process.wait(10)
        except (subprocess.TimeoutExpired, OSError, AssertionError):
            self._process.kill()
            self._process.wait()
        processes.end(self._process.pid)  # its helpers
        os.close(self._to)
        os.close(self._from)
        for _ in range(20):  # its helpers may take a moment longer
            shutil.rmtree(self._home, ignore_errors=True)
            if not Path(self._home).exists():
                break
            time.sleep(0.1)

    def call(self, method: str, **params: Any) -> dict[str, Any]:
        """One command and its answer."""
        number = next(self._numbers)
        message: dict[str, Any] = {"id": number, "method": method, "params": params}
        if self._session:
            message["sessionId"] = self._session
        data = json.dumps(message).encode() + b"\0"
        while data:
            data = data[os.write(self._to, data) :]
        end = time.monotonic() + PATIENCE
        while time.monotonic() < end:
            answer = self._next(end)
            if answer.get("id") == number:
                assert "error" not in answer, (method, answer["error"])
                result: dict[str, Any] = answer["result"]
                return result
        raise TimeoutError(method)

    def _next(self, end: float) -> dict[str, Any]:
        while b"\0" not in self._rest:
            ready, _, _ = select.select([self._from], [], [], max(0.0, end - time.monotonic()))
            if not ready:
                raise TimeoutError("chromium does not answer")
            more = os.read(self._from, 1 << 20)
            assert more, "chromium has ended"
            self._rest += more
        first, self._rest = self._rest.split(b"\0", 1)
        message: dict[str, Any] = json.loads(first)
        self._note(message.get("method", ""), message.get("params", {}))
        return message

    def _note(self, method: str, params: dict[str, Any]) -> None:
        if method == "Network.requestWillBeSent":
            self.asked.append(params["request"]["url"])
        elif method == "Runtime.exceptionThrown":
            self.complaints.append(json.dumps(params["exceptionDetails"])[:500])
        elif method == "Runtime.consoleAPICalled" and params["type"] in ("error", "warning", "assert"):
            self.complaints.append(json.dumps(params["args"])[:500])
        elif method == "Log.entryAdded" and params["entry"]["level"] in ("error", "warning"):
            self.complaints.append(f"{params['entry']['text']} {params['entry'].get('url', '')}")

    def open(self, address: str) -> None:
        """Go there, and wait until it is loaded."""
        self.call("Page.navigate", url=address)
        self.until("location.href !== 'about:blank' && document.readyState === 'complete'")

    def run(self, code: str) -> Any:
        """The value of an expression in the page."""
        answer = self.call("Runtime.evaluate", expression=code, returnByValue=True, awaitPromise=True)
        assert "exceptionDetails" not in answer, answer["exceptionDetails"]
        return answer["result"].get("value")

    def until(self, code: str, patience: float = PATIENCE) -> None:
        """Wait until an expression is true."""
        end = time.monotonic() + patience
        while time.monotonic() < end:
            if self.run(f"Boolean({code})"):
                return
            time.sleep(0.05)
        raise AssertionError(f"never true: {code}")

    def size(self, width: int, height: int) -> None:
        """The window."""
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=False)

    def media(self, kind: str = "screen", dark: bool = False) -> None:
        """What the page is shown on."""
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self.call("Emulation.setEmulatedMedia", media=kind, features=[scheme])

    def mouse(self, kind: str, x: float, y: float, clicks: int = 0) -> None:
        """mouseMoved, mousePressed or mouseReleased."""
        held = "left" if kind != "mouseMoved" else "none"
        self.call("Input.dispatchMouseEvent", type=kind, x=x, y=y, button=held, clickCount=clicks)

    def click(self, x: float, y: float, times: int = 1) -> None:
        """Press and release, once or twice."""
        for nth in range(1, times + 1):
            self.mouse("mousePressed", x, y, nth)
            self.mouse("mouseReleased", x, y, nth)

    def box(self, selector: str) -> tuple[float, float, float, float]:
        """Left, top, width and height of an element, scrolled into view."""
        code = f"""(() => {{ const e = document.querySelector({json.dumps(selector)});
            e.scrollIntoView({{block: 'center'}}); const b = e.getBoundingClientRect();
            return [b.left, b.top, b.width, b.height]; }})()"""
        left, top, width, height = self.run(code)
        return left, top, width, height

    def shot(self, path: Path, whole: bool = False) -> None:
        """A picture of the page."""
        picture = self.call("Page.captureScreenshot", captureBeyondViewport=whole)
        path.write_bytes(base64.b64decode(picture["data"]))
