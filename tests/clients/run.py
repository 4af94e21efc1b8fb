#!/usr/bin/env python3
"""The daemon with common HTTP clients: each uploads a photo, sends JSON, and reads an error.

    python tests/clients/run.py target/release/backdrop
"""
import asyncio
import json
import subprocess
import sys
from pathlib import Path

import aiohttp
import httpx
import requests
import urllib3

from daemon import KEY, Daemon

ROOT = Path(__file__).resolve().parents[2]
PHOTO = ROOT / "tests" / "photos" / "chelsea.png"
BEARER = {"Authorization": f"Bearer {KEY}"}
ESTIMATE = {"endpoint": "/remove", "count": 3}


def check(client, picture, estimate, refused):
    """`picture`: bytes of a cutout; `estimate`: JSON; `refused`: status and JSON of a call without a key."""
    assert picture.startswith(b"\x89PNG"), f"{client}: no PNG but {picture[:80]}"
    assert estimate["units"] == 3, f"{client}: {estimate}"
    status, body = refused
    assert status == 401 and body["error"]["code"] == "unauthorized" and body["request_id"], f"{client}: {status} {body}"
    print(f"{client}: ok, {len(picture)} bytes")


def curl(url):
    def run(*arguments):
        return subprocess.run(["curl", "-sS", "--max-time", "60", *arguments], check=True, capture_output=True).stdout
    bearer = ["-H", f"Authorization: Bearer {KEY}"]
    for version in ("--http1.1", "--http2-prior-knowledge"):
        picture = run(version, *bearer, "-F", f"file=@{PHOTO}", f"{url}/remove")
        estimate = json.loads(run(version, *bearer, "-H", "Content-Type: application/json", "-d", json.dumps(ESTIMATE), f"{url}/estimate"))
        body, status = run(version, "-w", "\n%{http_code}", f"{url}/account").rsplit(b"\n", 1)
        check(f"curl {version}", picture, estimate, (int(status), json.loads(body)))


def with_requests(url):
    with requests.Session() as session, open(PHOTO, "rb") as photo:
        picture = session.post(f"{url}/remove", headers=BEARER, files={"file": photo}, timeout=60).content
        estimate = session.post(f"{url}/estimate", headers=BEARER, json=ESTIMATE, timeout=60).json()
        refused = session.get(f"{url}/account", timeout=60)
    check(f"requests {requests.__version__}", picture, estimate, (refused.status_code, refused.json()))


def with_httpx(url, http2):
    with httpx.Client(http1=not http2, http2=http2, timeout=60) as client, open(PHOTO, "rb") as photo:
        picture = client.post(f"{url}/remove", headers=BEARER, files={"file": photo}).content
        estimate = client.post(f"{url}/estimate", headers=BEARER, json=ESTIMATE).json()
        refused = client.get(f"{url}/account")
        assert refused.http_version == ("HTTP/2" if http2 else "HTTP/1.1"), refused.http_version
    check(f"httpx {httpx.__version__} {refused.http_version}", picture, estimate, (refused.status_code, refused.json()))


async def with_aiohttp(url):
    async with aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=60)) as session:
        form = aiohttp.FormData()
        form.add_field("file", PHOTO.read_bytes(), filename="chelsea.png")
        async with session.post(f"{url}/remove", headers=BEARER, data=form) as answer:
            picture = await answer.read()
        async with session.post(f"{url}/estimate", headers=BEARER, json=ESTIMATE) as answer:
            estimate = await answer.json()
        async with session.get(f"{url}/account") as answer:
            refused = answer.status, await answer.json()
    check(f"aiohttp {aiohttp.__version__}", picture, estimate, refused)


def with_urllib3(url):
    pool = urllib3.PoolManager(timeout=60)
    fields = {"file": ("chelsea.png", PHOTO.read_bytes())}
    picture = pool.request("POST", f"{url}/remove", headers=BEARER, fields=fields).data
    estimate = pool.request("POST", f"{url}/estimate", headers=BEARER, json=ESTIMATE).json()
    refused = pool.request("GET", f"{url}/account")
    check(f"urllib3 {urllib3.__version__}", picture, estimate, (refused.status, refused.json()))


NODE = """
const [url, key, photo] = process.argv.slice(1);
const fs = require("fs");
const headers = { Authorization: `Bearer ${key}` };
(async () => {
  const form = new FormData();
  form.append("file", new Blob([fs.readFileSync(photo)]), "chelsea.png");
  const cutout = await fetch(`${url}/remove`, { method: "POST", headers, body: form });
  const json = { ...headers, "Content-Type": "application/json" };
  const estimate = await fetch(`${url}/estimate`, { method: "POST", headers: json, body: '{"endpoint": "/remove", "count": 3}' });
  const refused = await fetch(`${url}/account`);
  const picture = Buffer.from(await cutout.arrayBuffer()).toString("base64");
  console.log(JSON.stringify([picture, await estimate.json(), refused.status, await refused.json()]));
})();
"""


def node(url):
    import base64
    done = subprocess.run(["node", "-e", NODE, url, KEY, str(PHOTO)], check=True, capture_output=True, timeout=120)
    picture, estimate, status, body = json.loads(done.stdout)
    check("node fetch", base64.b64decode(picture), estimate, (status, body))


def main():
    with Daemon(sys.argv[1]) as url:
        curl(url)
        with_requests(url)
        with_httpx(url, http2=False)
        with_httpx(url, http2=True)
        asyncio.run(with_aiohttp(url))
        with_urllib3(url)
        node(url)
    print("8 passed, 0 failed")


if __name__ == "__main__":
    main()
