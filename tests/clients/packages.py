#!/usr/bin/env python3
"""Tests the packages of `clients/` against a daemon, and against a fault-injecting proxy before it.

    python tests/clients/packages.py target/release/backdrop FOLDER

FOLDER is where `npm install` has put the TypeScript client and its tests' tools; the Python client is installed beside this
interpreter.
"""
import functools
import http.server
import os
import queue
import shutil
import ssl
import subprocess
import sys
import tempfile
import urllib.parse
from pathlib import Path

import trustme

import fault_proxy
from daemon import KEY, Daemon

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
PHOTOS = ROOT / "tests" / "photos"
CHROMIUM_FLAGS = ["--headless", "--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-background-networking",
                  "--disable-component-update", "--disable-sync"]
sys.path.insert(0, str(ROOT / "tests" / "conformance"))
from pictures import clip  # noqa: E402


def check_types(npm):
    """mypy, pyright and tsc, each in its strict mode, on the clients as installed and on their tests."""
    # The test sees the installed package alone, with its `py.typed`.
    for python in (ROOT / "clients" / "python" / "backdrop.py", HERE / "test_python_client.py", HERE / "test_local.py"):
        run(sys.executable, "-m", "mypy", "--strict", "--cache-dir", npm / "mypy", python)
        run(npm / "node_modules" / ".bin" / "pyright", "--warnings", "--pythonpath", sys.executable, python)
    tests = npm / "typescript-tests"
    shutil.rmtree(tests, ignore_errors=True)
    tests.mkdir()
    shutil.copy(HERE / "typescript_client.test.ts", tests)
    (tests / "package.json").write_text('{"type": "module"}\n')
    run(npm / "node_modules" / ".bin" / "tsc", "--strict", "--exactOptionalPropertyTypes", "--noUncheckedIndexedAccess", "--module", "NodeNext",
        "--target", "ES2022", "--lib", "ES2022", "--types", "node", "--skipLibCheck", "false", "typescript_client.test.ts", cwd=tests)
    return tests / "typescript_client.test.js"


class Page(http.server.SimpleHTTPRequestHandler):
    """Serves `client_page.html` with the compiled client, and receives its report."""

    report: "queue.Queue[str]" = queue.Queue()

    def do_POST(self):
        self.report.put(self.rfile.read(int(self.headers["Content-Length"])).decode())
        self.send_response(204)
        self.end_headers()

    def log_message(self, *_):
        pass


def test_in_browser(binary, folder):
    chromium = shutil.which("chromium")
    if chromium is None:
        print("\n*** SKIPPED: chromium is missing; the TypeScript client was NOT tested in a browser ***\n")
        return
    site = folder / "site"
    shutil.copytree(ROOT / "clients" / "typescript" / "dist", site / "dist")
    for path in (HERE / "client_page.html", PHOTOS / "chelsea.png", folder / "clip.gif"):
        shutil.copy(path, site)
    origin = f"http://127.0.0.1:{fault_proxy.serve(functools.partial(Page, directory=str(site)))}"
    with Daemon(binary, {"BACKDROP_SERVER_CORS_ORIGINS": origin}) as url:
        state = fault_proxy.Proxy.state = fault_proxy.State(url)
        cut = f"http://127.0.0.1:{fault_proxy.serve(fault_proxy.Proxy)}/cut/page"
        page = f"{origin}/client_page.html?{urllib.parse.urlencode({'url': url, 'key': KEY, 'cut': cut})}"
        command = [chromium, *CHROMIUM_FLAGS, f"--user-data-dir={folder}/profile", "--remote-debugging-port=0", page]
        program = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        try:
            report = Page.report.get(timeout=120)
        finally:
            program.terminate()
            program.wait(60)
    assert report == "ok", report
    assert "range" in state.requests["page"][1]["headers"], "the interrupted download began anew"
    print("chromium: ok")


def run(*command, **options):
    subprocess.run([str(part) for part in command], check=True, timeout=300, **options)


def main():
    binary, npm = Path(sys.argv[1]).resolve(), Path(sys.argv[2]).resolve()
    run(sys.executable, ROOT / "clients" / "generate.py", "--check")
    compiled = check_types(npm)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "clip.gif").write_bytes(clip())
        authority = trustme.CA()
        authority.cert_pem.write_to_path(folder / "authority.pem")
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        authority.issue_cert("localhost").configure_cert(context)
        state = fault_proxy.State("")
        fault_proxy.Origin.state = fault_proxy.Proxy.state = state
        fault_proxy.Origin.files = {path.name: path.read_bytes() for path in (*PHOTOS.iterdir(), folder / "clip.gif") if path.is_file()}
        origin = f"localhost:{fault_proxy.serve(fault_proxy.Origin, context)}"
        settings = {"BACKDROP_FETCH_PRIVATE_ORIGINS": origin, "BACKDROP_FETCH_EXTRA_CA": str(folder / "authority.pem")}
        daemon = Daemon(binary, settings)
        with daemon as url:
            state.daemon = url.removeprefix("http://")
            run(binary, "accounts", "set", "default", "--generates", "on", "--data-dir", f"{daemon.folder.name}/data",
                stdout=subprocess.DEVNULL)
            proxy = f"http://127.0.0.1:{fault_proxy.serve(fault_proxy.Proxy)}"
            variables = {name: value for name, value in os.environ.items() if not name.startswith("BACKDROP_")}
            variables |= {"BACKDROP_URL": url, "BACKDROP_KEY": KEY, "TEST_PROXY": proxy, "TEST_ORIGIN": f"https://{origin}",
                          "TEST_CLIP": str(folder / "clip.gif"), "TEST_PHOTOS": str(PHOTOS), "TEST_CONTRACT": str(ROOT / "schemas" / "openapi.yaml"),
                          "TEST_LARGE": str(fault_proxy.LARGE), "NO_PROXY": "127.0.0.1,localhost", "no_proxy": "127.0.0.1,localhost"}
            run(sys.executable, "-m", "pytest", "--quiet", "-p", "no:cacheprovider", HERE / "test_python_client.py", env=variables)
            local = variables | {"PATH": f"{binary.parent}{os.pathsep}{os.environ['PATH']}", "BACKDROP_DEVICE": "cpu"}
            run(sys.executable, "-m", "pytest", "--quiet", "-p", "no:cacheprovider", HERE / "test_local.py", env=local)
            run("node", "--test", "--test-reporter", "spec", compiled, env=variables)
        test_in_browser(binary, folder)


if __name__ == "__main__":
    main()
