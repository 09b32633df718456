"""Show a timeline as one page of HTML, with charts, and without any other file."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

from mnrun.jobs import timeline as times
from mnrun.jobs.timeline import LEVELS, PHASES, Timeline
from mnrun.nodeset import counted

SHOWN = 100  # nodes in the chart, the slowest first
WIDE, LEFT, HIGH = 720, 150, 18  # of a chart: the bars, the names, a row
COLOURS = ("#9aa0a6", "#c58af9", "#4c78a8", "#72b7b2", "#eeca3b", "#f58518", "#54a24b", "#e45756", "#b279a2")
PURPOSES = {
    "allocate": "mnrun starts, and gets the nodes",
    "prepare": "images are pulled, and the plan is made",
    "reach": "until the node answers",
    "container": "until its container is ready",
    "others": "the node waits for the slowest one",
    "ranks": "until its last rank has started",
    "run": "the program runs",
    "sweep": "everything on the node ends",
    "finish": "the node has ended, and others have not",
}
STYLE = """
:root{color-scheme:light dark}
body{font:15px/1.5 system-ui,sans-serif;max-width:60rem;margin:2rem auto;padding:0 1rem}
table{border-collapse:collapse;margin:1rem 0}
th,td{text-align:right;padding:.2rem .7rem;border-bottom:1px solid #8884}
th:first-child,td:first-child,th:nth-last-child(-n+2),td:nth-last-child(-n+2){text-align:left}
th,td:first-child{white-space:nowrap}
svg{width:100%;height:auto}text{font:12px system-ui,sans-serif;fill:currentColor}
i{display:inline-block;width:.8em;height:.8em;margin-right:.5em}
"""


def html(timeline: Timeline) -> str:
    """Return the page."""
    title = escape(f"Launch {timeline.job}")
    parts = [
        f"<h1>{title}</h1><p>{counted(len(timeline.nodes), 'node')}, {timeline.whole:.3f} s from begin to end.</p>",
        _table(timeline),
        "<h2>Nodes</h2>",
        _nodes(timeline),
        "<h2>Nodes that were ready</h2>",
        _ready(timeline),
    ]
    head = f'<meta charset="utf-8"><title>{title}</title><style>{STYLE}</style>'
    return f'<!DOCTYPE html>\n<html lang="en"><head>{head}</head><body>\n' + "\n".join(parts) + "\n</body></html>\n"


def _table(timeline: Timeline) -> str:
    heads = "".join(f"<th>{head}</th>" for head in ("phase", *(f"{level} %" for level in LEVELS), "slowest", ""))
    lines = []
    for phase, *cells in times.rows(timeline):
        words = "".join(f"<td>{escape(cell)}</td>" for cell in cells)
        mark = f'<i style="background:{_colour(phase)}"></i>'
        lines.append(f"<tr><td>{mark}{phase}</td>{words}<td>{PURPOSES[phase]}</td></tr>")
    return f"<p>Seconds of each phase, by percentiles of the nodes.</p><table><tr>{heads}</tr>{''.join(lines)}</table>"


def _nodes(timeline: Timeline) -> str:
    """Return the chart with a row for each node, the last one to be ready first."""
    order = sorted(timeline.nodes, key=lambda node: -(timeline.nodes[node].ready or timeline.whole))
    shown = order[:SHOWN]
    rows = [_row(timeline, node, number) for number, node in enumerate(shown)]
    note = f"<p>The {SHOWN} slowest of {len(order)} nodes.</p>" if len(order) > SHOWN else ""
    return note + _chart(rows, timeline.whole, len(shown) * HIGH)


def _row(timeline: Timeline, node: str, number: int) -> str:
    scale, y = WIDE / (timeline.whole or 1), number * HIGH
    drawn = [f'<text x="{LEFT - 8}" y="{y + 13}" text-anchor="end">{escape(node)}</text>']
    begin = 0.0
    for phase, seconds in times.phases(timeline, node).items():
        if seconds:
            place = f'x="{LEFT + begin * scale:.2f}" y="{y + 2}" width="{seconds * scale:.2f}" height="{HIGH - 4}"'
            said = f"<title>{escape(node)}: {phase} {seconds:.3f} s</title>"
            drawn.append(f'<rect {place} fill="{_colour(phase)}">{said}</rect>')
        begin += seconds
    return "".join(drawn)


def _ready(timeline: Timeline) -> str:
    """Return the chart of how many nodes were ready at each time."""
    moments = sorted(moments.ready for moments in timeline.nodes.values() if moments.ready is not None)
    scale, high = WIDE / (timeline.whole or 1), 160
    steps = [f"M{LEFT} {high}"]
    for number, moment in enumerate(moments, 1):
        steps.append(f"H{LEFT + moment * scale:.2f}V{high - high * number / len(timeline.nodes):.2f}")
    line = f'<path d="{"".join(steps)}H{LEFT + WIDE}" fill="none" stroke="{_colour("container")}" stroke-width="2"/>'
    most = f'<text x="{LEFT - 8}" y="12" text-anchor="end">{counted(len(timeline.nodes), "node")}</text>'
    return _chart([line, most], timeline.whole, high)


def _chart(drawn: Sequence[str], whole: float, high: int) -> str:
    """Return a chart over the seconds of the launch."""
    ticks = [
        f'<path d="M{x:.2f} 0V{high + 4}" stroke="currentColor" stroke-opacity=".2"/>'
        f'<text x="{x:.2f}" y="{high + 18}" text-anchor="middle">{whole * part / 4:.2f} s</text>'
        for part in range(5)
        for x in [LEFT + WIDE * part / 4]
    ]
    return f'<svg viewBox="0 0 {LEFT + WIDE + 30} {high + 24}" role="img">{"".join([*ticks, *drawn])}</svg>'


def _colour(phase: str) -> str:
    return dict(zip(PHASES, COLOURS))[phase]
