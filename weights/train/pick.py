#!/usr/bin/env python3
"""Selects unlabelled photos from published collections: a few of each class, reduced to at most 512 px.

    pick.py caltech101 101_ObjectCategories PHOTOS    up to 60 of each class
    pick.py birds valid PHOTOS                        two of each species
    pick.py portraits headshots PHOTOS                130
    pick.py clothing clothing-dataset-small PHOTOS --had ../clothing_cc0_pseudo    90 of each kind, none of `--had`
    pick.py all JPEGImages PHOTOS --most 950          any folder of scenes: all of it, or the 950 with the least hashes

Files are called `<class>__<name>.jpg`. The selection depends only on the file names. `--most` limits the total of any collection.
"""
import argparse
import hashlib
import random
from pathlib import Path

import cv2

from data import MAX_SIDE, read_rgb, resize_to
from teach import labelled_stems, pictures

# Excluded: drawings, logos, scenes without a main subject. Limited: classes whose pictures are much alike.
CALTECH_EXCLUDED = {"BACKGROUND_Google", "Faces_easy", "brain", "dollar_bill", "garfield", "snoopy", "yin_yang", "trilobite",
                "joshua_tree", "stop_sign"}
CALTECH_LIMITS = {"car_side": 6, "pagoda": 8, "minaret": 6, "pyramid": 5, "cougar_face": 10}
MIN_SIDE = 200  # pixels of the longer side
MAX_PER_CLASS = {"caltech101": 60, "birds": 2, "portraits": 130, "clothing": 90, "all": None}


def was_rotated(rgb) -> bool:
    """Whether three corners are black, as in Caltech-101's many artificially rotated pictures."""
    return sum(rgb[y, x].max() < 6 for y in (0, -1) for x in (0, -1)) >= 3


def limited(names, most: int | None) -> list[str]:
    """The `most` names with the least SHA-256: the same ones whatever else a collection holds, in an order without classes."""
    return sorted(names, key=lambda name: hashlib.sha256(name.encode()).digest())[:most]


def main() -> None:
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("collection", choices=MAX_PER_CLASS)
    p.add_argument("folder", type=Path)
    p.add_argument("out", type=Path)
    p.add_argument("--had", type=Path, help="a set whose pictures are excluded")
    p.add_argument("--most", type=int, help="maximum number of photos")
    a = p.parse_args()
    a.out.mkdir(parents=True, exist_ok=True)
    had = labelled_stems(a.had) if a.had else set()
    kinds: dict[str, list[Path]] = {}
    for path in pictures(a.folder):
        if path.stem not in had:
            kinds.setdefault(path.parent.name, []).append(path)
    chosen: dict[str, Path] = {}
    for kind, paths in kinds.items():
        if a.collection == "caltech101" and kind in CALTECH_EXCLUDED:
            continue
        random.Random(kind).shuffle(paths)
        for path in paths[: CALTECH_LIMITS.get(kind, MAX_PER_CLASS[a.collection])]:
            chosen[f"{kind.replace(' ', '_')}__{path.stem}.jpg"] = path
    kept = 0
    for name in limited(chosen, a.most):
        rgb = resize_to(read_rgb(chosen[name]), MAX_SIDE)
        if max(rgb.shape) >= MIN_SIDE and not was_rotated(rgb):
            cv2.imwrite(str(a.out / name), rgb[:, :, ::-1], [cv2.IMWRITE_JPEG_QUALITY, 94])
            kept += 1
    print(f"{a.out}: {kept}")


if __name__ == "__main__":
    main()
