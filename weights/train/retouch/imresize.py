"""Bicubic reduction as MATLAB's `imresize` does it, because the published figures of super-resolution are made so.

The kernel (Keys, a = -0.5) is stretched by the factor, its weights add up to one, and outside the picture the picture
is mirrored. Checked in the tests against values worked out by hand; the figures of `evaluate.py` for bicubic are the
published ones.
"""
import numpy as np
import torch

from .nets import cubic


def matrix(side: int, small: int) -> np.ndarray:
    """[small, side]: row o holds what each of `side` pixels gives to output pixel o. For small <= side."""
    scale = small / side
    centre = (np.arange(small) + 0.5) / scale - 0.5
    reach = 2 / scale
    first = np.floor(centre - reach).astype(int)
    taps = first[:, None] + np.arange(int(np.ceil(2 * reach)) + 2)
    weight = cubic(torch.from_numpy((centre[:, None] - taps) * scale)).numpy()
    weight /= weight.sum(1, keepdims=True)
    mirrored = np.mod(taps, 2 * side)
    mirrored = np.where(mirrored < side, mirrored, 2 * side - 1 - mirrored)
    rows = np.zeros((small, side))
    np.add.at(rows, (np.arange(small)[:, None], mirrored), weight)
    return rows


def reduce(picture: np.ndarray, factor: int) -> np.ndarray:
    """[H, W, C] uint8 with sides that are multiples of the factor, to a factor-th, rounded to uint8."""
    high, wide = picture.shape[:2]
    if high % factor or wide % factor:
        raise ValueError(f"{wide}x{high} is no multiple of {factor}")
    down, across = matrix(high, high // factor), matrix(wide, wide // factor)
    small = np.einsum("yh,hwc->ywc", down, picture.astype(np.float64), optimize=True)
    small = np.einsum("xw,ywc->yxc", across, small, optimize=True)
    return np.clip(np.rint(small), 0, 255).astype(np.uint8)
