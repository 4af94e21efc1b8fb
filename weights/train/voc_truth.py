#!/usr/bin/env python3
"""Writes a development set (image/ and mask/) from photos of VOC 2007 and the hand-made class maps of VOC.

    voc_truth.py --photos pascal_07_06 --maps SegmentationClassAug --out SET

A map is called `2007_<photo>.png` and has a colour for each class. Everything that has a class is subject: a rider and the
horse, all boats. The void contour between classes and background goes to the nearer side. Photos without a map are left out.
"""
import argparse
from pathlib import Path

import cv2
import numpy as np

from teach import pictures

VOID = (192, 224, 224)  # BGR as OpenCV reads it
CONTOUR = 3             # sigma in pixels, about the contour's width


def subject_mask(classes: np.ndarray) -> np.ndarray:
    """The mask, 0 or 255 (uint8), of a class map (height, width, 3)."""
    void = (classes == VOID).all(2)
    mask = np.where(classes.any(2), 255, 0).astype(np.uint8)
    near = cv2.GaussianBlur(np.where(void, 127.5, mask).astype(np.float32), (0, 0), CONTOUR)
    return np.where(void, np.where(near > 127.5, 255, 0), mask).astype(np.uint8)


def main() -> None:
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--photos", type=Path, required=True)
    p.add_argument("--maps", type=Path, required=True)
    p.add_argument("--out", type=Path, required=True)
    a = p.parse_args()
    for kind in ("image", "mask"):
        (a.out / kind).mkdir(parents=True, exist_ok=True)
    written = 0
    for stem, photo in {path.stem: path for path in pictures(a.photos)}.items():  # a photo can be in several folders
        file = a.maps / f"2007_{stem}.png"
        if not file.exists():
            continue
        mask = subject_mask(cv2.imread(str(file)))
        if cv2.imread(str(photo)).shape[:2] != mask.shape:
            raise SystemExit(f"{photo}: not of the size of {file}")
        (a.out / "image" / photo.name).write_bytes(photo.read_bytes())
        cv2.imwrite(str(a.out / "mask" / f"{stem}.png"), mask)
        written += 1
    print(f"{a.out}: {written}")


if __name__ == "__main__":
    main()
