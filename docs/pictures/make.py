"""
Makes the pictures of the README anew, from studies of the gallery.

    python docs/pictures/make.py

It needs gcc, and Chromium with Playwright for what is seen in a browser.
"""

import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from playwright.sync_api import sync_playwright

HERE = Path(__file__).resolve().parent
GALLERY = HERE.parents[1] / "annotations"
ZEN = [sys.executable, "-m", "zenturio"]
CHART = "/chart?study=sorting&x=count&y=per_key&color=algorithm&log=x"


def zen(folder: Path, *arguments: str) -> None:
    """Run a command there, as a user would."""
    subprocess.run([*ZEN, *arguments], cwd=folder, check=True, stdout=subprocess.DEVNULL)


def photograph(folder: Path, path: str, to: Path) -> None:
    """What somebody sees who opens *path* in the portal of *folder*."""
    command = [*ZEN, "portal", "--no-browser"]
    with subprocess.Popen(command, cwd=folder, stdout=subprocess.PIPE, text=True) as portal:
        try:
            assert portal.stdout is not None
            link = next(line.strip() for line in portal.stdout if "token=" in line)
            with sync_playwright() as play:
                browser = play.chromium.launch(
                    executable_path=shutil.which("chromium"), args=["--no-sandbox"]
                )
                page = browser.new_page(viewport={"width": 1100, "height": 800})
                page.goto(link)
                page.goto(re.sub(r"/\?token=.*", path, link))
                page.wait_for_selector(".js-plotly-plot .main-svg")
                page.wait_for_load_state("networkidle")
                page.screenshot(path=to)
                browser.close()
        finally:
            portal.terminate()


def main() -> None:
    """Run what the pictures show, and take them."""
    with tempfile.TemporaryDirectory() as made:
        folder = Path(made)
        (folder / ".zenturio").mkdir()
        shutil.copytree(GALLERY / "sorting", folder / "sorting")
        zen(folder, "run", "sorting", "-j", "1")
        workflow = ["wien2k:kpoints=16", "--on", "identical:8", "--algorithm", "ga"]
        zen(folder, "schedule", *workflow, "--gantt", str(HERE / "plan.svg"))
        photograph(folder, CHART, HERE / "portal.png")


main()
