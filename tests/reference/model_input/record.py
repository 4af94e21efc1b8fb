#!/usr/bin/env python3
"""Records the results of OpenCV's resize, for kernels/model_input/tests.rs.

    python tests/reference/model_input/record.py

Needs opencv-python-headless and numpy. Pictures come from integers that both languages compute; each file is
16 x 16 x 3 bytes, RGB.
"""
import pathlib
import cv2, numpy as np

HERE = pathlib.Path(__file__).resolve().parent
SIDE = 16


def picture(width, height):
    y, x = np.mgrid[0:height, 0:width].astype(np.int64)
    return np.stack([(x * 37 + y * 11) % 256, (x * x + 3 * y) % 256, (x * 5 + y * y * 7) % 256], -1).astype(np.uint8)


for width, height, method in ((101, 67, cv2.INTER_AREA), (48, 64, cv2.INTER_AREA), (9, 13, cv2.INTER_LINEAR), (16, 16, cv2.INTER_AREA)):
    cv2.resize(picture(width, height), (SIDE, SIDE), interpolation=method).tofile(HERE / f'{width}x{height}.rgb')
