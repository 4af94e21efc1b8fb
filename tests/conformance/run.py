#!/usr/bin/env python3
"""Checks a running daemon against schemas/openapi.yaml: no undocumented status, header, type or body, and no 500.

    python tests/conformance/run.py target/release/backdrop

Starts the daemon (CPU, ports and data of its own) and a TLS origin on loopback that serves pictures, has schemathesis
generate requests from the contract, with real pictures in them (hooks.py), and checks every reply. Then it checks itself:
every operation must have succeeded once (else only refusals were checked), and a contract with one status missing must
fail. The seed is fixed; nothing outside this machine is reached.
"""
import collections
import http.server
import json
import os
import signal
import ssl
import subprocess
import sys
import tempfile
import threading
import time
import urllib.parse
import urllib.request
from pathlib import Path

import trustme
import yaml

from pictures import clip, cutout, drawn

HERE = Path(__file__).resolve().parent
CONTRACT = HERE.parents[1] / "schemas" / "openapi.yaml"
KEY = "bd_live_0123456789abcdefghijABCDEFGHIJ01"
SEED, EXAMPLES = 3, 60
# They succeed only with a PostgreSQL database: tests/it/bulk/http.rs.
WITH_DATABASE = ("bulk", "changeJob")
CHECKS = ["not_a_server_error", "status_code_conformance", "content_type_conformance",
          "response_headers_conformance", "response_schema_conformance"]


class Origin(http.server.BaseHTTPRequestHandler):
    ANSWERS = {"/cutout.png": cutout(), "/drawn.png": drawn(), "/truncated.png": cutout()[:60], "/text.txt": b"no picture",
               "/clip.gif": clip()}
    protocol_version = "HTTP/1.1"

    def do_GET(self):
        if self.path == "/elsewhere":
            self.answer(302, b"", ("Location", "/cutout.png"))
        else:
            body = self.ANSWERS.get(self.path)
            self.answer(200 if body else 404, body or b"")

    def do_POST(self):
        self.rfile.read(int(self.headers.get("Content-Length", 0)))
        self.answer(204 if self.path == "/hook" else 404, b"")

    def answer(self, status, body, *headers):
        self.send_response(status)
        for name, value in (*headers, ("Content-Length", str(len(body)))):
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass


def start_origin(folder):
    authority = trustme.CA()
    authority.cert_pem.write_to_path(folder / "authority.pem")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert("localhost").configure_cert(context)
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Origin)
    server.socket = context.wrap_socket(server.socket, server_side=True)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    return f"localhost:{server.server_port}"


def start_daemon(binary, folder, origin):
    config = folder / "backdrop.toml"
    config.write_text(f'[fetch]\nprivate_origins = ["{origin}"]\nextra_ca = "{folder / "authority.pem"}"\n')
    variables = {name: value for name, value in os.environ.items() if not name.startswith("BACKDROP_")}
    variables |= {"BACKDROP_BOOTSTRAP_KEY": KEY, "BACKDROP_LIMITS_RATE_PER_MINUTE": "1000000", "BACKDROP_LOG_FORMAT": "json",
                  "BACKDROP_JOBS_MAX_QUEUED_PER_KEY": "1000"}
    command = [binary, "serve", "--device", "cpu", "--config", str(config), "--data-dir", str(folder / "data")]
    command += ["--listen", "127.0.0.1:0", "--admin-listen", "127.0.0.1:0"]
    log = open(folder / "log", "w+b")
    daemon = subprocess.Popen(command, env=variables, stdout=log, stderr=log)
    while daemon.poll() is None:
        for line in Path(log.name).read_text().splitlines():
            if '"listening"' in line:
                return daemon, "http://" + json.loads(line)["fields"]["address"]
        try:
            daemon.wait(0.1)
        except subprocess.TimeoutExpired:
            pass
    sys.exit(f"the daemon did not start:\n{Path(log.name).read_text()}")


def send(url, path, body=None, media_type="application/json"):
    headers = {"Authorization": f"Bearer {KEY}"} | ({"Content-Type": media_type} if body else {})
    with urllib.request.urlopen(urllib.request.Request(url + path, body, headers), timeout=60) as answer:
        return json.load(answer)


def save_presets(url):
    """Saves presets to be deleted; their ids."""
    return [send(url, "/presets", json.dumps({"name": f"preset {number}"}).encode())["id"] for number in range(40)]


def make_job(url, file_format):
    parts = [("format", file_format.encode()), ("file", clip())]
    body = b"".join(b'--B\r\nContent-Disposition: form-data; name="' + name.encode() + b'"\r\n\r\n' + value + b"\r\n"
                    for name, value in parts) + b"--B--\r\n"
    return send(url, "/video/remove", body, "multipart/form-data; boundary=B")["job_id"]


