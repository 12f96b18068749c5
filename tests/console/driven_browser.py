"""Debian's browser, driven as a person would: by what is on the screen, and by its keys."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from selenium.webdriver import Chrome
from selenium.webdriver.chrome.options import Options
from selenium.webdriver.chrome.service import Service
from selenium.webdriver.common.action_chains import ActionChains
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys
from selenium.webdriver.remote.webelement import WebElement

from tests.house.sources import ROOT
from tests.support.browser import find_browser
from tests.support.waiting import wait_until

PATIENCE_S = 30.0
AXE = ROOT / "build" / "axe" / "package" / "axe.min.js"
PICTURES = ROOT / "build" / "console"
TABS_MAX = 60


class DrivenBrowser:
    """One window."""

    def __init__(self) -> None:
        options = Options()
        options.binary_location = find_browser()
        for argument in (
            "--headless=new", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", "--force-color-profile=srgb",
            "--disable-background-networking", "--disable-component-update", "--disable-sync", "--no-first-run",
        ):  # fmt: skip
            options.add_argument(argument)
        options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
        driver = shutil.which("chromedriver")
        assert driver is not None, "there is no chromedriver: `make setup` as root installs it"
        self.driver = Chrome(options=options, service=Service(driver))
        self.size(1280, 900)

    def close(self) -> None:
        """The browser ends."""
        self.driver.quit()

    def size(self, width: int, height: int) -> None:
        """Of what is seen, not of a window's frame: a narrow one is as narrow as a telephone."""
        self.driver.execute_cdp_cmd(
            "Emulation.setDeviceMetricsOverride",
            {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": False},
        )

    def colours(self, theme: str) -> None:
        """What the system says that it likes: light or dark."""
        features = [{"name": "prefers-color-scheme", "value": theme}]
        self.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": features})

    def script(self, text: str, *arguments: object) -> Any:
        """Run in the page."""
        return self.driver.execute_script(text, *arguments)

    def text(self) -> str:
        """What can be read now."""
        return str(self.script("return document.body.innerText"))

    def until(self, holds: Callable[[], object], about: str) -> None:
        """Return when it holds."""
        wait_until(lambda: bool(holds()), about=about, timeout_s=PATIENCE_S)

    def until_text(self, text: str) -> None:
        """Return when it can be read."""
        self.until(lambda: text in self.text(), f"{text!r} on {self.driver.current_url}")

    def find(self, css: str) -> WebElement:
        """The first that fits."""
        return self.driver.find_element(By.CSS_SELECTOR, css)

    def press(self, *keys: str) -> None:
        """On the keyboard, whatever has the focus; CONTROL is held down while the others are pressed."""
        chain = ActionChains(self.driver)
        if Keys.CONTROL in keys:
            others = [key for key in keys if key != Keys.CONTROL]
            chain.key_down(Keys.CONTROL).send_keys(*others).key_up(Keys.CONTROL).perform()
        else:
            chain.send_keys(*keys).perform()

    def focused(self) -> tuple[str, str]:
        """The text of what has the focus, and its outline's style: in one question, for views are renewed meanwhile."""
        text, outline = self.script(
            "const at = document.activeElement; return [at.innerText || at.textContent "
            "|| at.getAttribute('aria-label') || at.getAttribute('name') || '', getComputedStyle(at).outlineStyle]"
        )
        return str(text).strip(), str(outline)

    def tab_to(self, name: str) -> None:
        """Go by the tab key to what has this text, and see that one sees where one is."""
        for _ in range(TABS_MAX):
            self.press(Keys.TAB)
            shown, outline = self.focused()
            if name in shown:
                assert outline != "none", f"{name}: one does not see the focus"
                return
        pytest.fail(f"{name!r} is not reached by the tab key on {self.driver.current_url}")

    def complaints(self) -> Sequence[str]:
        """What the browser refused or stumbled over since the last question; an answer of 4xx is none."""
        log: Any = self.driver.get_log("browser")  # type: ignore[no-untyped-call]
        lines = [str(each["message"]) for each in log if each["level"] == "SEVERE"]
        return [line for line in lines if "the server responded with a status of 4" not in line]

    def hindrances(self) -> Sequence[str]:
        """What axe-core calls serious or critical: somebody cannot use the page as it is now."""
        if not AXE.is_file():
            pytest.skip("there is no axe-core: `make setup` fetches it")
        self.script(AXE.read_text(encoding="utf-8"))
        found = self.driver.execute_async_script(
            "const done = arguments[arguments.length - 1]; axe.run(document).then(done)"
        )
        return [
            f"{each['id']}: {node['html']}: {json.dumps(node['any'][:1])}"
            for each in found["violations"]
            if each["impact"] in ("serious", "critical")
            for node in each["nodes"]
        ]

    def picture(self, name: str) -> Path:
        """What is seen, as build/console/NAME.png, which the docs show copies of."""
        PICTURES.mkdir(parents=True, exist_ok=True)
        path = PICTURES / f"{name}.png"
        assert self.driver.save_screenshot(str(path))
        return path
