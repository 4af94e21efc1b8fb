"""Whole requests over HTTP to both servers, the programs' start-up, and memory."""
from __future__ import annotations

import http.client
import io
import json
import os
import socket
import subprocess
import sys
import time
import urllib.parse
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

import published
from pictures import Picture
from PIL import Image
from timing import OURS, Row, alternate

BOUNDARY = "backdrop-peers-6d1f"
KEY = "bd_live_0123456789abcdefghijABCDEFGHIJ01"
START_TIMEOUT = 60.0
REQUEST_TIMEOUT = 600.0
# rembg's alpha matting needs about 1 KB for each pixel.
ALPHA_MAX_PIXELS = 13_000_000
CLIENTS = (1, 4, 16)
# Decoded pixels of all clients' pictures together, in both servers' memory.
CLIENTS_MAX_PIXELS = 50_000_000
REQUESTS_PER_CLIENT = 2
REMBG, REMBG_ALPHA, OURS_MASK = "rembg", "rembg, alpha matting", "Backdrop, matting=none"


@dataclass
class Server:
    """A running server and how to ask it."""

    process: subprocess.Popen[bytes]
    port: int
    path: str
    headers: dict[str, str]
    fields: dict[str, str]
    idle_bytes: int = 0

    def memory(self, line: str) -> int:
        """Bytes of a line of the process's status: `VmRSS`, or `VmHWM`, its largest value since `reset_peak`."""
        for entry in Path(f"/proc/{self.process.pid}/status").read_text().splitlines():
            if entry.startswith(line + ":"):
                return int(entry.split()[1]) * 1024
        raise SystemExit(f"no {line} for process {self.process.pid}")

    def reset_peak(self) -> None:
        Path(f"/proc/{self.process.pid}/clear_refs").write_text("5")


def form(fields: dict[str, str], file: bytes) -> bytes:
    """A multipart body with these fields and one file."""
    part = f"--{BOUNDARY}\r\ncontent-disposition: form-data; name="
    texts = "".join(f'{part}"{name}"\r\n\r\n{value}\r\n' for name, value in fields.items())
    head = f'{part}"file"; filename="photo.jpg"\r\ncontent-type: image/jpeg\r\n\r\n'
    return (texts + head).encode() + file + f"\r\n--{BOUNDARY}--\r\n".encode()


class Client:
    """One connection, kept alive, and opened anew when the server has closed it meanwhile."""

    def __init__(self, server: Server) -> None:
        self.server = server
        self.connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=REQUEST_TIMEOUT)

    def send(self, body: bytes) -> bytes:
        headers = {"content-type": f"multipart/form-data; boundary={BOUNDARY}"} | self.server.headers
        try:
            answer = self.answer(body, headers)
        except (ConnectionError, http.client.BadStatusLine):
            # A peer's slow turns outlast the idle timeout.
            self.connection.close()
            answer = self.answer(body, headers)
        data = answer.read()
        if answer.status != 200:
            raise SystemExit(f"{self.server.path} answered {answer.status}: {data[:500]!r}")
        return data

    def answer(self, body: bytes, headers: dict[str, str]) -> http.client.HTTPResponse:
        self.connection.request("POST", self.server.path, body, headers)
        return self.connection.getresponse()

    def close(self) -> None:
        self.connection.close()


def check_answer(data: bytes, picture: Picture) -> None:
    """A cutout of the picture's size that has a subject and a background."""
    with Image.open(io.BytesIO(data)) as image:
        if image.format != "PNG" or image.size != picture.size or image.mode != "RGBA":
            raise SystemExit(f"{picture.name}: answered {image.format} {image.size} {image.mode}")
        low, high = image.getchannel("A").getextrema()
        if (low, high) != (0, 255):
            raise SystemExit(f"{picture.name}: alpha from {low} to {high}")


def free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return int(listener.getsockname()[1])


def wait_for(process: subprocess.Popen[bytes], port: int, log: Path) -> None:
    deadline = time.monotonic() + START_TIMEOUT
    while time.monotonic() < deadline and process.poll() is None:
        try:
            socket.create_connection(("127.0.0.1", port), 1).close()
            return
        except OSError:
            time.sleep(0.05)
    raise SystemExit(f"the server did not start:\n{log.read_text()}")


