"""Measures face restoration on held-out faces: PSNR and SSIM before and after, by kind of damage.

    python -m retouch.measure_restore WEIGHTS --faces ALIGNED/held [--detector yunet_n_dynamic.onnx] [--sheet FILE.png]

"whole" are undamaged faces: the figure after is the restored face's similarity to the input. With the detector, `moved`
is the distance of its five landmarks from those before the restoration, and `off_before` and `off_after` from those of
the sharp face, in pixels of the aligned crop (mean of the five; median, 90th percentile and maximum of the faces). On
damaged pictures the detector itself is inaccurate by more than a pixel.
"""
import argparse
import json
from pathlib import Path

import cv2
import numpy as np
import torch

from . import pictures
from .align import STORED_SCALE, MARGIN, Detector
from .damage import damaged, filtered, gaussian_kernel, reduced
from .enlarging import as_tensor
from .export import load

SEED = 20261122


def scaled(factor: float):
    def reduce_and_enlarge(sharp: np.ndarray, _) -> np.ndarray:
        return cv2.resize(reduced(sharp, factor, cv2.INTER_AREA), sharp.shape[1::-1], interpolation=cv2.INTER_CUBIC)

    return reduce_and_enlarge


KINDS = {
    "whole": lambda sharp, _: sharp,
    "blur 2 px": lambda sharp, _: filtered(sharp, gaussian_kernel(2, 2, 0)),
    "blur 3 px": lambda sharp, _: filtered(sharp, gaussian_kernel(3, 3, 0)),
    "reduced 2x": scaled(2),
    "reduced 3x": scaled(3),
    "reduced 4x": scaled(4),
    "JPEG 30": lambda sharp, _: pictures.jpeg(sharp, 30),
    "noise 12": lambda sharp, rng: pictures.noisy(sharp, 12, rng),
    "mixture": damaged,
}


def psnr(a: np.ndarray, b: np.ndarray) -> float:
    """Over all three channels in dB, at most 99."""
    mse = np.mean((a.astype(np.float64) - b) ** 2)
    return float(min(99, 20 * np.log10(255) - 10 * np.log10(max(mse, 1e-9))))


def ssim(a: np.ndarray, b: np.ndarray) -> float:
    """Structural similarity of the luminance (Wang et al., 2004): Gaussian of 1.5 pixels, 0..255, border excluded."""
    a, b = (cv2.cvtColor(p, cv2.COLOR_RGB2GRAY).astype(np.float64) for p in (a, b))

    def mean(x):
        return cv2.GaussianBlur(x, (11, 11), 1.5)[5:-5, 5:-5]

    ma, mb = mean(a), mean(b)
    va, vb, vab = mean(a * a) - ma**2, mean(b * b) - mb**2, mean(a * b) - ma * mb
    c1, c2 = (0.01 * 255) ** 2, (0.03 * 255) ** 2
    return float(np.mean((2 * ma * mb + c1) * (2 * vab + c2) / ((ma**2 + mb**2 + c1) * (va + vb + c2))))


def aligned(path: Path) -> np.ndarray:
    """A stored crop at the network's resolution, without its margin."""
    inner = slice(STORED_SCALE * MARGIN, -STORED_SCALE * MARGIN)
    stored = pictures.read(path)[inner, inner]
    return cv2.resize(stored, None, fx=1 / STORED_SCALE, fy=1 / STORED_SCALE, interpolation=cv2.INTER_AREA)


def restored(net: torch.nn.Module, degraded: np.ndarray) -> np.ndarray:
    x = as_tensor([degraded])
    return pictures.to_uint8(255 * (x + net(x))[0].permute(1, 2, 0).numpy())


def landmark_shift(detector: Detector, face: np.ndarray, other: np.ndarray) -> float | None:
    """The mean distance of the five landmarks; None if either face is not detected."""
    a, b = detector.landmarks(face), detector.landmarks(other)
    return None if a is None or b is None else float(np.hypot(*(a[0] - b[0]).T).mean())


def measure_kind(net, faces: list[np.ndarray], kind: str, detector: Detector | None) -> dict:
    rows, shifts = [], []
    for k, sharp in enumerate(faces):
        degraded = KINDS[kind](sharp, np.random.default_rng([SEED, k]))
        after = restored(net, degraded)
        rows.append((psnr(degraded, sharp), psnr(after, sharp), ssim(degraded, sharp), ssim(after, sharp)))
        if detector:
            pairs = ((after, degraded), (degraded, sharp), (after, sharp))
            shifts.append([landmark_shift(detector, *pair) for pair in pairs])
    before, after, ssim_before, ssim_after = np.array(rows).T
    line = {"kind": kind, "psnr": [round(before.mean(), 2), round(after.mean(), 2)],
            "ssim": [round(ssim_before.mean(), 4), round(ssim_after.mean(), 4)],
            "least": round(after.min(), 2), "median": round(float(np.median(after)), 2),
            "worse": int((after < before).sum())}
    if detector:
        for name, column in zip(("moved", "off_before", "off_after"), zip(*shifts)):
            found = [s for s in column if s is not None]
            line[name] = [round(float(v), 2) for v in np.percentile(found, (50, 90, 100))] if found else None
            line["found"] = len(found)
    return line


def contact_sheet(net, faces: list[np.ndarray], count: int = 12) -> np.ndarray:
    """Triples of damaged, restored and sharp: each kind of damage in turn, mixtures more often."""
    kinds = [k for k in KINDS if k != "whole"] + ["whole"] + ["mixture"] * 3
    triples = []
    for k, sharp in enumerate(faces[:: max(1, len(faces) // count)][:count]):
        degraded = KINDS[kinds[k % len(kinds)]](sharp, np.random.default_rng([SEED, k]))
        triples.append(np.hstack([degraded, restored(net, degraded), sharp]))
    return np.vstack([np.hstack(triples[k : k + 2]) for k in range(0, len(triples), 2)])


def main() -> None:
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("weights", type=Path)
    p.add_argument("--faces", type=Path, required=True)
    p.add_argument("--detector", type=Path)
    p.add_argument("--most", type=int, default=0, help="maximum number of faces; 0 for all")
    p.add_argument("--sheet", type=Path)
    a = p.parse_args()
    torch.set_num_threads(1)
    net = load(a.weights)
    faces = [aligned(path) for path in pictures.paths(a.faces)[: a.most or None]]
    detector = Detector(a.detector) if a.detector else None
    for kind in KINDS:
        print(json.dumps(measure_kind(net, faces, kind, detector)), flush=True)
    if a.sheet:
        cv2.imwrite(str(a.sheet), contact_sheet(net, faces)[:, :, ::-1])


if __name__ == "__main__":
    main()
