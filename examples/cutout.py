#!/usr/bin/env python3
"""Cuts out one photo over HTTP and prints what the reply's headers say about the result.

    pip install requests
    BACKDROP_URL=http://127.0.0.1:8080 BACKDROP_KEY=bd_live_… python examples/cutout.py photo.jpg cutout.png
"""
import os
import sys
import time
import uuid

import requests

URL = os.environ.get("BACKDROP_URL", "http://127.0.0.1:8080")
KEY = os.environ["BACKDROP_KEY"]


def cut_out(photo: str, attempts: int = 4) -> requests.Response:
    """The reply to `/remove`. A full or draining daemon (429, 503) is tried again after its `Retry-After`, and bills once."""
    headers = {"Authorization": f"Bearer {KEY}", "Idempotency-Key": str(uuid.uuid4())}
    for attempt in range(attempts):
        with open(photo, "rb") as file:
            reply = requests.post(f"{URL}/remove", headers=headers, files={"file": file}, timeout=60)
        if reply.status_code not in (429, 503) or attempt == attempts - 1:
            return reply
        time.sleep(float(reply.headers.get("Retry-After", 1)))


def main() -> None:
    photo, cutout = sys.argv[1:]
    reply = cut_out(photo)
    if not reply.ok:
        error = reply.json()["error"]
        sys.exit(f"{reply.status_code} {error['code']}: {error['message']}")
    with open(cutout, "wb") as file:
        file.write(reply.content)
    print(f"{cutout}: {len(reply.content)} bytes, model {reply.headers['x-service-model']}")
    print(f"uncertainty {reply.headers['x-service-uncertainty']}, cost {reply.headers['x-service-cost']}")
    print(f"timings {reply.headers['server-timing']}")


if __name__ == "__main__":
    main()
