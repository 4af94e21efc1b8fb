"""Bicubic reduction as MATLAB's `imresize` does it, because published super-resolution results use it.

The kernel (Keys, a = -0.5) is stretched by the factor, its weights add up to one, and outside the picture the picture
is mirrored. The tests compare it with values calculated by hand; the results of `measure_upscale.py` for bicubic are the
published ones.
"""
import numpy as np
import torch

from .nets import cubic


def matrix(side: int, small: int) -> np.ndarray:
    """[small, side]: row o holds the weights of the `side` input pixels in output pixel o. For small <= side."""
    scale = small / side
    centre = (np.arange(small) + 0.5) / scale - 0.5
    support = 2 / scale
    first = np.floor(centre - support).astype(int)
    taps = first[:, None] + np.arange(int(np.ceil(2 * support)) + 2)
    weight = cubic(torch.from_numpy((centre[:, None] - taps) * scale)).numpy()
    weight /= weight.sum(1, keepdims=True)
    mirrored = np.mod(taps, 2 * side)
    mirrored = np.where(mirrored < side, mirrored, 2 * side - 1 - mirrored)
    rows = np.zeros((small, side))
    np.add.at(rows, (np.arange(small)[:, None], mirrored), weight)
    return rows


def reduce(picture: np.ndarray, factor: int) -> np.ndarray:
    """[H, W, C] uint8 with sides that are multiples of the factor, reduced by the factor, rounded to uint8."""
    height, width = picture.shape[:2]
    if height % factor or width % factor:
        raise ValueError(f"{width}x{height} is not a multiple of {factor}")
    vertical, horizontal = matrix(height, height // factor), matrix(width, width // factor)
    small = np.einsum("yh,hwc->ywc", vertical, picture.astype(np.float64), optimize=True)
    small = np.einsum("xw,ywc->yxc", horizontal, small, optimize=True)
    return np.clip(np.rint(small), 0, 255).astype(np.uint8)
