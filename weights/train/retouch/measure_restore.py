"""Measures restoration on faces that training did not see: PSNR and SSIM before and after, by kind of damage.

    python -m retouch.measure_restore WEIGHTS --faces ALIGNED/held [--detector yunet_n_dynamic.onnx] [--sheet FILE.png]

"whole" are faces that nothing was done to: there the figure after says how near to the input they stay. With the
detector, `moved` says how far its five landmarks lie from where they were before the restoration, and `off_before` and
`off_after` how far from where the sharp face has them, in pixels of the aligned crop (mean of the five; median, 90th
percentile and most of the faces). The detector itself wavers by more than a pixel where a picture is damaged.
"""
import argparse
import json
from pathlib import Path

import cv2
import numpy as np
import torch

from . import pictures
from .align import ENLARGED, MARGIN, Detector
from .damage import damaged, filtered, gaussian, reduced
from .enlarging import as_tensor
from .export import load

SEED = 20261122


def scaled(factor: float):
    def there_and_back(sharp: np.ndarray, _) -> np.ndarray:
        return cv2.resize(reduced(sharp, factor, cv2.INTER_AREA), sharp.shape[1::-1], interpolation=cv2.INTER_CUBIC)

    return there_and_back


KINDS = {
    "whole": lambda sharp, _: sharp,
    "blur 2 px": lambda sharp, _: filtered(sharp, gaussian(2, 2, 0)),
    "blur 3 px": lambda sharp, _: filtered(sharp, gaussian(3, 3, 0)),
    "reduced 2x": scaled(2),
    "reduced 3x": scaled(3),
    "reduced 4x": scaled(4),
    "JPEG 30": lambda sharp, _: pictures.jpeg(sharp, 30),
    "noise 12": lambda sharp, rng: pictures.noisy(sharp, 12, rng),
    "mixture": damaged,
}


def psnr(a: np.ndarray, b: np.ndarray) -> float:
    """Over all three channels in dB, at most 99."""
    off = np.mean((a.astype(np.float64) - b) ** 2)
    return float(min(99, 20 * np.log10(255) - 10 * np.log10(max(off, 1e-9))))


def ssim(a: np.ndarray, b: np.ndarray) -> float:
    """Structural similarity of the luminance (Wang et al., 2004): bell of 1.5 pixels, 0..255, border left out."""
    a, b = (cv2.cvtColor(p, cv2.COLOR_RGB2GRAY).astype(np.float64) for p in (a, b))

    def mean(x):
        return cv2.GaussianBlur(x, (11, 11), 1.5)[5:-5, 5:-5]

    ma, mb = mean(a), mean(b)
    va, vb, vab = mean(a * a) - ma**2, mean(b * b) - mb**2, mean(a * b) - ma * mb
    c1, c2 = (0.01 * 255) ** 2, (0.03 * 255) ** 2
    return float(np.mean((2 * ma * mb + c1) * (2 * vab + c2) / ((ma**2 + mb**2 + c1) * (va + vb + c2))))


def aligned(path: Path) -> np.ndarray:
    """A stored crop as the network gets it."""
    stored = pictures.read(path)[ENLARGED * MARGIN : -ENLARGED * MARGIN, ENLARGED * MARGIN : -ENLARGED * MARGIN]
    return cv2.resize(stored, None, fx=1 / ENLARGED, fy=1 / ENLARGED, interpolation=cv2.INTER_AREA)


def restored(net: torch.nn.Module, seen: np.ndarray) -> np.ndarray:
    x = as_tensor([seen])
    return pictures.bytes_of(255 * (x + net(x))[0].permute(1, 2, 0).numpy())


def moved(detector: Detector, face: np.ndarray, other: np.ndarray) -> float | None:
    """The mean distance of the five landmarks; None where either face is not found."""
    a, b = detector.landmarks(face), detector.landmarks(other)
    return None if a is None or b is None else float(np.hypot(*(a[0] - b[0]).T).mean())


def figures(net, faces: list[np.ndarray], kind: str, detector: Detector | None) -> dict:
    rows, shifts = [], []
    for k, sharp in enumerate(faces):
        seen = KINDS[kind](sharp, np.random.default_rng([SEED, k]))
        after = restored(net, seen)
        rows.append((psnr(seen, sharp), psnr(after, sharp), ssim(seen, sharp), ssim(after, sharp)))
        if detector:
            pairs = ((after, seen), (seen, sharp), (after, sharp))
            shifts.append([moved(detector, *pair) for pair in pairs])
    before, after, alike_before, alike_after = np.array(rows).T
    line = {"kind": kind, "psnr": [round(before.mean(), 2), round(after.mean(), 2)],
            "ssim": [round(alike_before.mean(), 4), round(alike_after.mean(), 4)],
            "least": round(after.min(), 2), "median": round(float(np.median(after)), 2),
            "worse": int((after < before).sum())}
    if detector:
        for name, column in zip(("moved", "off_before", "off_after"), zip(*shifts)):
            found = [s for s in column if s is not None]
            line[name] = [round(float(v), 2) for v in np.percentile(found, (50, 90, 100))] if found else None
            line["found"] = len(found)
    return line


def sheet(net, faces: list[np.ndarray], count: int = 12) -> np.ndarray:
    """Threes of damaged, restored and sharp: each kind of damage in turn, mixtures more often."""
    kinds = [k for k in KINDS if k != "whole"] + ["whole"] + ["mixture"] * 3
    threes = []
    for k, sharp in enumerate(faces[:: max(1, len(faces) // count)][:count]):
        seen = KINDS[kinds[k % len(kinds)]](sharp, np.random.default_rng([SEED, k]))
        threes.append(np.hstack([seen, restored(net, seen), sharp]))
    return np.vstack([np.hstack(threes[k : k + 2]) for k in range(0, len(threes), 2)])


def main() -> None:
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("weights", type=Path)
    p.add_argument("--faces", type=Path, required=True)
    p.add_argument("--detector", type=Path)
    p.add_argument("--most", type=int, default=0, help="faces to measure; all if 0")
    p.add_argument("--sheet", type=Path)
    a = p.parse_args()
    torch.set_num_threads(1)
    net = load(a.weights)
    faces = [aligned(path) for path in pictures.paths(a.faces)[: a.most or None]]
    detector = Detector(a.detector) if a.detector else None
    for kind in KINDS:
        print(json.dumps(figures(net, faces, kind, detector)), flush=True)
    if a.sheet:
        cv2.imwrite(str(a.sheet), sheet(net, faces)[:, :, ::-1])


if __name__ == "__main__":
    main()
