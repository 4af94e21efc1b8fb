#!/usr/bin/env python3
"""Generates a client from the contract that a daemon serves, and makes a picture with it.

    python tests/conformance/generated.py target/release/backdrop

Validates what the daemon answers at /openapi.json as OpenAPI 3.1, generates a client from it with openapi-python-client, and
calls it: a cutout from a file, one from a refused request, and the account.
"""
import importlib
import json
import subprocess
import sys
import tempfile
import urllib.request
from pathlib import Path

import openapi_spec_validator

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests" / "clients"))
from daemon import KEY, Daemon  # noqa: E402

PHOTO = ROOT / "tests" / "photos" / "chelsea.png"
# The generator reads these media types as bytes only where its configuration says so.
BINARY = ["image/png", "image/webp", "image/jpeg", "image/gif", "video/webm", "video/quicktime", "video/mp4", "application/zip"]
CONFIG = {"package_name_override": "generated_backdrop", "post_hooks": [],
          "content_type_overrides": {media_type: "application/octet-stream" for media_type in BINARY}}


def generate(contract, folder):
    (folder / "openapi.json").write_bytes(contract)
    (folder / "config.json").write_text(json.dumps(CONFIG))
    command = [Path(sys.executable).with_name("openapi-python-client"), "generate", "--path", folder / "openapi.json",
               "--config", folder / "config.json", "--meta", "none", "--output-path", folder / "generated_backdrop"]
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    if done.returncode != 0:
        sys.exit(f"no client could be generated:\n{done.stdout}")
    sys.path.insert(0, str(folder))


def api(operation):
    return importlib.import_module(f"generated_backdrop.api.default.{operation}")


def main():
    with tempfile.TemporaryDirectory() as folder, Daemon(sys.argv[1]) as url:
        with urllib.request.urlopen(f"{url}/openapi.json", timeout=60) as answer:
            contract = answer.read()
        openapi_spec_validator.validate(json.loads(contract))
        generate(contract, Path(folder))
        generated = importlib.import_module("generated_backdrop")
        models = importlib.import_module("generated_backdrop.models")
        types = importlib.import_module("generated_backdrop.types")
        client = generated.AuthenticatedClient(base_url=url, token=KEY)
        with client as client:
            photo = types.File(payload=PHOTO.open("rb"), file_name="chelsea.png", mime_type="image/png")
            cutout = api("remove").sync_detailed(client=client, body=models.Remove(file=photo, max_dim=200))
            assert cutout.status_code == 200, cutout
            assert cutout.parsed.payload.read(8) == b"\x89PNG\r\n\x1a\n", "the cutout is no PNG"
            assert cutout.headers["x-service-width"] == "200", cutout.headers
            account = api("account").sync(client=client)
            assert account.plan == "plus", account
            refused = api("remove_url").sync_detailed(client=client, body=models.RemoveUrl(url="https://192.0.2.1/a.jpg"))
            assert refused.status_code == 424 and refused.parsed.error.code == "fetch_failed", refused
    print("a generated client: ok")


if __name__ == "__main__":
    main()
