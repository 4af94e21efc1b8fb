#!/usr/bin/env python3
"""Prints, for each stage and size, the least time that the machine's limits allow, beside the measured time.

    roofline.py --stages "cargo bench … --bench peers -- --requests" --binary target/release/backdrop --output DIR

The limits are measured by `benches/support/machine_limits.rs`: memory bandwidth (STREAM triad) and f32 multiply-adds in
registers, both with all threads. For each stage the work is what any implementation of the same algorithm must do:
the bytes of its inputs and outputs, once each, and its arithmetic. The bound is the larger of the two times (Williams,
Waterman and Patterson, "Roofline", CACM 2009). Decoders and encoders are bound by neither: entropy coding is serial,
branching integer work. Their bytes are shown all the same, so that the distance is visible.
"""
from __future__ import annotations

import argparse
import os
import shlex
import statistics
from dataclasses import dataclass
from pathlib import Path

THREADS = int(os.environ.get("THREADS", "2"))
os.environ["RAYON_NUM_THREADS"] = str(THREADS)
os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:THREADS])

import export_onnx  # noqa: E402
import network  # noqa: E402
import numpy as np  # noqa: E402
import pictures  # noqa: E402
import stages  # noqa: E402
from pictures import Picture  # noqa: E402
from PIL import Image  # noqa: E402

ROUNDS = 7
LIMITS = ("memory-bandwidth", "peak-arithmetic")
# Closed form, operations for each unknown pixel and step. The Laplacian's product, with separable 3×3 box sums: p times
# three colours (3), sums of four planes (4·4), the line of the window (its mean's part 6, two triangular products 18, its
# constant 6), sums of the four fitted planes (4·4), their value at the pixel (8). Conjugate gradients: three vector
# updates (6), preconditioner (1), prior (2), two inner products (4).
STEP_OPERATIONS = (3 + 4 * 4 + 30 + 4 * 4 + 8) + (6 + 1 + 2 + 4)
# Bytes read and written in the same step, all f32: mean and inverse covariance of the window (9), colour (3), four fitted
# planes twice (8), the vectors (13). A band that stays in the cache moves less: its share of the bound can exceed 100 %.
STEP_BYTES = 4 * (9 + 3 + 8 + 13)
# Steps that a good start leaves to the finest level; each coarser level has a quarter of the pixels.
STEPS = 10 * 4 / 3
# Multilevel foreground estimation, operations for each partly covered pixel and relaxation: weights of four neighbours
# (12 and 3 for their sum), normalisation (8), and for each channel two weighted sums (18) and their update (9). The finest
# levels take two relaxations, and each coarser level has a quarter of the pixels.
FOREGROUND_OPERATIONS = (12 + 3 + 8 + 3 * 27) * 2 * 4 / 3


@dataclass(frozen=True)
class Work:
    """What a stage has to do at least, and how long it took."""

    stage: str
    size: str
    bytes: float
    operations: float
    seconds: float


def network_work() -> tuple[float, float]:
    """Bytes (weights, input, output) and operations (two for each multiply-add of a convolution) for one picture."""
    model = onnx.shape_inference.infer_shapes(export_onnx.model(export_onnx.load(network.WEIGHTS), for_rembg=False))
    shapes = {v.name: [d.dim_value or 1 for d in v.type.tensor_type.shape.dim] for v in model.graph.value_info}
    weights = {c.name: list(c.dims) for c in model.graph.initializer}
    operations = 0
    for node in model.graph.node:
        if node.op_type == "Conv":
            _, _, height, width = shapes[node.output[0]]
            operations += 2 * int(np.prod(weights[node.input[1]])) * height * width
    side = export_onnx.SIDE
    return 4 * (sum(int(np.prod(dims)) for dims in weights.values()) + side * side * (3 + 1)), operations


def measured(ours: network.Stages, stage: str, **fields: object) -> float:
    ours.run(stage, **fields)
    return statistics.median(ours.run(stage, **fields)["seconds"] for _ in range(ROUNDS))


