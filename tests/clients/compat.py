#!/usr/bin/env python3
"""The daemon with the clients of remove.bg, rembg and Photoroom, each configured for it as in docs/migrate.md.

    python tests/clients/compat.py target/release/backdrop NODE_MODULES

NODE_MODULES is the folder with remove.bg 1.3.0 installed by npm. Ruby's client is tested where `gem` has installed it.
"""
import base64
import functools
import http.server
import io
import json
import os
import shutil
import ssl
import struct
import subprocess
import sys
import tempfile
import threading
import zipfile
from pathlib import Path

import requests
import trustme
from removebg import RemoveBg
from removebg import removebg as removebg_module

from daemon import KEY, Daemon

PHOTOS = Path(__file__).resolve().parents[2] / "tests" / "photos"
CAT, ASTRONAUT = PHOTOS / "chelsea.png", PHOTOS / "astronaut.jpg"
NPM_CONSTANT = '"https://api.remove.bg/v1.0/removebg"'
NPM_REPOINTED = "process.env.REMOVE_BG_ENDPOINT"

NODE = """
const [key, cat, astronaut, address, folder] = process.argv.slice(1);
const fs = require("fs");
const removebg = require("remove.bg");
(async () => {
  const outputFile = `${folder}/npm.png`;
  const file = await removebg.removeBackgroundFromImageFile({ path: cat, apiKey: key, size: "regular", outputFile });
  const base64img = fs.readFileSync(astronaut).toString("base64");
  const base64 = await removebg.removeBackgroundFromImageBase64(
    { base64img, apiKey: key, size: "full", type: "person", crop: true, crop_margin: "10%", scale: "80%", bg_color: "81d4fa" });
  const url = await removebg.removeBackgroundFromImageUrl({ url: address, apiKey: key, roi: "0% 0% 100% 100%", channels: "alpha" });
  const refused = await removebg.removeBackgroundFromImageFile({ path: cat, apiKey: "wrong" }).catch(errors => errors);
  console.log(JSON.stringify({ file, base64, url, refused }));
})().catch(error => { console.error(error); process.exit(1); });
"""

RUBY = """
require "remove_bg"
RemoveBg::Api.send(:remove_const, :URL)
RemoveBg::Api.const_set(:URL, ENV.fetch("REMOVE_BG_HOST"))
key, cat, folder = ARGV
RemoveBg.from_file(cat, api_key: key, size: "regular").save("#{folder}/ruby.png", overwrite: true)
account = RemoveBg.account_info(api_key: key)
abort "no credits in #{account.inspect}" unless account.credits.total > 0
"""


def is_png(picture, what):
    assert picture.startswith(b"\x89PNG\r\n\x1a\n"), f"{what}: no PNG but {picture[:80]}"
    width, height = struct.unpack(">II", picture[16:24])
    return width, height


def start_origin(folder):
    """Serves the photos over HTTPS, for clients that send a URL."""
    authority = trustme.CA()
    authority.cert_pem.write_to_path(folder / "authority.pem")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert("localhost").configure_cert(context)

    class Quiet(http.server.SimpleHTTPRequestHandler):
        def log_message(self, *_):
            pass

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(Quiet, directory=str(PHOTOS)))
    server.socket = context.wrap_socket(server.socket, server_side=True)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    return f"localhost:{server.server_port}"


def npm(url, address, folder, modules):
    client = modules / "node_modules" / "remove.bg" / "dist" / "index.js"
    source = client.read_text()
    assert NPM_CONSTANT in source or NPM_REPOINTED in source, "remove.bg has no such constant"
    client.write_text(source.replace(NPM_CONSTANT, NPM_REPOINTED))
    variables = os.environ | {"REMOVE_BG_ENDPOINT": f"{url}/v1.0/removebg", "NODE_PATH": str(modules / "node_modules")}
    command = ["node", "-e", NODE, KEY, str(CAT), str(ASTRONAUT), address, str(folder)]
    done = subprocess.run(command, env=variables, capture_output=True, timeout=120, text=True)
    assert done.returncode == 0, f"npm remove.bg: {done.stdout}{done.stderr}"
    answers = json.loads(done.stdout.splitlines()[-1])
    assert is_png((folder / "npm.png").read_bytes(), "npm file") == (451, 300)
    file = answers["file"]
    assert (file["creditsCharged"], file["resultWidth"], file["resultHeight"]) == ("0.25", "451", "300"), file
    assert file["detectedType"] == "other" and int(file["rateLimit"]) > 0 and int(file["rateLimitReset"]) > 1_600_000_000, file
    assert base64.b64decode(answers["base64"]["base64img"]).startswith(b"\xff\xd8"), "an opaque result is a JPEG by default"
    assert answers["base64"]["detectedType"] == "person" and answers["base64"]["creditsCharged"] == "1", answers["base64"]["detectedType"]
    is_png(base64.b64decode(answers["url"]["base64img"]), "npm url")
    assert answers["refused"][0]["title"] == "API Key invalid", answers["refused"]
    print("npm remove.bg 1.3.0: ok")


