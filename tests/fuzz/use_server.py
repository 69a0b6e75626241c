"""A server of one file that lies at random, for uses.py."""

import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


class HostileServer:
    """Serves `content` at .url. Unless it is honest, each answer may be wrong in one of many ways."""

    def __init__(self, random, content, honest=False):
        self.random, self.content, self.honest, self.log = random, content, honest, []
        self.lock = threading.Lock()
        outer = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"
            timeout = 5

            def log_message(self, *_):
                pass

            def do_GET(self):
                outer.answer(self, True)

            def do_HEAD(self):
                outer.answer(self, False)

        class Server(ThreadingHTTPServer):
            daemon_threads = True

            def handle_error(self, *_):
                pass

        self.server = Server(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_port}/model.gguf"

    def __enter__(self):
        threading.Thread(target=self.server.serve_forever, args=(0.05,), daemon=True).start()
        return self

    def __exit__(self, *_):
        self.server.shutdown()
        self.server.server_close()

    def answer(self, handler, has_body):
        with self.lock:
            fault = None if self.honest or self.random.random() < 0.5 else self.random.choice(FAULTS)
            seed = self.random.randint(0, 2**32)
        first, last = 0, len(self.content) - 1
        wanted = handler.headers.get("Range", "")
        if wanted.startswith("bytes="):
            begin, _, end = wanted[6:].partition("-")
            try:
                first = int(begin) if begin else max(0, len(self.content) - int(end))
                last = min(last, int(end)) if begin and end else last
            except ValueError:
                pass
        body = self.content[first:last + 1]
        status = 206 if wanted else 200
        headers = {"Content-Length": str(len(body)), "ETag": '"one"', "Accept-Ranges": "bytes"}
        if wanted:
            headers["Content-Range"] = f"bytes {first}-{last}/{len(self.content)}"
        self.log.append((handler.command, wanted, fault and fault.__name__))
        if fault:
            status, headers, body = fault(status, dict(headers), body, seed)
        try:
            handler.wfile.write(f"HTTP/1.1 {status} it\r\n".encode() if isinstance(status, int) else status)
            for name, value in headers.items():
                handler.wfile.write(f"{name}: {value}\r\n".encode("latin-1", "replace"))
            handler.wfile.write(b"\r\n")
            if has_body:
                handler.wfile.write(body)
            if len(body) != int(headers.get("Content-Length", -1)):
                handler.close_connection = True
        except (OSError, ValueError, TypeError):
            handler.close_connection = True


def status_code(_, headers, body, seed):
    return [100, 204, 301, 304, 400, 401, 403, 404, 408, 416, 418, 429, 500, 503, 599][seed % 15], headers, body


def redirect(_, headers, body, seed):
    places = ["/model.gguf", "http://[", "file:///etc/passwd", "", "//", "https://127.0.0.1:1/", "http://127.0.0.1:1/x", "/" + "a" * 9000, "ftp://x/"]
    return 302, {**headers, "Location": places[seed % len(places)]}, body


def wrong_length(status, headers, body, seed):
    values = ["18446744073709551616", "-1", "0", "x", "1" * 400, str(len(body) + 1), str(max(0, len(body) - 1)), "0x10", ""]
    return status, {**headers, "Content-Length": values[seed % len(values)]}, body


def no_length(status, headers, body, _):
    headers.pop("Content-Length")
    return status, headers, body


def wrong_range(status, headers, body, seed):
    values = ["bytes 0-0/1", "bytes */5", "x", "bytes 5-1/9", "bytes 0-99999999999999999999/*", "bytes -1-2/3", "", "bytes 1-2/18446744073709551616"]
    return status, {**headers, "Content-Range": values[seed % len(values)]}, body


def whole_file(_, headers, body, __):
    headers.pop("Content-Range", None)
    return 200, headers, body


def cut(status, headers, body, seed):
    return status, headers, body[:seed % (len(body) + 1)]


def flipped(status, headers, body, seed):
    data = bytearray(body)
    if data:
        data[seed % len(data)] ^= 1 << seed % 8
    return status, headers, bytes(data)


def garbage(status, headers, body, seed):
    return status, headers, bytes((i * 31 + seed) % 256 for i in range(len(body)))


def html(_, headers, __, ___):
    body = b"<!doctype html><title>Sign in</title>"
    return 200, {**headers, "Content-Length": str(len(body)), "Content-Type": "text/html"}, body


def other_tag(status, headers, body, seed):
    return status, {**headers, "ETag": ['"two"', "W/\"one\"", "", "a/b", '"' + "x" * 5000 + '"', '"\x01"'][seed % 6]}, body


def endless_headers(status, headers, body, _):
    return status, {**headers, **{f"X-{i}": "y" * 1000 for i in range(300)}}, body


def encoded(status, headers, body, seed):
    return status, {**headers, "Content-Encoding": ["gzip", "br", "x", "deflate"][seed % 4]}, body


def not_http(_, headers, body, seed):
    return [b"", b"HTTP/9.9 x\r\n", b"\0\0\0\r\n", b"HTTP/1.1 200\r\n", b"ICY 200 OK\r\n"][seed % 5], headers, body


FAULTS = [status_code, redirect, wrong_length, no_length, wrong_range, whole_file, cut, flipped, garbage, html, other_tag, endless_headers, encoded,
          not_http]
