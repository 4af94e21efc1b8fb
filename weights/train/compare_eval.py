"""Measures a result file of `backdrop eval --details`, or compares two picture by picture.

    python weights/train/compare_eval.py RESULTS.csv
    python weights/train/compare_eval.py BEFORE.csv AFTER.csv

Measures: MAE, IoU, boundary IoU, and the shares of pictures that a person would keep (IoU of `KEPT` or more) and throw away (below
`LOST`). For each set, for both halves of the development sets (every second picture by name) and for these together: the mean and
its 95 % interval by bootstrap over the pictures; of two files the mean after, the mean difference (after minus before) and the
difference's interval, in ten-thousandths. Files of several folders can be concatenated.
"""

import csv
import sys
from collections.abc import Iterable

import numpy as np

MEASURES = ("mae", "iou", "boundary_iou", "kept", "lost")
KEPT = 0.95
LOST = 0.6
# Of sources that are not trained on.
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


def interval(values: np.ndarray, random: np.random.Generator) -> np.ndarray:
    """The 95 % interval of each column's mean."""
    count = len(values)
    means = np.array([values[random.integers(0, count, count)].mean(0) for _ in range(ROUNDS)])
    return np.percentile(means, [2.5, 97.5], axis=0)


def measured(values: np.ndarray, random: np.random.Generator) -> list[str]:
    """The means of one file."""
    low, high = interval(values, random)
    return [f"{name} {values[:, at].mean():.4f} [{low[at]:.4f}, {high[at]:.4f}]" for at, name in enumerate(MEASURES)]


def compared(before: np.ndarray, after: np.ndarray, random: np.random.Generator) -> list[str]:
    """The means of the second file and what they differ by from the first one's."""
    difference = (after - before) * 1e4
    low, high = interval(difference, random)
    return [
        f"{name} {after[:, at].mean():.4f} {difference[:, at].mean():+6.1f} [{low[at]:+.0f}, {high[at]:+.0f}]"
        for at, name in enumerate(MEASURES)
    ]


def main() -> None:
    """Prints the table."""
    tables = [scores(path) for path in sys.argv[1:3]]
    keys = sorted(set.intersection(*(set(table) for table in tables)))
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
                values = [np.array([table[key] for key in members]) for table in tables]
                cells = measured(*values, random) if len(values) == 1 else compared(*values, random)
                print(f"{label:28s} {len(members):4d}  " + "  ".join(cells))


if __name__ == "__main__":
    main()
