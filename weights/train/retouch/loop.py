"""Training loop of `upscale` and `restore`: weight average, learning-rate schedule, checkpoints, log."""
import copy
import itertools
import json
import math
import time
from pathlib import Path

import numpy as np
import torch

from running import save_atomically

from .nets import load_state, fold

LOG_EVERY = 100
WARMUP = 200     # steps
MIN_RATE = 0.01  # of the learning rate, at the end
CLIP = 1.0


class Batches(torch.utils.data.Dataset):
    """Batch n depends only on the seed and n, not on the worker."""

    def __init__(self, task, seed: int):
        self.task, self.seed = task, seed

    def __getitem__(self, n: int):
        return self.task.sample(np.random.default_rng([self.seed, n]))


class StepSampler(torch.utils.data.Sampler):
    def __init__(self, first: int):
        self.first = first

    def __iter__(self):
        return itertools.count(self.first)


def rate_factor(progress: float, step: int) -> float:
    cosine = 0.5 + 0.5 * math.cos(math.pi * min(1.0, progress))
    return min(1.0, (step + 1) / WARMUP) * (MIN_RATE + (1 - MIN_RATE) * cosine)


class Loop:
    """Trains `net` on `task`, which has `sample(rng)` and `loss(net, batch)`, until a number of steps or a time.

    Batch n depends only on the seed and n; `workers` processes prepare batches, or none. The first `bf16_share` of the run
    computes in bfloat16, which is twice as fast; the rest in single precision and with the normalisation folded, as in
    inference, because bfloat16 is too coarse for the small improvements at the end.
    """

    def __init__(self, net, task, out: Path, *, steps: int = 0, minutes: float = 0.0, rate: float = 1e-3,
                 bf16_share: float = 0.8, ema: float = 0.999, seed: int = 1, save_every: float = 1.0,
                 workers: int = 0):
        if bool(steps) == bool(minutes):
            raise ValueError("either steps or minutes")
        self.net, self.task, self.out = net.to(memory_format=torch.channels_last), task, out
        self.steps, self.minutes, self.rate, self.bf16_share = steps, minutes, rate, bf16_share
        self.ema, self.seed, self.save_every, self.workers = ema, seed, save_every, workers
        self.average = copy.deepcopy(net).eval().requires_grad_(False)
        self.optimiser = self.new_optimiser()
        self.folded = False
        self.step, self.seconds = 0, 0.0
        out.mkdir(parents=True, exist_ok=True)

    def new_optimiser(self) -> torch.optim.Optimizer:
        return torch.optim.Adam(self.net.parameters(), lr=self.rate, betas=(0.9, 0.99))

    def fold(self) -> None:
        fold(self.net)
        fold(self.average)
        self.optimiser, self.folded = self.new_optimiser(), True  # its moments belong to the unfolded weights

    @property
    def checkpoint(self) -> Path:
        return self.out / "checkpoint.pt"

    @property
    def progress(self) -> float:
        return self.step / self.steps if self.steps else self.seconds / 60 / self.minutes

    def save(self) -> None:
        state = {"name": self.net.name, "net": self.net.state_dict(), "average": self.average.state_dict(),
                 "optimiser": self.optimiser.state_dict(), "step": self.step, "seconds": self.seconds,
                 "folded": self.folded}
        save_atomically(state, self.checkpoint)

    def resume(self) -> None:
        state = torch.load(self.checkpoint, weights_only=True)
        load_state(self.net, state["net"])
        load_state(self.average, state["average"])
        self.optimiser, self.folded = self.new_optimiser(), state["folded"]
        self.optimiser.load_state_dict(state["optimiser"])
        self.step, self.seconds = state["step"], state["seconds"]

    def log(self, **line) -> None:
        line = {"step": self.step, "minutes": round(self.seconds / 60, 2), **line}
        with open(self.out / "log.jsonl", "a") as file:
            file.write(json.dumps(line) + "\n")
        print(line, flush=True)

    def train_batch(self, batch) -> dict[str, float]:
        full_precision = self.progress >= self.bf16_share
        if full_precision and not self.folded:
            self.fold()
        for group in self.optimiser.param_groups:
            group["lr"] = self.rate * rate_factor(self.progress, self.step)
        with torch.autocast("cpu", torch.bfloat16, enabled=not full_precision):
            loss, parts = self.task.loss(self.net, batch)
        if not math.isfinite(float(loss.detach())):
            raise SystemExit(f"step {self.step}: the loss is not finite; the last checkpoint is intact")
        self.optimiser.zero_grad(set_to_none=True)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(self.net.parameters(), CLIP)
        self.optimiser.step()
        self.step += 1
        self.update_average()
        return {"loss": float(loss.detach()), **parts}

    @torch.no_grad()
    def update_average(self) -> None:
        """Updates the exported average, with a lower decay at the start so that the initial weights are forgotten."""
        keep = min(self.ema, (1 + self.step) / (10 + self.step))
        for ours, theirs in zip(self.average.state_dict().values(), self.net.state_dict().values()):
            if ours.is_floating_point():  # includes the normalisation's statistics
                ours.lerp_(theirs, 1 - keep)

    def train(self, stop_at: int = 0) -> None:
        sums: dict[str, list[float]] = {}  # a part may be missing from a batch
        loader = torch.utils.data.DataLoader(Batches(self.task, self.seed), batch_size=None, sampler=StepSampler(self.step),
                                             num_workers=self.workers)
        last = saved = time.monotonic()
        for batch in loader:
            if self.progress >= 1 or (stop_at and self.step >= stop_at):
                break
            for key, value in self.train_batch(batch).items():
                sums.setdefault(key, []).append(value)
            now = time.monotonic()
            self.seconds += now - last
            last = now
            if self.step % LOG_EVERY == 0:
                self.log(**{k: round(sum(v) / len(v), 5) for k, v in sums.items()})
                sums = {}
            if now - saved > self.save_every * 60:
                self.save()
                saved = now
        self.save()
