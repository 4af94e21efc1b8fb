"""Area, IoU and non-maximum suppression of boxes (left, top, right, bottom), in NumPy."""
import numpy as np

MIRRORED = (1, 0, 2, 4, 3)  # permutation of the five landmarks under mirroring


def area(boxes: np.ndarray) -> np.ndarray:
    return np.prod(np.clip(boxes[..., 2:4] - boxes[..., :2], 0, None), axis=-1)


def iou(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """[n, 4] and [m, 4] to [n, m]."""
    low, high = np.maximum(a[:, None, :2], b[None, :, :2]), np.minimum(a[:, None, 2:4], b[None, :, 2:4])
    intersection = np.prod(np.clip(high - low, 0, None), axis=-1)
    return intersection / np.maximum(area(a)[:, None] + area(b)[None] - intersection, 1e-9)


def suppress(boxes: np.ndarray, scores: np.ndarray, max_iou: float = 0.4) -> np.ndarray:
    """Non-maximum suppression: indices of the boxes that are kept, best first."""
    order = np.argsort(-scores, kind="stable")
    kept = []
    while len(order):
        kept.append(order[0])
        overlap = iou(boxes[order[:1]], boxes[order[1:]])[0]
        order = order[1:][overlap <= max_iou]
    return np.array(kept, np.int64)
