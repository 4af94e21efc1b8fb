"""What `restore` learns from: aligned faces, damaged as one looks at them, and some texture that is no face."""
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F

from . import pictures
from .align import ENLARGED, MARGIN, SIDE, laid
from .damage import damaged, nearly_whole, relit
from .enlarging import as_tensor

SHAPES = ((96, 7), (128, 4), (192, 2))  # side and number of a batch's pictures; a batch has one shape
RIM = 16             # of a part of the face: damage at a picture's border is not the damage within
TILES = 0.15
WHOLE = 0.2          # not damaged at all: the network must leave these alone
NEARLY = 0.08
WHOLE_WEIGHT = 1.0   # of the loss of whole pictures
EDGES = 0.5          # weight of the gradients in the loss
ROUND = 0.02         # errors below it cost their square: an absolute loss has a kink where nothing is changed, and holds
                     # the young network there


class Restoring:
    def __init__(self, faces: Path, tiles: list[Path]):
        self.faces = [pictures.read(p) for p in pictures.paths(faces)]
        self.tiles = [pictures.read(p) for folder in tiles for p in pictures.paths(folder)]

    def summary(self) -> str:
        return f"{len(self.faces)} faces, {len(self.tiles)} tiles"

    def face(self, side: int, rng: np.random.Generator) -> np.ndarray:
        """A part of a face, as if its landmarks had been found a little beside where they are; or all of it."""
        stored = self.faces[int(rng.integers(len(self.faces)))]
        angle, scale = rng.normal(0, np.radians(3)), rng.uniform(0.92, 1.1) / ENLARGED
        turn = scale * np.array([[np.cos(angle), -np.sin(angle)], [np.sin(angle), np.cos(angle)]])
        middle = np.array(stored.shape[1::-1]) / 2 - 0.5
        to = (SIDE - 1) / 2 + rng.normal(0, 3, 2) - rng.integers(0, SIDE - side + 1, 2)
        if rng.random() < 0.5:
            stored = stored[:, ::-1]
        rim = RIM if side < SIDE else 0
        shift = to + rim - turn @ middle
        return laid(np.ascontiguousarray(stored), np.hstack([turn, shift[:, None]]), side + 2 * rim)

    def tile(self, side: int, rng: np.random.Generator) -> np.ndarray:
        tile = self.tiles[int(rng.integers(len(self.tiles)))]
        rim = RIM if side < SIDE else 0
        side = min(side + 2 * rim, *tile.shape[:2])
        y, x = (int(rng.integers(n - side + 1)) for n in tile.shape[:2])
        return np.ascontiguousarray(pictures.turned(tile[y : y + side, x : x + side], int(rng.integers(8))))

    def pair(self, side: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
        """Damaged and sharp; the same where nothing was damaged."""
        of_tiles = self.tiles and rng.random() < TILES
        sharp = relit(self.tile(side, rng) if of_tiles else self.face(side, rng), rng)
        kind = rng.random()
        if kind < WHOLE:
            seen = sharp
        else:
            seen = (nearly_whole if kind < WHOLE + NEARLY else damaged)(sharp, rng)
        rim = (sharp.shape[0] - side) // 2
        return tuple(p[rim : rim + side, rim : rim + side] for p in (seen, sharp))

    def sample(self, rng: np.random.Generator) -> tuple[torch.Tensor, torch.Tensor]:
        side, count = SHAPES[int(rng.integers(len(SHAPES)))]
        seen, sharp = zip(*(self.pair(side, rng) for _ in range(count)))
        return as_tensor(seen), as_tensor(sharp)

    def loss(self, net, batch) -> tuple[torch.Tensor, dict[str, float]]:
        seen, sharp = batch
        off = seen + net(seen).float() - sharp
        l1, edges = rounded(off), rounded(gradients(off))
        whole = (seen == sharp).flatten(1).all(1)
        loss = ((l1 + EDGES * edges) * torch.where(whole, WHOLE_WEIGHT, 1.0)).mean()
        with torch.no_grad():
            after = -10 * (off.square().mean((1, 2, 3)) + 1e-10).log10()
            before = -10 * ((seen - sharp).square().mean((1, 2, 3)) + 1e-10).log10()
            parts = {"l1": float(l1.mean()), "edges": float(edges.mean())}
            if whole.any():
                parts["whole"] = float(after[whole].mean())
            if not whole.all():
                parts["gain"] = float((after - before)[~whole].mean())
        return loss, parts


def rounded(off: torch.Tensor) -> torch.Tensor:
    """The mean absolute value of each picture, round at zero (Charbonnier's)."""
    return ((off.square() + ROUND**2).sqrt() - ROUND).mean((1, 2, 3))


def gradients(x: torch.Tensor) -> torch.Tensor:
    """Sobel's, in both directions: [N, 3, H, W] to [N, 6, H-2, W-2]; a step of one gives one."""
    across = torch.tensor([[-1.0, 0, 1], [-2, 0, 2], [-1, 0, 1]]) / 4
    kernels = torch.stack((across, across.T))[:, None].repeat(3, 1, 1, 1)
    return F.conv2d(x, kernels, groups=3)
