#!/usr/bin/env python3
"""The daemon's pages in headless Chromium: they render without errors or violations of their content policy.

    python tests/clients/browser.py target/release/backdrop
"""
import re
import shutil
import subprocess
import sys
import tempfile

from daemon import Daemon

FLAGS = ["--headless", "--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-background-networking",
         "--disable-component-update", "--disable-sync", "--window-size=1200,900"]


def chromium(*arguments):
    program = shutil.which("chromium") or sys.exit("chromium is missing (apt-get install chromium)")
    with tempfile.TemporaryDirectory() as profile:
        command = [program, *FLAGS, f"--user-data-dir={profile}", *arguments]
        return subprocess.run(command, check=True, capture_output=True, text=True, timeout=120)


def main():
    with Daemon(sys.argv[1]) as url, tempfile.TemporaryDirectory() as folder:
        document = chromium("--enable-logging=stderr", "--dump-dom", f"{url}/docs")
        headings = re.findall(r"<h2[^>]*>(.*?)</h2>", document.stdout)
        assert any("/remove" in heading for heading in headings), headings
        assert "Backdrop API" in document.stdout
        complaints = [line for line in document.stderr.splitlines() if "CONSOLE" in line]
        assert not complaints, complaints
        shot = f"{folder}/docs.png"
        chromium(f"--screenshot={shot}", f"{url}/docs")
        with open(shot, "rb") as picture:
            assert len(picture.read()) > 20_000, "the page is blank"
    print(f"/docs: {len(headings)} sections\n1 passed, 0 failed")


if __name__ == "__main__":
    main()
