"""Reports as one HTML file that works without a network, for browsers."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

from zenturio.show.chart import Chart
from zenturio.show.figures import FONT
from zenturio.show.interactive import CONFIG, figure_of
from zenturio.show.scene import Scene

_STYLE = f"""
body {{ font: 16px/1.55 {FONT}; color: #17202a; }}
body {{ max-width: 62rem; margin: 2rem auto; padding: 0 1rem; }}
pre, code {{ font-family: ui-monospace, "DejaVu Sans Mono", monospace; font-size: 0.9em; }}
pre {{ background: #eef1f4; padding: 0.7rem 1rem; border-radius: 8px; overflow: auto; }}
figure {{ margin: 1.5rem 0; }}
blockquote {{ border-left: 4px solid #d9dee4; margin-left: 0; padding-left: 1rem; color: #55606c; }}
table {{ border-collapse: collapse; }}
td, th {{ padding: 0.3rem 0.8rem; border-bottom: 1px solid #d9dee4; text-align: left; }}
"""


def report_page(title: str, blocks: Sequence[str | Chart | Scene]) -> str:
    """The page: texts are HTML already; plotly.js is in it once."""
    parts, scripts = [], True
    for block in blocks:
        if isinstance(block, str):
            parts.append(block)
            continue
        figure = figure_of(block).to_html(
            include_plotlyjs=scripts, include_mathjax=False, full_html=False,
            default_width="100%", config=CONFIG,
        )  # fmt: skip
        parts.append(f"<figure>{figure}</figure>")
        scripts = False
    body = "\n".join(parts)
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f'<meta name="referrer" content="no-referrer"><title>{escape(title)}</title>'
        f"<style>{_STYLE}</style></head>\n<body>\n{body}\n</body></html>\n"
    )
