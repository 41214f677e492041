"""First annotated programs, one for each language, which ``zen init`` writes."""

import shlex
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path

from zenturio.errors import ConflictError, NotFoundError, PlaceError, did_you_mean


@dataclass(frozen=True)
class Example:
    """A program that runs as it is, with directives that make it a study."""

    language: str
    file: str

    @property
    def text(self) -> str:
        return files(__package__).joinpath(self.file).read_text(encoding="utf-8")

    def write(self, path: Path) -> Path:
        """Write the program; commands in it speak of the file by its own name."""
        text = "".join(
            line.replace(Path(self.file).stem, shlex.quote(path.stem)) if "ZEN$" in line else line
            for line in self.text.splitlines(keepends=True)
        )
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            with path.open("x", encoding="utf-8") as target:
                target.write(text)
        except FileExistsError as error:
            raise ConflictError(
                f"{path} exists already", hint="choose another file: --out FILE"
            ) from error
        except OSError as error:
            raise PlaceError(f"cannot write {path}: {error.strerror}") from error
        return path


EXAMPLES = (
    Example("c", "first.c"),
    Example("fortran", "first.f90"),
    Example("javascript", "first.js"),
    Example("make", "first.mk"),
    Example("python", "first.py"),
    Example("shell", "first.sh"),
)


def find(language: str) -> Example:
    """Return the example of *language*."""
    for example in EXAMPLES:
        if example.language == language.lower():
            return example
    raise NotFoundError(
        f"there is no example in {language!r}",
        hint=did_you_mean(language, (example.language for example in EXAMPLES)),
    )
