"""Shared by the training loops: exponential moving average of the weights, learning-rate schedule, atomic checkpoints."""
import math
from pathlib import Path

import torch


class WeightAverage:
    """Exponential moving average of the weights and the batch normalisation's statistics, which is exported."""

    def __init__(self, model: torch.nn.Module, decay: float):
        self.decay, self.updates = decay, 0
        self.state = {k: v.detach().clone() for k, v in model.state_dict().items()}

    @torch.no_grad()
    def update(self, model: torch.nn.Module) -> None:
        self.updates += 1
        decay = min(self.decay, (1 + self.updates) / (10 + self.updates))  # lower at the start: forgets initial weights
        for k, v in model.state_dict().items():
            if v.dtype.is_floating_point:
                self.state[k].lerp_(v, 1 - decay)
            else:
                self.state[k].copy_(v)


def rate_factor(progress: float, step: int, warmup: int) -> float:
    """Factor of the learning rate: linear warm-up over `warmup` steps, cosine decay over `progress` from 0 to 1."""
    return min(1.0, (step + 1) / max(1, warmup)) * (0.5 + 0.5 * math.cos(math.pi * min(1.0, progress))) + 0.01


def save_atomically(state: dict, path: Path) -> None:
    """Writes to a temporary file and renames it: a killed run leaves the previous checkpoint intact."""
    torch.save(state, path.with_suffix(".tmp"))
    path.with_suffix(".tmp").replace(path)
