"""Plot of insert_load.sh.

usage: insert_load_plot.py FIGURES.csv PLOT.png

FIGURES has columns side, seconds, series, value.  Four panels over the time of
the load: rows a second, latency of transactions, segments by level and kind, and
what the table takes on disk.
"""

import csv
import sys
from collections import defaultdict

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt  # noqa: E402

COLOURS = {"heap": "tab:gray", "lsm": "tab:blue"}


def read(name):
    """Series by (side, series): two lists, seconds and values."""
    series = defaultdict(lambda: ([], []))
    with open(name, newline="") as file:
        for line in csv.DictReader(file):
            times, values = series[line["side"], line["series"]]
            times.append(float(line["seconds"]))
            values.append(float(line["value"]))
    return series


def counts(series, side, levels):
    """Numbers of segments at each time they were counted; none is zero."""
    times = series[side, "size"][0]
    for level in levels:
        found = list(zip(*series[side, level]))
        values = [
            next((n for at, n in found if abs(at - time) < step(times) / 2), 0)
            for time in times
        ]
        yield level, times, values


def step(times):
    return (times[-1] - times[0]) / max(1, len(times) - 1) or 1


def plot(series, name):
    sides = sorted({side for side, _ in series})
    levels = sorted({what for _, what in series if what.startswith("level_")})
    figure, panels = plt.subplots(4, 1, figsize=(10, 13), sharex=True)
    rate, latency, segments, size = panels

    for side in sides:
        colour = COLOURS.get(side, "tab:green")
        rate.plot(*series[side, "rows_per_second"], color=colour, label=side)
        latency.plot(*series[side, "median_ms"], color=colour, label=f"{side}, median")
        latency.plot(*series[side, "p999_ms"], color=colour, linestyle="--", label=f"{side}, 99.9 percentile")
        latency.plot(*series[side, "longest_ms"], color=colour, linestyle="", marker=".", label=f"{side}, longest")
        times, values = series[side, "size"]
        size.plot(times, [value / 1e6 for value in values], color=colour, label=side)
        if side != "heap":
            for level, times, values in counts(series, side, levels):
                _, number, kind = level.split("_", 2)
                segments.plot(times, values, drawstyle="steps-post", label=f"level {number}, {kind}")

    rate.set_ylabel("rows a second")
    latency.set_ylabel("ms for a transaction")
    latency.set_yscale("log")
    segments.set_ylabel("segments")
    size.set_ylabel("MB on disk, without indexes")
    size.set_xlabel("seconds")
    for panel in panels:
        panel.grid(alpha=0.3)
        if panel.get_legend_handles_labels()[0]:
            panel.legend(loc="best", fontsize="small")
    for panel in (rate, segments, size):
        panel.set_ylim(bottom=0)
    figure.tight_layout()
    figure.savefig(name, dpi=100)


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    plot(read(sys.argv[1]), sys.argv[2])
