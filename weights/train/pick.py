#!/usr/bin/env python3
"""Picks photos to be labelled from collections as they are published: a few of each class, at most 512 px long.

    pick.py caltech101 101_ObjectCategories PHOTOS    up to 60 of each class
    pick.py birds valid PHOTOS                        two of each species
    pick.py portraits headshots PHOTOS                130
    pick.py clothing clothing-dataset-small PHOTOS --had ../clothing_cc0_pseudo    90 of each kind, none of `--had`

Files are called `<class>__<name>.jpg`. The choice depends on nothing but the files' names.
"""
import argparse
import random
from pathlib import Path

import cv2

from data import LONGEST, read_rgb, resize_to
from teach import labelled_already, pictures

# Drawings, logos, and scenes without a subject of their own; and classes of one kind of picture, or of many pictures.
CALTECH_NONE = {"BACKGROUND_Google", "Faces_easy", "brain", "dollar_bill", "garfield", "snoopy", "yin_yang", "trilobite",
                "joshua_tree", "stop_sign"}
CALTECH_FEW = {"car_side": 6, "pagoda": 8, "minaret": 6, "pyramid": 5, "cougar_face": 10}
MOST = {"caltech101": 60, "birds": 2, "portraits": 130, "clothing": 90}


def turned(rgb) -> bool:
    """Three black corners: a picture that was turned, of which Caltech-101 has many."""
    return sum(rgb[y, x].max() < 6 for y in (0, -1) for x in (0, -1)) >= 3


def main() -> None:
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("collection", choices=MOST)
    p.add_argument("folder", type=Path)
    p.add_argument("out", type=Path)
    p.add_argument("--had", type=Path, help="a set whose pictures are not picked again")
    a = p.parse_args()
    a.out.mkdir(parents=True, exist_ok=True)
    had = labelled_already(a.had) if a.had else set()
    kinds: dict[str, list[Path]] = {}
    for path in pictures(a.folder):
        if path.stem not in had:
            kinds.setdefault(path.parent.name, []).append(path)
    kept = 0
    for kind, paths in kinds.items():
        if a.collection == "caltech101" and kind in CALTECH_NONE:
            continue
        random.Random(kind).shuffle(paths)
        for path in paths[: CALTECH_FEW.get(kind, MOST[a.collection])]:
            rgb = resize_to(read_rgb(path), LONGEST)
            if not turned(rgb):
                name = f"{kind.replace(' ', '_')}__{path.stem}.jpg"
                cv2.imwrite(str(a.out / name), rgb[:, :, ::-1], [cv2.IMWRITE_JPEG_QUALITY, 94])
                kept += 1
    print(f"{a.out}: {kept}")


if __name__ == "__main__":
    main()
