"""Run a program bare and in an image, in pairs: compare.py [OPTION…] IMAGE PROGRAM…

Both runs of a pair use the same nodes of this allocation and are started by mnrun in the same way. The first of them
is the bare one in every other pair. It prints the seconds, and their ratio with its spread.
"""

from __future__ import annotations

import argparse
import re
import time
from collections.abc import Sequence
from pathlib import Path
from statistics import quantiles

from mnrun import Job

WIDE, HIGH, EDGE, ROW = 560, 150, 40, 75  # the plot, its margin, and the height of its dots


def seconds(program: Sequence[str], figure: str, image: str) -> float:
    """Return what the program says it took, or how long the whole run was. No image is a bare run."""
    where = {"image": image} if image else {"runtime": "host"}
    output = Path("in-image.out" if image else "bare.out")
    begin = time.monotonic()
    code = Job(program, output=str(output), quiet=True, **where).run()
    took = time.monotonic() - begin
    if code:
        raise SystemExit(
            f"the run {'in the image' if image else 'without a container'} ended with {code}: see {output}"
        )
    if not figure:
        return took
    found = re.findall(figure, output.read_text())
    if not found:
        raise SystemExit(
            f"no line of {output} has {figure}: give --figure an expression with the seconds in parentheses"
        )
    return float(found[-1])


def spread(ratios: Sequence[float]) -> tuple[float, float, float]:
    """Return the ratios below which a quarter, half and three quarters of the pairs lie."""
    low, middle, high = quantiles(ratios, n=4, method="inclusive")
    return low, middle, high


def table(pairs: Sequence[tuple[float, float]]) -> str:
    """Return a line for each pair of bare run and run in the image, and one for all."""
    lines = [f"{'pair':>4} {'bare':>9} {'in image':>9} {'ratio':>7}"]
    lines += [f"{n:>4} {bare:>7.3f} s {boxed:>7.3f} s {boxed / bare:>7.3f}" for n, (bare, boxed) in enumerate(pairs, 1)]
    ratios = [boxed / bare for bare, boxed in pairs]
    low, middle, high = spread(ratios)
    lines.append(f"in image / bare: median {middle:.3f}, half of the pairs between {low:.3f} and {high:.3f}")
    return "\n".join([*lines, f"all of them between {min(ratios):.3f} and {max(ratios):.3f}"])


def plot(ratios: Sequence[float]) -> str:
    """Return an SVG: a dot for each pair, a box for the half of them in the middle, and a line for their median."""
    least, most = min(*ratios, 1), max(*ratios, 1)

    def x(ratio: float) -> float:
        return round(EDGE + (WIDE - 2 * EDGE) * (ratio - least) / (most - least or 1), 1)

    low, middle, high = spread(ratios)
    dots = "".join(f'<circle cx="{x(ratio)}" cy="{ROW}" r="4" fill="#4c78a8" opacity="0.7"/>' for ratio in ratios)
    marks = "".join(
        f'<text x="{x(ratio)}" y="{y}" text-anchor="middle">{text}</text>'
        for ratio, y, text in (
            (middle, 40, f"median {middle:.3f}"),
            (least, 125, f"{least:.3f}"),
            (most, 125, f"{most:.3f}"),
        )
    )
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDE} {HIGH}" role="img">\n'
        f'<style>text{{font:12px sans-serif}}</style>\n<rect width="{WIDE}" height="{HIGH}" fill="#fff"/>\n'
        f'<text x="{EDGE}" y="20">time in the image / time without a container; dashed: equal</text>\n'
        f'<rect x="{x(low)}" y="{ROW - 20}" width="{x(high) - x(low):.1f}" height="40" fill="#f58518" opacity="0.3"/>\n'
        f'<path d="M{x(middle)} {ROW - 25}v50" stroke="#f58518" stroke-width="2"/>\n'
        f'<path d="M{x(1)} {ROW - 25}v50" stroke="#222" stroke-dasharray="4 3"/>\n{dots}\n{marks}\n</svg>\n'
    )


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--pairs", type=int, default=10)
    parser.add_argument("--figure", default="", metavar="REGEX")
    parser.add_argument("--plot", type=Path, metavar="FILE.svg")
    parser.add_argument("image", metavar="IMAGE")
    parser.add_argument("program", nargs=argparse.REMAINDER, metavar="PROGRAM")
    given = parser.parse_args()
    if given.pairs < 2 or not given.program:
        parser.error("give an image, a program and at least two pairs")
    pairs = []
    for number in range(given.pairs):
        images = ("", given.image) if number % 2 == 0 else (given.image, "")
        took = {image: seconds(given.program, given.figure, image) for image in images}
        pairs.append((took[""], took[given.image]))
    print(table(pairs))
    if given.plot:
        given.plot.write_text(plot([boxed / bare for bare, boxed in pairs]))


if __name__ == "__main__":
    main()
