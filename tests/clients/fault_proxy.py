"""A proxy between a client and a daemon that injects the fault that the address names.

A client's base address is `http://HOST/SCENARIO/NONCE`; what follows is the path of its request. The nonce keeps tests apart.
`GET /log/NONCE` answers the requests of a nonce as JSON, `GET /webhooks` the webhooks that the origin received.

| scenario | does |
|---|---|
| pass | forwards |
| lose | forwards the first request, and closes the connection in place of the reply |
| cut | forwards; sends half of the first reply's body, and closes a second later |
| busy | answers 429 with `Retry-After: 1` twice, then forwards |
| later | answers 429 with `Retry-After: 36000` |
| fails | answers 500 with an error of the daemon's form |
| gateway | answers 502 with HTML once, then forwards |
| drains | answers 503 with `Retry-After: 1` once, then forwards |
| stall | reads the request and never answers; notes when the client disconnects |
| sink | reads a body of any size and answers 202 with the job `sink` |
| bulk | answers a bulk run with `BULK_OBJECTS` objects: at the second GET it is done, after DELETE cancelled; loses the first reply to POST and to PATCH |
| large | answers LARGE bytes with an etag and ranges; the first reply breaks off in the middle |
| changed | as `large`, but the etag is another at each request |
"""
import hashlib
import http.client
import http.server
import json
import select
import socket
import ssl
import threading
import time
import urllib.parse

LARGE = 96_000_000
BULK_OBJECTS = 10
PIECE = bytes(range(256)) * 256
TIMES = {"created_at": "2026-01-01T00:00:00Z", "updated_at": "2026-01-01T00:00:00Z", "expires_at": "2026-01-02T00:00:00Z"}
JOB = {"job_id": "sink", "status": "queued", "progress": 0, **TIMES, "format": "webm", "status_url": "/jobs/sink"}
HOP = {"connection", "keep-alive", "transfer-encoding", "host"}


class State:
    def __init__(self, daemon):
        self.daemon = urllib.parse.urlsplit(daemon).netloc
        self.lock = threading.Lock()
        self.requests = {}
        self.webhooks = []


