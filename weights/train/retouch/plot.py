"""Plots the logs of several runs in one figure: python -m retouch.plot RUN/log.jsonl... --out curves.png"""
import argparse
import json
from pathlib import Path

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt

PARTS = (("loss", "training loss"), ("psnr", "PSNR of a batch, dB"), ("gain", "gain of damaged faces, dB"),
         ("whole", "PSNR of undamaged faces, dB"))


def main() -> None:
    p = argparse.ArgumentParser(description=__doc__)
    p.add_argument("logs", type=Path, nargs="+")
    p.add_argument("--out", type=Path, required=True)
    a = p.parse_args()
    runs = {log.stem if log.stem != "log" else log.parent.name: log.read_text().splitlines() for log in a.logs}
    figure, axes = plt.subplots(1, len(PARTS), figsize=(4 * len(PARTS), 3.6))
    for name, lines in runs.items():
        lines = [json.loads(line) for line in lines]
        for axis, (part, _) in zip(axes, PARTS):
            having = [line for line in lines if part in line]
            if having:
                axis.plot([h["step"] for h in having], [h[part] for h in having], linewidth=0.8, label=name)
    for axis, (part, title) in zip(axes, PARTS):
        axis.set(title=title, xlabel="steps", **({"yscale": "log"} if part == "loss" else {}))
        axis.grid(alpha=0.3)
        axis.legend(fontsize=7)
    figure.tight_layout()
    figure.savefig(a.out, dpi=80)


if __name__ == "__main__":
    main()
