"""Exports a checkpoint as the weights file that the Rust side reads: the average, folded, in half precision.

    python -m retouch.export RUN/checkpoint.pt --out upscale-2.safetensors
"""
import argparse
import copy
import hashlib
from pathlib import Path

import torch
from safetensors import safe_open
from safetensors.torch import load_file

from weights_file import write

from .nets import load_state, fold, network

LICENCE = "MIT OR Apache-2.0"


def export(net: torch.nn.Module, version: str, out: Path) -> None:
    net = copy.deepcopy(net)
    fold(net)
    tensors = {k: v.detach().half().contiguous() for k, v in net.state_dict().items()}
    common = {"architecture": net.architecture, "name": net.name, "version": version, "licence": LICENCE}
    write(out, tensors, {**common, **net.metadata})


def load(path: Path) -> torch.nn.Module:
    """The network of a checkpoint's average or of an exported file, ready to run."""
    if path.suffix == ".pt":
        state = torch.load(path, weights_only=True)
        name, tensors = state["name"], state["average"]
    else:
        with safe_open(str(path), "pt") as file:
            name = (file.metadata() or {}).get("name", "")
        tensors = {k: v.float() for k, v in load_file(str(path)).items()}
    net = network(name)
    load_state(net, tensors)
    fold(net)
    return net.eval().requires_grad_(False).to(memory_format=torch.channels_last)


def main() -> None:
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("checkpoint", type=Path)
    p.add_argument("--out", type=Path, required=True)
    p.add_argument("--version", default="1")
    a = p.parse_args()
    export(load(a.checkpoint), a.version, a.out)
    print(a.out, a.out.stat().st_size, hashlib.sha256(a.out.read_bytes()).hexdigest())


if __name__ == "__main__":
    main()
