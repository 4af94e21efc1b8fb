"""Hooks of schemathesis: real pictures, addresses that answer, and the key in place of generated values.

Every choice is a hash of the generated values, so that a seed gives the same requests each time. Counts the replies by
operation and status, in the file that CONFORMANCE_COUNTS names.
"""
import atexit
import collections
import json
import os
import threading
import zlib
from pathlib import Path

import schemathesis

from pictures import PICTURES, clip, cutout, portrait
from schemathesis.core import NOT_SET
from schemathesis.transport.serialization import Binary

KEY = os.environ["CONFORMANCE_KEY"]
ORIGIN = os.environ["CONFORMANCE_ORIGIN"]
FILES = {"file", "files", "bg_file", "mask_file"}
ADDRESSES = {"url", "urls", "bg_url", "watermark", "webhook_url", "mask_url"}
# Where the subject is. Generated values contradict each other, or the picture, nearly always.
GUIDANCE = {"box": "10%,10%,90%,90%", "point": ["50%,50%"], "not_point": ["5%,5%"], "mask_file": None, "mask_url": None, "mask_mode": None}
VIDEO = "/video/remove"
# The file that an endpoint can process, where it is not the usual cutout.
GOOD = {VIDEO: clip, "/face-restore": portrait, "/headshot": portrait}
# Ids of presets and jobs that exist, the address of a result, and paths that have a price.
THERE = json.loads(os.environ["CONFORMANCE_THERE"])
PRESETS, JOBS, RESULT = THERE["presets"], THERE["jobs"], THERE["result"]
PRICED = ["/remove", "/remove-batch", "/sticker", "/upscale", "/video/remove"]
COUNTS = collections.Counter()
LOCK = threading.Lock()


def choice(value, among):
    if isinstance(value, tuple):
        value = tuple(None if part is NOT_SET else part for part in value)  # its repr is an address, another in each run
    return zlib.crc32(repr(value).encode(errors="replace")) % among


def picture(value, salt, good):
    """A file in place of a generated one: mostly one that can be processed, else an invalid one, or the generated one."""
    at = choice((value, salt), 16)
    if at < 9:
        return Binary(good)
    names = sorted(PICTURES)
    return Binary(PICTURES[names[at - 9]]) if at - 9 < len(names) else value


def address(value, salt, good):
    """An address of our own origin, or one reserved for documentation, which the daemon refuses without a lookup."""
    if not isinstance(value, str) or not value.lower().startswith("https:"):
        return value
    names = [good] * 8 + ["drawn.png", "truncated.png", "text.txt", "missing", "elsewhere"]
    at = choice((value, salt), len(names) + 1)
    return f"{ORIGIN}/{names[at]}" if at < len(names) else "https://192.0.2.1/photo.jpg"


def served(path, name, value, salt):
    if name in FILES:
        good = GOOD.get(path, cutout)()
        return [picture(item, (salt, at), good) for at, item in enumerate(value)] if isinstance(value, list) else picture(value, salt, good)
    if name in ADDRESSES:
        good = {"webhook_url": "hook", "url": "clip.gif" if path == VIDEO else "cutout.png"}.get(name, "cutout.png")
        return [address(item, (salt, at), good) for at, item in enumerate(value)] if isinstance(value, list) else address(value, salt, good)
    return value


def guided(body, salt):
    """The body with at most one of the fields of GUIDANCE: as it was generated, or one that fits the picture."""
    at = choice(("guidance", salt), 4 * len(GUIDANCE))
    kept = sorted(GUIDANCE)[at % len(GUIDANCE)] if at < 2 * len(GUIDANCE) else None
    body = {name: value for name, value in body.items() if name not in GUIDANCE or name == kept}
    if kept in body and GUIDANCE[kept] and at < len(GUIDANCE):
        body[kept] = GUIDANCE[kept]
    return body


def use_existing(case):
    """Puts existing ids and paths into requests that need them; half of those stay as generated."""
    if not choice((case.method, case.path, case.body, case.query, case.path_parameters), 2):
        return
    if case.path == "/jobs/{job_id}":
        case.path_parameters = {"job_id": JOBS[choice((case.method, case.path_parameters), len(JOBS))]}
    if case.path == "/results/{object}":
        case.path_parameters = {"object": RESULT["object"]}
        case.query = {"expires": RESULT["expires"], "signature": RESULT["signature"]}
    if case.path == "/estimate" and isinstance(case.body, dict) and isinstance(case.body.get("endpoint"), str):
        case.body["endpoint"] = PRICED[choice(case.body, len(PRICED))]
    if case.path == "/presets" and case.method == "DELETE":
        case.query = {"id": PRESETS[choice((case.body, case.query), len(PRESETS))]}
        if isinstance(case.body, dict):
            case.body = {name: value for name, value in case.body.items() if name != "id"}


@schemathesis.hook
def before_call(context, case, kwargs):
    use_existing(case)
    if isinstance(case.body, dict):
        salt = [(name, value) for name, value in sorted(case.body.items()) if name not in FILES]
        # No generated preset exists, so most requests drop it: they would test nothing else.
        known = {name: value for name, value in case.body.items() if name != "preset" or choice(salt, 8) == 0}
        case.body = {name: served(case.path, name, value, salt) for name, value in guided(known, salt).items()}
    # Generated models are unknown: most requests drop them.
    if choice((case.method, case.path, case.body), 8):
        case.headers.pop("x-service-model", None)
    # Another request with a used key is a conflict, and most generated keys are the same few.
    if choice((case.path, case.body, case.method), 8):
        case.headers.pop("Idempotency-Key", None)
    # One in forty has no API key. The query counts too: without a body, all requests of an operation would be the same.
    if choice((case.method, case.path, case.body, *([case.query] if case.query else [])), 40):
        case.headers["Authorization"] = f"Bearer {KEY}"
    else:
        case.headers.pop("Authorization", None)


@schemathesis.hook
def after_call(context, case, response):
    with LOCK:
        COUNTS[f"{case.operation.method.upper()} {case.operation.path} {response.status_code}"] += 1


@atexit.register
def write_counts():
    Path(os.environ["CONFORMANCE_COUNTS"]).write_text(json.dumps(COUNTS, indent=1, sort_keys=True))
