"""Draws structures that photos' masks render poorly, with exact alpha: hair, fur, twigs and holes.

Drawn at `OVER` times the size and averaged, so that alpha is the coverage of each pixel.
"""
import cv2
import numpy as np

OVER = 4
SHIFT = 4  # fractional bits of cv2's coordinates


def curve(rng, start, heading, length, bend, points=9):
    """A polyline from `start` of constant curvature, with noise."""
    turn = heading + np.cumsum(np.full(points, bend / points) + rng.normal(0, 0.06, points))
    step = length / points * np.stack([np.cos(turn), np.sin(turn)], 1)
    return np.concatenate([start[None], start + np.cumsum(step, 0)])


def draw_curves(shape, curves, widths) -> np.ndarray:
    """Coverage, float32 0..1, of curves in pixel coordinates; widths in pixels, may be below one."""
    canvas = np.zeros((shape[0] * OVER, shape[1] * OVER), np.uint8)
    for line, width in zip(curves, widths):
        exact_width = width * OVER
        thickness = 1 if exact_width <= 1 else max(2, 2 * round((exact_width - 1) / 2))
        drawn_width = thickness if thickness == 1 else thickness + 1  # cv2 draws an even thickness one wider
        level = int(min(255, 255 * exact_width / drawn_width))
        at = np.round(line * OVER * (1 << SHIFT)).astype(np.int32)
        cv2.polylines(canvas, [at[:, None]], False, level, thickness, cv2.LINE_8, SHIFT)
    return cv2.resize(canvas, shape[1::-1], interpolation=cv2.INTER_AREA).astype(np.float32) / 255


def outline(alpha: np.ndarray, rng, count: int):
    """`count` random points on the subject's outline, with the angles of the outward normals."""
    inside = (alpha > 0.5).astype(np.uint8)
    contours, _ = cv2.findContours(inside, cv2.RETR_EXTERNAL, cv2.CHAIN_APPROX_NONE)
    if not contours:
        return np.zeros((0, 2)), np.zeros(0)
    points = max(contours, key=len)[:, 0].astype(np.float32)
    if len(points) < 16:
        return np.zeros((0, 2)), np.zeros(0)
    smooth = cv2.GaussianBlur(alpha, (0, 0), 3)
    dx, dy = cv2.Sobel(smooth, cv2.CV_32F, 1, 0), cv2.Sobel(smooth, cv2.CV_32F, 0, 1)
    chosen = points[rng.integers(0, len(points), count)]
    at = chosen.astype(int)
    return chosen, np.arctan2(-dy[at[:, 1], at[:, 0]], -dx[at[:, 1], at[:, 0]])


def hair(rng, alpha: np.ndarray):
    """Alpha of strands that grow from a random part of the subject's outline."""
    size = max(alpha.shape)
    furry = rng.random() < 0.5
    count = int(rng.integers(60, 260) if furry else rng.integers(12, 80))
    starts, out = outline(alpha, rng, count)
    if not len(starts):
        return np.zeros_like(alpha)
    if not furry or rng.random() < 0.5:  # only one side of the subject
        side = rng.uniform(0, 2 * np.pi)
        out_of = np.cos(out - side) > rng.uniform(-0.2, 0.6)
        starts, out = starts[out_of], out[out_of]
    reach = size * (rng.uniform(0.01, 0.05) if furry else rng.uniform(0.04, 0.25))
    bend = rng.normal(0, 0.8)
    roots = starts - 2 * np.stack([np.cos(out), np.sin(out)], 1)
    lines = [
        curve(rng, root, a + rng.normal(0, 0.4), reach * rng.uniform(0.4, 1.2), bend) for root, a in zip(roots, out)
    ]
    return draw_curves(alpha.shape, lines, rng.uniform(0.3, 1.6, len(lines)) * size / 384)


def wires(rng, size: int):
    """Alpha of a subject that consists of thin parts: a twig, a plant, a stand, a chair's legs."""
    lines, widths = [], []
    base = np.array([size * rng.uniform(0.3, 0.7), size * rng.uniform(0.7, 0.95)])
    thickness = size * rng.uniform(0.006, 0.02)

    def grow(start, heading, length, width, depth):
        line = curve(rng, start, heading, length, rng.normal(0, 0.5))
        lines.append(line)
        widths.append(max(0.6, width))
        for _ in range(int(rng.integers(1, 4)) if depth else 0):
            at = line[int(rng.integers(3, len(line)))]
            grow(at, heading + rng.normal(0, 0.8), length * rng.uniform(0.4, 0.8), width * 0.6, depth - 1)

    for _ in range(int(rng.integers(1, 4))):
        grow(base, -np.pi / 2 + rng.normal(0, 0.35), size * rng.uniform(0.25, 0.5), thickness, int(rng.integers(1, 4)))
    return draw_curves((size, size), lines, widths)


def holes(rng, alpha: np.ndarray) -> np.ndarray:
    """`alpha` with holes cut into it: one to four ellipses, or a lattice."""
    h, w = alpha.shape
    rows, columns = np.where(alpha > 0.5)
    if len(rows) < 400:
        return alpha
    cut_away = np.zeros((h * OVER, w * OVER), np.uint8)
    y0, y1, x0, x1 = rows.min(), rows.max(), columns.min(), columns.max()
    extent = max(y1 - y0, x1 - x0)
    if rng.random() < 0.65:
        for _ in range(int(rng.integers(1, 5))):
            k = int(rng.integers(len(rows)))
            axes = extent * rng.uniform(0.03, 0.14, 2) * OVER
            cv2.ellipse(cut_away, (int(columns[k] * OVER), int(rows[k] * OVER)), (int(axes[0]), int(axes[1])),
                        rng.uniform(0, 180), 0, 360, 255, -1, cv2.LINE_AA)
    else:
        cells, bar = int(rng.integers(3, 7)), rng.uniform(0.25, 0.6)
        step = extent / cells
        for y in np.arange(y0 + step * 0.4, y1 - step * 0.4, step):
            for x in np.arange(x0 + step * 0.4, x1 - step * 0.4, step):
                far = (int((x + step * (1 - bar)) * OVER), int((y + step * (1 - bar)) * OVER))
                cv2.rectangle(cut_away, (int(x * OVER), int(y * OVER)), far, 255, -1)
    open_share = cv2.resize(cut_away, (w, h), interpolation=cv2.INTER_AREA).astype(np.float32) / 255
    return alpha * (1 - open_share)
