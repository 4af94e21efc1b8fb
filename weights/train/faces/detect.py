"""From a picture to its faces, as the service does it."""
import cv2
import numpy as np
import torch

from faces.boxes import iou, suppress
from faces.loss import decode, flatten
from faces.model import FaceNet

SIDE = 320    # longest side of what the network is shown
OVERLAP = 0.4  # IoU from which of two boxes the weaker goes
MOST = 1000    # cells that are looked at further


def fitted(rgb: np.ndarray, side: int) -> tuple[np.ndarray, np.ndarray]:
    """The picture with its longest side `side`, padded with mid grey on the right and below to multiples of 32.

    And the two factors that lead back, [2].
    """
    h, w = rgb.shape[:2]
    scale = side / max(h, w)
    size = (max(1, round(w * scale)), max(1, round(h * scale)))
    how = cv2.INTER_AREA if scale < 1 else cv2.INTER_LINEAR
    small = cv2.resize(rgb, size, interpolation=how)
    padded = np.full((-(-size[1] // 32) * 32, -(-size[0] // 32) * 32, 3), 127.5, np.float32)
    padded[: size[1], : size[0]] = small
    return padded, np.array([w / size[0], h / size[1]], np.float32)


@torch.no_grad()
def detect(model: FaceNet, rgb: np.ndarray, side: int = SIDE, least: float = 0.05) -> np.ndarray:
    """[n, 15]: left, top, right, bottom, 5 × (x, y), score, in pixels of `rgb`, best first."""
    padded, back = fitted(rgb, side)
    x = torch.from_numpy(padded).permute(2, 0, 1)[None].div(127.5).sub(1)
    rows, at, strides = flatten(model(x.contiguous(memory_format=torch.channels_last)))
    boxes, points = decode(rows[0], at, strides)
    scores = rows[0, :, 0].sigmoid()
    best = scores.argsort(descending=True)[:MOST]
    best = best[scores[best] >= least]
    found = torch.cat([boxes[best], points[best].flatten(1), scores[best, None]], 1).numpy()
    found[:, :14] *= np.tile(back, 7)
    return found[suppress(found[:, :4], found[:, 14], OVERLAP)]


def refined(model: FaceNet, rgb: np.ndarray, faces: np.ndarray, side: int = 160, around: float = 2.0) -> np.ndarray:
    """The faces as they look from nearby: each is cut out with its surroundings, and the network asked again.

    The crop is `around` times the face's longer side and is shown at `side` px. Scores stay those of the first look; a
    face that is not found again stays as it is.
    """
    out = faces.copy()
    for row in out:
        reach = max(2.0, float((row[2:4] - row[:2]).max()) * around) / 2
        corner = (row[:2] + row[2:4]) / 2 - reach
        scale = side / (2 * reach)
        matrix = np.array([[scale, 0, -corner[0] * scale], [0, scale, -corner[1] * scale]])
        level = max(0, int(np.floor(np.log2(1 / scale)))) if scale < 1 else 0
        source = cv2.resize(rgb, None, fx=0.5**level, fy=0.5**level, interpolation=cv2.INTER_AREA) if level else rgb
        matrix[:, :2] *= 2**level
        crop = cv2.warpAffine(source, matrix, (side, side), flags=cv2.INTER_LINEAR, borderValue=(128, 128, 128))
        near = detect(model, crop, side, 0.2)
        near[:, :14] = near[:, :14] / scale + np.tile(corner, 7)
        overlap = iou(row[None, :4], near[:, :4])[0] if len(near) else np.zeros(0)
        if (overlap >= OVERLAP).any():
            row[:14] = near[np.argmax(overlap * near[:, 14]), :14]
    return out


def detect_twice(model: FaceNet, rgb: np.ndarray, least: float = 0.05) -> np.ndarray:
    """At 320 and at 640, as one answer."""
    found = np.concatenate([detect(model, rgb, side, least) for side in (SIDE, 2 * SIDE)])
    return found[suppress(found[:, :4], found[:, 14], OVERLAP)]
