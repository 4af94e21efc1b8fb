#!/usr/bin/env python3
"""Writes a training set (image/ and mask/) from photos of VOC and the hand-made class maps of VOC and SBD.

    voc_scenes.py named --photos images --maps SegmentationClassAug --out SET --dev DEVELOPMENT_SET
    voc_scenes.py matched --photos ../shared/data/train/scenes --maps SegmentationClassAug --out SET
    voc_scenes.py polygons --photos ../shared/data/train/coco_subjects --out SET

`named`: the photos whose names are names of maps. `matched`: the photos `image/vc_*` of a set whose masks cover one class (the
horse without its rider), with the masks of all classes instead: the map of a photo is the one in which one class has the set's mask.

`polygons`: the contours of a set's masks are aligned with its photos' edges.

Subject are people, animals and vehicles; furniture, bottles and plants only where a map has nothing else: a cat's sofa is no
subject. What is apart from the largest component and smaller than `BESIDE` of it is invalid (grey): such passers-by are a
subject to some and background to others. `--dev` takes a sixteenth of the photos, by the hash of their names, out of the training set:
those without invalid regions become a development set. Contours are aligned with the photo's edges, since those of SBD are polygons.
"""
import argparse
import hashlib
from pathlib import Path

import cv2
import numpy as np

from data import MAX_SIDE, masked_pairs, read_mask, read_rgb, resize_to
from teach import guided_filter, pictures, write_pair
from voc_truth import CONTOUR, VOID

# RGB of bottle, chair, table, plant, sofa and screen in the palette of VOC
FURNITURE = {(128, 0, 128), (192, 0, 0), (192, 128, 0), (0, 64, 0), (0, 192, 0), (0, 64, 128)}
BESIDE = 0.15             # of the largest component's area
AREA = (0.015, 0.85)      # of the picture: other photos are left out
SAME = 0.97               # least cosine of a set's mask and a class of its map
DEV = 16                  # of 256: the share of `--dev`
MATCHING_SIDE = 48        # pixels; masks are compared at this size first
GREY = 128                # marks invalid pixels; `data.valid_mask` finds wide regions of it


def classes_of(image: np.ndarray) -> tuple[dict[tuple[int, int, int], np.ndarray], np.ndarray]:
    """The pixels of each class of a map (BGR), by the class's RGB, and the void contours."""
    void = (image == VOID).all(2)
    image = image[:, :, ::-1]
    code = image.astype(np.int32) @ (65536, 256, 1)
    found = {(int(c) >> 16, int(c) >> 8 & 255, int(c) & 255): code == c for c in np.unique(code[~void]) if c}
    return found, void


def without_void(subject: np.ndarray, void: np.ndarray) -> np.ndarray:
    """The subject (bool) with the void contour's pixels nearer to it than to the background."""
    near = cv2.GaussianBlur(np.where(void, 127.5, subject * 255.0).astype(np.float32), (0, 0), CONTOUR)
    return np.where(void, near > 127.5, subject)


def mask_of(path: Path, rgb: np.ndarray) -> np.ndarray | None:
    """The mask (0..1, invalid pixels at one half) of a map for its photo; None if there is no subject of a usable size."""
    found, void = classes_of(cv2.imread(str(path)))
    if not found:
        return None
    kept = {c: m for c, m in found.items() if c not in FURNITURE} or found
    subject = np.any(list(kept.values()), axis=0)
    # A contour between two things that are no subject is background.
    subject = without_void(subject, void & cv2.dilate(subject.astype(np.uint8), np.ones((11, 11))).astype(bool))
    subject = cv2.resize(subject.astype(np.uint8), rgb.shape[1::-1], interpolation=cv2.INTER_AREA)
    joined = cv2.morphologyEx(subject, cv2.MORPH_CLOSE, np.ones((9, 9), np.uint8))  # parts split by a thin gap are one
    count, labels, stats, _ = cv2.connectedComponentsWithStats(joined)
    if count < 2:
        return None
    areas = stats[1:, cv2.CC_STAT_AREA]
    small = 1 + np.flatnonzero(areas < BESIDE * areas.max())
    beside = cv2.dilate(np.isin(labels, small).astype(np.uint8), np.ones((13, 13), np.uint8)).astype(bool)
    subject = np.where(beside & ~np.isin(labels, 1 + np.flatnonzero(areas >= BESIDE * areas.max())), 0, subject)
    if not AREA[0] < subject.mean() < AREA[1]:
        return None
    mask = aligned(subject, rgb)
    return np.where(beside & (mask < 0.5), GREY / 255, mask)


