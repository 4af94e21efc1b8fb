#!/usr/bin/env python3
"""Holds every evaluation picture against every training picture, and fails when one is, or nearly is, in training.

    duplicates.py --eval EVAL/{ecssd,ccp,…} --train ../shared/data/train MORE

Two hashes that fail differently must both be near: the signs of the low frequencies of a cosine transform (blind to
scale, contrast and JPEG), and the differences of neighbours in a 9x8 thumbnail. Mirror images are looked for too. What
is near by hash is then looked at: thumbnails that correlate less than `--correlation` are two plain pictures, not one.

Give the sets that masks are measured on. Of `eval/sr`, which has no masks, three photos are in ECSSD's training share:
its BSD100 and Set5 took from where ECSSD did. That touches no mask, but whoever trains enlarging should know.
"""
import argparse
import sys
from pathlib import Path

import cv2
import numpy as np

from data import IMAGE_SUFFIXES

BITS = 64
ALIKE = 32  # side of the thumbnails that are compared at the end


def signs(bits: np.ndarray) -> np.ndarray:
    return np.packbits(bits.ravel()).view(np.uint64)[0]


def cosine_hash(grey: np.ndarray) -> np.uint64:
    low = cv2.dct(cv2.resize(grey, (32, 32), interpolation=cv2.INTER_AREA))[:9, :9].ravel()[1:65]
    return signs(low > np.median(low))


def difference_hash(grey: np.ndarray) -> np.uint64:
    small = cv2.resize(grey, (9, 8), interpolation=cv2.INTER_AREA)
    return signs(small[:, 1:] > small[:, :-1])


def read_grey(path: Path) -> np.ndarray | None:
    image = cv2.imread(str(path), cv2.IMREAD_UNCHANGED)
    if image is None:
        return None
    if image.ndim == 3 and image.shape[2] == 4:  # a cut-out: what shows on white
        alpha = image[..., 3:].astype(np.float32) / 255
        image = (image[..., :3] * alpha + 255 * (1 - alpha)).astype(np.uint8)
    return (cv2.cvtColor(image, cv2.COLOR_BGR2GRAY) if image.ndim == 3 else image).astype(np.float32)


def thumbnail(grey: np.ndarray) -> np.ndarray:
    small = cv2.resize(grey, (ALIKE, ALIKE), interpolation=cv2.INTER_AREA)
    return (small - small.mean()) / (small.std() + 1e-3)


def pictures(folders: list[Path]) -> list[Path]:
    """Everything but masks; tiles and thumbnails included."""
    return sorted(p for f in folders for p in f.rglob("*")
                  if p.suffix.lower() in IMAGE_SUFFIXES and p.parent.name != "mask")


class Prints:
    """Hashes of a list of pictures, and of their mirror images if asked."""

    def __init__(self, paths: list[Path], mirrored: bool = False):
        self.paths, cosine, difference, thumbnails = [], [], [], []
        for path in paths:
            grey = read_grey(path)
            if grey is None:
                print(f"{path}: cannot be read", file=sys.stderr)
                continue
            for view in (grey, np.ascontiguousarray(grey[:, ::-1])) if mirrored else (grey,):
                self.paths.append(path)
                cosine.append(cosine_hash(view))
                difference.append(difference_hash(view))
                thumbnails.append(thumbnail(view))
        self.cosine, self.difference = np.array(cosine, np.uint64), np.array(difference, np.uint64)
        self.thumbnails = np.array(thumbnails, np.float32)


def near_pairs(measured: Prints, trained: Prints, cosine: int, difference: int, correlation: float):
    """(evaluation picture, training picture, bits, bits, correlation) of all that are nearly one picture."""
    for i, path in enumerate(measured.paths):
        far_c = np.bitwise_count(measured.cosine[i] ^ trained.cosine)
        far_d = np.bitwise_count(measured.difference[i] ^ trained.difference)
        for j in np.where((far_c <= cosine) & (far_d <= difference))[0]:
            alike = float((measured.thumbnails[i] * trained.thumbnails[j]).mean())
            if alike >= correlation:
                yield path, trained.paths[j], int(far_c[j]), int(far_d[j]), alike


def main() -> int:
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--eval", type=Path, nargs="+", required=True)
    p.add_argument("--train", type=Path, nargs="+", required=True)
    p.add_argument("--cosine", type=int, default=12, help=f"most differing bits of {BITS}")
    p.add_argument("--difference", type=int, default=14, help=f"most differing bits of {BITS}")
    p.add_argument("--correlation", type=float, default=0.93, help="least, of the thumbnails")
    a = p.parse_args()
    measured, trained = Prints(pictures(a.eval), mirrored=True), Prints(pictures(a.train))
    found = list(near_pairs(measured, trained, a.cosine, a.difference, a.correlation))
    for path, twin, far_c, far_d, alike in found:
        print(f"{path} is nearly {twin}: {far_c} and {far_d} bits, correlation {alike:.3f}")
    counts = f"{len(measured.paths) // 2} evaluation pictures, {len(trained.paths)} training pictures"
    print(f"{counts}, {len(found)} near pairs")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
