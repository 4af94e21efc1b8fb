"""Synthetic photos with masks, so that the tests need no data."""
import cv2
import numpy as np


def scene(seed: int, side: int = 96) -> tuple[np.ndarray, np.ndarray]:
    """A coloured disc on a gradient, and its mask."""
    rng = np.random.default_rng(seed)
    u = np.linspace(0, 1, side, dtype=np.float32)
    rgb = 40 + 120 * (u[None, :, None] * rng.random(3) + u[:, None, None] * rng.random(3))
    mask = np.zeros((side, side), np.uint8)
    centre = tuple(int(v) for v in rng.integers(side // 3, 2 * side // 3, 2))
    cv2.ellipse(mask, centre, (side // 4, side // 6), float(rng.uniform(0, 180)), 0, 360, 255, -1, cv2.LINE_AA)
    share = mask[..., None] / 255
    rgb = rgb * (1 - share) + rng.uniform(0, 255, 3) * share + rng.normal(0, 4, rgb.shape)
    return np.clip(rgb, 0, 255).astype(np.uint8), mask


def write_set(folder, seeds) -> None:
    for kind in ("image", "mask"):
        (folder / kind).mkdir(parents=True)
    for seed in seeds:
        rgb, mask = scene(seed)
        cv2.imwrite(str(folder / "image" / f"{seed}.png"), rgb[:, :, ::-1])
        cv2.imwrite(str(folder / "mask" / f"{seed}.png"), mask)
