"""The demo's registry: one small image behind one login, reachable from this machine only."""

from __future__ import annotations

import gzip
import hashlib
import io
import json
import sys
import tarfile
import threading
from base64 import b64encode
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Self

__all__ = ["PASSWORD", "REPOSITORY", "USERNAME", "DemoRegistry"]

USERNAME, PASSWORD = "ferry", "correct horse battery staple"
REPOSITORY = "team/app"
_TAG = "v1"
_OCI = "application/vnd.oci.image"
_MANIFEST_TYPE = f"{_OCI}.manifest.v1+json"


class DemoRegistry:
    """A context manager that serves the image on the address *host*, by default on a free port."""

    def __init__(self, port: int = 0) -> None:
        self._server = ThreadingHTTPServer(("127.0.0.1", port), _handler(_make_image()))
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True)
        self.host = f"127.0.0.1:{self._server.server_port}"

    def serve(self) -> None:
        """Serve in this thread, until it is interrupted."""
        try:
            self._server.serve_forever()
        except KeyboardInterrupt:
            self._server.server_close()

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()


def _make_image() -> dict[str, tuple[str, bytes]]:
    """Return the media type and bytes of every manifest and blob, by the end of its URL path."""
    archive = io.BytesIO()
    with tarfile.open(fileobj=archive, mode="w") as tar:
        text = b"carried by keyferry\n"
        entry = tarfile.TarInfo("hello")
        entry.size = len(text)
        tar.addfile(entry, io.BytesIO(text))
    layer = gzip.compress(archive.getvalue(), mtime=0)
    root = {"type": "layers", "diff_ids": [_digest(archive.getvalue())]}
    config = json.dumps({"architecture": "amd64", "os": "linux", "rootfs": root}).encode()
    manifest = json.dumps(
        {
            "schemaVersion": 2,
            "mediaType": _MANIFEST_TYPE,
            "config": _descriptor(f"{_OCI}.config.v1+json", config),
            "layers": [_descriptor(f"{_OCI}.layer.v1.tar+gzip", layer)],
        }
    ).encode()
    things = {f"manifests/{name}": (_MANIFEST_TYPE, manifest) for name in (_TAG, _digest(manifest))}
    blobs = {f"blobs/{_digest(blob)}": ("application/octet-stream", blob) for blob in (config, layer)}
    return things | blobs


def _descriptor(media_type: str, data: bytes) -> dict[str, object]:
    return {"mediaType": media_type, "digest": _digest(data), "size": len(data)}


def _digest(data: bytes) -> str:
    return f"sha256:{hashlib.sha256(data).hexdigest()}"


def _handler(things: dict[str, tuple[str, bytes]]) -> type[BaseHTTPRequestHandler]:
    login = f"Basic {b64encode(f'{USERNAME}:{PASSWORD}'.encode()).decode()}"

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def log_message(self, format: str, *args: object) -> None:
            """Log nothing: the demo prints the commands' output only."""

        def do_GET(self) -> None:
            if self.headers.get("Authorization") != login:
                refusal = {"errors": [{"code": "UNAUTHORIZED", "message": "authentication required"}]}
                self._answer(401, "application/json", json.dumps(refusal).encode())
                return
            found = things.get(self.path.removeprefix(f"/v2/{REPOSITORY}/"))
            if found is not None:
                self._answer(200, *found)
            else:
                self._answer(200 if self.path == "/v2/" else 404, "application/json", b"{}")

        do_HEAD = do_GET  # noqa: N815 - the base class sets the name

        def _answer(self, status: int, media_type: str, body: bytes) -> None:
            self.send_response(status)
            self.send_header("Content-Type", media_type)
            self.send_header("Content-Length", str(len(body)))
            if status == 401:
                self.send_header("WWW-Authenticate", 'Basic realm="demo"')
            if media_type == _MANIFEST_TYPE:
                self.send_header("Docker-Content-Digest", _digest(body))
            self.end_headers()
            if self.command != "HEAD":
                self.wfile.write(body)

    return Handler


def main(port: int) -> None:
    """Serve the image on a port of one's choice until the process is stopped, for the tutorial."""
    registry = DemoRegistry(port)
    print(f"{registry.host}/{REPOSITORY}:{_TAG} can be pulled by {USERNAME!r} with {PASSWORD!r}", flush=True)
    registry.serve()


if __name__ == "__main__":
    main(int(sys.argv[1]))
