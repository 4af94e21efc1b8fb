#!/usr/bin/env python3
"""Write checkpoints as PyTorch writes them, for src/model/weights/tests.rs.

    python tests/reference/weights/record.py

Needs torch and safetensors. Every tensor of the network is a view of one value in a shared storage (so the files stay
small): tensor number i, counted over the sorted names, holds i / 1024 everywhere.
  averaged.pth    double precision, batch norm folded, under 'ema'; also an older 'model' and other entries
  unfolded.pth    brain floats, a bare state_dict with batch norm, side outputs and counters
"""
import collections, pathlib
import torch
from safetensors import safe_open

HERE = pathlib.Path(__file__).resolve().parent
with safe_open(HERE.parents[2] / 'weights/fgnet-384.safetensors', 'pt') as f:
    SHAPES = {name: tuple(f.get_slice(name).get_shape()) for name in f.keys()}


def state(shapes, dtype):
    base = (torch.arange(len(shapes)) / 1024).to(dtype)
    return collections.OrderedDict((n, base[i].expand(shapes[n])) for i, n in enumerate(sorted(shapes)))


unfolded = {}
for name, shape in SHAPES.items():
    if name.endswith('.conv.bias'):
        for statistic in ('weight', 'bias', 'running_mean', 'running_var'):
            unfolded[name.replace('.conv.bias', '.bn.' + statistic)] = shape
    else:
        unfolded[name] = shape
plain = state(unfolded, torch.bfloat16)
plain['side.0.weight'] = torch.zeros(1, 128, 1, 1)
plain['enc.stem.bn.num_batches_tracked'] = torch.tensor(3045)
torch.save(plain, HERE / 'unfolded.pth')
older = state(SHAPES, torch.float32)
older['head.bias'] = torch.full((4,), 9.0)
torch.save({'model': older, 'ema': state(SHAPES, torch.float64), 'step': 3045, 'args': {'lr': 2e-3}}, HERE / 'averaged.pth')
