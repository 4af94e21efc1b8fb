#!/usr/bin/env python3
"""Exports checkpoints as the weights file that the Rust side reads.

    export.py RUN/checkpoint.pt --version 3 --out fgnet-384.safetensors
    export.py A.pt B.pt --shares 0.6,0.4 ...        the average of several (trained from the same weights)
    export.py ... --temperature 0.67                a sharper mask

The file holds the averaged weights with the batch normalisation folded in, in half precision, without the side outputs,
byte for byte as the Rust program writes it (a Rust test compares the shipped file).
`--like` checks that names, shapes and types are those of an existing file, which the kernels require.
`--unfolded` saves a copy to continue training from, of temperature 1: matrices in half precision, the normalisation in
single.

The temperature divides the logits, through the last layer; the contour at one half is unchanged (temperature scaling:
Guo et al., On Calibration of Modern Neural Networks). Below 1 the mask's error falls, but the matting and the predicted
uncertainty become worse, because both depend on the mask's intermediate values: `log.md` has the figures of version 2.
"""
import argparse
import hashlib
from pathlib import Path

import torch
from safetensors import safe_open
from safetensors.torch import load_file, save_file

from model import average, load_weights, network_of
from weights_file import write

METADATA = {"input_side": "384", "licence": "MIT OR Apache-2.0"}


def folded(state: dict[str, torch.Tensor], temperature: float = 1.0) -> dict[str, torch.Tensor]:
    model = network_of(state)
    model.load(state)
    with torch.no_grad():
        model.head.weight /= temperature
        model.head.bias /= temperature
    tensors = model.fold().state_dict()
    return {k: v.half().contiguous() for k, v in tensors.items() if not k.startswith("side.")}


def differences(tensors: dict[str, torch.Tensor], other: Path) -> list[str]:
    theirs = {k: (v.shape, v.dtype) for k, v in load_file(str(other)).items()}
    ours = {k: (v.shape, v.dtype) for k, v in tensors.items()}
    return [f"{k}: {ours.get(k)} here, {theirs.get(k)} there" for k in sorted(ours.keys() | theirs.keys())
            if ours.get(k) != theirs.get(k)]


def main() -> None:
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("checkpoints", type=Path, nargs="+", help="checkpoints, averages or unfolded .safetensors")
    p.add_argument("--shares", type=lambda t: [float(v) for v in t.split(",")], help="weights in the average")
    p.add_argument("--temperature", type=float, default=1.0)
    p.add_argument("--out", type=Path, required=True)
    p.add_argument("--version", required=True)
    p.add_argument("--like", type=Path)
    p.add_argument("--unfolded", type=Path)
    a = p.parse_args()
    shares = a.shares or [1.0] * len(a.checkpoints)
    if len(shares) != len(a.checkpoints):
        p.error("one share for each checkpoint")
    state = average([load_weights(c) for c in a.checkpoints], shares)
    tensors = folded(state, a.temperature)
    if a.like:
        wrong = differences(tensors, a.like)
        if wrong:
            raise SystemExit("\n".join(wrong))
        with safe_open(str(a.like), "pt") as f:
            missing = METADATA.keys() - (f.metadata() or {}).keys()
        print(f"{len(tensors)} tensors as in {a.like.name}", f"; it lacks {sorted(missing)}" if missing else "")
    architecture = "guided" if "join4.weight" in tensors else "fgnet"
    write(a.out, tensors, {**METADATA, "name": f"{architecture}-384", "architecture": architecture, "version": a.version})
    if a.unfolded:
        save_file({k: (v.half() if v.ndim > 1 else v).contiguous() for k, v in state.items()}, str(a.unfolded))
    print(a.out, a.out.stat().st_size, hashlib.sha256(a.out.read_bytes()).hexdigest())


if __name__ == "__main__":
    main()
