"""Pictures that show themselves in a notebook."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from zenturio.show.chart import Chart
from zenturio.show.scene import Scene


@dataclass(frozen=True)
class Shown(Chart):
    """A chart; a notebook asks it for its picture."""

    def _repr_mimebundle_(self, **_: Any) -> Mapping[str, Any]:
        from zenturio.show.interactive import notebook  # noqa: PLC0415 - plotly loads slowly

        return notebook(self)


@dataclass(frozen=True)
class ShownScene(Scene):
    """A scene; a notebook asks it for its picture."""

    def _repr_mimebundle_(self, **_: Any) -> Mapping[str, Any]:
        from zenturio.show.interactive import notebook  # noqa: PLC0415 - plotly loads slowly

        return notebook(self)
