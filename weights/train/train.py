#!/usr/bin/env python3
"""Trains fgnet: from folders of photos, cut-outs and backgrounds to a checkpoint that `export.py` turns into weights.

    train.py --data ../shared/data --taught TAUGHT --init START.safetensors --out RUN --minutes 60
    train.py --resume --out RUN ...                          continues from RUN/checkpoint.pt; SIGTERM stops with a checkpoint
    train.py ... --device cuda --batch 96 --workers 15       the same on a GPU

The length is a number of steps, a number of minutes or a time of day; the learning rate follows it. With `--steps` on one machine's CPU the result
is the same bit for bit, resumed or not: batch n depends only on the seed and n.
"""
import argparse
import ctypes
import datetime
import json
import math
import signal
import sys
import time
from pathlib import Path

import numpy as np
import torch

sys.path.insert(0, str(Path(__file__).parent))
from compose import Composer
from data import Sources, load_mix
from evaluate import SETS, evaluate
from loss import mask_loss
from model import FGNet, load_weights, start_from_imagenet
from running import WeightAverage, rate_factor, save_atomically

libc = ctypes.CDLL(None)
LOG_EVERY = 25
PURGE_EVERY = 12      # batches
REFERENCE_SIDE = 384  # `--batch` is for this side; batches of other sides have the same number of pixels


class Batches(torch.utils.data.Dataset):
    """Batch n of a seed. All its pictures have one size, which varies between batches against overfitting to a size.

    The first `early` batches use the `early_sizes`: small pictures cost half as much and are enough at the start.
    """

    def __init__(self, composer: Composer, batch: int, sizes: list[int], early_sizes: list[int], early: int, seed: int):
        self.composer, self.batch, self.sizes, self.seed = composer, batch, sizes, seed
        self.early_sizes, self.early = early_sizes, early

    def __getitem__(self, n: int):
        if n % PURGE_EVERY == 0:
            purge_allocator()
        size = int(np.random.default_rng([self.seed, n]).choice(self.early_sizes if n < self.early else self.sizes))
        count = max(2, round(self.batch * (REFERENCE_SIDE / size) ** 2))
        samples = [self.composer.sample(np.random.default_rng([self.seed, n, k]), size) for k in range(count)]
        return tuple(torch.from_numpy(np.stack(planes)) for planes in zip(*samples))

    def __len__(self) -> int:
        return 10**8


def purge_allocator() -> None:
    """Returns a loader process's freed memory if jemalloc is preloaded with decay off (README, *Two cores*).

    The training process reallocates tensors of the same sizes. Loading allocates other sizes every time, and without this
    grew by 4 GB in 7 minutes.
    """
    if torch.utils.data.get_worker_info() and hasattr(libc, "mallctl"):
        libc.mallctl(b"arena.4096.purge", None, None, None, ctypes.c_size_t(0))  # MALLCTL_ARENAS_ALL: every arena


class StepSampler(torch.utils.data.Sampler):
    def __init__(self, first: int):
        self.first = first

    def __iter__(self):
        return iter(range(self.first, 10**8))


def parameter_groups(model: FGNet, rate: float, encoder_rate: float, decay: float) -> list[dict]:
    """A lower rate for the pretrained encoder; no weight decay for vectors (biases, normalisation)."""
    groups = []
    for in_encoder, base in ((True, encoder_rate), (False, rate)):
        parameters = [p for n, p in model.named_parameters() if n.startswith("enc.") == in_encoder]
        groups.append({"params": [p for p in parameters if p.ndim > 1], "base": base, "weight_decay": decay})
        groups.append({"params": [p for p in parameters if p.ndim == 1], "base": base, "weight_decay": 0.0})
    return groups


