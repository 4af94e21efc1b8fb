#!/usr/bin/env python3
"""Times the network in PyTorch, for comparison with `cargo bench --bench gpu`: equal weights, channels last, in batches.

    torch_network.py [weights/fgnet-384.safetensors]

On a GPU in f32 (without TF32) and f16, each replayed as a CUDA graph; without one on the CPU in f32. The least time of several runs.
"""
import argparse
import sys
import time
from pathlib import Path

import torch

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "weights" / "train"))
from model import FGNet, load_weights  # noqa: E402

SIDE = 384
BATCHES = (1, 4, 8, 16, 32)
RUNS = 5
# No further run of a row begins after this number of seconds.
ROW = 4.0


def network(weights: Path) -> FGNet:
    """The network of an exported file, whose normalisation is folded in."""
    model = FGNet().eval().fold()
    model.side = torch.nn.ModuleList()
    model.load_state_dict(load_weights(weights))
    return model


def graphed(model: FGNet, batch: torch.Tensor):
    """A replay of the network on `batch` as a CUDA graph."""
    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream):
        for _ in range(3):
            model(batch)
    torch.cuda.current_stream().wait_stream(stream)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        model(batch)

    def replay() -> None:
        graph.replay()
        torch.cuda.synchronize()

    return replay


def least(work) -> float:
    """The least time of several runs, in seconds."""
    times = []
    began = time.perf_counter()
    while len(times) < RUNS and (not times or time.perf_counter() - began < ROW):
        start = time.perf_counter()
        work()
        times.append(time.perf_counter() - start)
    return min(times)


@torch.inference_mode()
def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("weights", nargs="?", type=Path, default=ROOT / "weights" / "fgnet-384.safetensors")
    model = network(parser.parse_args().weights)
    has_gpu = torch.cuda.is_available()
    device = torch.device("cuda" if has_gpu else "cpu")
    name = torch.cuda.get_device_name() if has_gpu else f"CPU, {torch.get_num_threads()} threads"
    print(f"PyTorch {torch.__version__} on {name}\n")
    print(f"{'network':8} {'batch':>6} {'ms':>12} {'pictures/s':>12}")
    for dtype in (torch.float32, torch.float16) if has_gpu else (torch.float32,):
        model = model.to(device, dtype, memory_format=torch.channels_last)
        for size in BATCHES:
            batch = torch.rand(size, 3, SIDE, SIDE, device=device, dtype=dtype) * 2 - 1
            batch = batch.to(memory_format=torch.channels_last)
            model(batch)
            seconds = least(graphed(model, batch) if has_gpu else lambda batch=batch: model(batch))
            kind = str(dtype).removeprefix("torch.")
            print(f"{kind:8} {size:>6} {seconds * 1e3:>12.1f} {size / seconds:>12.1f}", flush=True)


if __name__ == "__main__":
    main()
