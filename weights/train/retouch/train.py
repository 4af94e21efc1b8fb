"""Trains `upscale-2`, `upscale-4` or `restore-256`; `--resume` continues from the run's checkpoint.

    python -m retouch.train upscale-2 --tiles TILES --out RUN --minutes 25
    python -m retouch.train upscale-4 --tiles TILES --out RUN --minutes 25 --init RUN_OF_UPSCALE_2/checkpoint.pt
    python -m retouch.train restore-256 --faces ALIGNED --tiles TILES --out RUN --minutes 60
"""
import argparse
from pathlib import Path

import cv2
import torch

from .enlarging import UpscaleTask
from .loop import Loop
from .nets import network


def start_from(net: torch.nn.Module, checkpoint: Path) -> list[str]:
    """Copies every tensor of the same name and shape; returns their names."""
    source = torch.load(checkpoint, weights_only=True)["average"]
    own = net.state_dict()
    taken = {k: v for k, v in source.items() if k in own and own[k].shape == v.shape}
    net.load_state_dict({**own, **taken})
    return sorted(taken)


def task_for(a: argparse.Namespace):
    if a.network.startswith("upscale"):
        return UpscaleTask(a.tiles, int(a.network.split("-")[1]))
    from .restoring import RestoreTask

    return RestoreTask(a.faces, a.tiles)


def arguments(argv: list[str] | None = None) -> argparse.Namespace:
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("network", choices=("upscale-2", "upscale-4", "restore-256"))
    p.add_argument("--tiles", type=Path, action="append", default=[], help="a folder of sharp pictures; may be repeated")
    p.add_argument("--faces", type=Path, help="aligned faces, as `retouch.align` writes them (restore-256)")
    p.add_argument("--out", type=Path, required=True)
    length = p.add_mutually_exclusive_group(required=True)
    length.add_argument("--steps", type=int, default=0)
    length.add_argument("--minutes", type=float, default=0.0)
    p.add_argument("--init", type=Path, metavar="CHECKPOINT", help="start from another network's layers of equal shape")
    p.add_argument("--resume", action="store_true")
    p.add_argument("--rate", type=float, default=1e-3)
    p.add_argument("--half", type=float, default=0.8, help="share of the run in bfloat16")
    p.add_argument("--workers", type=int, default=0, help="processes that prepare batches")
    p.add_argument("--seed", type=int, default=1)
    a = p.parse_args(argv)
    if not a.tiles:
        p.error("--tiles is required")
    if a.network == "restore-256" and not a.faces:
        p.error("restore-256 requires --faces")
    return a


def main() -> None:
    a = arguments()
    torch.set_num_threads(1)  # threads wait for each other: two runs use two cores better (README.md)
    cv2.setNumThreads(1)
    torch.manual_seed(a.seed)
    net, task = network(a.network), task_for(a)
    print(task.summary(), flush=True)
    if a.init:
        print("copied:", *start_from(net, a.init), flush=True)
    loop = Loop(net, task, a.out, steps=a.steps, minutes=a.minutes, rate=a.rate, bf16_share=a.half, seed=a.seed,
                workers=a.workers)
    if a.resume:
        loop.resume()
    loop.train()


if __name__ == "__main__":
    main()
