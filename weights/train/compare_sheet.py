#!/usr/bin/env python3
"""Draws the pictures of a set that the first of two versions cuts out worst: picture, mask by hand, both cutouts on magenta, both IoUs.

    backdrop eval EVAL --weights BEFORE --details BEFORE.csv
    backdrop remove EVAL/SET/image --weights BEFORE -o CUT_BEFORE
    (the same for AFTER)
    compare_sheet.py EVAL/SET BEFORE.csv AFTER.csv CUT_BEFORE CUT_AFTER --out sheet.png
"""
import argparse
from pathlib import Path

import cv2
import numpy as np

from compare_eval import scores
from data import masked_pairs

SIDE = 110
IOU = 1  # in `compare_eval.MEASURES`
MAGENTA = (200, 60, 200)


def tile(path: Path) -> np.ndarray:
    """The picture, or the cutout on magenta; black where there is none, as where no subject is found."""
    image = cv2.imread(str(path), cv2.IMREAD_UNCHANGED)
    if image is None:
        return np.zeros((SIDE, SIDE, 3), np.uint8)
    if image.ndim == 2:
        image = cv2.cvtColor(image, cv2.COLOR_GRAY2BGR)
    if image.shape[2] == 4:
        alpha = image[..., 3:] / 255.0
        image = (image[..., :3] * alpha + np.array(MAGENTA) * (1 - alpha)).astype(np.uint8)
    return cv2.resize(image, (SIDE, SIDE), interpolation=cv2.INTER_AREA)


def main() -> None:
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("set", type=Path)
    p.add_argument("scores", nargs=2)
    p.add_argument("cutouts", type=Path, nargs=2)
    p.add_argument("--worst", type=int, default=40)
    p.add_argument("--columns", type=int, default=4)
    p.add_argument("--out", type=Path, required=True)
    a = p.parse_args()
    before, after = ({k[1]: v[IOU] for k, v in scores(s).items() if k[0] == a.set.name and k[2] == "matte"} for s in a.scores)
    pairs = {picture.name: (picture, mask) for picture, mask in masked_pairs(a.set)}
    rows = []
    for name in sorted(before.keys() & after.keys() & pairs.keys(), key=before.get)[: a.worst]:
        picture, mask = pairs[name]
        row = np.hstack([tile(path) for path in (picture, mask, *(c / f"{picture.stem}.png" for c in a.cutouts))])
        cv2.putText(row, f"{before[name]:.2f} {after[name]:.2f}", (2 * SIDE + 2, 10), 0, 0.35, (255, 255, 255), 1)
        rows.append(row)
    rows += [np.zeros_like(rows[0])] * (-len(rows) % a.columns)
    lines = [np.hstack(rows[at : at + a.columns]) for at in range(0, len(rows), a.columns)]
    cv2.imwrite(str(a.out), np.vstack(lines))


if __name__ == "__main__":
    main()
