#!/usr/bin/env python3
"""Writes a training set (image/ and mask/) from photos of COCO that have one person: the person by hand-made polygons, and what it
holds, rides or wears by the teachers' masks.

    coco_people.py --photos val2017 --annotations instances_val2017.json --masks TAUGHT/<set> --out SET --dev SET --dev-attached SET

COCO's polygons are of people alone. What the teachers' masks (`teach.py masks`) are sure of and touches the person (a board, a horse, a
hat) is subject too; what they are sure of elsewhere is invalid (grey), as in `teach.py reconcile`. A photo whose person is small and no
subject to the teachers is left out.
An eighth of the photos, by the hash of their names, are no training photos: those in which the teachers are sure of nothing beside the
person become the set `--dev`, those with something attached and nothing else `--dev-attached`. Contours are aligned with the photo's edges, since COCO's are polygons.
"""
import argparse
import json
from pathlib import Path

import cv2
import numpy as np

from data import MAX_SIDE, read_mask, read_rgb, resize_to
from teach import SURE, marked_beside, pictures, write_pair
from voc_scenes import AREA, aligned, is_dev

LARGE = 0.15         # of the picture: a person of this size is its subject, whatever the teachers say
AGREED = 0.5         # the teachers' mean over a smaller person, at least
BESIDE = 0.01        # of the person's area: what the teachers are sure of beside it
DEV = 32             # of 256: the share of the development sets


def person_masks(annotations: Path) -> dict[str, np.ndarray]:
    """The mask (uint8, 0 or 1) of each photo, by its file's stem, that has one person with polygons."""
    content = json.loads(annotations.read_text())
    sizes = {image["id"]: (image["file_name"], image["height"], image["width"]) for image in content["images"]}
    people: dict[int, list] = {}
    for annotation in content["annotations"]:
        people.setdefault(annotation["image_id"], []).append(annotation)
    masks = {}
    for image, found in people.items():
        if len(found) != 1 or found[0]["iscrowd"] or image not in sizes:
            continue
        name, height, width = sizes[image]
        mask = np.zeros((height, width), np.uint8)
        for polygon in found[0]["segmentation"]:  # one after another: overlapping parts of one call cancel out
            cv2.fillPoly(mask, [np.round(np.array(polygon).reshape(-1, 2)).astype(np.int32)], 1)
        masks[Path(name).stem] = mask
    return masks


def with_attached(mask: np.ndarray, soft: np.ndarray) -> np.ndarray:
    """The mask (uint8) of a person together with those regions of the teachers' mask (uint8, the same size) that touch it and that they
    are sure of."""
    square = np.ones((9, 9), np.uint8)
    near = cv2.dilate(mask, square) > 127
    _, regions = cv2.connectedComponents((near | (soft > SURE)).astype(np.uint8))
    attached = (soft > SURE) & ~near & np.isin(regions, np.unique(regions[mask > 127]))
    return np.where(cv2.dilate(attached.astype(np.uint8), square) > 0, np.maximum(mask, soft), mask)


def mask_of(person: np.ndarray, rgb: np.ndarray, soft: np.ndarray) -> tuple[np.ndarray, bool, bool] | None:
    """The mask (0..1, invalid pixels at one half) of a photo by the person's pixels and the teachers' mask, whether it is the person's
    alone, and whether all of it is valid; None if the person is no subject of a usable size."""
    person = cv2.resize(person, rgb.shape[1::-1], interpolation=cv2.INTER_AREA)
    soft = cv2.resize(soft, rgb.shape[1::-1], interpolation=cv2.INTER_LINEAR)
    area = person.mean()
    if not AREA[0] < area < AREA[1] or area < LARGE and soft[person > 0].mean() < AGREED * 255:
        return None
    mask = np.round(aligned(person, rgb) * 255).astype(np.uint8)
    if marked_beside(mask, soft, BESIDE) is mask:
        return mask.astype(np.float32) / 255, True, True
    whole = with_attached(mask, soft)
    marked = marked_beside(whole, soft, BESIDE)
    return marked.astype(np.float32) / 255, False, marked is whole


def main() -> None:
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--photos", type=Path, required=True)
    p.add_argument("--annotations", type=Path, required=True)
    p.add_argument("--masks", type=Path, required=True)
    p.add_argument("--out", type=Path, required=True)
    p.add_argument("--dev", type=Path, required=True)
    p.add_argument("--dev-attached", type=Path, required=True)
    a = p.parse_args()
    people = person_masks(a.annotations)
    counts = {a.out: 0, a.dev: 0, a.dev_attached: 0}
    for photo in pictures(a.photos):
        file = a.masks / f"{photo.stem}.png"
        if photo.stem not in people or not file.exists():
            continue
        rgb = resize_to(read_rgb(photo), MAX_SIDE)
        found = mask_of(people[photo.stem], rgb, read_mask(file))
        if found is None:
            continue
        mask, alone, valid = found
        out = a.out
        if is_dev(photo.stem, DEV):
            if not valid:
                continue
            out = a.dev if alone else a.dev_attached
        write_pair(out, photo.stem, rgb, mask)
        counts[out] += 1
    print(", ".join(f"{out}: {count}" for out, count in counts.items()), f"of {len(people)}")


if __name__ == "__main__":
    main()
