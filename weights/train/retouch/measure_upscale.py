"""Measures super-resolution as in the literature: PSNR of the luminance, compared with bicubic and FSRCNN.

    python -m retouch.measure_upscale WEIGHTS --eval EVAL/sr [--fsrcnn FSRCNN_x2.pb] [--sheet FILE.png]

A picture is cropped to a multiple of the factor, reduced by `imresize`, rounded to bytes, enlarged again, rounded, and
compared with the original: BT.601 luminance as in MATLAB's `rgb2ycbcr`, without `factor` pixels of border. "JPEG" means
that the small picture was compressed at quality 75: `upscale` was trained on such pictures, FSRCNN was not.
"""
import argparse
import json
from pathlib import Path

import cv2
import numpy as np
import torch

from . import pictures
from .enlarging import as_tensor
from .export import load
from .imresize import reduce
from .nets import bicubic

SETS = ("Set5", "Set14", "BSD100_8")
QUALITY = 75


def luminance(rgb: np.ndarray) -> np.ndarray:
    """[H, W, 3] uint8 to 16..235."""
    return 16 + rgb.astype(np.float64) @ np.array([65.481, 128.553, 24.966]) / 255


def psnr(error: np.ndarray) -> float:
    return float(20 * np.log10(255) - 10 * np.log10(np.mean(error**2)))


def by_network(net: torch.nn.Module):
    return lambda small: pixels(net(as_tensor([small])))


def by_bicubic(factor: int):
    return lambda small: pixels(bicubic(as_tensor([small]), factor))


def pixels(batch: torch.Tensor) -> np.ndarray:
    return pictures.to_uint8(255 * batch[0].permute(1, 2, 0).numpy())


def by_fsrcnn(model: Path, factor: int):
    """FSRCNN as run by OpenCV: FSRCNN enlarges the luminance, bicubic the colour."""
    if not hasattr(cv2, "dnn_superres"):
        raise SystemExit("--fsrcnn needs opencv-contrib-python-headless in place of opencv-python-headless")
    net = cv2.dnn_superres.DnnSuperResImpl_create()
    net.readModel(str(model))
    net.setModel("fsrcnn", factor)
    return lambda small: net.upsample(np.ascontiguousarray(small[:, :, ::-1]))[:, :, ::-1]


def cut(picture: np.ndarray, factor: int) -> np.ndarray:
    return picture[: picture.shape[0] // factor * factor, : picture.shape[1] // factor * factor]


def measure(enlarge, factor: int, folder: Path, quality: int = 0) -> float:
    """The mean PSNR of a folder's pictures in dB."""
    scores = []
    for sharp in (cut(pictures.read(p), factor) for p in pictures.paths(folder)):
        small = reduce(sharp, factor)
        enlarged = enlarge(pictures.jpeg(small, quality) if quality else small)
        error = luminance(enlarged) - luminance(sharp)
        scores.append(psnr(error[factor:-factor, factor:-factor]))
    return float(np.mean(scores))


def contact_sheet(net: torch.nn.Module, folders: list[Path], side: int = 192, count: int = 12) -> np.ndarray:
    """Triples of bicubic, network and truth: the most detailed part of each picture."""
    f, rows = net.factor, []
    sharp_pictures = [cut(pictures.read(p), f) for folder in folders for p in pictures.paths(folder)]
    for sharp in sharp_pictures[:: max(1, len(sharp_pictures) // count)][:count]:
        small = reduce(sharp, f)
        busy = cv2.blur(np.abs(cv2.Laplacian(luminance(sharp), cv2.CV_64F)), (side, side))
        half = side // 2
        inner = busy[half : sharp.shape[0] - half + 1, half : sharp.shape[1] - half + 1]
        y, x = np.unravel_index(int(inner.argmax()), inner.shape)
        shown = (by_bicubic(f)(small), by_network(net)(small), sharp)
        rows.append(np.hstack([p[y : y + side, x : x + side] for p in shown]))
    return np.vstack([np.hstack(rows[k : k + 2]) for k in range(0, len(rows), 2)])


def main() -> None:
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("weights", type=Path)
    p.add_argument("--eval", type=Path, required=True)
    p.add_argument("--sets", type=lambda t: t.split(","), default=SETS, help="folders of EVAL")
    p.add_argument("--fsrcnn", type=Path)
    p.add_argument("--sheet", type=Path)
    a = p.parse_args()
    torch.set_num_threads(1)
    net = load(a.weights)
    methods = {"bicubic": by_bicubic(net.factor), net.name: by_network(net)}
    if a.fsrcnn:
        methods["fsrcnn"] = by_fsrcnn(a.fsrcnn, net.factor)
    for kind, quality in (("clean", 0), ("JPEG", QUALITY)):
        for name, enlarge in methods.items():
            line = {s: round(measure(enlarge, net.factor, a.eval / s, quality), 2) for s in a.sets}
            print(json.dumps({"small": kind, "by": name, **line}), flush=True)
    if a.sheet:
        cv2.imwrite(str(a.sheet), contact_sheet(net, [a.eval / s for s in a.sets])[:, :, ::-1])


if __name__ == "__main__":
    main()
