#!/usr/bin/env python3
"""Makes the expected values of `measures_agree_with_the_reference_script` (src/cli/eval/metrics.rs).

    pip install numpy opencv-python-headless && python tests/reference/eval_metrics.py

The salient-object measures follow the project's training script; the matting measures follow Rhemann et al. (CVPR 2009)
as they are commonly implemented.
"""
import cv2
import numpy as np

WIDTH, HEIGHT = 97, 61


def disc(cx, cy, radius, rim):
    y, x = np.mgrid[:HEIGHT, :WIDTH].astype(np.int64)
    inner = (radius * radius - (x - cx) ** 2 - (y - cy) ** 2) * 255
    return np.clip(np.sign(inner) * (np.abs(inner) // rim), 0, 255).astype(np.uint8)  # Rust divides towards zero


def band(member, depth):
    padded = cv2.copyMakeBorder(member.astype(np.uint8), 1, 1, 1, 1, cv2.BORDER_CONSTANT, value=0)
    return member & ~cv2.erode(padded, np.ones((3, 3), np.uint8), iterations=depth)[1:-1, 1:-1].astype(bool)


def iou(a, b):
    return (a & b).sum() / max(1, (a | b).sum())


def max_f(matte, truth):
    hit = np.bincount(matte[truth], minlength=256)[::-1].cumsum()
    seen = np.bincount(matte.ravel(), minlength=256)[::-1].cumsum()
    p, r = (hit + 1e-9) / (seen + 1e-9), hit / max(1, truth.sum())
    return (1.3 * p * r / (0.3 * p + r + 1e-12)).max()


def gradient(values, sigma=1.4, epsilon=1e-2):
    root = np.sqrt(2 * np.pi) * sigma
    half = int(np.ceil(sigma * np.sqrt(-2 * np.log(root * epsilon))))
    t = np.arange(-half, half + 1)
    gauss = np.exp(-t**2 / (2 * sigma**2)) / root
    fx = np.outer(gauss, -t * gauss / sigma**2)
    fx /= np.sqrt((fx**2).sum())
    x, y = (cv2.filter2D(values, cv2.CV_64F, f, borderType=cv2.BORDER_REPLICATE) for f in (fx, fx.T))
    return np.sqrt(x**2 + y**2)


def connectivity(matte, truth, theta=0.15):
    level = -np.ones_like(matte)
    for step in range(1, 11):
        shared = ((matte >= np.float32(step / 10)) & (truth >= np.float32(step / 10))).astype(np.uint8)
        _, labels, stats, _ = cv2.connectedComponentsWithStats(shared, connectivity=4)
        region = labels == 1 + np.argmax(stats[1:, -1]) if len(stats) > 1 else np.zeros(shared.shape, bool)
        level[(level == -1) & ~region] = (step - 1) / 10
    level[level == -1] = 1
    phi = lambda v: 1 - (v - level) * (v - level >= theta)
    return np.abs(phi(matte) - phi(truth)).sum() / 1000


truth = disc(44, 29, 22, 500)
matte = np.maximum(disc(50, 33, 20, 300), disc(12, 10, 6, 20))
a, b = matte / np.float32(255), truth / np.float32(255)
A, B = matte > 127, truth > 127
depth = max(1, round(0.02 * np.hypot(WIDTH, HEIGHT)))
a, b = a.astype(np.float64), b.astype(np.float64)
print([float(v) for v in (
    np.abs(a - b).mean(), iou(A, B), iou(band(A, depth), band(B, depth)), max_f(matte, B),
    np.abs(a - b).sum() / 1000, ((a - b) ** 2).mean(), ((gradient(a) - gradient(b)) ** 2).sum() / 1000, connectivity(a, b))])
