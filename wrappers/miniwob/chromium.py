"""One headless Chromium, driven over WebDriver and its DevTools: scripts, input events, pictures.

Chromium and its driver are the machine's own; nothing is downloaded. The browser sees no network, one family of fonts,
UTC and American English, so that a page is laid out alike on every machine with that Chromium. Every failure is an
`EngineError` and ends the browser, since nobody knows what state it is in. Left out: how the driver's process starts
and ends (`driver.py`), and what a page is (`page.py`).
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Mapping
from importlib.util import find_spec
from pathlib import Path
from tempfile import mkdtemp
from typing import Any, TypeVar

from align_echo.errors import EngineError, MissingDataError, MissingExtraError, first_line
from align_echo.wrappers.miniwob.driver import DriverProcess
from align_echo.wrappers.miniwob.spec import INSTALL_CHROMIUM

ANSWER_WITHIN = 60
"""Seconds after which a driver that has not told its port, or a call that has not returned, is a fault."""

FONTS = ("/usr/share/fonts", "/usr/local/share/fonts")
FAMILIES = {
    "Liberation Sans": ("Arial", "Helvetica", "sans-serif"),
    "Liberation Serif": ("Times New Roman", "serif"),
    "Liberation Mono": ("Courier New", "monospace"),
}
"""Fonts with the metrics of those that the pages ask for."""

SWITCHES = (
    "--headless=new",
    "--no-sandbox",  # the pages are the package's own files, and in a container root has no other way
    "--disable-gpu",
    "--disable-dev-shm-usage",
    "--disable-extensions",
    "--disable-features=SpareRendererForSitePerProcess",
    "--renderer-process-limit=1",
    "--disable-breakpad",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--no-first-run",
    "--disable-smooth-scrolling",
    "--disable-renderer-backgrounding",
    "--disable-backgrounding-occluded-windows",
    "--font-render-hinting=none",
    "--disable-partial-raster",
    "--force-color-profile=srgb",
    "--hide-scrollbars",
    "--lang=en-US",
    "--host-resolver-rules=MAP * ~NOTFOUND",
    "--allow-file-access-from-files",
)

Answer = TypeVar("Answer")


class Browser:
    """One browser with one page. It belongs to one environment at a time and to the process that started it."""

    def __init__(self, size: tuple[int, int], *, at_start: str = "") -> None:
        """Start it (seconds); `at_start` is a script that runs in every page before the page's own.

        `size` is the page's width and height in pixels. Raises `MissingExtraError`, `MissingDataError`, `EngineError`.
        """
        if find_spec("selenium") is None or find_spec("miniwob") is None:
            raise MissingExtraError("MiniWoB", "miniwob")
        chrome, driver = find_chromium()
        fonts = find_fonts()
        self._owner = os.getpid()
        self._broken = False
        self._driver: Any = None
        self._process: DriverProcess | None = None
        self._folder = mkdtemp(prefix="align-echo-")
        try:
            self._start(chrome, driver, fonts, size, at_start)
        except BaseException as error:
            self.close()
            if not isinstance(error, Exception):
                raise
            raise EngineError(f"Chromium does not start with {driver}: {first_line(error)}") from error

    def _start(self, chrome: str, driver: str, fonts: Path, size: tuple[int, int], at_start: str) -> None:
        from selenium.webdriver import ChromeOptions, Remote
        from selenium.webdriver.chrome.remote_connection import ChromeRemoteConnection
        from selenium.webdriver.remote.client_config import ClientConfig

        settings = Path(self._folder, "fonts.conf")
        settings.write_text(_font_settings(fonts, f"{self._folder}/fonts"), encoding="utf-8")
        own = {"TMPDIR": self._folder, "HOME": self._folder, "FONTCONFIG_FILE": str(settings), "TZ": "UTC"}
        self._process = DriverProcess(driver, {**os.environ, **own}, self._folder, within=ANSWER_WITHIN)
        options = ChromeOptions()
        options.binary_location = chrome
        for switch in (*SWITCHES, f"--user-data-dir={self._folder}/profile"):
            options.add_argument(switch)
        address = f"http://localhost:{self._process.port}"
        asking = ClientConfig(remote_server_addr=address, timeout=ANSWER_WITHIN)
        connection = ChromeRemoteConnection(address, ignore_proxy=True, client_config=asking)
        self._driver = Remote(command_executor=connection, options=options)  # which looks for no driver to download
        self._driver.set_page_load_timeout(ANSWER_WITHIN / 2)
        self._driver.set_script_timeout(ANSWER_WITHIN / 2)
        width, height = size
        metrics = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": False}
        self.command("Emulation.setDeviceMetricsOverride", metrics)
        self.command("Page.addScriptToEvaluateOnNewDocument", {"source": at_start})

    @property
    def alive(self) -> bool:
        """It can be asked: it runs, has not failed, and this is the process that started it."""
        running = self._process is not None and self._process.running
        return running and not self._broken and self._owner == os.getpid()

    @property
    def pid(self) -> int:
        """The driver's process id, which is also that of the group of all the browser's processes."""
        return self._process.pid if self._process else 0

    def close(self) -> None:
        """End the browser and its driver, if this is the process that started them."""
        self._broken = True
        if self._owner != os.getpid():
            return
        if self._process is not None:
            self._process.end()
        shutil.rmtree(self._folder, ignore_errors=True)

    def leave_to_parent(self) -> None:
        """In a process that was forked off: let go of what keeps the browser running."""
        if self._process is not None:
            self._process.leave_to_parent()

    # ------------------------------------------------------------ calls; each raises `EngineError`

    def open(self, address: str) -> None:
        """Load a page, and wait until it has loaded."""
        self._ask(f"opening {address.rpartition('/')[2]}", lambda: self._driver.get(address))

    def run(self, script: str, *arguments: Any) -> Any:
        """What a script returns: the body of a function of `arguments`."""
        return self._ask("a script", lambda: self._driver.execute_script(script, *arguments))

    def run_until_told(self, script: str, *arguments: Any) -> Any:
        """What a script tells the function that is its last argument."""
        return self._ask("a script", lambda: self._driver.execute_async_script(script, *arguments))

    def command(self, name: str, parameters: Mapping[str, Any]) -> Any:
        """A command of the DevTools protocol, such as an input event."""
        order = {"cmd": name, "params": dict(parameters)}
        return self._ask(name, lambda: self._driver.execute("executeCdpCommand", order)["value"])

    def _ask(self, what: str, call: Callable[[], Answer]) -> Answer:
        if not self.alive:
            raise EngineError("the browser has ended: reset() starts another")
        try:
            return call()
        except KeyboardInterrupt:
            self.close()  # an answer is still to come, which the next call would take for its own
            raise
        except Exception as error:
            self.close()
            raise EngineError(f"the browser failed at {what}: {first_line(error)}") from error


def find_chromium() -> tuple[str, str]:
    """Paths of Chromium and of its driver: those that the environment names, else those on the path.

    Raises `MissingDataError` if one is missing.
    """
    browser = (
        os.environ.get("MINIWOB_CHROME_BINARY") or shutil.which("chromium"),
        os.environ.get("MINIWOB_CHROMEDRIVER") or shutil.which("chromedriver"),
    )
    for name, path in zip(("Chromium", "Chromium's driver"), browser, strict=True):
        if path is None or not os.access(path, os.X_OK):
            where = "is not installed" if path is None else f"is not at {path}"
            raise MissingDataError(
                f"MiniWoB needs Chromium, but {name} {where}: {INSTALL_CHROMIUM}, "
                "or set MINIWOB_CHROME_BINARY and MINIWOB_CHROMEDRIVER"
            )
    return str(browser[0]), str(browser[1])


def find_fonts() -> Path:
    """The folder of the fonts that pages are laid out with. Raises `MissingDataError` if they are not installed."""
    for folder in FONTS:
        for file in sorted(Path(folder).rglob("LiberationSans-Regular.ttf")):
            return file.parent
    fonts = "MiniWoB's pages are laid out with the Liberation fonts, which are missing"
    raise MissingDataError(f"{fonts}: {INSTALL_CHROMIUM}")


def _font_settings(fonts: Path, cache: str) -> str:
    """Settings that let the browser see one folder of fonts and no other, whatever else the machine has."""
    families = "".join(
        f'<alias binding="same"><family>{name}</family><prefer><family>{family}</family></prefer></alias>'
        for family, names in FAMILIES.items()
        for name in names
    )
    return (
        '<?xml version="1.0"?><!DOCTYPE fontconfig SYSTEM "fonts.dtd"><fontconfig>'
        f"<dir>{fonts}</dir><cachedir>{cache}</cachedir>{families}"
        '<match><edit name="family" mode="append_last"><string>Liberation Sans</string></edit></match></fontconfig>'
    )
