"""The files that pages load: from the package, compressed as they lie there."""

from __future__ import annotations

import gzip
import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from starlette.responses import PlainTextResponse, Response

if TYPE_CHECKING:
    from starlette.requests import Request

FOLDER = Path(__file__).parent / "static"
TYPES = {
    ".css": "text/css; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".svg": "image/svg+xml",
    ".LICENSE": "text/plain; charset=utf-8",
}
YEAR = "private, max-age=31536000, immutable"


@dataclass(frozen=True)
class Asset:
    """A file as it is sent."""

    path: Path
    kind: str
    packed: bool
    version: str


def _found() -> dict[str, Asset]:
    found = {}
    for path in sorted(FOLDER.iterdir()):
        packed = path.suffix == ".gz"
        name = path.name.removesuffix(".gz")
        kind = TYPES.get(Path(name).suffix)
        if kind is not None:
            version = hashlib.sha256(path.read_bytes()).hexdigest()[:12]
            found[name] = Asset(path, kind, packed, version)
    return found


@dataclass(frozen=True)
class Assets:
    """All files that may be asked for, by name: no path is made of what a request says."""

    known: Mapping[str, Asset] = field(default_factory=_found)

    def address(self, name: str) -> str:
        """Where a page finds the file *name*; another address for another content."""
        return f"/static/{name}?v={self.known[name].version}"

    def answer(self, request: Request) -> Response:
        """The file that *request* asks for."""
        asset = self.known.get(request.path_params["name"])
        if asset is None:
            return PlainTextResponse("there is no such file", 404)
        content = asset.path.read_bytes()
        current = request.query_params.get("v") == asset.version
        headers = {"Cache-Control": YEAR if current else "no-cache", "Vary": "Accept-Encoding"}
        if asset.packed:
            if "gzip" in request.headers.get("accept-encoding", ""):
                headers["Content-Encoding"] = "gzip"
            else:
                content = gzip.decompress(content)
        return Response(content, headers=headers, media_type=asset.kind)