@contextmanager
def running(command: list[str], port: int, environment: dict[str, str], log: Path) -> Iterator[subprocess.Popen[bytes]]:
    with log.open("wb") as out:
        process = subprocess.Popen(command, env=environment, stdout=out, stderr=out)
    try:
        wait_for(process, port, log)
        yield process
    finally:
        process.terminate()
        try:
            process.wait(20)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


@contextmanager
def backdrop(binary: Path, folder: Path, isnet: Path | None) -> Iterator[Server]:
    """Our server, with IS-Net's file as an added model if there is one, and without a rate limit that one client could reach."""
    port = free_port()
    environment = published.add(binary, isnet, folder / "data") if isnet else os.environ
    environment = {name: value for name, value in environment.items() if not name.startswith("BACKDROP_")}
    environment |= {"BACKDROP_BOOTSTRAP_KEY": KEY, "BACKDROP_LIMITS_RATE_PER_MINUTE": "1000000",
                    "BACKDROP_LIMITS_MAX_BYTES": "200000000"}
    command = [str(binary), "serve", "--device", "cpu", "--data-dir", str(folder / "data"), "--listen", f"127.0.0.1:{port}",
               "--admin-listen", "127.0.0.1:0"]
    with running(command, port, environment, folder / "backdrop.log") as process:
        yield Server(process, port, "/remove", {"authorization": f"Bearer {KEY}"}, {})


def rembg_environment(models: Path) -> dict[str, str]:
    """rembg takes its custom model only from this folder; `BROWSER` because the server opens one at start."""
    return os.environ | {"REMBG_HOME": str(models), "U2NET_HOME": str(models), "BROWSER": "true"}


def rembg_command(*arguments: str) -> list[str]:
    return [sys.executable, "-c", "from rembg.cli import main; main()", *arguments]


def rembg_model(file: Path) -> str:
    return json.dumps({"model_path": str(file)})


def rembg_path(file: Path) -> str:
    """The server reads `extras` from the address only."""
    return "/api/remove?" + urllib.parse.urlencode({"extras": rembg_model(file)})


@contextmanager
def rembg(models: Path, folder: Path) -> Iterator[Server]:
    """rembg's own server with this project's network."""
    port = free_port()
    command = rembg_command("s", "--host", "127.0.0.1", "--port", str(port), "--no-ui", "--log_level", "warning")
    with running(command, port, rembg_environment(models), folder / "rembg.log") as process:
        yield Server(process, port, rembg_path(models / "u2net_custom.onnx"), {}, {"model": "u2net_custom"})


@contextmanager
def servers(
    binary: Path, models: Path, folder: Path, smallest: Picture, isnet: Path | None
) -> Iterator[tuple[Server, Server]]:
    """Both servers, idle after two small pictures."""
    with backdrop(binary, folder, isnet) as ours, rembg(models, folder) as theirs:
        for server in (ours, theirs):
            client = Client(server)
            for _ in range(2):
                check_answer(client.send(form(server.fields, smallest.file("photo.jpg").read_bytes())), smallest)
            client.close()
        time.sleep(1)
        for server in (ours, theirs):
            server.idle_bytes = server.memory("VmRSS")
        yield ours, theirs


def isnet_row(ours: Server, theirs: Server, picture: Picture, isnet: Path, rounds: int, budget: float) -> Row:
    """As `single_row`, with IS-Net's file in both."""
    ours = replace(ours, fields={"segmentation_model": "isnet"})
    theirs = replace(theirs, path=rembg_path(isnet), fields={"model": "dis_custom"})
    for server in (ours, theirs):
        # Loads the network.
        client = Client(server)
        client.send(form(server.fields, picture.file("photo.jpg").read_bytes()))
        client.close()
    # It takes 20 times as long as the built-in network.
    row = single_row(ours, theirs, picture, rounds, 20 * budget)
    return replace(row, group="isnet")


