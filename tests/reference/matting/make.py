#!/usr/bin/env python3
"""Reference values of closed-form matting: PyMatting's estimate_alpha_cf on drawn pictures and on two golden ones.

    pip install numpy opencv-python-headless pymatting
    python make.py

Writes into its folder, for each picture: NAME.png (not for the golden ones, which are in tests/golden), NAME.trimap.png
(0, 128, 255) and NAME.alpha.png (PyMatting's alpha in 255ths; 16 bits for the drawn ones). The drawing uses integers and
a fixed generator only, so that every machine draws equal pictures. Recorded with PyMatting 1.1.16.
"""
import os
import cv2, numpy as np
from pymatting import estimate_alpha_cf

HERE = os.path.dirname(os.path.abspath(__file__))
SIDE = 112

def disc(radius):
    return cv2.getStructuringElement(cv2.MORPH_ELLIPSE, (2 * radius + 1, 2 * radius + 1))

def trimap_of(alpha, radius):
    """The trimap of an alpha in 255ths: certain regions are eroded by `radius`."""
    t = np.full(alpha.shape, 128, np.uint8)
    t[cv2.erode((alpha >= 250).astype(np.uint8), disc(radius), borderValue=1) == 1] = 255
    t[cv2.erode((alpha <= 5).astype(np.uint8), disc(radius), borderValue=1) == 1] = 0
    return t

def reference(image, trimap):
    known = np.where(trimap == 128, .5, trimap / 255.)
    # The variance of rounding to eight bits, as in `kernels/laplacian`; PyMatting takes 1e-7 by default.
    epsilon = 9 / (12 * 255 ** 2)
    return np.clip(estimate_alpha_cf(image / 255., known, laplacian_kwargs={"epsilon": epsilon}), 0, 1)

def over(foreground, background, alpha):
    a = alpha.astype(np.int64)[..., None]
    return ((foreground.astype(np.int64) * a + background.astype(np.int64) * (255 - a) + 127) // 255).astype(np.uint8)

def noise(seed, amount):
    state, out = np.uint32(seed), np.empty(SIDE * SIDE, np.int64)
    for i in range(out.size):
        state = np.uint32((int(state) * 1664525 + 1013904223) & 0xffffffff)
        out[i] = (int(state) >> 16) % (2 * amount + 1) - amount
    return out.reshape(SIDE, SIDE, 1)

def drawn():
    y, x = np.mgrid[:SIDE, :SIDE]
    sky = np.stack([70 + x, 110 + y // 2, 200 - x // 3], -1)
    warm = np.stack([210 - y // 3, 120 + x // 4, 60 + y // 4], -1)
    r2 = (x - 56) ** 2 + (y - 56) ** 2
    soft = np.clip(255 * (40 ** 2 - r2) // (40 ** 2 - 30 ** 2), 0, 255)
    yield 'disc', over(warm, sky, soft), soft, 3
    hair = np.where(r2 < 22 ** 2, 255, 0)
    for k in range(28):                                         # strands: straight, from the disc outwards, fading
        dx, dy = [(5, k % 7 - 3), (-5, k % 5 - 2), (k % 9 - 4, 5), (k % 6 - 3, -5)][k % 4]
        for step in range(0, 150):
            px, py = 56 * 16 + dx * step + k * 5 - 70, 56 * 16 + dy * step + 60 - k * 4
            if 0 <= px // 16 < SIDE and 0 <= py // 16 < SIDE:
                hair[py // 16, px // 16] = max(hair[py // 16, px // 16], 230 - step)
    yield 'strands', over(np.clip(warm - 40, 0, 255), sky, hair), hair, 4
    rough = over(np.clip(warm + noise(1, 30), 0, 255), np.clip(sky + noise(2, 30), 0, 255), soft)
    yield 'texture', rough, soft, 3

def write(name, image): assert cv2.imwrite(os.path.join(HERE, name), image, [cv2.IMWRITE_PNG_COMPRESSION, 9])

if __name__ == '__main__':
    for name, image, alpha, radius in drawn():
        trimap = trimap_of(alpha, radius)
        write(f'{name}.png', image[:, :, ::-1])
        write(f'{name}.trimap.png', trimap)
        write(f'{name}.alpha.png', (reference(image, trimap) * 65535 + .5).astype(np.uint16))
    golden = os.path.join(HERE, '..', '..', 'golden')
    for name, file in (('fur-horse', 'fur-horse.jpg'), ('hair-curls', 'hair-curls.jpg')):
        image = cv2.imread(f'{golden}/pictures/{file}')[:, :, ::-1]
        trimap = trimap_of(cv2.imread(f'{golden}/truth/{name}.png', cv2.IMREAD_GRAYSCALE), 4)
        write(f'{name}.trimap.png', trimap)
        write(f'{name}.alpha.png', (reference(image, trimap) * 255 + .5).astype(np.uint8))
