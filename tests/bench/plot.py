"""The plot of docs/performance.md: bars of time and CPU, as ratios to the least, for each size."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any
from xml.sax.saxutils import escape

from .page import Row, rows, title

LEFT, WIDE, HIGH, EDGE = 230, 520, 13, 14  # the names, the widest bar, a bar, the margin
COLOURS = {"time": "#4c78a8", "CPU": "#f58518"}
STYLE = "text{font:12px sans-serif;fill:#222}.head{font-weight:bold}"


def svg(files: Sequence[Mapping[str, Any]]) -> str:
    """Return the plot of all sizes in these files."""
    groups = [(title(measured), rows(measured, found["runtime"])) for found in files for measured in found["sizes"]]
    most = max(max(row.wall_ratio, row.cpu_ratio) for _, shown in groups for row in shown)
    parts: list[str] = [_legend()]
    y = 3 * EDGE
    for name, shown in groups:
        parts.append(f'<text class="head" x="{EDGE}" y="{y + HIGH}">{escape(name)}</text>')
        y += 2 * EDGE
        parts.append(_least(y, len(shown), WIDE / most))
        for row in shown:
            parts.append(_bars(row, y, WIDE / most))
            y += 2 * HIGH + 6
        y += EDGE
    width = LEFT + WIDE + 90
    body = "\n".join(parts)
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {y}" role="img">\n<style>{STYLE}</style>\n'
        f'<rect width="{width}" height="{y}" fill="#fff"/>\n{body}\n</svg>\n'
    )


def _legend() -> str:
    marks = [
        f'<rect x="{LEFT + 110 * number}" y="{EDGE}" width="{HIGH}" height="{HIGH}" fill="{colour}"/>'
        f'<text x="{LEFT + 110 * number + 18}" y="{EDGE + 11}">{name} / least</text>'
        for number, (name, colour) in enumerate(COLOURS.items())
    ]
    return "".join(marks) + f'<text x="{LEFT + 240}" y="{EDGE + 11}">| target of that time</text>'


def _least(y: float, count: int, unit: float) -> str:
    """Return the line of the least, which is 1."""
    x = LEFT + unit
    return f'<path d="M{x:.1f} {y}V{y + count * (2 * HIGH + 6)}" stroke="#888" stroke-dasharray="3 3"/>'


def _bars(row: Row, y: float, unit: float) -> str:
    drawn = [f'<text x="{LEFT - 8}" y="{y + HIGH + 4}" text-anchor="end">{escape(row.name)}</text>']
    for number, (ratio, colour) in enumerate(zip((row.wall_ratio, row.cpu_ratio), COLOURS.values())):
        top = y + number * HIGH
        drawn.append(f'<rect x="{LEFT}" y="{top}" width="{ratio * unit:.1f}" height="{HIGH - 1}" fill="{colour}"/>')
        drawn.append(f'<text x="{LEFT + ratio * unit + 5:.1f}" y="{top + 11}">{ratio:.2f}</text>')
    if row.target.wall:
        drawn.append(
            f'<path d="M{LEFT + row.target.wall * unit:.1f} {y - 2}v{HIGH + 3}" stroke="#111" stroke-width="2"/>'
        )
    return "".join(drawn)
