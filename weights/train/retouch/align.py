"""Aligns the largest face of each portrait with the landmark template, at twice the network's resolution.

    python -m retouch.align --detector yunet_n_dynamic.onnx --out ALIGNED PORTRAITS...

Training shifts, rotates and scales these crops slightly and halves them, so they have a margin and twice the resolution.
A face is left out if it is too small for that, if YuNet's score is low, or if it is turned far to the side. Portraits
whose name hashes into the held-out share are written to `ALIGNED/held`, the others to `ALIGNED/train`.
"""
import argparse
import hashlib
from pathlib import Path

import cv2
import numpy as np

from . import pictures

SIDE = 256
# Left eye, right eye, nose, left and right corner of the mouth; left is the picture's left.
TEMPLATE = np.array([(100, 112), (156, 112), (128, 142), (106, 170), (150, 170)], np.float64)
STORED_SCALE = 2  # scale of the stored crops
MARGIN = 24       # template pixels around the crop
MIN_SCORE = 0.8
MIN_RESOLUTION = 0.9  # minimum pixels of the portrait per pixel of the template
HELD_OUT_SHARE = 0.1  # of the portraits
DETECTOR_SIDE = 640   # portraits are reduced to this side for YuNet


def similarity(points: np.ndarray, target: np.ndarray) -> np.ndarray:
    """The rotation, scale and shift [2, 3] that maps `points` to `target` with least squares (Umeyama, 1991)."""
    a, b = points.mean(0), target.mean(0)
    p, q = points - a, target - b
    u, s, vt = np.linalg.svd(q.T @ p)
    sign = np.array([1.0, np.sign(np.linalg.det(u @ vt))])  # no reflection
    turn = u @ np.diag(sign) @ vt
    scale = (s * sign).sum() / (p**2).sum()
    return np.hstack([scale * turn, (b - scale * turn @ a)[:, None]])


def scale_of(transform: np.ndarray) -> float:
    return float(np.hypot(transform[0, 0], transform[1, 0]))


def warp_square(picture: np.ndarray, transform: np.ndarray, side: int) -> np.ndarray:
    """Warps the picture into a square without aliasing, by oversampling and averaging; the border is replicated."""
    oversampling = max(1, round(1 / scale_of(transform)))
    oversampled = transform * oversampling
    oversampled[:, 2] += (oversampling - 1) / 2  # pixel centres
    drawn = cv2.warpAffine(picture, oversampled, (side * oversampling, side * oversampling), flags=cv2.INTER_CUBIC,
                           borderMode=cv2.BORDER_REPLICATE)
    return drawn if oversampling == 1 else cv2.resize(drawn, (side, side), interpolation=cv2.INTER_AREA)


class Detector:
    def __init__(self, model: Path):
        self.net = cv2.FaceDetectorYN.create(str(model), "", (SIDE, SIDE), 0.5, 0.3, 50)

    def landmarks(self, picture: np.ndarray) -> tuple[np.ndarray, float] | None:
        """The five points [5, 2] of the largest face and its score, or None."""
        shrink = min(1.0, DETECTOR_SIDE / max(picture.shape[:2]))
        small = cv2.resize(picture, None, fx=shrink, fy=shrink, interpolation=cv2.INTER_AREA) if shrink < 1 else picture
        self.net.setInputSize(small.shape[1::-1])
        _, faces = self.net.detect(np.ascontiguousarray(small[:, :, ::-1]))
        if faces is None or not len(faces):
            return None
        face = max(faces, key=lambda f: f[2] * f[3])
        ratio = np.array(picture.shape[1::-1]) / np.array(small.shape[1::-1])
        # Coordinates are relative to the first pixel's centre, which resizing moves.
        points = (face[4:14].reshape(5, 2) + 0.5) * ratio - 0.5
        return points, float(face[14])


def is_frontal(points: np.ndarray) -> bool:
    """Whether the aligned landmarks are within 16 template pixels of the template."""
    transform = similarity(points, TEMPLATE)
    on_template = points @ transform[:, :2].T + transform[:, 2]
    return bool(np.abs(on_template - TEMPLATE).max() < 16)


def is_held_out(name: str) -> bool:
    return int.from_bytes(hashlib.sha256(name.encode()).digest()[:4], "big") / 2**32 < HELD_OUT_SHARE


def stored_crop(picture: np.ndarray, points: np.ndarray) -> np.ndarray:
    target = STORED_SCALE * (TEMPLATE + MARGIN) + (STORED_SCALE - 1) / 2
    return warp_square(picture, similarity(points, target), STORED_SCALE * (SIDE + 2 * MARGIN))


def main() -> None:
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("portraits", type=Path, nargs="+")
    p.add_argument("--detector", type=Path, required=True)
    p.add_argument("--out", type=Path, required=True)
    a = p.parse_args()
    detector, count = Detector(a.detector), {"train": 0, "held": 0, "no face": 0, "turned": 0, "small": 0}
    for path in (path for folder in a.portraits for path in pictures.paths(folder)):
        picture = pictures.read(path)
        found = detector.landmarks(picture)
        if found is None or found[1] < MIN_SCORE:
            count["no face"] += 1
            continue
        points = found[0]
        if not is_frontal(points):
            count["turned"] += 1
        elif 1 / scale_of(similarity(points, TEMPLATE)) < MIN_RESOLUTION:
            count["small"] += 1
        else:
            share = "held" if is_held_out(path.stem) else "train"
            count[share] += 1
            target = a.out / share / f"{path.stem}.png"
            target.parent.mkdir(parents=True, exist_ok=True)
            cv2.imwrite(str(target), stored_crop(picture, points)[:, :, ::-1])
    print(count)


if __name__ == "__main__":
    main()
