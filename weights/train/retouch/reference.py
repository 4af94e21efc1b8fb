"""Writes a network's output for a synthetic picture, as reference data for another implementation.

    python -m retouch.reference upscale-2.safetensors --out FOLDER

Writes `<name>.in.bin`, bytes, to be divided by 255, and `<name>.out.bin`, little-endian f32 (f16 for `restore`, whose
output has many small values): [H, W, 3] in row order. The input is `synthetic_picture`, computed in integers, so that
it can be reproduced exactly. The output of `upscale` is clamped to 0..1; that of `restore` is the unclamped residual.
"""
import argparse
from pathlib import Path

import numpy as np
import torch

from .enlarging import as_tensor
from .export import load

SIZES = {"upscale": (20, 24), "restore": (256, 256)}  # height, width
OUTPUT_TYPES = {"upscale": "<f4", "restore": "<f2"}


def synthetic_picture(height: int, width: int) -> np.ndarray:
    """[H, W, 3] uint8: two crossed triangle waves and fine grain."""
    y, x, c = np.meshgrid(np.arange(height), np.arange(width), np.arange(3), indexing="ij")

    def wave(t):
        return np.abs(t % 510 - 255)

    waves = (wave(9 * x + 5 * y + 60 * c) + wave(4 * x + 11 * y + 90 * c)) // 2
    return np.minimum(255, waves + (13 * x * y + 7 * c) % 16).astype(np.uint8)


def infer(net: torch.nn.Module, picture: np.ndarray) -> np.ndarray:
    out = net(as_tensor([picture]))[0].permute(1, 2, 0).contiguous().numpy()
    return np.clip(out, 0, 1) if net.architecture == "upscale" else out


def main() -> None:
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("weights", type=Path, nargs="+")
    p.add_argument("--out", type=Path, required=True)
    a = p.parse_args()
    torch.set_num_threads(1)
    a.out.mkdir(parents=True, exist_ok=True)
    for net in (load(path) for path in a.weights):
        picture = synthetic_picture(*SIZES[net.architecture])
        out = infer(net, picture)
        picture.tofile(a.out / f"{net.name}.in.bin")
        out.astype(OUTPUT_TYPES[net.architecture]).tofile(a.out / f"{net.name}.out.bin")
        print(f"{net.name}: in {list(picture.shape)}, out {list(out.shape)}, {out.min():.4f} to {out.max():.4f}")


if __name__ == "__main__":
    main()
