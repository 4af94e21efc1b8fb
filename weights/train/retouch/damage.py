"""What happens to faces before they are uploaded: blur, reduction, noise, JPEG. Pictures are [H, W, 3] uint8 RGB."""
import cv2
import numpy as np

from .pictures import bytes_of, jpeg, noisy

DOWN = (cv2.INTER_AREA, cv2.INTER_CUBIC, cv2.INTER_LINEAR)
UP = (cv2.INTER_CUBIC, cv2.INTER_LINEAR)


def disc(radius: float) -> np.ndarray:
    """A lens out of focus: a disc with a soft rim."""
    reach = int(np.ceil(radius + 0.5))
    y, x = np.mgrid[-reach : reach + 1, -reach : reach + 1]
    kernel = np.clip(radius + 0.5 - np.hypot(x, y), 0, 1)
    return (kernel / kernel.sum()).astype(np.float32)


def streak(length: float, angle: float) -> np.ndarray:
    """A camera that moved straight on, `length` pixels at `angle` radians."""
    reach = int(np.ceil(length / 2)) + 1
    y, x = np.mgrid[-reach : reach + 1, -reach : reach + 1]
    along, across = x * np.cos(angle) + y * np.sin(angle), -x * np.sin(angle) + y * np.cos(angle)
    kernel = np.clip(length / 2 + 0.5 - np.abs(along), 0, 1) * np.clip(1 - np.abs(across), 0, 1)
    return (kernel / kernel.sum()).astype(np.float32)


def gaussian(wide: float, narrow: float, angle: float) -> np.ndarray:
    """A bell of two standard deviations in pixels, turned by `angle` radians."""
    reach = int(np.ceil(3 * max(wide, narrow)))
    y, x = np.mgrid[-reach : reach + 1, -reach : reach + 1]
    along, across = x * np.cos(angle) + y * np.sin(angle), -x * np.sin(angle) + y * np.cos(angle)
    kernel = np.exp(-0.5 * ((along / wide) ** 2 + (across / narrow) ** 2))
    return (kernel / kernel.sum()).astype(np.float32)


def filtered(picture: np.ndarray, kernel: np.ndarray) -> np.ndarray:
    return cv2.filter2D(picture, -1, kernel, borderType=cv2.BORDER_REPLICATE)


def blurred(picture: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    kind, angle = rng.random(), rng.uniform(0, np.pi)
    if kind < 0.6:
        wide = rng.uniform(0.5, 3.8)
        return filtered(picture, gaussian(wide, wide * rng.uniform(0.6, 1), angle))
    if kind < 0.8:
        return filtered(picture, disc(rng.uniform(1, 4.5)))
    return filtered(picture, streak(rng.uniform(3, 13), angle))


def reduced(picture: np.ndarray, factor: float, down: int) -> np.ndarray:
    size = tuple(max(8, round(n / factor)) for n in picture.shape[1::-1])
    return cv2.resize(picture, size, interpolation=down)


def recorded(picture: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """What a sensor and a codec add."""
    if rng.random() < 0.5:
        picture = noisy(picture, rng.uniform(0.5, 15), rng, shot=rng.uniform(0, 8))
    if rng.random() < 0.6:
        picture = jpeg(picture, int(rng.integers(20, 96)))
    return picture


def damaged(picture: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """A random mixture; each part is sometimes missing. A small picture is recorded before or after it was enlarged."""
    size = picture.shape[1::-1]
    if rng.random() < 0.55:
        picture = blurred(picture, rng)
    if rng.random() < 0.55:
        picture = reduced(picture, rng.uniform(1.2, 4.5), DOWN[int(rng.integers(len(DOWN)))])
        small = rng.random() < 0.5
        if small:
            picture = recorded(picture, rng)
        picture = cv2.resize(picture, size, interpolation=UP[int(rng.integers(len(UP)))])
        return picture if small else recorded(picture, rng)
    return recorded(picture, rng)


def nearly_whole(picture: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    if rng.random() < 0.5:
        return jpeg(picture, int(rng.integers(90, 100)))
    return noisy(picture, rng.uniform(0.3, 2), rng)


def relit(picture: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Another exposure, contrast, white balance and saturation: for the sharp picture, before it is damaged."""
    x = picture.astype(np.float32) / 255
    if rng.random() < 0.05:
        x = np.repeat(x.mean(2, keepdims=True), 3, 2)
    grey = x.mean(2, keepdims=True)
    x = grey + (x - grey) * rng.uniform(0.7, 1.25)
    x = np.clip(x * rng.uniform(0.6, 1.2) * rng.uniform(0.93, 1.07, 3), 0, 1) ** rng.uniform(0.75, 1.35)
    return bytes_of(255 * x)