def make_jobs(url):
    """Makes jobs, most of them to be deleted; their ids, and the parts of the address of a result."""
    first = make_job(url, "webm")
    jobs = [make_job(url, "gif") for _ in range(15)]
    for _ in range(600):
        job = send(url, f"/jobs/{first}")
        if job["status"] in ("done", "error"):
            break
        time.sleep(0.2)
    if job["status"] != "done":
        sys.exit(f"the clip was not processed: {job}")
    address = urllib.parse.urlsplit(job["result_url"])
    query = dict(urllib.parse.parse_qsl(address.query))
    return jobs, {"object": address.path.rsplit("/", 1)[1], **query}


def conformance(contract, url, origin, there, counts, *more):
    command = [Path(sys.executable).with_name("schemathesis"), "run", contract, "--url", url, "--checks", ",".join(CHECKS)]
    command += ["--seed", str(SEED), "--max-examples", str(EXAMPLES), "--phases", "examples,coverage,fuzzing"]
    command += ["--continue-on-failure", "--generation-database", "none", "--generation-with-security-parameters", "false"]
    command += ["--suppress-health-check", "all", "--request-timeout", "60", "--warnings", "off", "--no-color", *more]
    command += [argument for operation in WITH_DATABASE for argument in ("--exclude-operation-id", operation)]
    variables = os.environ | {"SCHEMATHESIS_HOOKS": "hooks", "PYTHONPATH": str(HERE), "CONFORMANCE_KEY": KEY,
                              "CONFORMANCE_ORIGIN": f"https://{origin}", "CONFORMANCE_THERE": json.dumps(there),
                              "CONFORMANCE_COUNTS": str(counts)}
    # Not in the tree: schemathesis reads a configuration from its working directory.
    return subprocess.run(command, env=variables, cwd=counts.parent, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)


def answered(counts):
    table = collections.defaultdict(dict)
    for line, count in json.loads(counts.read_text()).items():
        operation, status = line.rsplit(" ", 1)
        table[operation][int(status)] = count
    return table


def without_status(contract, path, status, folder):
    changed = yaml.safe_load(contract.read_text())
    del changed["paths"][path]["post"]["responses"][status]
    (folder / "lacking.yaml").write_text(yaml.safe_dump(changed))
    return folder / "lacking.yaml"


def main():
    binary = str(Path(sys.argv[1]).resolve())
    with tempfile.TemporaryDirectory() as folder:
        folder = Path(folder)
        origin = start_origin(folder)
        daemon, url = start_daemon(binary, folder, origin)
        try:
            # /replace-bg-ai is for accounts on its list.
            subprocess.run([binary, "accounts", "set", "default", "--generates", "on", "--data-dir", str(folder / "data")],
                           check=True, stdout=subprocess.DEVNULL)
            wrong = []
            jobs, result = make_jobs(url)
            there = {"presets": save_presets(url), "jobs": jobs, "result": result}
            run = conformance(CONTRACT, url, origin, there, folder / "counts", "--workers", "2")
            print(run.stdout)
            if run.returncode != 0:
                wrong.append("the daemon and the contract disagree (see above)")
            table = answered(folder / "counts")
            for operation, statuses in sorted(table.items()):
                print(f"{operation:28}", "  ".join(f"{status}: {count}" for status, count in sorted(statuses.items())))
            operations = [f"{method.upper()} {path}" for path, methods in yaml.safe_load(CONTRACT.read_text())["paths"].items()
                          for method, operation in methods.items() if operation["operationId"] not in WITH_DATABASE]
            wrong += [f"{operation} never succeeded" for operation in operations if not {200, 202} & table[operation].keys()]
            lacking = without_status(CONTRACT, "/sticker", "400", folder)
            blind = conformance(lacking, url, origin, there, folder / "lacking", "--include-path", "/sticker", "--phases", "coverage")
            if blind.returncode != 1 or "Undocumented status code" not in blind.stdout:
                wrong.append(f"a contract without its 400 passed:\n{blind.stdout}")
        finally:
            daemon.send_signal(signal.SIGTERM)
            code = daemon.wait(60)
        log = (folder / "log").read_text()
        if code != 0 or "panicked" in log:
            wrong.append(f"the daemon ended with {code}; the end of its log:\n{log[-4000:]}")
    print("\nconformance:", "FAILED" if wrong else f"ok, {sum(sum(statuses.values()) for statuses in table.values())} answers")
    for sentence in wrong:
        print("-", sentence)
    sys.exit(bool(wrong))


if __name__ == "__main__":
    main()
