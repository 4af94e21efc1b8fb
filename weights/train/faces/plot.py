#!/usr/bin/env python3
"""Plots a run's log: python -m faces.plot RUN/log.jsonl --out curves.png"""
import argparse
import json
from pathlib import Path

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt


def main() -> None:
    p = argparse.ArgumentParser(description=__doc__)
    p.add_argument("log", type=Path)
    p.add_argument("--out", type=Path, required=True)
    a = p.parse_args()
    lines = [json.loads(line) for line in a.log.read_text().splitlines()]
    figure, axes = plt.subplots(1, 2, figsize=(10, 3.6))
    for axis, keys in zip(axes, (("loss", "score", "box", "points"), ("iou",))):
        for key in keys:
            axis.plot([line["images"] for line in lines], [line[key] for line in lines], label=key)
        axis.set(xlabel="images seen")
        axis.grid(alpha=0.3)
        axis.legend()
    axes[0].set_yscale("log")
    axes[1].set_title("mean IoU of the positive cells")
    figure.tight_layout()
    figure.savefig(a.out, dpi=70)


if __name__ == "__main__":
    main()
