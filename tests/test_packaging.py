"""What packagers use says the same as the package: its recipe, its completions, its container."""

import os
import re
import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
OTHER_NAMES = {"matplotlib": "matplotlib-base"}
# conda's own SQLite is up to date, and google-re2 is there for every Python.
NOT_OF_CONDA = {"pysqlite3", "regex"}


def test_the_recipe_has_the_dependencies_of_the_package():
    recipe = yaml.safe_load((ROOT / "packaging" / "recipe.yaml").read_text(encoding="utf-8"))
    stated = dict(text.split(" ", 1) for text in recipe["requirements"]["run"])
    assert stated.pop("python") == PROJECT["requires-python"]
    needed = {}
    for text in PROJECT["dependencies"]:
        name, versions = re.match(r"([\w-]+)([^;]*)", text).groups()
        if name not in NOT_OF_CONDA:
            needed[OTHER_NAMES.get(name, name)] = versions.strip()
    assert stated == needed
    assert recipe["package"]["version"] == PROJECT["version"]
    scripts = {f"{name} = {target}" for name, target in PROJECT["scripts"].items()}
    assert set(recipe["build"]["python"]["entry_points"]) == scripts


@pytest.mark.parametrize(
    ("shell", "file"), [("bash", "zen.bash"), ("zsh", "_zen"), ("fish", "zen.fish")]
)
def test_the_completions_of_the_wheel_are_those_of_the_program(shell, file):
    own = os.environ | {"_TYPER_COMPLETE_TEST_DISABLE_SHELL_DETECTION": "1"}
    zen = [Path(sys.executable).with_name("zen"), "--show-completion", shell]
    done = subprocess.run(zen, env=own, capture_output=True, text=True, check=True)
    assert (ROOT / "packaging" / "completions" / file).read_text(encoding="utf-8") == done.stdout


def test_extras_that_files_of_packagers_name_exist():
    text = (ROOT / "Containerfile").read_text(encoding="utf-8")
    named = {name for extras in re.findall(r"\[([\w,]+)\]", text) for name in extras.split(",")}
    assert named <= set(PROJECT["optional-dependencies"])


@pytest.mark.slow
def test_the_wheel_has_a_manual_page_of_every_command(tmp_path):
    uv = str(Path(sys.executable).with_name("uv"))
    subprocess.run([uv, "build", "--quiet", "--wheel", "--out-dir", tmp_path, ROOT], check=True)
    (wheel,) = tmp_path.glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        (name,) = (name for name in archive.namelist() if name.endswith("share/man/man1/zen.1"))
        page = archive.read(name).decode()
    commands = (ROOT / "docs" / "commands.md").read_text(encoding="utf-8")
    headings = re.findall(r"^## (zen.*)", commands, re.MULTILINE)
    assert re.findall(r"^\.SH (ZEN.*)", page, re.MULTILINE) == [text.upper() for text in headings]
