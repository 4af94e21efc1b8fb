"""Random degradations of sharp faces: blur, reduction, noise, JPEG. Pictures are [H, W, 3] uint8 RGB."""
import cv2
import numpy as np

from .pictures import to_uint8, jpeg, noisy

DOWN = (cv2.INTER_AREA, cv2.INTER_CUBIC, cv2.INTER_LINEAR)
UP = (cv2.INTER_CUBIC, cv2.INTER_LINEAR)


def disc_kernel(radius: float) -> np.ndarray:
    """Kernel of defocus blur: a disc with an antialiased rim."""
    radius_px = int(np.ceil(radius + 0.5))
    y, x = np.mgrid[-radius_px : radius_px + 1, -radius_px : radius_px + 1]
    kernel = np.clip(radius + 0.5 - np.hypot(x, y), 0, 1)
    return (kernel / kernel.sum()).astype(np.float32)


def motion_kernel(length: float, angle: float) -> np.ndarray:
    """Kernel of linear motion blur, `length` pixels at `angle` radians."""
    radius_px = int(np.ceil(length / 2)) + 1
    y, x = np.mgrid[-radius_px : radius_px + 1, -radius_px : radius_px + 1]
    along, across = x * np.cos(angle) + y * np.sin(angle), -x * np.sin(angle) + y * np.cos(angle)
    kernel = np.clip(length / 2 + 0.5 - np.abs(along), 0, 1) * np.clip(1 - np.abs(across), 0, 1)
    return (kernel / kernel.sum()).astype(np.float32)


def gaussian_kernel(sigma_along: float, sigma_across: float, angle: float) -> np.ndarray:
    """Anisotropic Gaussian kernel: two standard deviations in pixels, rotated by `angle` radians."""
    radius_px = int(np.ceil(3 * max(sigma_along, sigma_across)))
    y, x = np.mgrid[-radius_px : radius_px + 1, -radius_px : radius_px + 1]
    along, across = x * np.cos(angle) + y * np.sin(angle), -x * np.sin(angle) + y * np.cos(angle)
    kernel = np.exp(-0.5 * ((along / sigma_along) ** 2 + (across / sigma_across) ** 2))
    return (kernel / kernel.sum()).astype(np.float32)


def filtered(picture: np.ndarray, kernel: np.ndarray) -> np.ndarray:
    return cv2.filter2D(picture, -1, kernel, borderType=cv2.BORDER_REPLICATE)


def blurred(picture: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    kind, angle = rng.random(), rng.uniform(0, np.pi)
    if kind < 0.6:
        sigma_along = rng.uniform(0.5, 3.8)
        return filtered(picture, gaussian_kernel(sigma_along, sigma_along * rng.uniform(0.6, 1), angle))
    if kind < 0.8:
        return filtered(picture, disc_kernel(rng.uniform(1, 4.5)))
    return filtered(picture, motion_kernel(rng.uniform(3, 13), angle))


def reduced(picture: np.ndarray, factor: float, down: int) -> np.ndarray:
    size = tuple(max(8, round(n / factor)) for n in picture.shape[1::-1])
    return cv2.resize(picture, size, interpolation=down)


def with_noise_and_jpeg(picture: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Sensor noise and JPEG compression, each with a probability."""
    if rng.random() < 0.5:
        picture = noisy(picture, rng.uniform(0.5, 15), rng, shot=rng.uniform(0, 8))
    if rng.random() < 0.6:
        picture = jpeg(picture, int(rng.integers(20, 96)))
    return picture


def damaged(picture: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """A random combination of degradations; noise and JPEG before or after a reduced picture is enlarged."""
    size = picture.shape[1::-1]
    if rng.random() < 0.55:
        picture = blurred(picture, rng)
    if rng.random() < 0.55:
        picture = reduced(picture, rng.uniform(1.2, 4.5), DOWN[int(rng.integers(len(DOWN)))])
        before_enlarging = rng.random() < 0.5
        if before_enlarging:
            picture = with_noise_and_jpeg(picture, rng)
        picture = cv2.resize(picture, size, interpolation=UP[int(rng.integers(len(UP)))])
        return picture if before_enlarging else with_noise_and_jpeg(picture, rng)
    return with_noise_and_jpeg(picture, rng)


def slightly_damaged(picture: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    if rng.random() < 0.5:
        return jpeg(picture, int(rng.integers(90, 100)))
    return noisy(picture, rng.uniform(0.3, 2), rng)


def relit(picture: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Random exposure, contrast, white balance and saturation, for the sharp picture before it is damaged."""
    x = picture.astype(np.float32) / 255
    if rng.random() < 0.05:
        x = np.repeat(x.mean(2, keepdims=True), 3, 2)
    grey = x.mean(2, keepdims=True)
    x = grey + (x - grey) * rng.uniform(0.7, 1.25)
    x = np.clip(x * rng.uniform(0.6, 1.2) * rng.uniform(0.93, 1.07, 3), 0, 1) ** rng.uniform(0.75, 1.35)
    return to_uint8(255 * x)
