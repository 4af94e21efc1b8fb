#!/usr/bin/env python3
"""Trains `face`: from labelled folders to a checkpoint that `export.py` turns into weights.

    python -m faces.train --data ../shared/data/train --data PORTRAITS --labels LABELS --out RUN --minutes 40
    python -m faces.train --resume --out RUN ...              continues from RUN/checkpoint.pt

The length is a number of steps or a time; the learning rate follows it. With `--steps` the result is the same bit for
bit on one machine, resumed or not: batch n depends only on the seed and n.
"""
import argparse
import json
import math
import pickle
import sys
import time
from pathlib import Path

import numpy as np
import torch

sys.path.insert(0, str(Path(__file__).parent.parent))
from faces.loss import face_loss
from faces.model import FaceNet
from faces.scenes import Library, Scenes, read_folder
from running import WeightAverage, rate_factor, save_atomically

# folder: share of the samples' faces, longest side in pixels
SOURCES = {"portraits": (0.4, 448), "ccp": (0.3, 512), "ecssd": (0.3, 400), "clothing_cc0_pseudo": (0.0, 224),
           "saleor_rgba": (0.0, 288), "fluent3d_rgba": (0.0, 160), "bg_hdri_cc0": (0.0, 512),
           "bg_wall_cc0_unsplash": (0.0, 512)}
# Photographs of scenes are drawn more often as backgrounds.
REPEATS = {"ecssd": 5, "ccp": 3, "bg_hdri_cc0": 2, "bg_wall_cc0_unsplash": 2}
REFERENCE_SIDE = 224  # `--batch` is for this side; batches of other sides have the same number of pixels
LOG_EVERY = 20
HELD_OUT = 48         # the last portraits by file name: measured, not trained on


def library(roots: list[Path], labels: Path, cache: Path) -> Library:
    """The sources, read from the folders at first and from the file `cache` after that."""
    if not cache.exists():
        with open(cache.with_suffix(".tmp"), "wb") as file:
            pickle.dump(read_sources(roots, labels), file, protocol=5)
        cache.with_suffix(".tmp").replace(cache)
    with open(cache, "rb") as file:
        groups = pickle.load(file)
    items, share = groups["portraits"]
    groups["portraits"] = items[:-HELD_OUT], share
    out = Library(groups, REPEATS)
    print([len(p) for p in out.face_groups], "pictures with faces,", len(out.faceless), "without", flush=True)
    return out


def read_sources(roots: list[Path], labels: Path) -> dict:
    groups = {}
    for name, (share, longest) in SOURCES.items():
        folder = next((r / name for r in roots if (r / name).is_dir()), None)
        if folder is None:
            raise SystemExit(f"{name}: not under any --data root")
        groups[name] = read_folder(folder, labels, longest), share
    return groups


class Batches:
    """Batch n of a seed. All its pictures have one size, which varies between batches."""

    def __init__(self, scenes: Scenes, batch: int, sizes: list[int], seed: int):
        self.scenes, self.batch, self.sizes, self.seed = scenes, batch, sizes, seed

    def __getitem__(self, n: int) -> tuple[torch.Tensor, list[torch.Tensor]]:
        side = int(np.random.default_rng([self.seed, n]).choice(self.sizes))
        count = max(2, round(self.batch * (REFERENCE_SIDE / side) ** 2))
        pairs = [self.scenes.sample(np.random.default_rng([self.seed, n, k]), side) for k in range(count)]
        rgb, faces = zip(*pairs)
        return torch.from_numpy(np.stack(rgb)), [torch.from_numpy(f) for f in faces]


