"""Reading pictures, and damaging them a little or a lot. All pictures are [H, W, 3], RGB, uint8."""
from pathlib import Path

import cv2
import numpy as np

ENDINGS = {".jpg", ".jpeg", ".png", ".webp", ".bmp"}


def paths(folder: Path) -> list[Path]:
    found = sorted(p for p in folder.iterdir() if p.suffix.lower() in ENDINGS)
    if not found:
        raise SystemExit(f"{folder}: no pictures")
    return found


def read(path: Path) -> np.ndarray:
    bgr = cv2.imread(str(path), cv2.IMREAD_COLOR)
    if bgr is None:
        raise SystemExit(f"{path}: not a picture")
    return cv2.cvtColor(bgr, cv2.COLOR_BGR2RGB)


def bytes_of(picture: np.ndarray) -> np.ndarray:
    """0..255 as any number type, to uint8."""
    return np.clip(np.rint(picture), 0, 255).astype(np.uint8)


def jpeg(picture: np.ndarray, quality: int) -> np.ndarray:
    _, data = cv2.imencode(".jpg", np.ascontiguousarray(picture[:, :, ::-1]), [cv2.IMWRITE_JPEG_QUALITY, quality])
    return np.ascontiguousarray(cv2.imdecode(data, cv2.IMREAD_COLOR)[:, :, ::-1])


def noisy(picture: np.ndarray, sigma: float, rng: np.random.Generator, shot: float = 0.0) -> np.ndarray:
    """Gaussian noise of `sigma` grey levels, and as much again as `shot` says at full brightness, less in the dark."""
    spread = np.sqrt(sigma**2 + shot**2 * picture.astype(np.float32) / 255)
    return bytes_of(picture + spread * rng.standard_normal(picture.shape, dtype=np.float32))


def turned(picture: np.ndarray, how: int) -> np.ndarray:
    """One of the eight ways to lay a square down."""
    picture = picture[:, ::-1] if how & 4 else picture
    return np.rot90(picture, how & 3)
