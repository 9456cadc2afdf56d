"""A page in a real browser, and what a reader does with it: press keys, choose, look."""

from __future__ import annotations

import time
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from align_echo.errors import MissingDataError
from align_echo.wrappers.miniwob.chromium import BrowserProcess, find_chromium, find_fonts

DESKTOP, PHONE = (1280, 900), (390, 844)
CODES = {"Escape": 27, "Enter": 13, "Tab": 9, "ArrowUp": 38, "ArrowDown": 40, "End": 35, " ": 32}
AT_START = """
    window.wrong = [];
    addEventListener("securitypolicyviolation", (event) => window.wrong.push(event.violatedDirective));
    addEventListener("error", (event) => window.wrong.push(event.message));
    addEventListener("unhandledrejection", (event) => window.wrong.push(String(event.reason)));
"""
"""Notes in `window.wrong` what the page tried against its policy, and its errors."""


def missing() -> str:
    """What there is no browser for; "" where there is one."""
    if find_spec("selenium") is None or find_spec("miniwob") is None:
        return "the extra miniwob is not installed"
    try:
        find_chromium()
        find_fonts()
    except MissingDataError as error:
        return str(error)
    return ""


class Page:
    """A page that is open in a browser, at the width of a desk."""

    def __init__(self, browser: BrowserProcess, file: Path) -> None:
        self.browser = browser
        self.file = file
        self.size(*DESKTOP)
        self.open()

    def open(self, address: str = "") -> None:
        self.browser.open("about:blank")
        self.browser.open(f"file://{self.file.resolve()}{address}")
        self.until("return document.body.dataset.ready")

    def size(self, width: int, height: int) -> None:
        metrics = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 500}
        self.browser.command("Emulation.setDeviceMetricsOverride", metrics)

    def until(self, script: str, *arguments: Any) -> Any:
        """What a script returns once that is anything."""
        end = time.monotonic() + 60
        while not (value := self.browser.run(script, *arguments)):
            assert time.monotonic() < end, self.browser.run("return document.body.innerText")[:2000]
            time.sleep(0.02)
        return value

    def press(self, *keys: str) -> None:
        for key in keys:
            event = {"key": key, "windowsVirtualKeyCode": CODES.get(key, 0)}
            text = "\r" if key == "Enter" else key if len(key) == 1 else ""
            self.browser.command("Input.dispatchKeyEvent", {**event, "type": "keyDown", "text": text})
            self.browser.command("Input.dispatchKeyEvent", {**event, "type": "keyUp"})

    def choose(self, name: str, text: str) -> None:
        """Take the first option of a box that begins with a text."""
        script = """const box = document.getElementById(arguments[0]);
            box.value = [...box.options].find((option) => option.textContent.startsWith(arguments[1])).value;
            box.dispatchEvent(new Event("change"));"""
        self.browser.run(script, name, text)

    def texts(self, selector: str) -> list[str]:
        script = "return [...document.querySelectorAll(arguments[0])].map((each) => each.textContent)"
        return list(self.browser.run(script, selector))

    def shows(self, selector: str, text: str) -> None:
        """Wait until an element holds a text."""
        script = """return [...document.querySelectorAll(arguments[0])]
            .some((each) => each.textContent.includes(arguments[1]))"""
        self.until(script, selector, text)

    @property
    def focused(self) -> str:
        """The text of the element that has the keys, or its id where it has one."""
        return str(self.browser.run("const it = document.activeElement; return it.id || it.innerText || it.tagName"))

    def reach(self, begin: str) -> None:
        """Press Tab until an element has the keys whose text or id begins so."""
        for _ in range(60):
            if self.focused.startswith(begin):
                return
            self.press("Tab")
        raise AssertionError(f"Tab does not come to {begin}")

    def seen(self, selector: str) -> bool:
        script = "return document.querySelector(arguments[0])?.checkVisibility() || false"
        return bool(self.browser.run(script, selector))

    @property
    def listed(self) -> list[str]:
        """The tasks of the list, as far as it is drawn."""
        return self.texts(".row .task")

    @property
    def address(self) -> str:
        return str(self.browser.run("return decodeURIComponent(location.hash)"))
