"""
Makes the pictures of README anew, from real runs.

    python docs/pictures/make.py

It needs gcc, Numba, and Chromium with Playwright for what is seen in a browser.
"""

import html
import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from playwright.sync_api import sync_playwright

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
GALLERY = ROOT / "annotations"
ZEN = [sys.executable, "-m", "zenturio"]
CHART = "/chart?study=sorting&x=count&y=per_key&color=algorithm&log=x"

COLUMNS = 88
LETTER_WIDTH, LINE_HEIGHT, MARGIN, BAR = 7.83, 18, 16, 30
"""Pixels of a monospaced letter of 13 pixels, of a line, around the text, of the title bar."""
_TERMINAL = """<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" \
viewBox="0 0 {width} {height}" role="img" aria-label="{label}">
<rect width="100%" height="100%" rx="8" fill="#1f2430"/>
<circle cx="18" cy="16" r="5" fill="#e06c75"/><circle cx="36" cy="16" r="5" fill="#e5c07b"/>\
<circle cx="54" cy="16" r="5" fill="#98c379"/>
<g font-family="ui-monospace, 'DejaVu Sans Mono', Menlo, Consolas, monospace" font-size="13" \
fill="#d8dee9">
{lines}
</g>
</svg>
"""
_TEXT = '<text x="{x}" y="{y}" textLength="{length:.1f}"{style}>{text}</text>'


def zen(folder: Path, *arguments: str) -> str:
    """Run a command there, as a user would, and return what it prints."""
    environment = {**os.environ, "COLUMNS": str(COLUMNS)}
    done = subprocess.run(
        [*ZEN, *arguments], cwd=folder, env=environment, stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT, text=True, check=False,
    )  # fmt: skip
    if done.returncode not in {0, 2}:
        raise SystemExit(done.stdout)
    return done.stdout


def terminal(commands: list[tuple[str, str]]) -> str:
    """Return a picture of *commands* with what each printed."""
    lines = []
    for command, printed in commands:
        # A terminal overwrites the line of progress, and breaks long lines.
        kept = [line for line in printed.rstrip().splitlines() if not line.startswith("running ")]
        lines += [f"$ {command}"]
        for line in kept:
            lines += [line[at : at + COLUMNS] for at in range(0, max(len(line), 1), COLUMNS)]
        lines.append("")
    del lines[-1]
    drawn = [
        _TEXT.format(
            x=MARGIN,
            y=BAR + MARGIN + number * LINE_HEIGHT,
            # The same grid of letters, whichever font the reader has.
            length=len(line) * LETTER_WIDTH,
            style=' fill="#a3be8c" font-weight="bold"' if line.startswith("$ ") else "",
            text=html.escape(line, quote=False).replace(" ", "\N{NO-BREAK SPACE}"),
        )
        for number, line in enumerate(lines)
        if line
    ]
    width = round(2 * MARGIN + COLUMNS * LETTER_WIDTH)
    height = BAR + MARGIN + len(lines) * LINE_HEIGHT
    label = html.escape(f"Terminal: {commands[0][0]}")
    return _TERMINAL.format(width=width, height=height, label=label, lines="\n".join(drawn))


def typed(folder: Path, *commands: str) -> list[tuple[str, str]]:
    """Return each command line of ``zen`` with what it prints in *folder*."""
    return [(command, zen(folder, *shlex.split(command)[1:])) for command in commands]


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


def of_the_program(folder: Path) -> None:
    """Pictures of the program in README: its chart, and five commands in a terminal."""
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    (program,) = re.findall(r"^```c\n(.*?)^```", readme, re.MULTILINE | re.DOTALL)
    source = folder / "relax.c"
    pictures = {}
    source.write_text(program.replace("1.0:1.95:0.05 }", "1.0:1.95:0.05"))
    pictures["check"] = typed(folder, "zen check relax.c")
    source.write_text(program)
    zen(folder, "run", "relax.c")
    plot = "zen plot relax --x omega --y sweeps --color n --log y"
    zen(folder, *plot.split()[1:], "-o", str(HERE / "sweeps.svg"))
    pictures["plot"] = typed(folder, f"{plot} -o -")
    pictures["results"] = typed(
        folder,
        "zen results relax --columns n,omega,sweeps --sort sweeps --limit 6",
        "zen results relax --by n --metric sweeps --agg min,max --where 'omega > 1.5'",
    )
    source.write_text(program.replace("16:64:*2", "16:128:*2"))
    pictures["run"] = typed(folder, "zen run relax.c")
    wide = program.replace("16:64:*2", "512").replace("1.95:0.05", "1.999:0.001")
    zen(folder, "prune", "relax", "--yes")
    source.write_text(wide)
    pictures["search"] = typed(
        folder, "zen run relax.c --search --budget 40", "zen best relax -n 3"
    )
    for name, commands in pictures.items():
        (HERE / f"{name}.svg").write_text(terminal(commands), encoding="utf-8")


def main() -> None:
    """Run what the pictures show, and take them."""
    with tempfile.TemporaryDirectory() as made:
        folder = Path(made)
        of_the_program(folder)
        if "--terminal" in sys.argv:
            return
        shutil.copytree(GALLERY / "sorting", folder / "sorting")
        zen(folder, "run", "sorting", "-j", "1")
        workflow = ["wien2k:kpoints=16", "--on", "identical:8", "--algorithm", "ga"]
        zen(folder, "schedule", *workflow, "--gantt", str(HERE / "plan.svg"))
        photograph(folder, CHART, HERE / "portal.png")


main()
