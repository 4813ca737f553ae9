"""A headless Chromium to look at pages with, which reports what they ask for and complain about.

with Browser() as browser:
    browser.open(path.as_uri(), width=400)
    assert browser.complaints() == []
    assert browser.requests() == []
"""

from __future__ import annotations

import json
import tempfile
import time
from collections.abc import Callable
from types import TracebackType
from typing import Any, Self

from selenium import webdriver
from selenium.webdriver.chrome.options import Options
from selenium.webdriver.chrome.service import Service
from selenium.webdriver.common.by import By
from selenium.webdriver.remote.webelement import WebElement

DRIVER = "/usr/bin/chromedriver"
_LOCAL = ("data:", "about:", "blob:", "chrome:", "devtools:")


class Browser:
    """One tab of a headless Chromium."""

    def __init__(self, *, dark: bool = False, scripts: bool = True) -> None:
        options = Options()
        options.binary_location = "/usr/bin/chromium"
        self._profile = tempfile.TemporaryDirectory(prefix="chromium-", ignore_cleanup_errors=True)
        for argument in (
            "--headless=new",
            "--no-sandbox",
            "--disable-dev-shm-usage",
            "--disable-gpu",
            "--no-first-run",
            "--disable-background-networking",
            "--disable-component-update",
            "--disable-sync",
            "--force-device-scale-factor=1",
            "--hide-scrollbars",
            f"--user-data-dir={self._profile.name}",
        ):
            options.add_argument(argument)
        options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
        self.driver = webdriver.Chrome(options=options, service=Service(DRIVER))
        self.driver.set_page_load_timeout(30)
        self.scheme("dark" if dark else "light")
        if not scripts:
            self.driver.execute_cdp_cmd("Emulation.setScriptExecutionDisabled", {"value": True})

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        self.driver.quit()
        self._profile.cleanup()

    def scheme(self, name: str) -> None:
        """light or dark, as a reader's system prefers."""
        wanted = {
            "prefers-color-scheme": name,
            "prefers-reduced-motion": "reduce",
        }  # clicks do not wait for scrolling
        features = [{"name": feature, "value": value} for feature, value in wanted.items()]
        self.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": features})

    def open(self, url: str, *, width: int = 1280, height: int = 900) -> None:
        """Go to `url` in a window of that size, forgetting what earlier pages asked for and said."""
        self.resize(width, height)
        self.driver.get("about:blank")
        self._drain()
        self.driver.get(url)

    def resize(self, width: int, height: int = 900) -> None:
        """Of the page itself, in CSS pixels: windows are never as narrow as telephones."""
        self.driver.execute_cdp_cmd(
            "Emulation.setDeviceMetricsOverride",
            {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": False},
        )

    def requests(self) -> list[str]:
        """What the page asked for since it was opened, itself aside."""
        asked, seen = [], set()
        for entry in self.driver.get_log("performance"):
            message = json.loads(entry["message"])["message"]
            if message["method"] != "Network.requestWillBeSent":
                continue
            url = message["params"]["request"]["url"]
            if (
                not url.startswith(_LOCAL)
                and url.partition("#")[0] != self.driver.current_url.partition("#")[0]
            ):
                if url not in seen:
                    asked.append(url)
                seen.add(url)
        return asked

    def complaints(self) -> list[str]:
        """Errors and warnings on the console since the page was opened."""
        return [
            entry["message"]
            for entry in self.driver.get_log("browser")
            if entry["level"] in ("SEVERE", "WARNING")
        ]

    def run(self, script: str, *arguments: Any) -> Any:
        """What a function body of JavaScript returns."""
        return self.driver.execute_script(script, *arguments)

    def all(self, selector: str) -> list[WebElement]:
        return self.driver.find_elements(By.CSS_SELECTOR, selector)

    def one(self, selector: str) -> WebElement:
        return self.driver.find_element(By.CSS_SELECTOR, selector)

    def wait(self, condition: Callable[[], Any], seconds: float = 60.0) -> Any:
        """What `condition` gives as soon as that is true. Raises TimeoutError."""
        end = time.monotonic() + seconds
        while not (found := condition()):
            if time.monotonic() > end:
                raise TimeoutError(f"nothing after {seconds} s")
            time.sleep(0.02)
        return found

    def overflow(self) -> int:
        """By how many pixels the page is wider than its window."""
        return self.run("return document.documentElement.scrollWidth - document.documentElement.clientWidth")

    def settle(self) -> None:
        """Until what was resized or changed has been drawn again."""
        time.sleep(0.35)  # asked by script, a page without scripts would never answer

    def _drain(self) -> None:
        for log in ("performance", "browser"):
            self.driver.get_log(log)
