#!/usr/bin/env python3
"""Times Backdrop beside ONNX Runtime, rembg, PyMatting and Pillow. See README.md; `make bench-peers` calls this."""
from __future__ import annotations

import argparse
import os
import shlex
import time
from collections.abc import Callable
from pathlib import Path

# Both sides get the same number of threads and of cores. Set before the libraries start theirs, inherited by the servers.
THREADS = int(os.environ.get("THREADS", "2"))
for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "NUMBA_NUM_THREADS", "RAYON_NUM_THREADS"):
    os.environ[name] = str(THREADS)
os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:THREADS])

import network  # noqa: E402
import pictures  # noqa: E402
import published  # noqa: E402
import report  # noqa: E402
import serve  # noqa: E402
import stages  # noqa: E402
from pictures import Picture  # noqa: E402
from timing import Row, median  # noqa: E402


# A row's name, `GROUP/NAME`, and what makes it.
Planned = list[tuple[str, Callable[..., Row]]]


class Run:
    """One run: what was chosen, and the rows so far, which are saved after each."""

    def __init__(self, chosen: argparse.Namespace) -> None:
        self.chosen = chosen
        self.output: Path = chosen.output.resolve()
        self.binary: Path = chosen.binary.resolve()
        self.models = self.output / "models"
        self.isnet = self.models / "isnet.onnx"
        # Rounds, and seconds for each contestant of a row.
        self.effort: tuple[int, float] = chosen.rounds, chosen.budget
        self.record = report.Record.of_this_machine(self.binary, THREADS)

    def wants(self, name: str) -> bool:
        """Whether a row is chosen, by the start of its name `GROUP/NAME`."""
        return not self.chosen.only or any(name.startswith(start) for start in self.chosen.only)

    def chosen_of(self, planned: Planned) -> Planned:
        return [(name, make) for name, make in planned if self.wants(name)]

    def add(self, row: Row) -> None:
        self.record.rows.append(row)
        self.record.save(self.output)
        times = ", ".join(f"{who} {median(seconds) * 1000:.1f} ms ({len(seconds)})" for who, seconds in row.seconds.items())
        print(f"{time.strftime('%H:%M:%S')} {row.group}/{row.name}: {times}", flush=True)


def stage_rows(run: Run, all_pictures: list[Picture]) -> Planned:
    """The rows of single stages; each is made with our stages and the network's session."""

    def with_network(batch: int) -> Callable[..., Row]:
        return lambda ours, session: stages.network_row(ours, session, all_pictures[0], batch, *run.effort)

    def of(make: Callable[..., Row], picture: Picture, *more: str) -> Callable[..., Row]:
        return lambda ours, _session: make(ours, picture, *more, *run.effort)

    rows: Planned = [(f"network/batch {batch}", with_network(batch)) for batch in stages.BATCHES]
    rows += [(f"alpha/{picture.name}", of(stages.alpha_row, picture)) for picture in all_pictures]
    rows += [(f"foreground/{picture.name}", of(stages.foreground_row, picture)) for picture in all_pictures]
    rows += [(f"decode/{kind} {picture.name}", of(stages.decode_row, picture, kind))
             for kind in stages.FORMATS for picture in all_pictures]
    rows += [(f"encode/PNG {picture.name}", of(stages.encode_row, picture)) for picture in all_pictures]
    return rows


def server_rows(run: Run, all_pictures: list[Picture]) -> Planned:
    """The rows of whole requests; each is made with both servers."""

    def single(picture: Picture) -> Callable[..., Row]:
        return lambda ours, theirs: serve.single_row(ours, theirs, picture, *run.effort)

    def several(picture: Picture, clients: int) -> Callable[..., Row]:
        return lambda ours, theirs: serve.clients_row(ours, theirs, picture, clients, *run.effort)

    def isnet(picture: Picture) -> Callable[..., Row]:
        return lambda ours, theirs: serve.isnet_row(ours, theirs, picture, run.isnet, *run.effort)

    rows: Planned = [(f"remove/{picture.name}", single(picture)) for picture in all_pictures]
    rows += [(f"isnet/{picture.name}", isnet(picture)) for picture in all_pictures[:2]]
    return rows + [(f"clients/{picture.name}, {clients} clients", several(picture, clients))
                   for picture in all_pictures for clients in serve.CLIENTS
                   if clients * picture.pixels <= serve.CLIENTS_MAX_PIXELS]


def start_rows(run: Run, picture: Picture) -> Planned:
    """The rows of the command line."""
    return [("start/--help", lambda: serve.help_row(run.binary, run.models, *run.effort)),
            (f"start/one photo, {picture.name}",
             lambda: serve.one_photo_row(run.binary, run.models, run.output, picture, *run.effort))]


def make_stage_rows(run: Run, planned: Planned, all_pictures: list[Picture]) -> None:
    session = network.session(run.models / "network.onnx", THREADS)
    with network.started(run.chosen.stages) as ours:
        for picture in all_pictures:
            mask, largest, _ = network.compared(ours, session, picture.file("network.png"))
            run.record.mask_differences[picture.name] = largest
            if any(name == f"alpha/{picture.name}" for name, _ in planned):
                pictures.write_trimap(picture, mask)
            if any(name in (f"foreground/{picture.name}", f"encode/PNG {picture.name}") for name, _ in planned):
                pictures.write_cutout(picture, run.binary)
        for _, make in planned:
            run.add(make(ours, session))


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--binary", type=Path, required=True, help="the release binary of Backdrop")
    arguments.add_argument("--stages", type=shlex.split, required=True, help="command that runs benches/peers.rs")
    arguments.add_argument("--output", type=Path, required=True, help="folder for results.md, .json and .html")
    arguments.add_argument("--photos", type=Path, help="folder of photos to use instead of the bundled one at four sizes")
    arguments.add_argument("--rounds", type=int, default=15, help="rounds of each row, after a warm-up (default 15)")
    arguments.add_argument("--budget", type=float, default=6, help="seconds that one contestant may use for a row (default 6)")
    arguments.add_argument("--only", nargs="*", default=[],
                           help="rows by the start of their name, such as network or remove/512x512")
    run = Run(arguments.parse_args())
    if run.chosen.rounds < 1:
        arguments.error("--rounds: expected at least 1")
    network.export(run.models)
    all_pictures = pictures.prepare(run.output / "pictures", run.chosen.photos)
    if planned := run.chosen_of(stage_rows(run, all_pictures)):
        make_stage_rows(run, planned, all_pictures)
    if planned := run.chosen_of(server_rows(run, all_pictures)):
        isnet = published.fetch(run.isnet) if any(name.startswith("isnet/") for name, _ in planned) else None
        with serve.servers(run.binary, run.models, run.output, all_pictures[0], isnet) as (ours, theirs):
            for _, make in planned:
                run.add(make(ours, theirs))
    for _, make in run.chosen_of(start_rows(run, all_pictures[0])):
        run.add(make())
    print(f"{run.output}/results.md, results.json, results.html")


if __name__ == "__main__":
    main()