def aligned(subject: np.ndarray, rgb: np.ndarray) -> np.ndarray:
    """A mask (0..1) of the subject (0 or 1), drawn as polygons, with its contours on the photo's edges nearby."""
    grey = cv2.cvtColor(rgb, cv2.COLOR_RGB2GRAY).astype(np.float32) / 255
    return np.clip((guided_filter(grey, subject.astype(np.float32), 4, 1e-3) - 0.25) / 0.5, 0, 1)


def class_index(maps: Path) -> tuple[np.ndarray, list[Path]]:
    """A row for each class of each map: its mask at `MATCHING_SIDE`, flattened, of length 1; and the maps."""
    rows, paths = [], []
    for path in sorted(maps.glob("*.png")):
        image = cv2.resize(cv2.imread(str(path)), (3 * MATCHING_SIDE, 3 * MATCHING_SIDE), interpolation=cv2.INTER_NEAREST)
        for pixels in classes_of(image)[0].values():
            rows.append(unit_row(pixels))
            paths.append(path)
    return np.array(rows), paths


def unit_row(mask: np.ndarray) -> np.ndarray:
    """A mask at `MATCHING_SIDE`, flattened, of length 1."""
    small = cv2.resize(mask.astype(np.float32), (MATCHING_SIDE, MATCHING_SIDE), interpolation=cv2.INTER_AREA).ravel()
    return (small / max(1e-6, np.linalg.norm(small))).astype(np.float32)


def matching_map(mask: np.ndarray, index: tuple[np.ndarray, list[Path]]) -> Path | None:
    """The map of which one class is `mask` (uint8)."""
    likeness = index[0] @ unit_row(mask)
    best = int(likeness.argmax())
    return index[1][best] if likeness[best] > SAME else None


def is_dev(stem: str, share: int = DEV) -> bool:
    """Whether a photo belongs to the development set of `share` of 256, whatever else a collection holds."""
    return hashlib.sha256(stem.encode()).digest()[0] < share


def main() -> None:
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("kind", choices=("named", "matched", "polygons"))
    p.add_argument("--photos", type=Path, required=True)
    p.add_argument("--maps", type=Path)
    p.add_argument("--out", type=Path, required=True)
    p.add_argument("--dev", type=Path)
    a = p.parse_args()
    if a.kind == "polygons":
        for photo, mask in masked_pairs(a.photos):
            rgb = resize_to(read_rgb(photo), MAX_SIDE)
            subject = cv2.resize(read_mask(mask), rgb.shape[1::-1], interpolation=cv2.INTER_AREA) > 127
            write_pair(a.out, photo.stem, rgb, aligned(subject, rgb))
        return
    index = class_index(a.maps) if a.kind == "matched" else None
    seen = written = 0
    for photo in pictures(a.photos):
        if index is None:
            file = a.maps / f"{photo.stem}.png"
        elif photo.stem.startswith("vc_"):
            file = matching_map(read_mask(a.photos / "mask" / f"{photo.stem}.png"), index)
        else:
            continue
        seen += 1
        if file is None or not file.exists():
            continue
        rgb = resize_to(read_rgb(photo), MAX_SIDE)
        mask = mask_of(file, rgb)
        is_held_out = a.dev is not None and is_dev(photo.stem)
        if mask is None or is_held_out and (mask == GREY / 255).any():
            continue
        write_pair(a.dev if is_held_out else a.out, photo.stem, rgb, mask)
        written += 1
    print(f"{a.out}: {written} of {seen}")


if __name__ == "__main__":
    main()
