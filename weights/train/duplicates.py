#!/usr/bin/env python3
"""Finds near-duplicates of evaluation pictures in the training data by perceptual hashes; fails if there are any.

    duplicates.py --eval EVAL/{ecssd,ccp,…} --train ../shared/data/train MORE

Two hashes with different failure modes must both match: the signs of the low frequencies of a cosine transform
(invariant to scale, contrast and JPEG), and the signs of the differences of neighbours in a 9x8 thumbnail. Mirror images
are included. Candidates are then verified by the correlation of their thumbnails: below `--correlation` they are
different pictures with little texture.

Pass the sets that masks are measured on. Three photos of `eval/sr`, which has no masks, are in ECSSD's training share:
its BSD100 and Set5 have a source in common with ECSSD. That affects no mask, only the measurement of `upscale`.
"""
import argparse
import sys
from pathlib import Path

import cv2
import numpy as np

from data import IMAGE_SUFFIXES

BITS = 64
THUMBNAIL_SIDE = 32  # pixels; thumbnails are compared by correlation


def packed_bits(bits: np.ndarray) -> np.ndarray:
    return np.packbits(bits.ravel()).view(np.uint64)[0]


def cosine_hash(grey: np.ndarray) -> np.uint64:
    low = cv2.dct(cv2.resize(grey, (32, 32), interpolation=cv2.INTER_AREA))[:9, :9].ravel()[1:65]
    return packed_bits(low > np.median(low))


def difference_hash(grey: np.ndarray) -> np.uint64:
    small = cv2.resize(grey, (9, 8), interpolation=cv2.INTER_AREA)
    return packed_bits(small[:, 1:] > small[:, :-1])


def read_grey(path: Path) -> np.ndarray | None:
    image = cv2.imread(str(path), cv2.IMREAD_UNCHANGED)
    if image is None:
        return None
    if image.ndim == 3 and image.shape[2] == 4:  # a cut-out: composited on white
        alpha = image[..., 3:].astype(np.float32) / 255
        image = (image[..., :3] * alpha + 255 * (1 - alpha)).astype(np.uint8)
    return (cv2.cvtColor(image, cv2.COLOR_BGR2GRAY) if image.ndim == 3 else image).astype(np.float32)


def thumbnail(grey: np.ndarray) -> np.ndarray:
    small = cv2.resize(grey, (THUMBNAIL_SIDE, THUMBNAIL_SIDE), interpolation=cv2.INTER_AREA)
    return (small - small.mean()) / (small.std() + 1e-3)


def pictures(folders: list[Path]) -> list[Path]:
    """All pictures except masks, tiles and thumbnails included."""
    return sorted(p for f in folders for p in f.rglob("*")
                  if p.suffix.lower() in IMAGE_SUFFIXES and p.parent.name != "mask")


class ImageHashes:
    """Hashes of a list of pictures and, with `mirrored`, of their mirror images."""

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


def near_pairs(evaluation: ImageHashes, training: ImageHashes, cosine: int, difference: int, correlation: float):
    """Yields (evaluation picture, training picture, differing bits of either hash, correlation) of near-duplicates."""
    for i, path in enumerate(evaluation.paths):
        cosine_bits = np.bitwise_count(evaluation.cosine[i] ^ training.cosine)
        difference_bits = np.bitwise_count(evaluation.difference[i] ^ training.difference)
        for j in np.where((cosine_bits <= cosine) & (difference_bits <= difference))[0]:
            similarity = float((evaluation.thumbnails[i] * training.thumbnails[j]).mean())
            if similarity >= correlation:
                yield path, training.paths[j], int(cosine_bits[j]), int(difference_bits[j]), similarity


def main() -> int:
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--eval", type=Path, nargs="+", required=True)
    p.add_argument("--train", type=Path, nargs="+", required=True)
    p.add_argument("--cosine", type=int, default=12, help=f"maximum number of differing bits of {BITS}")
    p.add_argument("--difference", type=int, default=14, help=f"maximum number of differing bits of {BITS}")
    p.add_argument("--correlation", type=float, default=0.93, help="minimum correlation of the thumbnails")
    a = p.parse_args()
    evaluation, training = ImageHashes(pictures(a.eval), mirrored=True), ImageHashes(pictures(a.train))
    found = list(near_pairs(evaluation, training, a.cosine, a.difference, a.correlation))
    for path, twin, cosine_bits, difference_bits, similarity in found:
        print(f"{path} is a near-duplicate of {twin}: {cosine_bits} and {difference_bits} bits, correlation {similarity:.3f}")
    counts = f"{len(evaluation.paths) // 2} evaluation pictures, {len(training.paths)} training pictures"
    print(f"{counts}, {len(found)} near pairs")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
