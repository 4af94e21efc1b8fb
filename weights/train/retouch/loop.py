"""The loop that both networks are trained in: average, schedule, checkpoints, log."""
import copy
import itertools
import json
import math
import time
from pathlib import Path

import numpy as np
import torch

from running import save_whole

from .nets import fill, fold

LOG_EVERY = 100
WARMUP = 200      # steps
LOWEST = 0.01     # of the rate, at the end
CLIP = 1.0


class Batches(torch.utils.data.Dataset):
    """Batch number n of a seed is always the same one, whoever makes it."""

    def __init__(self, task, seed: int):
        self.task, self.seed = task, seed

    def __getitem__(self, n: int):
        return self.task.sample(np.random.default_rng([self.seed, n]))


class From(torch.utils.data.Sampler):
    def __init__(self, first: int):
        self.first = first

    def __iter__(self):
        return itertools.count(self.first)


def rate_at(progress: float, step: int) -> float:
    cosine = 0.5 + 0.5 * math.cos(math.pi * min(1.0, progress))
    return min(1.0, (step + 1) / WARMUP) * (LOWEST + (1 - LOWEST) * cosine)


class Loop:
    """Trains `net` on `task`, which has `sample(rng)` and `loss(net, batch)`, until a number of steps or a time.

    Batch n depends on the seed and n alone; `workers` processes make batches ahead, or none. The first `half` of the run computes in bfloat16, which is twice as fast;
    the rest in single precision and with the normalisation folded, as the network will be used: small differences are
    what remains to be learnt then.
    """

    def __init__(self, net, task, out: Path, *, steps: int = 0, minutes: float = 0.0, rate: float = 1e-3,
                 half: float = 0.8, ema: float = 0.999, seed: int = 1, save_every: float = 1.0,
                 workers: int = 0):
        if bool(steps) == bool(minutes):
            raise ValueError("either steps or minutes")
        self.net, self.task, self.out = net.to(memory_format=torch.channels_last), task, out
        self.steps, self.minutes, self.rate, self.half = steps, minutes, rate, half
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
        self.optimiser, self.folded = self.new_optimiser(), True  # its memory is of other weights

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
        save_whole(state, self.checkpoint)

    def resume(self) -> None:
        state = torch.load(self.checkpoint, weights_only=True)
        fill(self.net, state["net"])
        fill(self.average, state["average"])
        self.optimiser, self.folded = self.new_optimiser(), state["folded"]
        self.optimiser.load_state_dict(state["optimiser"])
        self.step, self.seconds = state["step"], state["seconds"]

    def log(self, **line) -> None:
        line = {"step": self.step, "minutes": round(self.seconds / 60, 2), **line}
        with open(self.out / "log.jsonl", "a") as file:
            file.write(json.dumps(line) + "\n")
        print(line, flush=True)

    def train_batch(self, batch) -> dict[str, float]:
        exact = self.progress >= self.half
        if exact and not self.folded:
            self.fold()
        for group in self.optimiser.param_groups:
            group["lr"] = self.rate * rate_at(self.progress, self.step)
        with torch.autocast("cpu", torch.bfloat16, enabled=not exact):
            loss, parts = self.task.loss(self.net, batch)
        if not math.isfinite(float(loss.detach())):
            raise SystemExit(f"step {self.step}: the loss is not finite; the last checkpoint is whole")
        self.optimiser.zero_grad(set_to_none=True)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(self.net.parameters(), CLIP)
        self.optimiser.step()
        self.step += 1
        self.blend()
        return {"loss": float(loss.detach()), **parts}

    @torch.no_grad()
    def blend(self) -> None:
        """The average is what ships; at the start it must forget faster, or it would keep the untrained weights."""
        keep = min(self.ema, (1 + self.step) / (10 + self.step))
        for ours, theirs in zip(self.average.state_dict().values(), self.net.state_dict().values()):
            if ours.is_floating_point():  # a normalisation's statistics too
                ours.lerp_(theirs, 1 - keep)

    def train(self, stop_at: int = 0) -> None:
        sums: dict[str, list[float]] = {}  # a part may be missing from a batch
        loader = torch.utils.data.DataLoader(Batches(self.task, self.seed), batch_size=None, sampler=From(self.step),
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
