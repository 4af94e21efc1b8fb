"""Draws synthetic products (bottles, boxes, balls, cups, bowls) with simple shading and exact alpha.

They need not look real. They provide examples of subjects with soft shading on a background of nearly the same colour,
and of shadows that are background: few photos with good masks show white products on white or black ones on black.
"""
import cv2
import numpy as np

from strands import OVER, curve, draw_curves


def revolved(rng, size: int):
    """A solid of revolution (bottle, vase, bowl, pear): random radii, shading across. Returns (coverage, shading)."""
    n = size * OVER
    knots = int(rng.integers(3, 7))
    radii = rng.uniform(0.25, 1.0, knots)
    if rng.random() < 0.4:
        radii[:] = rng.uniform(0.7, 1)               # a cylinder: cups, cans
        radii[0] *= rng.uniform(0.4, 1)
    if rng.random() < 0.5:                           # round ends, as of fruit
        radii[0] = radii[-1] = 0.02
    height, half = rng.uniform(0.35, 0.9), rng.uniform(0.12, 0.42)
    y = np.linspace(-1, 1, n, dtype=np.float32)
    at = np.clip((y / height + 1) / 2, 0, 1) * (knots - 1)
    profile = np.interp(at, np.arange(knots), radii)
    profile = cv2.GaussianBlur(profile[:, None].astype(np.float32), (1, 0), sigmaX=0.1, sigmaY=n * 0.03)[:, 0] \
        if rng.random() < 0.7 else profile
    profile = np.where(np.abs(y) <= height, profile * half, 0).astype(np.float32)
    across = np.linspace(-1, 1, n, dtype=np.float32)[None] / np.maximum(profile[:, None], 1e-4)
    inside = (np.abs(across) < 1).astype(np.float32)
    normal = np.clip(across, -1, 1)
    light = rng.uniform(-0.8, 0.8)
    shade = 1 - rng.uniform(0.1, 0.45) * (normal - light) ** 2
    if rng.random() < 0.5:                           # a specular highlight
        shade = shade + rng.uniform(0.05, 0.3) * np.exp(-((normal - light) / rng.uniform(0.05, 0.2)) ** 2)
    return inside, shade


def polygonal(rng, size: int):
    """A box seen from above a corner, three faces with three shades; or a card, or a book."""
    n = size * OVER
    inside = np.zeros((n, n), np.uint8)
    shade = np.ones((n, n), np.float32)
    w, h, d = rng.uniform(0.2, 0.6), rng.uniform(0.2, 0.7), rng.uniform(0.0, 0.35)
    slope = rng.uniform(0.1, 0.6)
    front = np.array([[-w, -h], [w, -h], [w, h], [-w, h]]) / 1.4
    back = np.array([d, -d * slope]) * (1 if rng.random() < 0.5 else np.array([-1, 1]))
    side = [1, 2] if back[0] > 0 else [0, 3]
    faces = [
        (np.stack([front[side[0]], front[side[0]] + back, front[side[1]] + back, front[side[1]]]),
         rng.uniform(0.6, 0.95)),
        (np.stack([front[0], front[0] + back, front[1] + back, front[1]]), rng.uniform(0.85, 1.1)),
        (front, rng.uniform(0.8, 1.05)),
    ]
    for points, value in faces:
        at = np.round((points + 1) / 2 * n * 16).astype(np.int32)
        cv2.fillPoly(inside, [at], 255, cv2.LINE_8, 4)
        cv2.fillPoly(shade, [at], float(value), cv2.LINE_8, 4)
    return inside.astype(np.float32) / 255, shade


def blob(rng, size: int):
    """A smooth closed shape lit from one side (stone, bread, garlic, soap)."""
    n = size * OVER
    angle = np.linspace(0, 2 * np.pi, 120, endpoint=False)
    radius = np.full_like(angle, rng.uniform(0.3, 0.75))
    for k in range(2, int(rng.integers(3, 8))):
        radius *= 1 + rng.uniform(0, 0.35) / k * np.cos(k * angle + rng.uniform(0, 6.28))
    points = np.stack([radius * np.cos(angle), radius * np.sin(angle) * rng.uniform(0.5, 1)], 1)
    at = np.round((points / max(1.0, np.abs(points).max() / 0.95) + 1) / 2 * n * 16).astype(np.int32)
    inside = np.zeros((n, n), np.uint8)
    cv2.fillPoly(inside, [at], 255, cv2.LINE_8, 4)
    deep = cv2.distanceTransform(inside, cv2.DIST_L2, 3)
    deep = np.sqrt(np.clip(deep / max(deep.max(), 1), 0, 1))
    u = np.linspace(-1, 1, n, dtype=np.float32)
    towards = rng.uniform(0, 6.28)
    shade = 0.75 + 0.25 * deep + rng.uniform(0, 0.3) * (u[None] * np.cos(towards) + u[:, None] * np.sin(towards))
    return inside.astype(np.float32) / 255, shade


def texture(rng, size: int) -> np.ndarray:
    """Factors of the colour: constant, spots, stripes, or printed labels."""
    kind = rng.random()
    if kind < 0.35:
        return np.ones((size, size, 1), np.float32)
    if kind < 0.6:
        coarse = rng.normal(0, 1, (12, 12)).astype(np.float32)
        noise = cv2.resize(coarse, (size, size), interpolation=cv2.INTER_CUBIC)
        return 1 + rng.uniform(0.02, 0.2) * noise.reshape(size, size, 1)
    field = np.ones((size, size, 3), np.float32)
    if kind < 0.75:
        u = np.linspace(-1, 1, size, dtype=np.float32)
        wave = np.sin((u[:, None] * rng.normal() + u[None] * rng.normal()) * rng.uniform(5, 60))
        return 1 + rng.uniform(0.02, 0.3) * np.sign(wave)[..., None] * np.ones(3, np.float32)
    for _ in range(int(rng.integers(1, 4))):  # labels
        x, y = rng.uniform(0.2, 0.7, 2) * size
        far = (int(x + rng.uniform(0.05, 0.3) * size), int(y + rng.uniform(0.03, 0.25) * size))
        cv2.rectangle(field, (int(x), int(y)), far, tuple(float(v) for v in rng.uniform(0.1, 1.2, 3)), -1)
    return field


def solid(rng, size: int, colour: np.ndarray) -> np.ndarray:
    """A synthetic product as premultiplied float32 RGBA 0..255, [size, size, 4]."""
    make = (revolved, polygonal, blob)[int(rng.choice(3, p=[0.4, 0.3, 0.3]))]
    inside, shade = make(rng, size)
    small = (size, size)
    alpha = cv2.resize(inside, small, interpolation=cv2.INTER_AREA)
    shade = cv2.resize(shade.astype(np.float32), small, interpolation=cv2.INTER_AREA)
    if rng.random() < 0.25:                  # a handle, a stalk, a cable
        rows, columns = np.where(alpha > 0.5)
        if len(rows):
            k = int(rng.integers(len(rows)))
            start = np.array([columns[k], rows[k]], float)
            line = curve(rng, start, rng.uniform(0, 6.28), size * rng.uniform(0.2, 0.6), rng.normal(0, 3))
            alpha = np.maximum(alpha, draw_curves(alpha.shape, [line], [size * rng.uniform(0.004, 0.03)]))
    rgb = np.clip(colour * shade[..., None] * texture(rng, size), 0, 255)
    return np.dstack([rgb * alpha[..., None], alpha * 255]).astype(np.float32)
