"""Training task of `upscale`: pairs of a sharp patch and its bicubic reduction, and the Charbonnier loss."""
from pathlib import Path

import numpy as np
import torch

from . import pictures
from .imresize import reduce

CHARBONNIER_EPS = 1e-3  # the loss is quadratic for smaller errors and absolute for larger ones
DEGRADED_SHARE = 0.25   # share of patches whose small version is a JPEG or noisy, as users' pictures are
JPEG_QUALITY = (70, 99)
NOISE_SIGMA = (0.5, 3.0)     # grey levels


class UpscaleTask:
    def __init__(self, folders: list[Path], factor: int, side: int = 40, batch: int = 12):
        self.factor, self.side, self.batch = factor, side, batch
        self.sharp = [pictures.read(p) for folder in folders for p in pictures.paths(folder)]
        min_side = side * factor
        self.sharp = [p[: p.shape[0] // factor * factor, : p.shape[1] // factor * factor] for p in self.sharp]
        self.sharp = [p for p in self.sharp if min(p.shape[:2]) >= min_side]
        if not self.sharp:
            raise SystemExit(f"no picture is {min_side} pixels wide and high")
        self.small = [reduce(p, factor) for p in self.sharp]

    def summary(self) -> str:
        return f"{len(self.sharp)} sharp pictures, factor {self.factor}"

    def pair(self, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
        k = int(rng.integers(len(self.sharp)))
        small, f, side = self.small[k], self.factor, self.side
        y, x = (int(rng.integers(n - side + 1)) for n in small.shape[:2])
        small = small[y : y + side, x : x + side]
        sharp = self.sharp[k][y * f : (y + side) * f, x * f : (x + side) * f]
        orientation, channels = int(rng.integers(8)), rng.permutation(3)
        small, sharp = (pictures.oriented(p, orientation)[:, :, channels] for p in (small, sharp))
        if rng.random() < DEGRADED_SHARE:
            if rng.random() < 0.7:
                small = pictures.jpeg(small, int(rng.integers(*JPEG_QUALITY)))
            else:
                small = pictures.noisy(small, rng.uniform(*NOISE_SIGMA), rng)
        return small, sharp

    def sample(self, rng: np.random.Generator) -> tuple[torch.Tensor, torch.Tensor]:
        small, sharp = zip(*(self.pair(rng) for _ in range(self.batch)))
        return as_tensor(small), as_tensor(sharp)

    def loss(self, net, batch) -> tuple[torch.Tensor, dict[str, float]]:
        small, sharp = batch
        error = net(small).float() - sharp
        loss = (error.square() + CHARBONNIER_EPS**2).sqrt().mean()
        return loss, {"psnr": float(-10 * error.detach().square().mean().log10())}


def as_tensor(batch) -> torch.Tensor:
    """Stacks pictures of one size to [N, 3, H, W] in 0..1."""
    stacked = torch.from_numpy(np.stack(batch))
    return stacked.permute(0, 3, 1, 2).float().div(255).contiguous(memory_format=torch.channels_last)
