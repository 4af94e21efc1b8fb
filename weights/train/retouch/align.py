"""Finds the face of each portrait and lays it on the template, twice as large as the network sees it.

    python -m retouch.align --detector yunet_n_dynamic.onnx --out ALIGNED PORTRAITS...

Training shifts, turns and scales these crops a little and halves them, so they carry a margin and are twice as sharp
as they need to be. A face is left out where it is too small for that, where YuNet is not sure, or where it looks far
to the side. Portraits whose name hashes to the held-out share go to `ALIGNED/held`, the others to `ALIGNED/train`.
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
ENLARGED = 2       # of the stored crops
MARGIN = 24        # template pixels around the crop
SURE = 0.8
SHARP = 0.9        # least pixels of the portrait to one pixel of the template
HELD = 0.1         # of the portraits
LONGEST = 640      # YuNet looks at portraits no larger than this


def similarity(points: np.ndarray, onto: np.ndarray) -> np.ndarray:
    """The rotation, scale and shift [2, 3] that takes `points` to `onto` with the least squares (Umeyama, 1991)."""
    a, b = points.mean(0), onto.mean(0)
    p, q = points - a, onto - b
    u, s, vt = np.linalg.svd(q.T @ p)
    sign = np.array([1.0, np.sign(np.linalg.det(u @ vt))])  # a mirrored face is no answer
    turn = u @ np.diag(sign) @ vt
    scale = (s * sign).sum() / (p**2).sum()
    return np.hstack([scale * turn, (b - scale * turn @ a)[:, None]])


def scale_of(transform: np.ndarray) -> float:
    return float(np.hypot(transform[0, 0], transform[1, 0]))


def laid(picture: np.ndarray, transform: np.ndarray, side: int) -> np.ndarray:
    """The square that the transform shows, without aliasing: drawn larger, then averaged. Outside: the border's."""
    over = max(1, round(1 / scale_of(transform)))
    grown = transform * over
    grown[:, 2] += (over - 1) / 2  # pixel centres
    drawn = cv2.warpAffine(picture, grown, (side * over, side * over), flags=cv2.INTER_CUBIC,
                           borderMode=cv2.BORDER_REPLICATE)
    return drawn if over == 1 else cv2.resize(drawn, (side, side), interpolation=cv2.INTER_AREA)


class Detector:
    def __init__(self, model: Path):
        self.net = cv2.FaceDetectorYN.create(str(model), "", (SIDE, SIDE), 0.5, 0.3, 50)

    def landmarks(self, picture: np.ndarray) -> tuple[np.ndarray, float] | None:
        """The five points [5, 2] of the largest face and how sure the detector is, or None."""
        shrink = min(1.0, LONGEST / max(picture.shape[:2]))
        seen = cv2.resize(picture, None, fx=shrink, fy=shrink, interpolation=cv2.INTER_AREA) if shrink < 1 else picture
        self.net.setInputSize(seen.shape[1::-1])
        _, faces = self.net.detect(np.ascontiguousarray(seen[:, :, ::-1]))
        if faces is None or not len(faces):
            return None
        face = max(faces, key=lambda f: f[2] * f[3])
        ratio = np.array(picture.shape[1::-1]) / np.array(seen.shape[1::-1])
        # A point's coordinates count from the first pixel's centre, which shrinking moves.
        points = (face[4:14].reshape(5, 2) + 0.5) * ratio - 0.5
        return points, float(face[14])


def looks_ahead(points: np.ndarray) -> bool:
    """The nose lies between the eyes, and the face is not on its side."""
    transform = similarity(points, TEMPLATE)
    on = points @ transform[:, :2].T + transform[:, 2]
    return bool(np.abs(on - TEMPLATE).max() < 16)


def is_held(name: str) -> bool:
    return int.from_bytes(hashlib.sha256(name.encode()).digest()[:4], "big") / 2**32 < HELD


def stored(picture: np.ndarray, points: np.ndarray) -> np.ndarray:
    target = ENLARGED * (TEMPLATE + MARGIN) + (ENLARGED - 1) / 2
    return laid(picture, similarity(points, target), ENLARGED * (SIDE + 2 * MARGIN))


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
        if found is None or found[1] < SURE:
            count["no face"] += 1
            continue
        points = found[0]
        if not looks_ahead(points):
            count["turned"] += 1
        elif 1 / scale_of(similarity(points, TEMPLATE)) < SHARP:
            count["small"] += 1
        else:
            share = "held" if is_held(path.stem) else "train"
            count[share] += 1
            target = a.out / share / f"{path.stem}.png"
            target.parent.mkdir(parents=True, exist_ok=True)
            cv2.imwrite(str(target), stored(picture, points)[:, :, ::-1])
    print(count)


if __name__ == "__main__":
    main()
