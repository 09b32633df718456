"""Draw the courses of metrics as SVG, which needs no other file."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from html import escape

from mnrun.watching.series import Metric, Points, courses, energies, extremes, mean, read_all, text

WIDE, LEFT, HIGH = 720, 150, 130  # of a chart: the values, the names, the height
MOST = 10  # lines in a chart. Of more things, it shows the least, the middle and the highest value
BINS = 240  # moments in a chart
HUES = ("#4c78a8", "#f58518", "#54a24b", "#e45756", "#b279a2", "#eeca3b", "#72b7b2", "#9d755d", "#ff9da6", "#79706e")


def html(samples: str) -> str:
    """Return the charts of the lines of samples, or "" without any."""
    found = read_all(samples)
    if not found:
        return ""
    begin, end = min(one.time for one in found), max(one.time for one in found)
    parts = [_metric(metric, by_label, begin, end - begin) for metric, by_label in courses(found).items()]
    energy = energies(found)
    whole = sum(energy.values())
    least, most = (f"{text(energy[it], 'J')} ({it})" for it in extremes(energy)) if energy else ("", "")
    words = f"The GPUs used {text(whole, 'J')}, which is {text(whole / 3600, 'Wh')}; least {least}, most {most}."
    return "\n".join(("<h2>What it used</h2>", *([f"<p>{escape(words)}</p>"] if energy else ()), *parts))


def _metric(metric: Metric, by_label: Mapping[str, Points], begin: float, whole: float) -> str:
    means = {label: mean(points) for label, points in by_label.items()}
    words = f"mean {text(sum(means.values()) / len(means), metric.unit)}"
    for word, label in zip(("least", "most"), extremes(means)):
        words += f", {word} {text(means[label], metric.unit)} ({escape(label)})" if len(means) > 1 else ""
    binned = {label: _binned(points, begin, whole) for label, points in by_label.items()}
    lines = binned if len(binned) <= MOST else _summed(binned)
    top = 1.0 if metric.unit == "%" else 0.0
    top = _round(max(top, *(value for values in lines.values() for value in values.values())))
    drawn = [
        f'<path d="M{LEFT} {y:.1f}H{LEFT + WIDE}" stroke="currentColor" stroke-opacity=".2"/>'
        f'<text x="{LEFT - 8}" y="{y + 4:.1f}" text-anchor="end">{escape(text(top * part, metric.unit))}</text>'
        for part in (0.0, 0.5, 1.0)
        for y in [10 + (HIGH - 10) * (1 - part)]
    ]
    legend = ""
    for hue, (label, values) in zip(HUES, lines.items()):
        drawn.append(_line(label, values, top, hue))
        legend += f'<span><i style="background:{hue}"></i>{escape(label)}</span> '
    return f"<h3>{metric.title}</h3><p>{words}. {legend}</p>{frame(drawn, whole, HIGH)}"


def _line(label: str, values: Mapping[int, float], top: float, hue: str) -> str:
    points = [
        f"{LEFT + WIDE * place / BINS:.1f} {10 + (HIGH - 10) * (1 - value / top):.1f}"
        for place, value in values.items()
    ]
    if len(points) == 1:
        points.append(points[0])
    path = f'<path d="M{"L".join(points)}" fill="none" stroke="{hue}" stroke-width="2" stroke-linecap="round">'
    return f"{path}<title>{escape(label)}</title></path>"


def _binned(points: Points, begin: float, whole: float) -> dict[int, float]:
    """Return the mean of the values in each part of the time."""
    parts: dict[int, list[float]] = {}
    for time, value in points:
        parts.setdefault(round((time - begin) / (whole or 1) * BINS), []).append(value)
    return {place: sum(values) / len(values) for place, values in parts.items()}


def _summed(by_label: Mapping[str, Mapping[int, float]]) -> dict[str, dict[int, float]]:
    places = sorted({place for values in by_label.values() for place in values})
    ordered = {place: sorted(v[place] for v in by_label.values() if place in v) for place in places}
    return {
        "least": {place: values[0] for place, values in ordered.items()},
        f"the middle of {len(by_label)}": {place: values[len(values) // 2] for place, values in ordered.items()},
        "most": {place: values[-1] for place, values in ordered.items()},
    }


def _round(value: float) -> float:
    """Return the next number of the kind 1, 2 or 5 times a power of ten."""
    if value <= 0:
        return 1.0
    power = 10.0 ** math.floor(math.log10(value))
    return next(step * power for step in (1, 2, 5, 10) if step * power >= value * 0.999)


def frame(drawn: Sequence[str], whole: float, high: int) -> str:
    """Return a chart with the seconds of `whole` below it."""
    ticks = [
        f'<path d="M{x:.2f} 0V{high + 4}" stroke="currentColor" stroke-opacity=".2"/>'
        f'<text x="{x:.2f}" y="{high + 18}" text-anchor="middle">{whole * part / 4:.2f} s</text>'
        for part in range(5)
        for x in [LEFT + WIDE * part / 4]
    ]
    return f'<svg viewBox="0 0 {LEFT + WIDE + 30} {high + 24}" role="img">{"".join([*ticks, *drawn])}</svg>'