class Run:
    def __init__(self, a: argparse.Namespace):
        self.a, self.device = a, torch.device(a.device)
        torch.manual_seed(a.seed)
        if self.device.type == "cpu":
            torch.set_num_threads(a.threads)
        else:
            torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = True
        self.sources = Sources(load_mix(a.mix, a.set), a.data, a.taught)
        print(self.sources.summary(), flush=True)
        self.batches = Batches(self.composer(), a.batch, a.sizes, a.early_sizes, a.early_steps, a.seed)
        model = self.network()
        if a.init:
            current, state = model.state_dict(), load_weights(a.init)
            if a.imagenet:  # the file may have another encoder: load decoder tensors of equal shape
                state = {k: v for k, v in state.items() if not k.startswith("enc.") and current[k].shape == v.shape}
            model.load(state, strict=not a.imagenet)
        if a.imagenet:
            start_from_imagenet(model, a.imagenet)
        self.model = model.to(self.device, memory_format=torch.channels_last)
        self.frozen = [model.enc.stem, *model.enc.blocks][: a.freeze]
        for module in self.frozen:
            module.requires_grad_(False)
        norms = [m for m in model.modules() if isinstance(m, torch.nn.BatchNorm2d)]
        self.eval_modules = [*self.frozen, *(norms if a.still else [])]
        for block in model.enc.blocks:
            if self.device.type == "cpu" and block.dw.conv.kernel_size == (5, 5):
                block.dw.conv.weight.requires_grad_(False)  # its gradient takes twenty times as long as a 3×3 one's
        groups = parameter_groups(self.model, a.rate, a.encoder_rate, a.decay)
        self.optimiser = torch.optim.AdamW(groups, lr=a.rate, betas=(0.9, 0.99), fused=self.device.type == "cuda")
        self.average = WeightAverage(self.model, a.ema)
        self.step = self.images = 0
        self.seconds = self.cpu_seconds = 0.0  # training time and this process's CPU time, summed over all resumed runs
        self.started = time.time()
        if a.resume and self.checkpoint.exists():
            self.restore()

    def composer(self) -> Composer:
        return Composer(self.sources)

    def network(self) -> FGNet:
        return FGNet()

    @property
    def checkpoint(self) -> Path:
        return self.a.out / "checkpoint.pt"

    def save(self, path: Path) -> None:
        state = {
            "model": self.model.state_dict(), "ema": self.average.state, "updates": self.average.updates,
            "optimiser": self.optimiser.state_dict(), "step": self.step, "images": self.images,
            "seconds": self.seconds, "cpu_seconds": self.cpu_seconds, "started": self.started,
        }
        save_atomically(state, path)

    def snapshot(self) -> None:
        torch.save({"ema": self.average.state, "step": self.step}, self.a.out / f"average-{self.step:06}.pt")

    def restore(self) -> None:
        state = torch.load(self.checkpoint, map_location=self.device, weights_only=True)
        self.model.load_state_dict(state["model"])
        self.optimiser.load_state_dict(state["optimiser"])
        for k, v in state["ema"].items():
            self.average.state[k].copy_(v)
        self.average.updates, self.step = state["updates"], state["step"]
        self.images, self.seconds, self.started = state["images"], state["seconds"], state["started"]
        self.cpu_seconds = state.get("cpu_seconds", 0.0)
        print(f"resumed at step {self.step}", flush=True)

    def progress(self) -> float:
        if self.a.steps:
            return self.step / self.a.steps
        if self.a.until:
            return (time.time() - self.started) / (self.a.until - self.started)
        return self.seconds / 60 / self.a.minutes

    def log(self, **line) -> None:
        line = {"step": self.step, "images": self.images, "minutes": round(self.seconds / 60, 2),
                "core_hours": round(self.cpu_seconds / 3600, 3), **line}
        with open(self.a.out / "log.jsonl", "a") as file:
            file.write(json.dumps(line) + "\n")

    def autocast(self) -> torch.autocast:
        return torch.autocast(self.device.type, torch.bfloat16, enabled=self.a.bf16)

    def train_batch(self, rgb: torch.Tensor, mask: torch.Tensor, valid: torch.Tensor, *guide: torch.Tensor) -> dict[str, float]:
        rate = rate_factor(self.progress(), self.step, self.a.warmup)
        for group in self.optimiser.param_groups:
            group["lr"] = group["base"] * rate
        x = rgb.to(self.device, non_blocking=True).permute(0, 3, 1, 2).float().div(127.5).sub(1)
        target, valid = (plane.to(self.device, non_blocking=True)[:, None].float().div(255) for plane in (mask, valid))
        self.model.train()
        for module in self.eval_modules:
            module.eval()  # normalises by its running statistics
        with self.autocast():
            logits, sides = self.model(x, *guide, sides=True)
        loss, parts = mask_loss(logits.float(), [s.float() for s in sides], target, valid)
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

    def measure(self, cap: int) -> dict:
        model = FGNet().to(self.device)
        model.load_state_dict(self.average.state)
        model.eval().fold()
        scores = evaluate(model, self.a.eval, SETS, cap=cap)
        self.log(eval=scores)
        print("  ", {s: (v["mae"], v["iou"], v["boundary_iou"]) for s, v in scores.items()}, flush=True)
        return scores

    def train(self) -> None:
        workers = {"num_workers": self.a.workers, "prefetch_factor": 3} if self.a.workers else {}
        loader = torch.utils.data.DataLoader(self.batches, batch_size=None, sampler=StepSampler(self.step),
                                             pin_memory=self.device.type == "cuda", **workers)
        sums, steps, seen = {}, 0, 0  # since the last line of the log; fewer than LOG_EVERY steps after a resume
        measured = saved = snapped = last = time.monotonic()
        logged_seconds, last_cpu = self.seconds, time.process_time()
        stopped = []
        signal.signal(signal.SIGTERM, lambda *_: stopped.append(True))  # stops after the step, with a checkpoint
        for planes in loader:
            if stopped or self.progress() >= 1 or (self.a.stop_at and self.step >= self.a.stop_at):
                break
            for k, v in self.train_batch(*planes).items():
                sums[k] = sums.get(k, 0.0) + v
            steps, seen = steps + 1, seen + len(planes[0])
            now = time.monotonic()
            self.seconds += now - last
            last = now
            self.cpu_seconds += time.process_time() - last_cpu
            last_cpu = time.process_time()
            if self.step % LOG_EVERY == 0:
                line = {k: round(v / steps, 4) for k, v in sums.items()}
                line["per_second"] = round(seen / (self.seconds - logged_seconds), 1)
                self.log(**line)
                print(self.step, f"{self.progress():.3f}", line, flush=True)
                sums, steps, seen, logged_seconds = {}, 0, 0, self.seconds
            if now - saved > self.a.save_every * 60:
                self.save(self.checkpoint)
                saved = now
            if self.a.eval and now - measured > self.a.eval_every * 60:
                self.measure(self.a.eval_cap)
                measured = time.monotonic()
            if now - snapped > self.a.snapshot_every * 60:
                self.snapshot()
                snapped = now
        self.save(self.checkpoint)
        self.snapshot()
        if self.a.eval:
            self.measure(cap=0)


