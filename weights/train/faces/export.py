#!/usr/bin/env python3
"""Exports a checkpoint as the weights file that the Rust side reads.

    python -m faces.export RUN/checkpoint.pt --threshold 0.5 --out face-320.safetensors

The averaged weights with the batch normalisation folded in, in half precision.
"""
import argparse
import hashlib
from pathlib import Path

import torch
from safetensors import safe_open
from safetensors.torch import load_file

from faces.model import FaceNet
from weights_file import write

METADATA = {"name": "face-320", "architecture": "face", "version": "1", "licence": "MIT OR Apache-2.0"}


def folded(state: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    model = FaceNet().eval()
    model.load_state_dict(state)
    return {k.replace(".conv.", "."): v.half().contiguous() for k, v in model.fold().state_dict().items()}


def load(path: Path) -> FaceNet:
    """The network of a checkpoint or of an exported file, ready to run."""
    model = FaceNet().eval()
    if path.suffix != ".safetensors":
        model.load_state_dict(torch.load(path, weights_only=True)["ema"])
        return model.fold().to(memory_format=torch.channels_last)
    tensors, names = load_file(str(path)), model.fold().state_dict()
    model.load_state_dict({k: tensors[k.replace(".conv.", ".")].float() for k in names})
    return model.to(memory_format=torch.channels_last)


def threshold(path: Path) -> float:
    with safe_open(str(path), "pt") as file:
        return float(file.metadata()["threshold"])


def main() -> None:
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("checkpoint", type=Path)
    p.add_argument("--threshold", type=float, required=True, help="minimum score of a face, written into the metadata")
    p.add_argument("--out", type=Path, required=True)
    a = p.parse_args()
    state = torch.load(a.checkpoint, weights_only=True)["ema"]
    write(a.out, folded(state), {**METADATA, "threshold": str(a.threshold)})
    print(a.out, a.out.stat().st_size, hashlib.sha256(a.out.read_bytes()).hexdigest())


if __name__ == "__main__":
    main()
