"""Reads pictures; JPEG, noise and orientation augmentations. All pictures are [H, W, 3], RGB, uint8."""
from pathlib import Path

import cv2
import numpy as np

SUFFIXES = {".jpg", ".jpeg", ".png", ".webp", ".bmp"}


def paths(folder: Path) -> list[Path]:
    found = sorted(p for p in folder.iterdir() if p.suffix.lower() in SUFFIXES)
    if not found:
        raise SystemExit(f"{folder}: no pictures")
    return found


def read(path: Path) -> np.ndarray:
    bgr = cv2.imread(str(path), cv2.IMREAD_COLOR)
    if bgr is None:
        raise SystemExit(f"{path}: not a picture")
    return cv2.cvtColor(bgr, cv2.COLOR_BGR2RGB)


def to_uint8(picture: np.ndarray) -> np.ndarray:
    """Rounds and clamps 0..255 of any number type to uint8."""
    return np.clip(np.rint(picture), 0, 255).astype(np.uint8)


def jpeg(picture: np.ndarray, quality: int) -> np.ndarray:
    _, data = cv2.imencode(".jpg", np.ascontiguousarray(picture[:, :, ::-1]), [cv2.IMWRITE_JPEG_QUALITY, quality])
    return np.ascontiguousarray(cv2.imdecode(data, cv2.IMREAD_COLOR)[:, :, ::-1])


def noisy(picture: np.ndarray, sigma: float, rng: np.random.Generator, shot: float = 0.0) -> np.ndarray:
    """Gaussian noise of `sigma` grey levels, plus shot noise of `shot` levels at full brightness."""
    spread = np.sqrt(sigma**2 + shot**2 * picture.astype(np.float32) / 255)
    return to_uint8(picture + spread * rng.standard_normal(picture.shape, dtype=np.float32))


def oriented(picture: np.ndarray, orientation: int) -> np.ndarray:
    """One of the eight orientations of a square (rotations and reflections)."""
    picture = picture[:, ::-1] if orientation & 4 else picture
    return np.rot90(picture, orientation & 3)
