"""Compares two result files of `backdrop eval --details`, picture by picture.

    python weights/train/compare_eval.py BEFORE.csv AFTER.csv

Measures: MAE, IoU, boundary IoU, and the shares of pictures that a person would keep (IoU of `KEPT` or more) and throw away (below
`LOST`). For each set, for both halves of the development sets (every second picture by name) and for these together: the mean after, the
mean difference (after minus before) and its 95 % interval by bootstrap over the pictures, in ten-thousandths. Files of
several folders can be concatenated.
"""

import csv
import sys
from collections.abc import Iterable

import numpy as np

MEASURES = ("mae", "iou", "boundary_iou", "kept", "lost")
KEPT = 0.95
LOST = 0.6
# Not used for any choice.
HELD_OUT = "scenes"
ROUNDS = 2000

Key = tuple[str, str, str]


def scores(path: str) -> dict[Key, list[float]]:
    """The measures of each (set, picture, "mask" or "matte")."""
    with open(path, newline="") as file:
        rows = (row for row in csv.DictReader(file) if row["set"] != "set")
        return {(row["set"], row["picture"], row["of"]): measures(row) for row in rows}


def measures(row: dict[str, str]) -> list[float]:
    """The values of `MEASURES` of a row."""
    iou = float(row["iou"])
    return [float(row["mae"]), iou, float(row["boundary_iou"]), float(iou >= KEPT), float(iou < LOST)]


def half_of(keys: Iterable[Key]) -> dict[tuple[str, str], str]:
    """The half of each (set, picture): every second one by name."""
    pictures = sorted({key[:2] for key in keys})
    position: dict[str, int] = {}
    halves = {}
    for name, picture in pictures:
        halves[name, picture] = "AB"[position.setdefault(name, 0) % 2]
        position[name] += 1
    return halves


def report(label: str, before: np.ndarray, after: np.ndarray, random: np.random.Generator) -> str:
    """One line of the table."""
    difference = (after - before) * 1e4
    count = len(difference)
    means = np.array([difference[random.integers(0, count, count)].mean(0) for _ in range(ROUNDS)])
    low, high = np.percentile(means, [2.5, 97.5], axis=0)
    cells = [
        f"{name} {after[:, at].mean():.4f} {difference[:, at].mean():+6.1f} [{low[at]:+.0f}, {high[at]:+.0f}]"
        for at, name in enumerate(MEASURES)
    ]
    return f"{label:28s} {count:4d}  " + "  ".join(cells)


def main() -> None:
    """Prints the comparison."""
    before, after = (scores(path) for path in sys.argv[1:3])
    keys = sorted(before.keys() & after.keys())
    halves = half_of(keys)
    random = np.random.default_rng(0)
    for of in ("mask", "matte"):
        of_kind = [key for key in keys if key[2] == of]
        groups = {name: [key for key in of_kind if key[0] == name] for name in sorted({key[0] for key in of_kind})}
        development = [key for key in of_kind if key[0] != HELD_OUT]
        for half in "AB":
            groups[f"development, half {half}"] = [key for key in development if halves[key[:2]] == half]
        groups["development"] = development
        groups["all"] = of_kind
        print(of)
        for label, members in groups.items():
            if members:
                values = [np.array([table[key] for key in members]) for table in (before, after)]
                print(report(label, *values, random))


if __name__ == "__main__":
    main()
