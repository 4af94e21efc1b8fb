#!/usr/bin/env python3
"""Times `backdrop bulk` from S3 to S3 against `backdrop remove` on a local folder of the same photos, in alternating runs.

    target/objects/venv/bin/python tests/objects/bench.py target/release/backdrop FOLDER... [--photos 80] [--runs 5]

The server (moto) is a Python program on the same machine: its processor time is reported, and competes with the pipeline
where there are few cores.
"""
import argparse
import json
import os
import resource
import shutil
import statistics
import subprocess
import tempfile
import time
from pathlib import Path

from servers import S3


def seconds_of(server):
    """Processor time of a process so far."""
    fields = Path(f"/proc/{server.pid}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def main():
    arguments = argparse.ArgumentParser()
    arguments.add_argument("binary")
    arguments.add_argument("folders", nargs="+", type=Path)
    arguments.add_argument("--photos", type=int, default=80)
    arguments.add_argument("--runs", type=int, default=5)
    options = arguments.parse_args()
    binary = str(Path(options.binary).resolve())
    found = [path for folder in options.folders for path in sorted(folder.iterdir())
             if path.suffix.lower() in (".jpg", ".jpeg", ".png")]
    photos = found[::max(1, len(found) // options.photos)][:options.photos]
    with tempfile.TemporaryDirectory() as folder, S3(folder) as store:
        folder = Path(folder)
        (folder / "in").mkdir()
        for number, photo in enumerate(photos):
            name = f"{number:04}{photo.suffix.lower()}"
            shutil.copyfile(photo, folder / "in" / name)
            store.put(f"in/{name}", photo.read_bytes())
        variables = {name: value for name, value in os.environ.items() if not name.startswith(("BACKDROP_", "AWS_"))}
        variables |= store.variables() | {"BACKDROP_DEVICE": "cpu"}

        def timed(*command):
            """Wall-clock and processor time, in seconds."""
            spent = lambda: sum(resource.getrusage(resource.RUSAGE_CHILDREN)[:2])
            began, before = time.monotonic(), spent()
            done = subprocess.run([binary, *command], env=variables, capture_output=True, cwd=folder)
            # 1: some photos have no subject.
            assert done.returncode in (0, 1), done.stderr.decode()[-2000:]
            return time.monotonic() - began, spent() - before

        bulk, remove, server, spent = [], [], [], []
        for run in range(options.runs + 1):
            store.delete("out/")
            (folder / "report.jsonl").unlink(missing_ok=True)
            before = seconds_of(store.server)
            took, bulk_spent = timed("bulk", "s3://shop/in", "s3://shop/out", "--report", "report.jsonl")
            busy = seconds_of(store.server) - before
            shutil.rmtree(folder / "out", ignore_errors=True)
            local, remove_spent = timed("remove", "in", "-o", "out")
            print(f"  run {run}: bulk {took:.2f} s ({bulk_spent:.2f} s of processors, server {busy:.2f} s), "
                  f"remove {local:.2f} s ({remove_spent:.2f} s)", flush=True)
            if run:  # The first fills caches.
                bulk.append(took)
                remove.append(local)
                server.append(busy)
                spent.append((bulk_spent, remove_spent))
        summary = {"photos": len(photos), "bytes": sum(photo.stat().st_size for photo in photos), "runs": options.runs,
                "bulk_s": round(statistics.median(bulk), 2), "remove_s": round(statistics.median(remove), 2),
                "server_busy_s": round(statistics.median(server), 2),
                "processor_s": [round(statistics.median(pair[which] for pair in spent), 2) for which in (0, 1)],
                "ratio": round(statistics.median(bulk) / statistics.median(remove), 3)}
        print(json.dumps(summary))


if __name__ == "__main__":
    main()
