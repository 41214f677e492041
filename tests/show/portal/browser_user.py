"""A person before the portal: a real browser, of which everything is noticed that goes wrong."""

import gzip
import io
import os
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import urlencode

import numpy as np
from PIL import Image
from playwright.sync_api import sync_playwright

AXE = gzip.decompress((Path(__file__).parent / "axe" / "axe.min.js.gz").read_bytes()).decode()
SHOTS = Path(__file__).parents[3] / "test-output" / "portal"
WIDE, SMALL = (1280, 900), (390, 800)
HINTS = ("GPU stall", "willReadFrequently")
"""Of warnings: how something that works would be faster."""
RULES = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"]


@contextmanager
def chromium(executable):
    """A browser without a window."""
    with sync_playwright() as play:
        browser = play.chromium.launch(
            executable_path=executable,
            args=["--no-sandbox", "--disable-dev-shm-usage"],
        )
        try:
            yield browser
        finally:
            browser.close()


class Person:
    """Somebody who came by the link, with a window of some size, by day or by night."""

    def __init__(self, browser, served, *, dark=False, size=WIDE, javascript=True):
        self.served = served
        self._scripts = javascript
        self._context = browser.new_context(
            viewport={"width": size[0], "height": size[1]},
            color_scheme="dark" if dark else "light",
            reduced_motion="reduce",
            java_script_enabled=javascript,
            permissions=["clipboard-read", "clipboard-write"],
        )
        self.page = self._context.new_page()
        self.page.set_default_timeout(240_000)
        self.wrong = []
        """Messages of the console, errors, and requests to anywhere else."""
        self.page.on("console", self._heard)
        self.page.on("pageerror", lambda error: self.wrong.append(f"error: {error}"))
        self.page.on("request", self._asked)
        self.page.goto(served.link())

    def _heard(self, message):
        hint = any(word in message.text for word in HINTS)
        if message.type in ("error", "warning") and not hint:
            self.wrong.append(f"console: {message.text}")

    def _asked(self, request):
        if not request.url.startswith((self.served.address + "/", "data:", "blob:")):
            self.wrong.append(f"request: {request.url}")

    @staticmethod
    def encoded(given):
        """The part of an address behind its question mark."""
        return urlencode(given)

    def close(self):
        self._context.close()

    def visit(self, path):
        """Go to a page, and wait until everything is there."""
        self.page.goto(self.served.address + path)
        self.settle()
        return self.page

    def settle(self):
        """Until charts are drawn and parts that come later have come."""
        if not self._scripts:
            return
        self.page.wait_for_function(
            "() => !document.querySelector('[aria-busy=true], .htmx-request')"
            " && [...document.querySelectorAll('[hx-trigger=load]')].length === 0"
        )

    def shot(self, name):
        """A picture of the whole page, kept to be looked at, if ZENTURIO_TEST_SHOTS is set.

        Chromium paints it without a graphics card, which takes as long as the test itself.
        """
        if not os.environ.get("ZENTURIO_TEST_SHOTS"):
            return
        SHOTS.mkdir(parents=True, exist_ok=True)
        self.page.screenshot(path=SHOTS / f"{name}.png", full_page=True)

    def barriers(self):
        """What keeps people from using the page, by axe's rules."""
        self.page.evaluate(AXE)
        found = self.page.evaluate(
            "(tags) => axe.run(document, {runOnly: tags, resultTypes: ['violations']})", RULES
        )
        return [
            f"{each['id']}: {each['help']}: {[node['html'][:200] for node in each['nodes'][:3]]}"
            for each in found["violations"]
        ]

    def overflow(self):
        """By how many pixels the page is wider than the window."""
        return self.page.evaluate(
            "() => document.documentElement.scrollWidth - document.documentElement.clientWidth"
        )

    def colours(self, selector):
        """How many pixels of something are neither its ground nor grey, and of how many colours."""
        content = self.page.locator(selector).first.screenshot()
        pixels = np.asarray(Image.open(io.BytesIO(content)).convert("RGB"), dtype=int)
        bright = pixels[pixels.max(axis=2) - pixels.min(axis=2) > 40]
        return len(bright), len(np.unique(bright // 32, axis=0))
