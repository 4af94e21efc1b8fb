"""What every training loop here has: the average that ships, the schedule, checkpoints that are whole or not there."""
import math
from pathlib import Path

import torch


class Average:
    """Exponential moving average of the weights and the batch normalisation's statistics: this is what ships."""

    def __init__(self, model: torch.nn.Module, decay: float):
        self.decay, self.updates = decay, 0
        self.state = {k: v.detach().clone() for k, v in model.state_dict().items()}

    @torch.no_grad()
    def update(self, model: torch.nn.Module) -> None:
        self.updates += 1
        decay = min(self.decay, (1 + self.updates) / (10 + self.updates))  # or it would keep the untrained weights
        for k, v in model.state_dict().items():
            if v.dtype.is_floating_point:
                self.state[k].lerp_(v, 1 - decay)
            else:
                self.state[k].copy_(v)


def rate_at(progress: float, step: int, warmup: int) -> float:
    """The share of the learning rate: a rise over `warmup` steps, and half a cosine over `progress` from 0 to 1."""
    return min(1.0, (step + 1) / max(1, warmup)) * (0.5 + 0.5 * math.cos(math.pi * min(1.0, progress))) + 0.01


def save_whole(state: dict, path: Path) -> None:
    """A run that is killed meanwhile leaves the last whole checkpoint."""
    torch.save(state, path.with_suffix(".tmp"))
    path.with_suffix(".tmp").replace(path)
