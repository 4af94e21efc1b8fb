"""Single stages in turn: network, alpha, foreground, decode and encode."""
from __future__ import annotations

import io
import time
from collections.abc import Callable

import numpy as np
import onnxruntime
from network import Stages, model_input
from pictures import Picture
from PIL import Image
from pymatting import estimate_alpha_cf, estimate_foreground_ml
from timing import OURS, Row, alternate

BATCHES = (1, 4, 8)
FORMATS = {"JPEG": "photo.jpg", "PNG": "photo.png", "WebP": "photo.webp"}
# PyMatting needs 1 KB of memory and 2 µs for each pixel of the picture.
ALPHA_MAX_PIXELS = 13_000_000


def timed(work: Callable[[], object]) -> Callable[[], float]:
    """A contestant for `alternate` of a function."""

    def run() -> float:
        start = time.perf_counter()
        work()
        return time.perf_counter() - start

    return run


def network_row(stages: Stages, network: onnxruntime.InferenceSession, picture: Picture, batch: int, rounds: int,
                budget: float) -> Row:
    inputs = {"image": np.repeat(model_input(picture.file("network.png")), batch, 0)}
    contestants = {
        OURS: stages.seconds("network", image=picture.file("network.png"), batch=batch),
        "ONNX Runtime": timed(lambda: network.run(None, inputs)),
    }
    return Row("network", f"batch {batch}", alternate(contestants, rounds, budget))


def alpha_row(stages: Stages, picture: Picture, rounds: int, budget: float) -> Row:
    with Image.open(picture.file("photo.png")) as photo, Image.open(picture.file("trimap.png")) as grey:
        image, trimap = np.asarray(photo) / 255.0, np.asarray(grey) / 255.0
    kept: list[np.ndarray] = []

    def theirs() -> None:
        kept[:] = [estimate_alpha_cf(image, trimap)]

    fields = {"image": picture.file("photo.png"), "trimap": picture.file("trimap.png")}
    contestants = {OURS: stages.seconds("alpha", **fields)}
    if picture.pixels <= ALPHA_MAX_PIXELS:
        contestants["PyMatting"] = timed(theirs)
    row = Row("alpha", picture.name, alternate(contestants, rounds, budget))
    row.figure(OURS, "unknown pixels", float(((trimap > 0) & (trimap < 1)).sum()))
    if kept:
        output = picture.file("ours-alpha.png")
        stages.run("alpha", **fields, output=output)
        with Image.open(output) as ours:
            band = (trimap > 0) & (trimap < 1)
            difference = np.abs(np.asarray(ours.convert("L")) / 255.0 - kept[0])[band].mean()
        row.figure("PyMatting", "mean difference in the band", float(difference))
    return row


def foreground_row(stages: Stages, picture: Picture, rounds: int, budget: float) -> Row:
    with Image.open(picture.file("photo.png")) as photo, Image.open(picture.file("alpha.png")) as grey:
        image, alpha = np.asarray(photo) / 255.0, np.asarray(grey) / 255.0
    contestants = {
        OURS: stages.seconds("foreground", image=picture.file("photo.png"), alpha=picture.file("alpha.png")),
        "PyMatting": timed(lambda: estimate_foreground_ml(image, alpha)),
    }
    row = Row("foreground", picture.name, alternate(contestants, rounds, budget))
    row.figure(OURS, "partly covered pixels", float(((alpha > 0) & (alpha < 1)).sum()))
    return row


def decode_row(stages: Stages, picture: Picture, kind: str, rounds: int, budget: float) -> Row:
    path = picture.file(FORMATS[kind])
    data = path.read_bytes()

    def theirs() -> None:
        with Image.open(io.BytesIO(data)) as image:
            image.load()

    contestants = {OURS: stages.seconds("decode", image=path), "Pillow": timed(theirs)}
    row = Row("decode", f"{kind} {picture.name}", alternate(contestants, rounds, budget))
    row.figure(OURS, "bytes of the file", float(len(data)))
    return row


def encode_row(stages: Stages, picture: Picture, rounds: int, budget: float) -> Row:
    cutout = picture.file("cutout.png")
    with Image.open(cutout) as image:
        image.load()
        kept: list[bytes] = []

        def theirs() -> None:
            # As rembg encodes its answers.
            buffer = io.BytesIO()
            image.save(buffer, "PNG")
            kept[:] = [buffer.getvalue()]

        contestants = {OURS: stages.seconds("encode", image=cutout), "Pillow": timed(theirs)}
        row = Row("encode", f"PNG {picture.name}", alternate(contestants, rounds, budget))
        output = picture.file("ours.png")
        answer = stages.run("encode", image=cutout, output=output)
        with Image.open(output) as ours:
            if ours.convert("RGBA").tobytes() != image.convert("RGBA").tobytes():
                raise SystemExit(f"{output}: other pixels than {cutout}")
    row.figure(OURS, "bytes of the file", answer["bytes"])
    row.figure("Pillow", "bytes of the file", float(len(kept[0])))
    return row
