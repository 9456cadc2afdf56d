"""Headless Chromium, driven over WebDriver and its DevTools: scripts, input events, pictures.

Chromium and its driver are installed on the machine; nothing is downloaded. The browser has no network, one family of
fonts, UTC and American English, so a page looks the same on every machine with that Chromium. Every failure is an
`EngineError` and ends the browser, because its state is unknown. Pages are in `page.py`.
"""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Mapping
from importlib.util import find_spec
from pathlib import Path
from tempfile import mkdtemp
from typing import Any, TypeVar

from align_echo.errors import EngineError, MissingDataError, MissingExtraError, first_line
from align_echo.wrappers.miniwob.spec import INSTALL_CHROMIUM

# ---------------------------------------------------------------- the driver's process

KEEPER = Path(__file__).with_name("keeper.py")

ENDED_WITHIN = 20.0
"""Seconds after which a keeper that was asked to end is killed: it may be frozen."""


class DriverProcess:
    """Driver that listens at `port`. Its process id, `pid`, is also the id of the browser's process group."""

    def __init__(self, path: str, environment: Mapping[str, str], folder: str, *, within: float) -> None:
        """Start the driver and wait until it listens, at most `within` seconds. `folder` is removed when it ends.

        Raises `OSError` with a one-line message on failure. Then, as after an interrupt, no part of it is left running.
        """
        self.pid = self.port = 0
        command = [str(KEEPER), str(os.getpid()), str(within), folder, path, "--port=0"]
        self._keeper = subprocess.Popen(
            [sys.executable, "-I", "-S", *command],
            env=dict(environment),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            bufsize=0,
            start_new_session=True,
        )
        try:
            self._read_port()
        except BaseException:
            self.end()
            raise

    def _read_port(self) -> None:
        assert self._keeper.stdout is not None
        with self._keeper.stdout as output:
            line = output.readline().decode()
        match = re.fullmatch(r"(\d+) (\d+)\n", line)
        if match is None:
            raise OSError(line.strip() or "its keeper ended")
        self.pid, self.port = int(match[1]), int(match[2])

    @property
    def running(self) -> bool:
        """Return True while the driver and its keeper run."""
        return self._keeper.poll() is None

    def end(self) -> None:
        """End the driver and its descendants; return after they are gone, and the folder with them.

        A keeper that misses the time limit is killed with the driver; then the folder stays.
        """
        pipe = self._keeper.stdin
        assert pipe is not None
        ending = pipe.closed
        if not ending:
            with contextlib.suppress(OSError):
                pipe.write(b"\n")  # closing alone is no signal while a forked child holds the pipe too
            pipe.close()
        try:
            self._keeper.wait(timeout=ENDED_WITHIN)
        except subprocess.TimeoutExpired:
            self._keeper.kill()
        if self._keeper.wait() < 0 and self.pid and not ending:  # the keeper was killed itself
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self.pid, signal.SIGKILL)

    def leave_to_parent(self) -> None:
        """Close the pipe that keeps the driver running. Call it in a forked child."""
        if self._keeper.stdin is not None:
            self._keeper.stdin.close()


# ---------------------------------------------------------------- chromium

ANSWER_WITHIN = 60
"""Seconds after which a driver without a port, or a call without an answer, is a fault."""

FONTS = ("/usr/share/fonts", "/usr/local/share/fonts")
FAMILIES = {
    "Liberation Sans": ("Arial", "Helvetica", "sans-serif"),
    "Liberation Serif": ("Times New Roman", "serif"),
    "Liberation Mono": ("Courier New", "monospace"),
}
"""Fonts with the metrics of those the pages ask for."""

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


class BrowserProcess:
    """Browser with one page, owned by one environment at a time and by the Python process that started it."""

    def __init__(self, size: tuple[int, int], *, at_start: str = "") -> None:
        """Start the browser (seconds); `at_start` is a script that runs in every page before the page's own.

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
        self._driver = Remote(command_executor=connection, options=options)  # this class downloads no driver
        self._driver.set_page_load_timeout(ANSWER_WITHIN / 2)
        self._driver.set_script_timeout(ANSWER_WITHIN / 2)
        width, height = size
        metrics = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": False}
        self.command("Emulation.setDeviceMetricsOverride", metrics)
        self.command("Page.addScriptToEvaluateOnNewDocument", {"source": at_start})

    @property
    def alive(self) -> bool:
        """Return True while the browser runs, has not failed, and belongs to this Python process."""
        running = self._process is not None and self._process.running
        return running and not self._broken and self._owner == os.getpid()

    @property
    def pid(self) -> int:
        """Process id of the driver, also the id of the process group of the browser."""
        return self._process.pid if self._process else 0

    def close(self) -> None:
        """End the browser and its driver, if they belong to this process."""
        self._broken = True
        if self._owner != os.getpid():
            return
        if self._process is not None:
            self._process.end()
        shutil.rmtree(self._folder, ignore_errors=True)

    def leave_to_parent(self) -> None:
        """Close the pipe that keeps the browser running. Call it in a forked child."""
        if self._process is not None:
            self._process.leave_to_parent()

    # ------------------------------------------------------------ calls; each raises `EngineError`

    def open(self, address: str) -> None:
        """Load a page, and wait until it has loaded."""
        self._ask(f"opening {address.rpartition('/')[2]}", lambda: self._driver.get(address))

    def run(self, script: str, *arguments: Any) -> Any:
        """Run a script, the body of a function of `arguments`, and return its result."""
        return self._ask("a script", lambda: self._driver.execute_script(script, *arguments))

    def run_async(self, script: str, *arguments: Any) -> Any:
        """Run a script and wait until it passes a result to its last argument, a callback."""
        return self._ask("a script", lambda: self._driver.execute_async_script(script, *arguments))

    def command(self, name: str, parameters: Mapping[str, Any]) -> Any:
        """Send a command of the DevTools protocol, such as an input event."""
        order = {"cmd": name, "params": dict(parameters)}
        return self._ask(name, lambda: self._driver.execute("executeCdpCommand", order)["value"])

    def _ask(self, task: str, call: Callable[[], Answer]) -> Answer:
        if not self.alive:
            raise EngineError("the browser has ended: reset() starts another")
        try:
            return call()
        except KeyboardInterrupt:
            self.close()  # otherwise the next call would receive this call's late answer
            raise
        except Exception as error:
            self.close()
            raise EngineError(f"the browser failed at {task}: {first_line(error)}") from error


def find_chromium() -> tuple[str, str]:
    """Find Chromium and its driver: at the paths in the environment variables, else on the path.

    Raises `MissingDataError` if either is missing.
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
    """Find the folder of the fonts that pages use. Raises `MissingDataError` if they are not installed."""
    for folder in FONTS:
        for file in sorted(Path(folder).rglob("LiberationSans-Regular.ttf")):
            return file.parent
    fonts = "MiniWoB's pages are laid out with the Liberation fonts, which are missing"
    raise MissingDataError(f"{fonts}: {INSTALL_CHROMIUM}")


def _font_settings(fonts: Path, cache: str) -> str:
    """Write settings that restrict the browser to one folder of fonts."""
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
