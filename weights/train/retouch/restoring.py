"""Training task of `restore`: pairs of damaged and sharp faces (and some texture tiles), and the loss."""
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F

from . import pictures
from .align import SIDE, STORED_SCALE, warp_square
from .damage import damaged, slightly_damaged, relit
from .enlarging import as_tensor

SHAPES = ((96, 7), (128, 4), (192, 2))  # side and number of a batch's pictures
BORDER = 16             # pixels cropped after damaging a part of a face: blur and JPEG differ at a picture's border
TILE_SHARE = 0.15
UNDAMAGED_SHARE = 0.2   # so that the network learns to leave sharp faces unchanged
SLIGHT_DAMAGE_SHARE = 0.08
UNDAMAGED_WEIGHT = 1.0  # weight of undamaged pictures in the loss
GRADIENT_WEIGHT = 0.5   # weight of the gradients in the loss
CHARBONNIER_EPS = 0.02  # the loss is quadratic for smaller errors: an absolute loss has a kink at the identity, where the
                        # network would get stuck at the start


class RestoreTask:
    def __init__(self, faces: Path, tiles: list[Path]):
        self.faces = [pictures.read(p) for p in pictures.paths(faces)]
        self.tiles = [pictures.read(p) for folder in tiles for p in pictures.paths(folder)]

    def summary(self) -> str:
        return f"{len(self.faces)} faces, {len(self.tiles)} tiles"

    def face(self, side: int, rng: np.random.Generator) -> np.ndarray:
        """A part of a face, or all of it, with random alignment errors."""
        stored = self.faces[int(rng.integers(len(self.faces)))]
        angle, scale = rng.normal(0, np.radians(3)), rng.uniform(0.92, 1.1) / STORED_SCALE
        turn = scale * np.array([[np.cos(angle), -np.sin(angle)], [np.sin(angle), np.cos(angle)]])
        middle = np.array(stored.shape[1::-1]) / 2 - 0.5
        to = (SIDE - 1) / 2 + rng.normal(0, 3, 2) - rng.integers(0, SIDE - side + 1, 2)
        if rng.random() < 0.5:
            stored = stored[:, ::-1]
        border = BORDER if side < SIDE else 0
        shift = to + border - turn @ middle
        return warp_square(np.ascontiguousarray(stored), np.hstack([turn, shift[:, None]]), side + 2 * border)

    def tile(self, side: int, rng: np.random.Generator) -> np.ndarray:
        tile = self.tiles[int(rng.integers(len(self.tiles)))]
        border = BORDER if side < SIDE else 0
        side = min(side + 2 * border, *tile.shape[:2])
        y, x = (int(rng.integers(n - side + 1)) for n in tile.shape[:2])
        return np.ascontiguousarray(pictures.oriented(tile[y : y + side, x : x + side], int(rng.integers(8))))

    def pair(self, side: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
        """(Damaged, sharp); identical for undamaged samples."""
        from_tile = self.tiles and rng.random() < TILE_SHARE
        sharp = relit(self.tile(side, rng) if from_tile else self.face(side, rng), rng)
        kind = rng.random()
        if kind < UNDAMAGED_SHARE:
            degraded = sharp
        else:
            degraded = (slightly_damaged if kind < UNDAMAGED_SHARE + SLIGHT_DAMAGE_SHARE else damaged)(sharp, rng)
        border = (sharp.shape[0] - side) // 2
        return tuple(p[border : border + side, border : border + side] for p in (degraded, sharp))

    def sample(self, rng: np.random.Generator) -> tuple[torch.Tensor, torch.Tensor]:
        side, count = SHAPES[int(rng.integers(len(SHAPES)))]
        degraded, sharp = zip(*(self.pair(side, rng) for _ in range(count)))
        return as_tensor(degraded), as_tensor(sharp)

    def loss(self, net, batch) -> tuple[torch.Tensor, dict[str, float]]:
        degraded, sharp = batch
        error = degraded + net(degraded).float() - sharp
        l1, edges = charbonnier(error), charbonnier(sobel(error))
        undamaged = (degraded == sharp).flatten(1).all(1)
        loss = ((l1 + GRADIENT_WEIGHT * edges) * torch.where(undamaged, UNDAMAGED_WEIGHT, 1.0)).mean()
        with torch.no_grad():
            after = -10 * (error.square().mean((1, 2, 3)) + 1e-10).log10()
            before = -10 * ((degraded - sharp).square().mean((1, 2, 3)) + 1e-10).log10()
            parts = {"l1": float(l1.mean()), "edges": float(edges.mean())}
            if undamaged.any():
                parts["whole"] = float(after[undamaged].mean())
            if not undamaged.all():
                parts["gain"] = float((after - before)[~undamaged].mean())
        return loss, parts


def charbonnier(error: torch.Tensor) -> torch.Tensor:
    """The Charbonnier loss of each picture: a mean absolute value that is smooth at zero."""
    return ((error.square() + CHARBONNIER_EPS**2).sqrt() - CHARBONNIER_EPS).mean((1, 2, 3))


def sobel(x: torch.Tensor) -> torch.Tensor:
    """Sobel gradients in both directions: [N, 3, H, W] to [N, 6, H-2, W-2]; a step of one gives one."""
    across = torch.tensor([[-1.0, 0, 1], [-2, 0, 2], [-1, 0, 1]]) / 4
    kernels = torch.stack((across, across.T))[:, None].repeat(3, 1, 1, 1)
    return F.conv2d(x, kernels, groups=3)
