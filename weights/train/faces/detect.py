"""From a picture to its faces, as the service does it."""
import cv2
import numpy as np
import torch

from faces.boxes import iou, suppress
from faces.loss import decode, flatten
from faces.model import FaceNet

SIDE = 320    # longest side of what the network is shown
OVERLAP = 0.4  # IoU from which of two boxes the weaker goes
CANDIDATE = 0.35  # score at 320 from which a face is looked at again
CANDIDATES = 8    # that are looked at again, at most
AROUND, NEAR = 2.0, 160  # side of the second look's crop, in the face's longer side; px that it is shown at
SAME = 0.3        # IoU from which the second look's face is the first one's
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


def looked_at_again(model: FaceNet, rgb: np.ndarray, faces: np.ndarray) -> np.ndarray:
    """The first faces as they look from nearby: each is cut out with its surroundings, and the network asked again.

    The crop is a square of `AROUND` times the face's longer side, shown at `NEAR` px. Boxes, landmarks and scores are
    those of the second look; what it does not find again is dropped.
    """
    rows = []
    for face in faces[:CANDIDATES]:
        half = max(2.0, float((face[2:4] - face[:2]).max()) * AROUND) / 2
        corner, scale = (face[:2] + face[2:4]) / 2 - half, NEAR / (2 * half)
        halvings = max(0, int(np.floor(np.log2(1 / scale))))  # before sampling, against aliasing
        source = cv2.resize(rgb, None, fx=0.5**halvings, fy=0.5**halvings, interpolation=cv2.INTER_AREA)
        linear = scale * 2**halvings
        matrix = np.array([[linear, 0, -corner[0] * scale], [0, linear, -corner[1] * scale]])
        near = detect(model, cv2.warpAffine(source, matrix, (NEAR, NEAR), borderValue=(128, 128, 128)), NEAR, 0.1)
        near[:, :14] = near[:, :14] / scale + np.tile(corner, 7)
        overlap = iou(face[None, :4], near[:, :4])[0] if len(near) else np.zeros(0)
        if (overlap >= SAME).any():
            rows.append(near[np.argmax(overlap * near[:, 14])])
    rows = np.array(rows, np.float32).reshape(-1, 15)
    return rows[suppress(rows[:, :4], rows[:, 14], OVERLAP)]


def detect_near(model: FaceNet, rgb: np.ndarray) -> np.ndarray:
    """At 320, and then each candidate from nearby: what the threshold of the weights file is for."""
    return looked_at_again(model, rgb, detect(model, rgb, SIDE, CANDIDATE))


def detect_twice(model: FaceNet, rgb: np.ndarray, least: float = 0.05) -> np.ndarray:
    """At 320 and at 640, as one answer."""
    found = np.concatenate([detect(model, rgb, side, least) for side in (SIDE, 2 * SIDE)])
    return found[suppress(found[:, :4], found[:, 14], OVERLAP)]
