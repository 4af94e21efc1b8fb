"""A daemon on the loopback for the tests with real clients."""
import json
import os
import signal
import subprocess
import tempfile
from pathlib import Path

KEY = "bd_live_0123456789abcdefghijABCDEFGHIJ01"


class Daemon:
    """`with Daemon(binary) as url` runs one on the CPU and checks its clean exit. `settings` are environment variables."""

    def __init__(self, binary, settings=None):
        self.folder = tempfile.TemporaryDirectory()
        variables = {name: value for name, value in os.environ.items() if not name.startswith("BACKDROP_")}
        variables |= {"BACKDROP_BOOTSTRAP_KEY": KEY, "BACKDROP_LIMITS_RATE_PER_MINUTE": "100000", "BACKDROP_LOG_FORMAT": "json"}
        variables |= settings or {}
        command = [str(Path(binary).resolve()), "serve", "--device", "cpu", "--data-dir", self.folder.name + "/data",
                   "--listen", "127.0.0.1:0", "--admin-listen", "127.0.0.1:0"]
        self.log = Path(self.folder.name) / "log"
        with open(self.log, "wb") as log:
            self.process = subprocess.Popen(command, env=variables, stdout=log, stderr=log)

    def __enter__(self):
        while self.process.poll() is None:
            for line in self.log.read_text().splitlines():
                if '"listening"' in line:
                    return "http://" + json.loads(line)["fields"]["address"]
            try:
                self.process.wait(0.1)
            except subprocess.TimeoutExpired:
                pass
        raise SystemExit(f"the daemon did not start:\n{self.log.read_text()}")

    def __exit__(self, *_):
        self.process.send_signal(signal.SIGTERM)
        code = self.process.wait(60)
        log = self.log.read_text()
        self.folder.cleanup()
        if code != 0 or "panicked" in log:
            raise SystemExit(f"the daemon ended with {code}:\n{log[-4000:]}")