def share(picture: Picture, name: str) -> int:
    """Pixels of a grey file that are neither 0 nor 255."""
    with Image.open(picture.file(name)) as image:
        values = np.asarray(image.convert("L"))
    return int(((values > 0) & (values < 255)).sum())


def picture_work(ours: network.Stages, picture: Picture, of_network: tuple[float, float]) -> list[Work]:
    pixels, photo, rgba = picture.pixels, picture.file("photo.png"), 4 * picture.pixels
    unknown, partial = share(picture, "trimap.png"), share(picture, "alpha.png")
    cutout = picture.file("cutout.png")
    alpha = measured(ours, "alpha", image=photo, trimap=picture.file("trimap.png"))
    foreground = measured(ours, "foreground", image=photo, alpha=picture.file("alpha.png"))
    work = [
        Work(f"decode {kind}", picture.name, picture.file(name).stat().st_size + rgba, 0,
             measured(ours, "decode", image=picture.file(name)))
        for kind, name in stages.FORMATS.items()
    ]
    return work + [
        # The picture is read once by the resampling to the network's input.
        Work("resampling and network", picture.name, rgba + of_network[0], of_network[1],
             measured(ours, "network", image=photo, batch=1)),
        # The picture and the trimap once, the alpha once, and the band's vectors in each step.
        Work("trimap to alpha", picture.name, rgba + 2 * pixels + unknown * STEPS * STEP_BYTES,
             unknown * STEPS * STEP_OPERATIONS, alpha),
        # The picture read and its changed colours written, alpha read and written in linear light.
        Work("alpha to foreground", picture.name, 2 * rgba + 2 * pixels, partial * FOREGROUND_OPERATIONS, foreground),
        Work("encode PNG", picture.name, rgba + cutout.stat().st_size, 0, measured(ours, "encode", image=cutout)),
    ]


def table(work: list[Work], bandwidth: float, peak: float) -> str:
    head = f"memory {bandwidth / 1e9:.1f} GB/s, f32 {peak / 1e9:.0f} GFLOP/s, {THREADS} threads"
    lines = [head, "", "| stage | size | MB | Mop | bound by | bound | measured | share of the limit |", "|---" * 8 + "|"]
    for one in work:
        by_memory, by_operations = one.bytes / bandwidth, one.operations / peak
        bound, by = max((by_memory, "memory"), (by_operations, "arithmetic"))
        lines.append(f"| {one.stage} | {one.size} | {one.bytes / 1e6:.1f} | {one.operations / 1e6:.0f} | {by} | "
                     f"{bound * 1e3:.2f} ms | {one.seconds * 1e3:.1f} ms | {bound / one.seconds:.0%} |")
    return "\n".join(lines)


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--stages", type=shlex.split, required=True, help="command that runs benches/peers.rs")
    arguments.add_argument("--binary", type=Path, required=True, help="the release binary of Backdrop")
    arguments.add_argument("--output", type=Path, required=True, help="folder for pictures")
    chosen = arguments.parse_args()
    chosen.output = chosen.output.resolve()
    chosen.output.mkdir(parents=True, exist_ok=True)
    network.export(chosen.output)
    session = network.session(chosen.output / "network.onnx", THREADS)
    with network.started(chosen.stages) as ours:
        limits = [0.0, 0.0]
        all_pictures, work = pictures.prepare(chosen.output / "pictures", None), []
        for picture in all_pictures:
            pictures.write_trimap(picture, network.compared(ours, session, picture.file("network.png"))[0])
            pictures.write_cutout(picture, chosen.binary.resolve())
            # Before each picture, and the best: a busy machine would make the limits look lower.
            limits = [max(limit, ours.run(stage)["rate"]) for limit, stage in zip(limits, LIMITS, strict=True)]
            work += picture_work(ours, picture, network_work())
    print(table(work, *limits))


if __name__ == "__main__":
    main()