def pypi(url, address, folder):
    removebg_module.API_ENDPOINT = f"{url}/v1.0/removebg"
    client = RemoveBg(KEY, str(folder / "errors.log"))
    photo = folder / "cat.png"
    shutil.copy(CAT, photo)
    client.remove_background_from_img_file(str(photo))
    assert is_png((folder / "cat.png_no_bg.png").read_bytes(), "PyPI file") == (451, 300)
    client.remove_background_from_img_url(address, new_file_name=str(folder / "url.png"))
    is_png((folder / "url.png").read_bytes(), "PyPI url")
    encoded = base64.b64encode(CAT.read_bytes()).decode()
    client.remove_background_from_base64_img(encoded, size="hd", new_file_name=str(folder / "b64.jpg"), bg_color="red")
    assert (folder / "b64.jpg").read_bytes().startswith(b"\xff\xd8"), "an opaque result is a JPEG by default"
    try:
        RemoveBg("wrong", str(folder / "errors.log")).remove_background_from_img_file(str(photo))
    except requests.HTTPError as error:
        assert error.response.status_code == 403 and error.response.json()["errors"][0]["title"], error.response.text
    else:
        raise AssertionError("a wrong key was accepted")
    print("PyPI removebg 0.04: ok")


def ruby(url, folder):
    if not shutil.which("gem") or subprocess.run(["gem", "list", "-i", "^remove_bg$"], capture_output=True).returncode:
        print("\n*** SKIPPED: RubyGems remove_bg is not installed, it was NOT tested ***\n")
        return
    command = ["ruby", "-e", RUBY, KEY, str(CAT), str(folder)]
    subprocess.run(command, env=os.environ | {"REMOVE_BG_HOST": url}, check=True, timeout=120)
    assert is_png((folder / "ruby.png").read_bytes(), "Ruby") == (451, 300)
    print("RubyGems remove_bg: ok")


def curl(*arguments):
    return subprocess.run(["curl", "-sS", "--fail-with-body", "--max-time", "60", *arguments], check=True, capture_output=True).stdout


def documented_calls(url, address):
    """The calls of the services' own documentation, with another host."""
    picture = curl("-H", f"X-API-Key: {KEY}", "-F", f"image_file=@{CAT}", "-F", "size=auto", f"{url}/v1.0/removebg")
    assert is_png(picture, "remove.bg's curl") == (451, 300)
    archive = curl("-H", f"X-API-Key: {KEY}", "-F", f"image_file=@{CAT}", "-F", "size=full", "-F", "format=zip", f"{url}/v1.0/removebg")
    assert sorted(zipfile.ZipFile(io.BytesIO(archive)).namelist()) == ["alpha.png", "color.jpg"]
    cropped = curl("-H", f"X-API-Key: {KEY}", "-F", f"image_file=@{CAT}", "-F", "roi=0% 0% 50% 100%", "-F", "crop=true", f"{url}/v1.0/removebg")
    assert is_png(cropped, "roi and crop")[0] <= 226
    account = json.loads(curl("-H", f"X-API-Key: {KEY}", f"{url}/v1.0/account"))
    assert set(account["data"]["attributes"]["credits"]) == {"subscription", "payg", "enterprise", "total"}, account
    print("remove.bg's curl: ok")
    assert is_png(curl("-F", f"file=@{CAT}", f"{url}/api/remove"), "rembg's curl") == (451, 300)
    assert is_png(curl(f"{url}/api/remove?url={address}&model=u2net&a=true"), "rembg's curl, by address")
    assert is_png(curl("-F", f"file=@{CAT}", "-F", "om=true", f"{url}/api/remove"), "rembg's curl, the mask")
    print("rembg's curl: ok")
    segment = ["--request", "POST", "--header", f"x-api-key: {KEY}", "--form", f"image_file=@{ASTRONAUT}", f"{url}/v1/segment"]
    head, picture = curl("-i", *segment).split(b"\r\n\r\n", 1)
    assert b"x-uncertainty-score: -1" in head.lower(), head
    assert is_png(picture, "Photoroom's curl") == (512, 512)
    answer = json.loads(curl("--header", "Accept: application/json", "--form", "size=preview", *segment))
    is_png(base64.b64decode(answer["base64img"]), "Photoroom's JSON")
    assert json.loads(curl("--header", f"x-api-key: {KEY}", f"{url}/v1/account"))["credits"]["available"] > 0
    print("Photoroom's curl: ok")


def main():
    binary, modules = sys.argv[1], Path(sys.argv[2]).resolve()
    with tempfile.TemporaryDirectory() as folder:
        folder = Path(folder)
        origin = start_origin(folder)
        settings = {"BACKDROP_FETCH_PRIVATE_ORIGINS": origin, "BACKDROP_FETCH_EXTRA_CA": str(folder / "authority.pem"),
                    "BACKDROP_COMPAT_REMBG": "true"}
        address = f"https://{origin}/{CAT.name}"
        with Daemon(binary, settings) as url:
            npm(url, address, folder, modules)
            pypi(url, address, folder)
            ruby(url, folder)
            documented_calls(url, address)
    print("compat: ok")


if __name__ == "__main__":
    main()
