"""Show a job and the times of its launch as one page of HTML, with charts, and without any other file."""

from __future__ import annotations

from html import escape

from mnrun.jobs import about
from mnrun.jobs import timeline as times
from mnrun.jobs.about import About
from mnrun.jobs.timeline import LEVELS, PHASES, Timeline
from mnrun.nodeset import counted
from mnrun.watching import charts
from mnrun.watching.charts import LEFT, WIDE, frame

SHOWN = 100  # nodes in the chart, the slowest first
HIGH = 18  # of a row
FEW = 2  # nodes, of which the course of those that were ready shows nothing new
HUES = ("#9aa0a6", "#c58af9", "#4c78a8", "#72b7b2", "#eeca3b", "#f58518", "#54a24b", "#e45756", "#b279a2")
COLOURS = dict(zip(PHASES, HUES))
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
dl{display:grid;grid-template-columns:max-content 1fr;gap:.2rem 1.4rem;margin:1rem 0}dt{opacity:.7}
dd{margin:0;overflow-wrap:anywhere}.bad{color:#e45756}
span{white-space:nowrap;margin-left:1em}
i{display:inline-block;width:.8em;height:.8em;margin-right:.5em}
"""


def html(timeline: Timeline | None, samples: str = "", job: About | None = None) -> str:
    """Return the page of a job, with the charts of its samples, if it was watched, and the times of its launch."""
    name = f"Job {job.id}{f': {job.name}' if job.name else ''}" if job else f"Launch {timeline.job if timeline else ''}"
    title = escape(name)
    parts = [f"<h1>{title}</h1>", _job(job) if job else "", charts.html(samples)]
    if timeline is not None:
        parts += [
            "<h2>Where the time went</h2>",
            f"<p>Launch {escape(timeline.job)}: {counted(len(timeline.nodes), 'node')}, {timeline.whole:.3f} s.</p>",
            _table(timeline),
            "<h2>Nodes</h2>",
            _nodes(timeline),
        ]
        parts += ["<h2>Nodes that were ready</h2>", _ready(timeline)] if len(timeline.nodes) > FEW else []
    head = f'<meta charset="utf-8"><title>{title}</title><style>{STYLE}</style>'
    return f'<!DOCTYPE html>\n<html lang="en"><head>{head}</head><body>\n' + "\n".join(parts) + "\n</body></html>\n"


def _job(job: About) -> str:
    lines = "".join(f"<dt>{escape(name)}</dt><dd>{escape(value)}</dd>" for name, value in about.rows(job))
    return f'<p class="{"bad" if job.code else ""}">{escape(job.line())}</p><dl>{lines}</dl>'


def _table(timeline: Timeline) -> str:
    heads = "".join(f"<th>{head}</th>" for head in ("phase", *(f"{level} %" for level in LEVELS), "slowest", ""))
    lines = []
    for phase, *cells in times.rows(timeline):
        words = "".join(f"<td>{escape(cell)}</td>" for cell in cells)
        mark = f'<i style="background:{COLOURS[phase]}"></i>'
        lines.append(f"<tr><td>{mark}{phase}</td>{words}<td>{PURPOSES[phase]}</td></tr>")
    return f"<p>Seconds of each phase, by percentiles of the nodes.</p><table><tr>{heads}</tr>{''.join(lines)}</table>"


def _nodes(timeline: Timeline) -> str:
    order = sorted(timeline.nodes, key=lambda node: -(timeline.nodes[node].ready or timeline.whole))
    shown = order[:SHOWN]
    rows = [_row(timeline, node, number) for number, node in enumerate(shown)]
    note = f"<p>The {SHOWN} slowest of {len(order)} nodes.</p>" if len(order) > SHOWN else ""
    return note + frame(rows, timeline.whole, len(shown) * HIGH)


def _row(timeline: Timeline, node: str, number: int) -> str:
    scale, y = WIDE / (timeline.whole or 1), number * HIGH
    drawn = [f'<text x="{LEFT - 8}" y="{y + 13}" text-anchor="end">{escape(node)}</text>']
    begin = 0.0
    for phase, seconds in times.phases(timeline, node).items():
        if seconds:
            place = f'x="{LEFT + begin * scale:.2f}" y="{y + 2}" width="{seconds * scale:.2f}" height="{HIGH - 4}"'
            said = f"<title>{escape(node)}: {phase} {seconds:.3f} s</title>"
            drawn.append(f'<rect {place} fill="{COLOURS[phase]}">{said}</rect>')
        begin += seconds
    return "".join(drawn)


def _ready(timeline: Timeline) -> str:
    moments = sorted(moments.ready for moments in timeline.nodes.values() if moments.ready is not None)
    scale, high = WIDE / (timeline.whole or 1), 160
    steps = [f"M{LEFT} {high}"]
    for number, moment in enumerate(moments, 1):
        steps.append(f"H{LEFT + moment * scale:.2f}V{high - high * number / len(timeline.nodes):.2f}")
    line = f'<path d="{"".join(steps)}H{LEFT + WIDE}" fill="none" stroke="{COLOURS["container"]}" stroke-width="2"/>'
    most = f'<text x="{LEFT - 8}" y="12" text-anchor="end">{counted(len(timeline.nodes), "node")}</text>'
    return frame([line, most], timeline.whole, high)