def time_of_day(text: str) -> float:
    """The next time that the clock shows "HH:MM", in seconds since the epoch."""
    now = datetime.datetime.now()
    then = datetime.datetime.combine(now, datetime.time.fromisoformat(text))
    return (then + datetime.timedelta(days=then <= now)).timestamp()


def arguments(argv: list[str] | None = None) -> argparse.Namespace:
    here = Path(__file__).parent
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--data", type=Path, action="append", required=True, help="a root of the mix's folders; may be repeated")
    p.add_argument("--mix", type=Path, default=here / "mix.toml")
    p.add_argument("--set", action="append", default=[], metavar="TABLE.KEY=NUMBER", help="overrides a value of the mix")
    p.add_argument("--taught", type=Path, help="the teacher's masks, from `teach.py masks`")
    p.add_argument("--eval", type=Path, help="the evaluation folder; without it the run is not evaluated")
    p.add_argument("--out", type=Path, required=True)
    p.add_argument("--init", help="unfolded weights to start from; with --imagenet, only decoder tensors of equal shape")
    p.add_argument("--imagenet", help="efficientnet-lite2-….pth, initial weights of the encoder")
    p.add_argument("--resume", action="store_true")
    p.add_argument("--device", choices=("cpu", "cuda"), default="cpu")
    p.add_argument("--threads", type=int, default=2)
    p.add_argument("--workers", type=int, default=1)
    length = p.add_mutually_exclusive_group(required=True)
    length.add_argument("--minutes", type=float)
    length.add_argument("--until", type=time_of_day, metavar="HH:MM", help="stops at this time, also after interruptions")
    length.add_argument("--steps", type=int)
    p.add_argument("--stop-at", type=int, help="stop after this step, as if interrupted")
    p.add_argument("--batch", type=int, default=16, help=f"pictures at {REFERENCE_SIDE} px; other sizes: as many pixels")
    p.add_argument("--sizes", type=lambda t: [int(v) for v in t.split(",")], default=[320, 352, 384, 416, 448])
    p.add_argument("--early-sizes", type=lambda t: [int(v) for v in t.split(",")], default=[224, 256, 288])
    p.add_argument("--early-steps", type=int, default=0, help="number of steps with --early-sizes, before those with --sizes")
    p.add_argument("--rate", type=float, default=1e-3)
    p.add_argument("--encoder-rate", type=float, default=3e-4)
    p.add_argument("--freeze", type=int, default=0, metavar="N", help="do not train the encoder's first N layers")
    p.add_argument("--still", action="store_true", help="keep the normalisation statistics of --init: a third faster")
    p.add_argument("--decay", type=float, default=0.02)
    p.add_argument("--warmup", type=int, default=60)
    p.add_argument("--ema", type=float, default=0.997)
    p.add_argument("--bf16", action=argparse.BooleanOptionalAction, default=True)
    p.add_argument("--seed", type=int, default=1)
    p.add_argument("--save-every", type=float, default=2, metavar="MINUTES")
    p.add_argument("--eval-every", type=float, default=8, metavar="MINUTES")
    p.add_argument("--eval-cap", type=int, default=25, help="pictures of each set in evaluations before the last")
    p.add_argument("--snapshot-every", type=float, default=8, metavar="MINUTES")
    a = p.parse_args(argv)
    a.out.mkdir(parents=True, exist_ok=True)
    return a


if __name__ == "__main__":
    Run(arguments()).train()