class Proxy(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    state: State

    def handle_one_request(self):
        try:
            super().handle_one_request()
        except (ConnectionError, TimeoutError, ssl.SSLError):
            self.close_connection = True

    def body(self):
        """Length and SHA-256 of the body, and the body itself where it is short."""
        digest, length, kept = hashlib.sha256(), 0, []
        for piece in self.pieces():
            digest.update(piece)
            length += len(piece)
            if length < 1 << 24:
                kept.append(piece)
        return length, digest.hexdigest(), b"".join(kept)

    def pieces(self):
        if self.headers.get("Transfer-Encoding", "").lower() == "chunked":
            while size := int(self.rfile.readline().split(b";")[0], 16):
                yield self.rfile.read(size)
                self.rfile.readline()
            self.rfile.readline()
            return
        left = int(self.headers.get("Content-Length", 0))
        while left > 0:
            piece = self.rfile.read(min(left, 1 << 16))
            if not piece:
                raise ConnectionError("the client disconnected")
            left -= len(piece)
            yield piece

    def handle_request(self):
        if self.path == "/webhooks":
            with self.state.lock:
                return self.json(200, self.state.webhooks)
        _, scenario, nonce, rest = self.path.split("/", 3) if self.path.count("/") > 2 else (*self.path.split("/"), "")
        if scenario == "log":
            with self.state.lock:
                return self.json(200, self.state.requests.get(nonce, []))
        length, digest, body = self.body()
        entry = {"method": self.command, "path": "/" + rest, "length": length, "sha256": digest, "disconnected": False,
                 "headers": {name.lower(): value for name, value in self.headers.items()}}
        with self.state.lock:
            seen = self.state.requests.setdefault(nonce, [])
            count = len(seen)
            seen.append(entry)
        getattr(self, scenario)(count, "/" + rest, body, entry)

    def do_OPTIONS(self):
        """Forwards a preflight of a browser, in any scenario."""
        self.reply(*self.forwarded("/" + self.path.split("/", 3)[3], b""))

    do_GET = do_POST = do_PATCH = do_DELETE = handle_request

    def reply(self, status, body, headers=()):
        self.send_response(status)
        for name, value in (*headers, ("Content-Length", str(len(body)))):
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)

    def json(self, status, document, headers=()):
        self.reply(status, json.dumps(document).encode(), (("Content-Type", "application/json"), *headers))

    def refuse(self, status, code, headers=()):
        self.json(status, {"error": {"code": code, "message": f"a planned {code}"}, "request_id": "req_planned"}, headers)

    def forwarded(self, path, body):
        connection = http.client.HTTPConnection(self.state.daemon, timeout=120)
        try:
            headers = {name: value for name, value in self.headers.items() if name.lower() not in HOP}
            connection.request(self.command, path, body, headers)
            reply = connection.getresponse()
            return reply.status, reply.read(), [(name, value) for name, value in reply.getheaders()
                                                if name.lower() not in HOP | {"content-length", "date"}]
        finally:
            connection.close()

    def vanish(self):
        self.wfile.flush()
        self.connection.shutdown(socket.SHUT_RDWR)
        self.close_connection = True

    def forward(self, _count, path, body, _entry):
        self.reply(*self.forwarded(path, body))

    def lose(self, count, path, body, entry):
        answer = self.forwarded(path, body)
        return self.vanish() if count == 0 else self.reply(*answer)

    def cut(self, count, path, body, entry):
        status, content, headers = self.forwarded(path, body)
        if count > 0:
            return self.reply(status, content, headers)
        self.send_response(status)
        for name, value in (*headers, ("Content-Length", str(len(content)))):
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(content[:len(content) // 2])
        # A browser drops what its page has not read yet.
        time.sleep(1)
        self.vanish()

    def refuse_first(self, number, status, code, count, path, body, entry):
        if count < number:
            return self.refuse(status, code, [("Retry-After", "1")])
        self.forward(count, path, body, entry)

    def busy(self, *request):
        self.refuse_first(2, 429, "rate_limit_exceeded", *request)

    def drains(self, *request):
        self.refuse_first(1, 503, "unavailable", *request)

    def later(self, *_):
        self.refuse(429, "rate_limit_exceeded", [("Retry-After", "36000")])

    def fails(self, *_):
        self.refuse(500, "internal_error")

    def gateway(self, count, path, body, entry):
        if count == 0:
            return self.reply(502, b"<h1>Bad Gateway</h1>", [("Content-Type", "text/html")])
        self.forward(count, path, body, entry)

    def stall(self, count, path, body, entry):
        ready, _, _ = select.select([self.connection], [], [], 60)
        entry["disconnected"] = bool(ready) and self.connection.recv(1) == b""
        self.close_connection = True

    def sink(self, *_):
        self.json(202, JOB)

    def bulk(self, _count, _path, body, entry):
        entry["json"] = json.loads(body or b"null")
        with self.state.lock:
            seen = next(seen for seen in self.state.requests.values() if any(one is entry for one in seen))
            methods = [one["method"] for one in seen]
            request = next(one["json"] for one in seen if one["method"] == "POST")
        if self.command in ("POST", "PATCH") and methods.count(self.command) == 1:
            return self.vanish()
        run = {"from": request["from"], "to": request["to"], "report": request["to"] + "/report.jsonl", "listed": True,
               "objects": BULK_OBJECTS, "done": BULK_OBJECTS // 2, "failed": 0}
        job = {"job_id": "bulk_1", "status": "processing", "progress": 50, **TIMES, "bulk": run}
        if self.command == "PATCH":
            run["state"] = entry["json"]["state"]
        elif methods.count("GET") == 2 and self.command == "GET":
            job |= {"status": "done", "progress": 100}
            run |= {"done": BULK_OBJECTS - 1, "failed": 1, "summary": {"done": BULK_OBJECTS - 1, "failed": 1}}
        elif "DELETE" in methods and self.command == "GET":
            job |= {"status": "error", "error": {"code": "cancelled", "message": "the run was cancelled"}}
        else:
            run["state"] = "running"
        self.json(202 if self.command == "POST" else 200, job, [("Retry-After", "0")])

    def large(self, count, path, body, entry, etag='"same"'):
        start = 0
        if (wanted := self.headers.get("Range")) and self.headers.get("If-Range") == etag:
            start = int(wanted.removeprefix("bytes=").rstrip("-"))
        self.send_response(206 if start else 200)
        headers = [("Content-Type", "video/webm"), ("ETag", etag), ("Accept-Ranges", "bytes"), ("Content-Length", str(LARGE - start))]
        if start:
            headers.append(("Content-Range", f"bytes {start}-{LARGE - 1}/{LARGE}"))
        for name, value in headers:
            self.send_header(name, value)
        self.end_headers()
        end = LARGE // 2 if count == 0 else LARGE
        while start < end:
            offset = start % len(PIECE)
            piece = PIECE[offset:offset + end - start]
            self.wfile.write(piece)
            start += len(piece)
        if count == 0:
            self.vanish()

    def changed(self, count, path, body, entry):
        self.large(count, path, body, entry, etag=f'"{count}"')

    def log_message(self, *_):
        pass


# `pass` is a word of the language.
setattr(Proxy, "pass", Proxy.forward)


class Origin(http.server.BaseHTTPRequestHandler):
    """Serves `files` over HTTPS, for clients that send addresses, and receives webhooks."""

    protocol_version = "HTTP/1.1"
    files: dict[str, bytes]
    state: State

    def do_GET(self):
        content = self.files.get(self.path.removeprefix("/"))
        self.answer(200 if content else 404, content or b"")

    def do_POST(self):
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        with self.state.lock:
            self.state.webhooks.append({"body": body.decode(), "headers": dict(self.headers.items()), "received": time.time()})
        self.answer(204, b"")

    def answer(self, status, body):
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass


def serve(handler, context=None):
    """Serves on a free port of the loopback, in the background; the port."""
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)
    server.daemon_threads = True
    if context is not None:
        server.socket = context.wrap_socket(server.socket, server_side=True)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    return server.server_port
