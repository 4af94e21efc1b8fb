#!/usr/bin/env python3
"""Plots runs' logs: plot.py RUN/log.jsonl [MORE/log.jsonl] --out curves.png"""
import argparse
import json
from pathlib import Path

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt


def main() -> None:
    p = argparse.ArgumentParser(description=__doc__)
    p.add_argument("logs", type=Path, nargs="+")
    p.add_argument("--out", type=Path, required=True)
    a = p.parse_args()
    figure, (losses, errors, edges) = plt.subplots(1, 3, figsize=(13, 4))
    for log, dash in zip(a.logs, ("-", "--", ":", "-.")):
        lines = [json.loads(line) for line in log.read_text().splitlines()]
        name = log.parent.name
        steps = [line for line in lines if "loss" in line]
        for k, key in enumerate(("loss", "bce", "iou", "l1")):
            values = [s[key] for s in steps]
            losses.plot([s["images"] for s in steps], values, dash, color=f"C{k}", label=f"{key} {name}")
        measured = [line for line in lines if "eval" in line]
        for k, s in enumerate(measured[-1]["eval"] if measured else ()):
            at = [m["images"] for m in measured]
            style = {"marker": ".", "linestyle": dash, "color": f"C{k}"}
            errors.plot(at, [m["eval"][s]["mae"] for m in measured], label=f"{s} {name}", **style)
            edges.plot(at, [m["eval"][s]["boundary_iou"] for m in measured], **style)
    for axis, title in ((losses, "training loss"), (errors, "MAE"), (edges, "boundary IoU")):
        axis.set(title=title, xlabel="images seen")
        axis.grid(alpha=0.3)
    losses.set_yscale("log")
    losses.legend(fontsize=6)
    errors.legend(fontsize=6)
    figure.tight_layout()
    figure.savefig(a.out, dpi=80)


if __name__ == "__main__":
    main()
