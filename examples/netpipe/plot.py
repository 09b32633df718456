"""Draw what NetPIPE has measured: plot.py FILE.svg NP.OUT… Each line of such a file is bytes, Mbit/s and seconds."""

import sys
from pathlib import Path

import matplotlib

matplotlib.use("svg")
matplotlib.rcParams.update({"svg.fonttype": "none", "svg.hashsalt": "netpipe"})


def main() -> None:
    from matplotlib import pyplot

    picture, *files = sys.argv[1:]
    for file in files:
        size, rate, time = zip(*(map(float, line.split()) for line in Path(file).read_text().splitlines()))
        pyplot.loglog(size, rate, ".-", label=Path(file).stem)
        print(f"{Path(file).stem}: {min(time) * 1e6:.1f} us at best, {max(rate):.0f} Mbit/s at most")
    pyplot.xlabel("bytes")
    pyplot.ylabel("Mbit/s")
    pyplot.legend()
    pyplot.savefig(picture, metadata={"Date": None})


if __name__ == "__main__":
    main()
