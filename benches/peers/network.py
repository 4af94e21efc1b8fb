#!/usr/bin/env python3
"""The network of the shipped weights on both sides: the kernels in the process of `benches/peers.rs`, and ONNX Runtime.

    network.py --stages COMMAND --output FOLDER

exports the weights, runs both on a photo, and fails where the masks differ. `make export-test` calls this.
"""
from __future__ import annotations

import argparse
import json
import shlex
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import export_onnx
import numpy as np
import onnx
import onnxruntime
from PIL import Image

ROOT = Path(__file__).resolve().parents[2]
WEIGHTS = ROOT / "weights" / "fgnet-384.safetensors"
PHOTO = ROOT / "tests" / "photos" / "astronaut.jpg"
SIDE = export_onnx.SIDE
# Beyond these the two networks are not the same work: both compute in single precision, in another order.
MOST_DIFFERENT = 0.002
LEAST_IOU = 0.999


class Stages:
    """Our side: the process of `benches/peers.rs`, which times one stage for each request."""

    def __init__(self, command: list[str]) -> None:
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def run(self, stage: str, **fields: object) -> dict[str, float]:
        """Runs one stage and returns its answer."""
        assert self.process.stdin and self.process.stdout
        request = {"stage": stage} | {name: str(v) if isinstance(v, Path) else v for name, v in fields.items()}
        self.process.stdin.write(json.dumps(request) + "\n")
        self.process.stdin.flush()
        line = self.process.stdout.readline()
        if not line:
            raise SystemExit(f"the process of benches/peers.rs ended with {self.process.wait()} at {request}")
        return json.loads(line)

    def seconds(self, stage: str, **fields: object) -> Callable[[], float]:
        """A contestant for `alternate`."""
        return lambda: self.run(stage, **fields)["seconds"]


@contextmanager
def started(command: list[str]) -> Iterator[Stages]:
    stages = Stages(command)
    try:
        yield stages
    finally:
        assert stages.process.stdin
        stages.process.stdin.close()
        stages.process.wait()


def session(path: Path, threads: int) -> onnxruntime.InferenceSession:
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads, options.inter_op_num_threads = threads, 1
    return onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])


def export(folder: Path) -> None:
    """Writes the shipped weights as `network.onnx`, and as `u2net_custom.onnx` for rembg."""
    folder.mkdir(parents=True, exist_ok=True)
    tensors = export_onnx.load(WEIGHTS)
    for name, for_rembg in (("network.onnx", False), ("u2net_custom.onnx", True)):
        onnx.save(export_onnx.model(tensors, for_rembg), folder / name)


def model_input(photo: Path) -> np.ndarray:
    """A picture of 384×384 as the network's input."""
    with Image.open(photo) as image:
        pixels = np.asarray(image.convert("RGB"), np.float32)
    return np.ascontiguousarray((pixels / 127.5 - 1).transpose(2, 0, 1)[None])


def compared(stages: Stages, network: onnxruntime.InferenceSession, photo: Path) -> tuple[np.ndarray, float, float]:
    """ONNX Runtime's mask, the largest difference of the kernels' mask from it, and their IoU at one half."""
    output = photo.with_suffix(".mask")
    stages.run("network", image=photo, batch=1, output=output)
    theirs = network.run(None, {"image": model_input(photo)})[0][0, 0]
    ours = np.fromfile(output, "<f4").reshape(theirs.shape)
    largest = float(np.abs(ours - theirs).max())
    iou = float(((ours > 0.5) & (theirs > 0.5)).sum() / ((ours > 0.5) | (theirs > 0.5)).sum())
    # Also where one is not a number.
    if not (largest <= MOST_DIFFERENT and iou >= LEAST_IOU):
        raise SystemExit(f"{photo}: the masks differ by up to {largest:.5f}, IoU {iou:.5f}: not the same network")
    return theirs, largest, iou


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--stages", type=shlex.split, required=True, help="command that runs benches/peers.rs")
    arguments.add_argument("--output", type=Path, required=True, help="folder for the exported network and the masks")
    chosen = arguments.parse_args()
    folder = chosen.output.resolve()
    export(folder)
    photo = folder / "photo.png"
    with Image.open(PHOTO) as image:
        image.convert("RGB").resize((SIDE, SIDE), Image.Resampling.BILINEAR).save(photo)
    with started(chosen.stages) as stages:
        mask, largest, iou = compared(stages, session(folder / "network.onnx", 1), photo)
    if not 0.1 < (mask > 0.5).mean() < 0.9:
        raise SystemExit(f"{photo}: no subject was found")
    print(f"the masks of the kernels and of ONNX Runtime differ by up to {largest:.1e}, IoU {iou:.5f}")


if __name__ == "__main__":
    main()
