#!/usr/bin/env python3
"""Draws clips of walking subjects with exact masks, a development set for `benches/clips.rs`.

    walking_clips.py --animals DEV/voc_animals --people D/eval/ccp --grounds D/train/bg_hdri_cc0 --out CLIPS

Cut-outs of whole subjects of photos that were not trained on move before panned photos: the body sways, and four strips of its lower half
swing against each other, so that limbs cover and uncover what is behind them, which rigid motion does not. Frames are 480×360 with a
camera's noise and exposure. Writes CLIPS/NAME/image and CLIPS/NAME/mask, PNG.
"""
import argparse
from pathlib import Path

import cv2
import numpy as np

from data import masked_pairs, read_mask, read_rgb

WIDTH, HEIGHT, FRAMES = 480, 360, 32
SEED = 5


def subject(path: Path, mask: Path) -> tuple[np.ndarray, np.ndarray, tuple[int, int, int, int]]:
    """Photo, binary mask and the box of the mask: x, y, width, height."""
    inside = (read_mask(mask) > 127).astype(np.uint8)
    return read_rgb(path), inside, cv2.boundingRect(inside)


def is_whole(inside: np.ndarray, box: tuple[int, int, int, int]) -> bool:
    """One component away from the frame, not small and not thin."""
    (x, y, w, h), (rows, columns), area = box, inside.shape, int(inside.sum())
    away = x >= 4 and y >= 4 and x + w <= columns - 4 and y + h <= rows - 4
    return away and cv2.connectedComponents(inside)[0] == 2 and area >= 0.06 * inside.size and area >= 0.35 * w * h


def clip(rgb, inside, box, ground, speed: int, period: int, swing: float, rng):
    """Frames and masks. `speed` is the ground's in pixels a frame, `period` in frames, `swing` of the subject's width."""
    x, y, w, h = box
    alpha = cv2.GaussianBlur(cv2.erode(inside, np.ones((3, 3), np.uint8)).astype(np.float32), (0, 0), 0.7)
    scale = min(0.75 * HEIGHT / h, 0.75 * WIDTH / w)
    enlarged = max(2.2 * WIDTH / ground.shape[1], 1.3 * HEIGHT / ground.shape[0])
    ground = cv2.resize(ground, None, fx=enlarged, fy=enlarged, interpolation=cv2.INTER_AREA)
    rows, columns = np.mgrid[0:HEIGHT, 0:WIDTH].astype(np.float32)
    for t in range(FRAMES):
        turn = 2 * np.pi * t / period
        u = (columns - WIDTH / 2 - WIDTH * 0.04 * np.sin(2 * np.pi * t / 30)) / scale + x + w / 2
        v = (rows - HEIGHT * 0.52 - 2.5 * abs(np.sin(turn))) / scale + y + h / 2
        low = np.clip((v - (y + 0.55 * h)) / (0.45 * h), 0, 1)
        strip = np.floor(np.clip((u - x) / w, 0, 0.999) * 4)
        u = u - 1.5 * swing * w * low * np.sin(turn + 0.77 * np.pi * strip)
        u, v = u.astype(np.float32), v.astype(np.float32)
        coverage = cv2.remap(alpha, u, v, cv2.INTER_LINEAR)
        over = cv2.remap(rgb, u, v, cv2.INTER_LINEAR, borderMode=cv2.BORDER_REPLICATE).astype(np.float32)
        left = (10 + speed * t) % max(1, ground.shape[1] - WIDTH)
        top = int((ground.shape[0] - HEIGHT) * 0.6)
        under = ground[top : top + HEIGHT, left : left + WIDTH].astype(np.float32)
        mixed = coverage[..., None] * over + (1 - coverage[..., None]) * under
        mixed = mixed * (1 + 0.01 * rng.standard_normal()) + rng.normal(0, 3, mixed.shape)
        yield np.clip(mixed, 0, 255).astype(np.uint8), ((coverage > 0.5) * 255).astype(np.uint8)


def main() -> None:
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name in ("animals", "people", "grounds", "out"):
        p.add_argument(f"--{name}", type=Path, required=True)
    a = p.parse_args()
    rng = np.random.default_rng(SEED)
    animals = [(path.stem, *subject(path, mask)) for path, mask in masked_pairs(a.animals)]
    animals = [one for one in animals if is_whole(one[2], one[3])][:14]
    people = [(f"ccp{path.stem}", *subject(path, mask)) for path, mask in list(masked_pairs(a.people))[::6]][:5]
    grounds = sorted(a.grounds.iterdir())
    for i, (name, rgb, inside, box) in enumerate(animals + people):
        ground = read_rgb(grounds[(7 * i + 3) % len(grounds)])
        motion = ([2, 4, 7][i % 3], [10, 14, 20][i // 3 % 3], 0.05 + 0.03 * (i % 2))
        folders = [a.out / name / kind for kind in ("image", "mask")]
        for folder in folders:
            folder.mkdir(parents=True, exist_ok=True)
        for t, (frame, mask) in enumerate(clip(rgb, inside, box, ground, *motion, rng)):
            cv2.imwrite(str(folders[0] / f"{t:04}.png"), frame[..., ::-1])
            cv2.imwrite(str(folders[1] / f"{t:04}.png"), mask)


if __name__ == "__main__":
    main()
