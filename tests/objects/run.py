#!/usr/bin/env python3
"""Runs `backdrop bulk` against real servers over a socket: moto as S3 and azurite as Azure.

    AZURITE=target/objects/npm/node_modules/.bin/azurite-blob \
      target/objects/venv/bin/python tests/objects/run.py target/release/backdrop

`make storage` installs both and runs this. Every result is compared with that of `backdrop remove` for the same file.
"""
import json
import os
import random
import signal
import struct
import subprocess
import sys
import tempfile
import time
import zlib
from pathlib import Path

from servers import S3, Azure, FaultyProxy

BINARY = str(Path(sys.argv[1]).resolve())
PHOTOS = Path(__file__).resolve().parents[1] / "photos"


def picture(seed, side=24):
    """A small PNG that is a cutout already, so that the network is not run."""
    inside = lambda x, y: 6 <= x < 18 and 6 <= y < 18
    rows = b"".join(b"\0" + b"".join(bytes([(x * 3 + y + seed * 7) % 256, (x * 5 + y) % 256, seed % 256,
                                           255 if inside(x, y) else 0]) for x in range(side)) for y in range(side))
    chunk = lambda kind, data: struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
    head = struct.pack(">IIBBBBB", side, side, 8, 6, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b"")


class Suite:
    def __init__(self, store, folder):
        self.store, self.folder, self.report = store, folder, folder / "report.jsonl"

    def command(self, *arguments, port=None, report=None):
        variables = {name: value for name, value in os.environ.items() if not name.startswith(("BACKDROP_", "AWS_", "AZURE_"))}
        variables |= self.store.variables(port) | {"BACKDROP_DEVICE": "cpu"}
        locations = [f"{self.store.scheme}://shop/in", f"{self.store.scheme}://shop/out"]
        command = [BINARY, "bulk", *locations, "--json", "--report", str(report or self.report), *arguments]
        return {"args": command, "env": variables, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "cwd": self.folder}

    def bulk(self, *arguments, code=0, **more):
        done = subprocess.run(**self.command(*arguments, **more))
        assert done.returncode == code, f"{done.returncode} instead of {code}: {done.stderr.decode()[-2000:]}"
        return json.loads(done.stdout)

    def rows(self, report=None):
        rows = [json.loads(line) for line in (report or self.report).read_text().splitlines()]
        sources = [row["source"] for row in rows]
        assert len(set(sources)) == len(sources), "an object has two rows in the report"
        return {source.removeprefix(f"{self.store.scheme}://shop/in/"): row for source, row in zip(sources, rows)}

    def clear(self):
        for prefix in ("in/", "out/", "reports/"):
            self.store.delete(prefix)
        self.report.unlink(missing_ok=True)

    def fill(self, pictures):
        for key, data in pictures.items():
            self.store.put(f"in/{key}", data)

    def expected(self, pictures):
        """The results of `backdrop remove`, by their keys."""
        source, made = self.folder / "source", self.folder / "made"
        source.mkdir(exist_ok=True)
        names = {}
        for number, (key, data) in enumerate(pictures.items()):
            (source / f"{number}.png").write_bytes(data)
            names[f"{number}.png"] = key.rsplit(".", 1)[0] + ".png"
        subprocess.run([BINARY, "remove", source, "-o", made, "--force"], check=True, capture_output=True,
                       env=os.environ | {"BACKDROP_DEVICE": "cpu"})
        results = {key: (made / name).read_bytes() for name, key in names.items()}
        for folder in (source, made):
            for file in folder.iterdir():
                file.unlink()
        return results

    def results(self):
        return {key.removeprefix("out/"): self.store.get(key)[0] for key in self.store.keys("out/")}

    def keys_and_metadata(self):
        long = "ü/n" * (250 if self.store.scheme == "s3" else 84)  # Azure: 254 path segments, 1024 characters
        keys = ["a b.png", "ü.png", "a..b.png", "%2E%2E.png", "a+b&c=d;e.png", "x/y/<z>'.png", long + ".png"]
        if self.store.scheme == "s3":
            keys += ["n" * 1016 + ".png", "hash#mark?.png"]
        pictures = {key: picture(seed) for seed, key in enumerate(keys)}
        pictures["cup.jpg"] = (PHOTOS / "coffee.jpg").read_bytes()
        expected = self.expected(pictures)
        self.fill(pictures | {"notes.txt": b"no picture"})
        summary = self.bulk()
        assert (summary["done"], summary["failed"], summary["passed_over"]) == (len(pictures), 0, 1), summary
        assert self.results() == expected, "results differ from those of remove"
        row = self.rows()["cup.jpg"]
        data, media_type, metadata = self.store.get("out/cup.png")
        metadata = {name.lower(): value for name, value in metadata.items()}
        assert media_type == "image/png" and metadata["backdrop_source"] == row["source"]
        assert metadata["backdrop_source_etag"] == row["source_etag"]
        assert metadata["backdrop_parameters"] == row["parameters"] and metadata["backdrop_model"] == row["model"]
        assert row["output_bytes"] == len(data) and row["milliseconds"]["upload"] > 0
        self.bulk_again(pictures)

    def bulk_again(self, pictures):
        """Finished objects are skipped, with the report or without; changed ones are processed again."""
        again = self.bulk()
        assert (again["done"], again["skipped"]) == (0, len(pictures)), again
        self.report.unlink()
        again = self.bulk()
        assert (again["done"], again["skipped"]) == (0, len(pictures)), again
        assert len(self.rows()) == len(pictures)
        self.store.put("in/a b.png", picture(77))
        again = self.bulk()
        assert (again["done"], again["skipped"]) == (1, len(pictures) - 1), again
        again = self.bulk("--set", "edge=hard")
        assert (again["done"], again["skipped"]) == (len(pictures), 0), again

    def unaddressable_keys(self):
        """Keys that no request can name are reported, and other objects continue. Azure has none."""
        if self.store.scheme != "s3":
            return
        self.fill({"good.png": picture(1), "a//b.png": picture(2), "folder/": b""})
        summary = self.bulk(code=1)
        assert (summary["done"], summary["failures"]) == (1, {"invalid_parameter": 1}), summary

    def pages(self):
        """More keys than a page of a listing."""
        if self.store.scheme != "s3":
            return
        self.fill({f"notes/{number:04}.txt": b"" for number in range(1100)} | {"z.png": picture(1)})
        summary = self.bulk()
        assert (summary["done"], summary["passed_over"]) == (1, 1100), summary

    def faults(self):
        """A slow network with failures."""
        pictures = {f"{number:02}.png": picture(number) for number in range(40)}
        expected = self.expected(pictures)
        self.fill(pictures)
        proxy = FaultyProxy(self.store.port)
        summary = self.bulk(port=proxy.server_port)
        assert (summary["done"], summary["failed"]) == (len(pictures), 0), summary
        assert self.results() == expected
        print(f"    faults: {dict(sorted(proxy.kinds.items()))}")
        assert len(proxy.kinds) >= 5, proxy.kinds
        proxy.shutdown()

    def kills(self):
        """kill -9 at random moments, then a complete run."""
        pictures = {f"set {number % 3}/{number:03}.png": picture(number) for number in range(150)}
        expected = self.expected(pictures)
        self.fill(pictures)
        random.seed(5)
        for _ in range(8):
            run = subprocess.Popen(**self.command())
            size = self.report.stat().st_size if self.report.exists() else 0
            more = random.randrange(1, 6000)
            while run.poll() is None and (not self.report.exists() or self.report.stat().st_size < size + more):
                time.sleep(0.001)
            run.kill()
            run.communicate()
        self.bulk()
        assert self.results() == expected
        rows = self.rows()
        assert set(rows) == set(pictures) and all(row["status"] == "done" for row in rows.values())

    def drains(self):
        """The first signal finishes the objects in progress."""
        self.fill({f"{number:03}.png": picture(number) for number in range(200)})
        run = subprocess.Popen(**self.command())
        while not self.report.exists() or self.report.stat().st_size == 0:
            assert run.poll() is None
            time.sleep(0.001)
        run.send_signal(signal.SIGTERM)
        printed = run.communicate()[1].decode()
        assert run.returncode == 1 and "run the same command again" in printed, printed
        assert len(self.results()) == len(self.rows())

    def shards(self):
        """Shards share a run; their reports are objects and are merged."""
        pictures = {f"{number:02}.png": picture(number) for number in range(40)}
        expected = self.expected(pictures)
        self.fill(pictures)
        report = f"{self.store.scheme}://shop/reports/run.jsonl"
        made = [self.bulk("--shard", f"{k}/3", report=report)["done"] for k in range(3)]
        assert sum(made) == len(pictures) and min(made) > 0, made
        assert self.results() == expected
        merge = self.command(report=report) | {"args": [BINARY, "bulk", "report", f"{self.store.scheme}://shop/reports/",
                                                        "-o", str(self.report), "--json"]}
        merged = subprocess.run(**merge)
        assert merged.returncode == 0 and len(self.rows()) == len(pictures), merged.stderr.decode()

    def run(self):
        for check in (self.keys_and_metadata, self.unaddressable_keys, self.pages, self.faults, self.kills, self.drains, self.shards):
            began = time.monotonic()
            self.clear()
            check()
            print(f"  {self.store.scheme}: {check.__name__} ok, {time.monotonic() - began:.1f} s", flush=True)


def main():
    for kind in (S3, Azure):
        with tempfile.TemporaryDirectory() as folder, kind(folder) as store:
            Suite(store, Path(folder)).run()
    print("storage: all ok")


if __name__ == "__main__":
    main()
