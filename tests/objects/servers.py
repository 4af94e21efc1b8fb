"""Object stores on the loopback: moto as S3, azurite as Azure, and a proxy in front of either that injects faults."""
import http.client
import http.server
import os
import random
import socket
import struct
import subprocess
import threading
import time
from pathlib import Path

import boto3
from azure.core.exceptions import ResourceNotFoundError
from azure.storage.blob import BlobServiceClient, ContentSettings

# Azurite's documented test account.
AZURE_ACCOUNT = "devstoreaccount1"
AZURE_KEY = "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw=="


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def wait_for(port, server):
    for _ in range(600):
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)) == 0:
                return
        if server.poll() is not None:
            break
        time.sleep(0.1)
    raise SystemExit(f"{server.args[0]} does not start")


class Store:
    """Starts a server with one bucket or container; `with` stops it."""

    def __init__(self, folder):
        self.port = free_port()
        self.server = subprocess.Popen(self.command(folder), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                                       cwd=folder)
        wait_for(self.port, self.server)
        self.connect()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.server.terminate()
        self.server.wait()


class S3(Store):
    scheme = "s3"

    def command(self, _folder):
        bin_folder = Path(os.sys.executable).parent
        return [bin_folder / "moto_server", "-H", "127.0.0.1", "-p", str(self.port)]

    def connect(self):
        self.client = boto3.client("s3", endpoint_url=f"http://127.0.0.1:{self.port}", region_name="us-east-1",
                                   aws_access_key_id="test", aws_secret_access_key="test")
        self.client.create_bucket(Bucket="shop")

    def variables(self, port=None):
        return {"AWS_ENDPOINT": f"http://127.0.0.1:{port or self.port}", "AWS_ALLOW_HTTP": "true",
                "AWS_REGION": "us-east-1", "AWS_ACCESS_KEY_ID": "test", "AWS_SECRET_ACCESS_KEY": "test"}

    def put(self, key, data):
        self.client.put_object(Bucket="shop", Key=key, Body=data)

    def get(self, key):
        """Bytes, media type and metadata."""
        got = self.client.get_object(Bucket="shop", Key=key)
        return got["Body"].read(), got["ContentType"], got["Metadata"]

    def keys(self, prefix):
        pages = self.client.get_paginator("list_objects_v2").paginate(Bucket="shop", Prefix=prefix)
        return [row["Key"] for page in pages for row in page.get("Contents", [])]

    def delete(self, prefix):
        for key in self.keys(prefix):
            self.client.delete_object(Bucket="shop", Key=key)


class Azure(Store):
    scheme = "az"

    def command(self, folder):
        azurite = Path(os.environ["AZURITE"]).resolve()
        return ["node", azurite, "--silent", "--skipApiVersionCheck", "--inMemoryPersistence",
                "--blobHost", "127.0.0.1", "--blobPort", str(self.port), "--disableTelemetry"]

    def connect(self):
        endpoint = f"http://127.0.0.1:{self.port}/{AZURE_ACCOUNT}"
        service = BlobServiceClient(endpoint, credential={"account_name": AZURE_ACCOUNT, "account_key": AZURE_KEY})
        self.client = service.create_container("shop")

    def variables(self, port=None):
        return {"AZURE_STORAGE_ENDPOINT": f"http://127.0.0.1:{port or self.port}/{AZURE_ACCOUNT}",
                "AZURE_ALLOW_HTTP": "true", "AZURE_STORAGE_ACCOUNT_NAME": AZURE_ACCOUNT,
                "AZURE_STORAGE_ACCOUNT_KEY": AZURE_KEY}

    def put(self, key, data):
        self.client.upload_blob(key, data, overwrite=True, content_settings=ContentSettings(content_type="image/png"))

    def get(self, key):
        got = self.client.download_blob(key)
        return got.readall(), got.properties.content_settings.content_type, got.properties.metadata

    def keys(self, prefix):
        return [blob.name for blob in self.client.list_blobs(name_starts_with=prefix)]

    def delete(self, prefix):
        for key in self.keys(prefix):
            try:
                self.client.delete_blob(key)
            except ResourceNotFoundError:
                pass


class FaultyProxy(http.server.ThreadingHTTPServer):
    """Forwards requests with a delay and injects faults into a third of the responses, at most two for each key."""

    daemon_threads = True

    def __init__(self, upstream, seed=3):
        super().__init__(("127.0.0.1", 0), Forwarder)
        self.upstream, self.random = upstream, random.Random(seed)
        self.injected, self.kinds, self.lock = {}, {}, threading.Lock()
        threading.Thread(target=self.serve_forever, daemon=True).start()

    def handle_error(self, *_):
        pass

    def fault(self, method, target):
        """The fault for this request, if any."""
        with self.lock:
            about = (method, target.split("?")[0])
            if self.random.random() > 0.34 or self.injected.get(about, 0) >= 2:
                return None
            self.injected[about] = self.injected.get(about, 0) + 1
            kinds = ["503", "429", "500", "reset"] + (["truncated", "short"] if method == "GET" else [])
            kind = self.random.choice(kinds)
            self.kinds[kind] = self.kinds.get(kind, 0) + 1
            return kind


class Forwarder(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def forward(self):
        length = int(self.headers.get("Content-Length") or 0)
        body = self.rfile.read(length)
        kind = self.server.fault(self.command, self.path)
        time.sleep(self.server.random.uniform(0, 0.05))
        if kind == "reset":
            # With linger 0 the client gets a reset.
            self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            self.close_connection = True
            self.connection.close()
            return
        if kind in ("503", "429", "500"):
            self.send_response_only(int(kind))
            self.send_header("Content-Length", "0")
            self.end_headers()
            return
        upstream = http.client.HTTPConnection("127.0.0.1", self.server.upstream)
        upstream.putrequest(self.command, self.path, skip_host=True, skip_accept_encoding=True)
        for name, value in self.headers.items():
            upstream.putheader(name, value)
        upstream.endheaders(body)
        answer = upstream.getresponse()
        data = answer.read()
        upstream.close()
        half = len(data) // 2
        if kind == "short" and "list" not in self.path:
            data, announced = data[:half], half
        elif kind == "truncated":
            data, announced = data[:half], len(data)
        else:
            announced = len(data)
        if self.command == "HEAD":
            announced = answer.getheader("Content-Length") or 0
        self.send_response_only(answer.status)
        for name, value in answer.getheaders():
            if name.lower() not in ("content-length", "transfer-encoding", "connection"):
                self.send_header(name, value)
        self.send_header("Content-Length", str(announced))
        self.end_headers()
        self.wfile.write(data)
        if kind == "truncated":
            self.close_connection = True

    do_GET = do_PUT = do_HEAD = do_POST = do_DELETE = forward

    def log_message(self, *_):
        pass
