"""Headless Chromium over its debugging pipe: no driver, no websocket, no package."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import time
from pathlib import Path
from typing import Any

PROGRAM = next(
    filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None
)
_FLAGS = (
    *("--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"),
    *("--no-first-run", "--disable-background-networking", "--disable-component-update"),
    *("--disable-sync", "--mute-audio", "--window-size=1200,900", "--remote-debugging-pipe"),
)


class Browser:
    """One page. `errors` are what its console reported as errors, `hosts` whom it asked."""

    def __init__(self, folder: Path) -> None:
        assert PROGRAM is not None
        their_in, our_out = os.pipe()
        our_in, their_out = os.pipe()

        def set_up() -> None:  # the browser reads from 3 and writes to 4
            high_in, high_out = os.dup2(their_in, 63), os.dup2(their_out, 64)
            os.dup2(high_in, 3)
            os.dup2(high_out, 4)

        self.process = subprocess.Popen(
            [PROGRAM, *_FLAGS, f"--user-data-dir={folder}", "about:blank"],
            preexec_fn=set_up,
            pass_fds=(3, 4),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            env={**os.environ, "HOME": str(folder)},
        )
        os.close(their_in)
        os.close(their_out)
        self._out, self._in = our_out, our_in
        self._rest, self._number = b"", 0
        self.errors: list[str] = []
        self.hosts: set[str] = set()
        target = self._call("Target.createTarget", {"url": "about:blank"})["targetId"]
        attach = {"targetId": target, "flatten": True}
        self._session = self._call("Target.attachToTarget", attach)["sessionId"]
        for domain in ("Page", "Runtime", "Network", "Log"):
            self.send(f"{domain}.enable")

    def send(self, method: str, parameters: dict[str, Any] | None = None) -> dict[str, Any]:
        """The result of a command to the page."""
        return self._call(method, parameters, self._session)

    def go(self, url: str) -> None:
        """Opens an address."""
        self.send("Page.navigate", {"url": url})

    def run(self, script: str) -> Any:
        """The value of an expression."""
        asked = {"expression": script, "returnByValue": True, "awaitPromise": True}
        answer = self.send("Runtime.evaluate", asked)
        if "exceptionDetails" in answer:
            raise AssertionError(answer["exceptionDetails"])
        return answer["result"].get("value")

    def wait(self, script: str, seconds: float = 30.0) -> Any:
        """The value of an expression as soon as it is true."""
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            # While a page is loading there is nothing to look at yet.
            value = self.run(f"(() => {{ try {{ return {script} }} catch {{ return null }} }})()")
            if value:
                return value
            time.sleep(0.05)
        raise AssertionError(f"not true after {seconds} s: {script}; errors: {self.errors}")

    def key(self, key: str, text: str = "") -> None:
        """Presses a key."""
        pressed = {"key": key, "text": text or ("\r" if key == "Enter" else "")}
        if len(key) == 1:
            pressed["text"] = key
        codes = {"Enter": 13, "Tab": 9, "Escape": 27, "ArrowRight": 39, "ArrowLeft": 37}
        if key in codes:
            pressed |= {"windowsVirtualKeyCode": codes[key], "code": key}
        kind = "keyDown" if pressed["text"] else "rawKeyDown"
        self.send("Input.dispatchKeyEvent", {"type": kind, **pressed})
        self.send("Input.dispatchKeyEvent", {"type": "keyUp", "key": key})

    def write(self, text: str) -> None:
        """Types a text where the focus is."""
        self.send("Input.insertText", {"text": text})

    def close(self) -> None:
        """Ends the browser."""
        os.close(self._out)  # it ends when its pipe does
        try:
            self.process.wait(10)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        os.close(self._in)

    def _call(
        self, method: str, parameters: dict[str, Any] | None = None, session: str | None = None
    ) -> dict[str, Any]:
        self._number += 1
        message: dict[str, Any] = {"id": self._number, "method": method, "params": parameters or {}}
        if session is not None:
            message["sessionId"] = session
        data = json.dumps(message).encode() + b"\0"
        while data:
            data = data[os.write(self._out, data) :]
        while True:
            answer = self._next()
            if answer.get("id") == self._number:
                if "error" in answer:
                    raise AssertionError(f"{method}: {answer['error']}")
                result: dict[str, Any] = answer["result"]
                return result
            self._event(answer)

    def _next(self) -> dict[str, Any]:
        while b"\0" not in self._rest:
            data = os.read(self._in, 1 << 16)
            if not data:
                raise AssertionError("the browser has ended")
            self._rest += data
        line, _, self._rest = self._rest.partition(b"\0")
        message: dict[str, Any] = json.loads(line)
        return message

    def _event(self, event: dict[str, Any]) -> None:
        method, told = event.get("method"), event.get("params", {})
        if method == "Runtime.exceptionThrown":
            self.errors.append(str(told["exceptionDetails"]))
        elif method == "Log.entryAdded" and told["entry"]["level"] == "error":
            self.errors.append(told["entry"]["text"])
        elif method == "Runtime.consoleAPICalled" and told["type"] == "error":
            self.errors.append(str(told["args"]))
        elif method == "Network.requestWillBeSent":
            self.hosts.add(told["request"]["url"].split("/")[2])