def single_row(ours: Server, theirs: Server, picture: Picture, rounds: int, budget: float) -> Row:
    """One client. Also the largest memory over idle, and the bytes of the answer."""
    photo = picture.file("photo.jpg").read_bytes()
    asked: dict[str, tuple[Server, dict[str, str]]] = {
        OURS: (ours, {}), REMBG: (theirs, {}), OURS_MASK: (ours, {"matting": "none"}), REMBG_ALPHA: (theirs, {"a": "true"}),
    }
    if picture.pixels > ALPHA_MAX_PIXELS:
        del asked[REMBG_ALPHA]
    clients = {id(server): Client(server) for server in (ours, theirs)}
    row = Row("remove", picture.name, {})

    def contestant(name: str, server: Server, more: dict[str, str]) -> Callable[[], float]:
        body = form(server.fields | more, photo)

        def run() -> float:
            server.reset_peak()
            start = time.perf_counter()
            data = clients[id(server)].send(body)
            seconds = time.perf_counter() - start
            over_idle = max(0, server.memory("VmHWM") - server.idle_bytes)
            row.figure(name, "memory over idle", max(over_idle, row.figures.get(name, {}).get("memory over idle", 0)))
            row.figure(name, "bytes of the answer", len(data))
            check_answer(data, picture)
            return seconds

        return run

    row.seconds = alternate({name: contestant(name, *how) for name, how in asked.items()}, rounds, budget)
    for client in clients.values():
        client.close()
    for name, server in ((OURS, ours), (REMBG, theirs)):
        row.figure(name, "idle memory", server.idle_bytes)
    return row


def clients_row(ours: Server, theirs: Server, picture: Picture, clients: int, rounds: int, budget: float) -> Row:
    """Several clients, each of which sends its next request when it has the last answer: wall time per picture."""
    photo = picture.file("photo.jpg").read_bytes()
    row = Row("clients", f"{picture.name}, {clients} clients", {})
    latencies: dict[str, list[float]] = {}

    def contestant(name: str, server: Server) -> Callable[[], float]:
        body, connections = form(server.fields, photo), [Client(server) for _ in range(clients)]

        def one(client: Client) -> list[float]:
            taken = []
            for _ in range(REQUESTS_PER_CLIENT):
                start = time.perf_counter()
                client.send(body)
                taken.append(time.perf_counter() - start)
            return taken

        def run() -> float:
            server.reset_peak()
            start = time.perf_counter()
            with ThreadPoolExecutor(clients) as pool:
                taken = [seconds for each in pool.map(one, connections) for seconds in each]
            wall = time.perf_counter() - start
            latencies.setdefault(name, []).extend(taken)
            row.figure(name, "memory over idle", max(0, server.memory("VmHWM") - server.idle_bytes))
            return wall / (clients * REQUESTS_PER_CLIENT)

        return run

    row.seconds = alternate({OURS: contestant(OURS, ours), REMBG: contestant(REMBG, theirs)}, rounds, budget)
    for name, taken in latencies.items():
        ordered = sorted(taken)
        row.figure(name, "latency p50", ordered[len(ordered) // 2])
        row.figure(name, "latency p95", ordered[min(len(ordered) - 1, int(len(ordered) * 0.95))])
    return row


def program(command: list[str], environment: dict[str, str]) -> Callable[[], float]:
    """A contestant for `alternate`: a process from start to exit."""

    def run() -> float:
        start = time.perf_counter()
        subprocess.run(command, env=environment, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        return time.perf_counter() - start

    return run


def help_row(binary: Path, models: Path, rounds: int, budget: float) -> Row:
    contestants = {OURS: program([str(binary), "--help"], dict(os.environ)),
                   REMBG: program(rembg_command("--help"), rembg_environment(models))}
    return Row("start", "--help", alternate(contestants, rounds, budget))


def one_photo_row(binary: Path, models: Path, folder: Path, picture: Picture, rounds: int, budget: float) -> Row:
    photo, output = str(picture.file("photo.jpg")), str(folder / "started.png")
    ours = [str(binary), "remove", photo, "-o", output, "--device", "cpu", "--force"]
    model = rembg_model(models / "u2net_custom.onnx")
    theirs = rembg_command("i", "-m", "u2net_custom", "-x", model, photo, output)
    contestants = {OURS: program(ours, dict(os.environ)), REMBG: program(theirs, rembg_environment(models))}
    return Row("start", f"one photo, {picture.name}", alternate(contestants, rounds, budget))
