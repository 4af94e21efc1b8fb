"""What schemathesis cannot invent: pictures, addresses that answer, and the key.

Every choice hangs on the generated values alone, so that a seed gives the same requests each time. Counts what was
answered, in the file that CONFORMANCE_COUNTS names.
"""
import atexit
import collections
import json
import os
import threading
import zlib
from pathlib import Path

import schemathesis

from pictures import PICTURES, cutout
from schemathesis.transport.serialization import Binary

KEY = os.environ["CONFORMANCE_KEY"]
ORIGIN = os.environ["CONFORMANCE_ORIGIN"]
FILES = {"file", "files", "bg_file"}
ADDRESSES = {"url", "urls", "bg_url", "watermark"}
# Presets that are there to be deleted, and paths that have a price.
PRESETS = json.loads(os.environ["CONFORMANCE_PRESETS"])
PRICED = ["/remove", "/remove-batch", "/sticker", "/upscale", "/video/remove"]
COUNTS = collections.Counter()
LOCK = threading.Lock()


def choice(value, among):
    return zlib.crc32(repr(value).encode(errors="replace")) % among


def picture(value, salt):
    """A file for a generated one: mostly one that can be worked on, or else a bad one, or the generated one."""
    at = choice((value, salt), 16)
    if at < 9:
        return Binary(cutout())
    names = sorted(PICTURES)
    return Binary(PICTURES[names[at - 9]]) if at - 9 < len(names) else value


def address(value, salt):
    """Nothing may be looked up or reached but our own origin: addresses for documentation are refused unasked."""
    if not isinstance(value, str) or not value.lower().startswith("https:"):
        return value
    names = ["cutout.png"] * 8 + ["drawn.png", "truncated.png", "text.txt", "missing", "elsewhere"]
    at = choice((value, salt), len(names) + 1)
    return f"{ORIGIN}/{names[at]}" if at < len(names) else "https://192.0.2.1/photo.jpg"


def served(name, value, salt):
    if name in FILES:
        return [picture(item, (salt, at)) for at, item in enumerate(value)] if isinstance(value, list) else picture(value, salt)
    if name in ADDRESSES:
        return [address(item, (salt, at)) for at, item in enumerate(value)] if isinstance(value, list) else address(value, salt)
    return value


def about_the_account(case):
    """Requests that only our own ids and paths can make answerable; half of them stay as they are."""
    if not choice((case.method, case.path, case.body, case.query), 2):
        return
    if case.path == "/estimate" and isinstance(case.body, dict) and isinstance(case.body.get("endpoint"), str):
        case.body["endpoint"] = PRICED[choice(case.body, len(PRICED))]
    if case.path == "/presets" and case.method == "DELETE":
        case.query = {"id": PRESETS[choice((case.body, case.query), len(PRESETS))]}
        if isinstance(case.body, dict):
            case.body = {name: value for name, value in case.body.items() if name != "id"}


@schemathesis.hook
def before_call(context, case, kwargs):
    about_the_account(case)
    if isinstance(case.body, dict):
        salt = [(name, value) for name, value in sorted(case.body.items()) if name not in FILES]
        # No preset is stored, so one that is named is all that such a request would test.
        known = {name: value for name, value in case.body.items() if name != "preset" or choice(salt, 8) == 0}
        case.body = {name: served(name, value, salt) for name, value in known.items()}
    # A model that is not in use is all that such a request would test.
    if choice((case.method, case.path, case.body), 8):
        case.headers.pop("x-service-model", None)
    # One in forty comes without a key.
    if choice((case.method, case.path, case.body), 40):
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
