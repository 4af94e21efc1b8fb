"""Detects the faces of a picture with the trained network, as in the service: whole picture, then refinement crops."""
import cv2
import numpy as np
import torch

from faces.boxes import iou, suppress
from faces.loss import decode, flatten
from faces.model import FaceNet

SIDE = 320                        # longest side of the network's input, pixels
NMS_IOU = 0.4                     # IoU above which the box with the lower score is suppressed
CANDIDATE_SCORE = 0.35            # minimum score at 320 px of a face to be refined
MAX_CANDIDATES = 8                # maximum number of faces to be refined
CROP_SCALE, CROP_SIDE = 2.0, 160  # side of the refinement crop in units of the face's longer side; pixels it is resampled to
SAME_FACE_IOU = 0.3               # minimum IoU of a face with its refinement
MAX_CELLS = 1000                  # cells with the highest scores that are decoded


def letterboxed(rgb: np.ndarray, side: int) -> tuple[np.ndarray, np.ndarray]:
    """The picture resized to the longest side `side`, padded with mid grey on the right and below to multiples of 32.

    Also returns the scale factors [2] back to the picture.
    """
    h, w = rgb.shape[:2]
    scale = side / max(h, w)
    size = (max(1, round(w * scale)), max(1, round(h * scale)))
    interpolation = cv2.INTER_AREA if scale < 1 else cv2.INTER_LINEAR
    small = cv2.resize(rgb, size, interpolation=interpolation)
    padded = np.full((-(-size[1] // 32) * 32, -(-size[0] // 32) * 32, 3), 127.5, np.float32)
    padded[: size[1], : size[0]] = small
    return padded, np.array([w / size[0], h / size[1]], np.float32)


@torch.no_grad()
def detect(model: FaceNet, rgb: np.ndarray, side: int = SIDE, min_score: float = 0.05) -> np.ndarray:
    """[n, 15]: left, top, right, bottom, 5 × (x, y), score, in pixels of `rgb`, best first."""
    padded, to_picture = letterboxed(rgb, side)
    x = torch.from_numpy(padded).permute(2, 0, 1)[None].div(127.5).sub(1)
    rows, cell_centres, strides = flatten(model(x.contiguous(memory_format=torch.channels_last)))
    boxes, points = decode(rows[0], cell_centres, strides)
    scores = rows[0, :, 0].sigmoid()
    best = scores.argsort(descending=True)[:MAX_CELLS]
    best = best[scores[best] >= min_score]
    found = torch.cat([boxes[best], points[best].flatten(1), scores[best, None]], 1).numpy()
    found[:, :14] *= np.tile(to_picture, 7)
    return found[suppress(found[:, :4], found[:, 14], NMS_IOU)]


def refine(model: FaceNet, rgb: np.ndarray, faces: np.ndarray) -> np.ndarray:
    """Detects each face again in a crop around it.

    The crop is a square of `CROP_SCALE` times the face's longer side, resampled to `CROP_SIDE` px. Boxes, landmarks and
    scores are those of the crop; faces that are not found there are dropped.
    """
    rows = []
    for face in faces[:MAX_CANDIDATES]:
        half = max(2.0, float((face[2:4] - face[:2]).max()) * CROP_SCALE) / 2
        corner, scale = (face[:2] + face[2:4]) / 2 - half, CROP_SIDE / (2 * half)
        halvings = max(0, int(np.floor(np.log2(1 / scale))))  # halve before sampling, against aliasing
        source = cv2.resize(rgb, None, fx=0.5**halvings, fy=0.5**halvings, interpolation=cv2.INTER_AREA)
        linear = scale * 2**halvings
        matrix = np.array([[linear, 0, -corner[0] * scale], [0, linear, -corner[1] * scale]])
        crop = cv2.warpAffine(source, matrix, (CROP_SIDE, CROP_SIDE), borderValue=(128, 128, 128))
        refined = detect(model, crop, CROP_SIDE, 0.1)
        refined[:, :14] = refined[:, :14] / scale + np.tile(corner, 7)
        overlap = iou(face[None, :4], refined[:, :4])[0] if len(refined) else np.zeros(0)
        if (overlap >= SAME_FACE_IOU).any():
            rows.append(refined[np.argmax(overlap * refined[:, 14])])
    rows = np.array(rows, np.float32).reshape(-1, 15)
    return rows[suppress(rows[:, :4], rows[:, 14], NMS_IOU)]


def detect_and_refine(model: FaceNet, rgb: np.ndarray) -> np.ndarray:
    """At 320 px, then each candidate refined: the method that the weights file's threshold was chosen for."""
    return refine(model, rgb, detect(model, rgb, SIDE, CANDIDATE_SCORE))


def detect_two_scales(model: FaceNet, rgb: np.ndarray, min_score: float = 0.05) -> np.ndarray:
    """Detections at 320 and at 640 px, merged by non-maximum suppression."""
    found = np.concatenate([detect(model, rgb, side, min_score) for side in (SIDE, 2 * SIDE)])
    return found[suppress(found[:, :4], found[:, 14], NMS_IOU)]
