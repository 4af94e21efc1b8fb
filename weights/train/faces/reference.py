#!/usr/bin/env python3
"""Writes reference data for the Rust side's parity test: an input made by a formula, and the network's three outputs.

    python -m faces.reference WEIGHTS.safetensors --out FOLDER

The input is 96 px wide and 64 px high; channel c of the pixel in column x of row y is the byte
`(37·x + 59·y + 83·c + 11·x·y + 7·x·x·(c + 1)) mod 256`, as the network takes it: `byte / 127.5 - 1`.
The answers are little-endian single precision, [15, height, width], of the half-precision weights computed in single
precision.
"""
import argparse
from pathlib import Path

import numpy as np
import torch

from faces.export import load
from faces.model import STRIDES

WIDTH, HEIGHT = 96, 64


def formula() -> np.ndarray:
    """[HEIGHT, WIDTH, 3] of bytes."""
    y, x, c = np.meshgrid(np.arange(HEIGHT), np.arange(WIDTH), np.arange(3), indexing="ij")
    return ((37 * x + 59 * y + 83 * c + 11 * x * y + 7 * x * x * (c + 1)) % 256).astype(np.uint8)


def main() -> None:
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("weights", type=Path)
    p.add_argument("--out", type=Path, required=True)
    a = p.parse_args()
    a.out.mkdir(parents=True, exist_ok=True)
    torch.set_num_threads(1)
    rgb = formula()
    with torch.no_grad():
        outputs = load(a.weights)(torch.from_numpy(rgb).permute(2, 0, 1)[None].float().div(127.5).sub(1))
    lines = [__doc__.split("\n\n", 2)[2], f"Input: `input.bin`, bytes, [{HEIGHT}, {WIDTH}, 3]; sum {int(rgb.sum())}.\n"]
    (a.out / "input.bin").write_bytes(rgb.tobytes())
    for stride, output in zip(STRIDES, outputs):
        values = output[0].contiguous().numpy().astype("<f4")
        (a.out / f"head-{stride}.bin").write_bytes(values.tobytes())
        lines.append(f"- `head-{stride}.bin`: {list(values.shape)}, first {values.flat[0]:.6f}, mean {values.mean():.6f}")
    (a.out / "README.md").write_text("\n".join(lines) + "\n")
    print("\n".join(lines))


if __name__ == "__main__":
    main()