class Run:
    def __init__(self, a: argparse.Namespace, batches: Batches):
        self.a, self.batches = a, batches
        torch.manual_seed(a.seed)
        torch.set_num_threads(a.threads)
        self.model = FaceNet().to(memory_format=torch.channels_last)
        matrices = [p for p in self.model.parameters() if p.ndim > 1]
        vectors = [p for p in self.model.parameters() if p.ndim == 1]
        groups = [{"params": matrices, "weight_decay": a.decay}, {"params": vectors, "weight_decay": 0.0}]
        self.optimiser = torch.optim.AdamW(groups, lr=a.rate, betas=(0.9, 0.99))
        self.average = WeightAverage(self.model, a.ema)
        self.step = self.images = 0
        self.seconds = 0.0  # training time, summed over all resumed runs
        if a.resume and self.checkpoint.exists():
            self.restore()

    @property
    def checkpoint(self) -> Path:
        return self.a.out / "checkpoint.pt"

    def save(self) -> None:
        state = {"model": self.model.state_dict(), "ema": self.average.state, "updates": self.average.updates,
                 "optimiser": self.optimiser.state_dict(), "step": self.step, "images": self.images,
                 "seconds": self.seconds}
        save_atomically(state, self.checkpoint)

    def restore(self) -> None:
        state = torch.load(self.checkpoint, weights_only=True)
        self.model.load_state_dict(state["model"])
        self.optimiser.load_state_dict(state["optimiser"])
        for k, v in state["ema"].items():
            self.average.state[k].copy_(v)
        self.average.updates, self.step = state["updates"], state["step"]
        self.images, self.seconds = state["images"], state["seconds"]
        print(f"resumed at step {self.step}", flush=True)

    def progress(self) -> float:
        return self.step / self.a.steps if self.a.steps else self.seconds / 60 / self.a.minutes

    def train_batch(self, rgb: torch.Tensor, faces: list[torch.Tensor]) -> dict[str, float]:
        for group in self.optimiser.param_groups:
            group["lr"] = self.a.rate * rate_factor(self.progress(), self.step, self.a.warmup)
        x = rgb.permute(0, 3, 1, 2).float().div(127.5).sub(1)
        self.model.train()
        with torch.autocast("cpu", torch.bfloat16, enabled=self.a.bf16):
            outputs = self.model(x)
        loss, parts = face_loss([o.float() for o in outputs], faces)
        if not math.isfinite(float(loss.detach())):
            raise SystemExit(f"step {self.step}: the loss is not finite; the last checkpoint is intact")
        self.optimiser.zero_grad(set_to_none=True)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(self.model.parameters(), 5.0)
        self.optimiser.step()
        self.average.update(self.model)
        self.step += 1
        self.images += len(rgb)
        return {"loss": float(loss.detach()), **parts}

    def log(self, line: dict) -> None:
        line = {"step": self.step, "images": self.images, "minutes": round(self.seconds / 60, 2), **line}
        with open(self.a.out / "log.jsonl", "a") as file:
            file.write(json.dumps(line) + "\n")
        print(line, flush=True)

    def train(self) -> None:
        sums, count = {}, 0
        saved = last = time.monotonic()
        busy = time.process_time()
        while self.progress() < 1 and not (self.a.stop_at and self.step >= self.a.stop_at):
            for k, v in self.train_batch(*self.batches[self.step]).items():
                sums[k] = sums.get(k, 0.0) + v
            count += 1
            now = time.monotonic()
            self.seconds += now - last
            last = now
            if self.step % LOG_EVERY == 0:
                line = {k: round(v / count, 4) for k, v in sums.items()}
                self.log({**line, "cpu_share": round((time.process_time() - busy) / max(1e-6, now - saved), 2)})
                sums, count = {}, 0
            if now - saved > self.a.save_every * 60:
                self.save()
                saved, busy = now, time.process_time()
        self.save()


def arguments(argv: list[str] | None = None) -> argparse.Namespace:
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--data", type=Path, action="append", default=[], help="a root of folders; may be repeated")
    p.add_argument("--labels", type=Path, help="the labels, from `label.py`")
    p.add_argument("--out", type=Path, required=True)
    p.add_argument("--resume", action="store_true")
    p.add_argument("--threads", type=int, default=1)
    length = p.add_mutually_exclusive_group(required=True)
    length.add_argument("--minutes", type=float)
    length.add_argument("--steps", type=int)
    p.add_argument("--stop-at", type=int, help="stop after this step, as if interrupted")
    p.add_argument("--batch", type=int, default=12, help=f"pictures at {REFERENCE_SIDE} px; other sizes: as many pixels")
    p.add_argument("--sizes", type=lambda t: [int(v) for v in t.split(",")], default=[160, 192, 192, 224, 256])
    p.add_argument("--rate", type=float, default=2.5e-3)
    p.add_argument("--decay", type=float, default=0.02)
    p.add_argument("--warmup", type=int, default=60)
    p.add_argument("--ema", type=float, default=0.99)
    p.add_argument("--bf16", action=argparse.BooleanOptionalAction, default=True)
    p.add_argument("--seed", type=int, default=1)
    p.add_argument("--save-every", type=float, default=2, metavar="MINUTES")
    a = p.parse_args(argv)
    a.out.mkdir(parents=True, exist_ok=True)
    return a


if __name__ == "__main__":
    a = arguments()
    Run(a, Batches(Scenes(library(a.data, a.labels, a.out / "sources.pickle")), a.batch, a.sizes, a.seed)).train()
