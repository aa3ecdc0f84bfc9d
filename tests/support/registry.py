"""A real image registry on loopback, small images to push to it, and skopeo to pull them."""

from __future__ import annotations

import base64
import gzip
import hashlib
import io
import json
import os
import re
import ssl
import subprocess
import tarfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urljoin
from urllib.request import HTTPSHandler, ProxyHandler, Request, build_opener

from support.parts import need

PATIENCE_SECONDS = 60.0
_OCI = "application/vnd.oci.image"


@dataclass(frozen=True)
class TokenAuth:
    """The settings of a registry with Bearer tokens: its token server, and the trusted issuer and certificate."""

    realm: str
    service: str
    issuer: str
    certificate: Path


@dataclass(frozen=True)
class Image:
    """An image of one layer: its manifest and blobs."""

    manifest: bytes
    blobs: Mapping[str, bytes]

    @property
    def digest(self) -> str:
        """The digest of the manifest."""
        return digest(self.manifest)


def digest(data: bytes) -> str:
    """Return the name of a blob."""
    return f"sha256:{hashlib.sha256(data).hexdigest()}"


def make_image(text: str = "hello") -> Image:
    """Return an image with one file in it."""
    plain = io.BytesIO()
    with tarfile.open(fileobj=plain, mode="w") as archive:
        entry = tarfile.TarInfo("hello")
        entry.size = len(text)
        archive.addfile(entry, io.BytesIO(text.encode()))
    layer = gzip.compress(plain.getvalue(), mtime=0)
    rootfs = {"type": "layers", "diff_ids": [digest(plain.getvalue())]}
    config = json.dumps({"architecture": "amd64", "os": "linux", "config": {}, "rootfs": rootfs}).encode()
    manifest = {
        "schemaVersion": 2,
        "mediaType": f"{_OCI}.manifest.v1+json",
        "config": _descriptor(f"{_OCI}.config.v1+json", config),
        "layers": [_descriptor(f"{_OCI}.layer.v1.tar+gzip", layer)],
    }
    return Image(json.dumps(manifest).encode(), {digest(config): config, digest(layer): layer})


def _descriptor(media_type: str, data: bytes) -> dict[str, object]:
    return {"mediaType": media_type, "digest": digest(data), "size": len(data)}


@dataclass(frozen=True)
class Registry:
    """A running registry; *folder* holds its users, its log and the pushed images."""

    folder: Path
    port: int
    is_tls: bool
    bundle: Path | None = None

    @property
    def host(self) -> str:
        """Address and port, as in an image's name."""
        return f"127.0.0.1:{self.port}"

    @property
    def url(self) -> str:
        """The URL of its API."""
        return f"{'https' if self.is_tls else 'http'}://{self.host}"

    @property
    def log(self) -> str:
        """Its log so far."""
        return (self.folder / "log").read_text()

    def set_users(self, users: Mapping[str, str]) -> None:
        """Accept only these users, by name and password; a running registry sees the change."""
        write_users(self.folder / "htpasswd", users)

    def push(self, repository: str, tag: str, image: Image, authorization: str) -> str:
        """Push an image, with *authorization* as the header of every request; return its digest."""
        for name, data in image.blobs.items():
            place = self._call("POST", f"/v2/{repository}/blobs/uploads/", b"", authorization)
            mark = "&" if "?" in place["Location"] else "?"
            self._call("PUT", f"{place['Location']}{mark}digest={name}", data, authorization)
        path = f"/v2/{repository}/manifests/{tag}"
        kind = f"{_OCI}.manifest.v1+json"
        return self._call("PUT", path, image.manifest, authorization, kind)["Docker-Content-Digest"]

    def _call(
        self, method: str, path: str, body: bytes, authorization: str, kind: str = "application/octet-stream"
    ) -> Mapping[str, str]:
        url = urljoin(self.url, path)
        request = Request(url, body, {"Content-Type": kind, "Authorization": authorization}, method=method)
        trust = ssl.create_default_context(cafile=str(self.bundle)) if self.is_tls else None
        opener = build_opener(ProxyHandler({}), HTTPSHandler(context=trust))
        with opener.open(request, timeout=PATIENCE_SECONDS) as reply:
            return dict(reply.headers.items())


def basic(user: str, password: str) -> str:
    """Return the Authorization header for a user name and password."""
    return "Basic " + base64.b64encode(f"{user}:{password}".encode()).decode()


def write_users(path: Path, users: Mapping[str, str]) -> None:
    """Write a file of users with passwords hashed by bcrypt, the only format that the registry accepts."""
    program = need("htpasswd")
    lines = []
    for user, password in users.items():
        words = [program, "-niBC", "5", user]
        done = subprocess.run(words, input=password, capture_output=True, text=True, check=True)
        lines.append(done.stdout.strip())
    # At once: the registry may read it at any time.
    draft = path.with_name(f"{path.name}.draft")
    draft.write_text("".join(f"{line}\n" for line in lines))
    draft.replace(path)


@contextmanager
def running(
    folder: Path, *, pem: Path | None = None, bundle: Path | None = None, tokens: TokenAuth | None = None
) -> Iterator[Registry]:
    """Yield a registry for the length of a block.

    With *pem*, a file of a key and a certificate, it uses TLS, and *bundle* is the authority that clients trust. It
    accepts the users of its file, at first none, or with *tokens* all clients that have a token.
    """
    program = need("docker-registry")
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "htpasswd").write_text("")
    (folder / "config.json").write_text(json.dumps(_settings(folder, pem, tokens)))
    with (folder / "log").open("wb") as log:
        words = [program, "serve", str(folder / "config.json")]
        with subprocess.Popen(words, stdout=log, stderr=log, env={"PATH": os.environ["PATH"]}) as server:
            try:
                yield Registry(folder, _await_port(server, folder / "log"), pem is not None, bundle)
            finally:
                server.kill()


def _settings(folder: Path, pem: Path | None, tokens: TokenAuth | None) -> dict[str, object]:
    auth: dict[str, object] = {"htpasswd": {"realm": "test", "path": str(folder / "htpasswd")}}
    if tokens is not None:
        auth = {
            "token": {
                "realm": tokens.realm,
                "service": tokens.service,
                "issuer": tokens.issuer,
                "rootcertbundle": str(tokens.certificate),
            }
        }
    tls = {"tls": {"certificate": str(pem), "key": str(pem)}} if pem else {}
    return {
        "version": "0.1",
        "log": {"level": "info", "formatter": "json"},
        "storage": {"filesystem": {"rootdirectory": str(folder / "data")}},
        "http": {"addr": "127.0.0.1:0", "secret": "of no use", **tls},
        "auth": auth,
    }


def _await_port(server: subprocess.Popen[bytes], log: Path) -> int:
    until = time.monotonic() + PATIENCE_SECONDS
    while server.poll() is None and time.monotonic() < until:
        found = re.search(r"listening on 127[0-9.]+:([0-9]+)", log.read_text())
        if found:
            return int(found[1])
        time.sleep(0.02)
    raise AssertionError(f"the registry does not listen: {log.read_text()[-2000:]}")


def pull(
    image: str, to: Path, logins: Mapping[str, tuple[str, str]], env: Mapping[str, str]
) -> subprocess.CompletedProcess[str]:
    """Pull an image with skopeo into an OCI layout; the logins are passed in a file, not as arguments."""
    to.mkdir(parents=True, exist_ok=True)
    auths = {host: {"auth": basic(*login).removeprefix("Basic ")} for host, login in logins.items()}
    (to / "auth.json").write_text(json.dumps({"auths": auths}))
    (to / "registries.conf").write_text("unqualified-search-registries = []\n")
    words = [need("skopeo"), "--insecure-policy", "--registries-conf", str(to / "registries.conf")]
    words += [
        "copy",
        "--quiet",
        "--authfile",
        str(to / "auth.json"),
        f"docker://{image}",
        f"oci:{to / 'image'}:pulled",
    ]
    return subprocess.run(
        words,
        env={"PATH": os.environ["PATH"], "HOME": str(to), **env},
        capture_output=True,
        text=True,
        check=False,
        timeout=PATIENCE_SECONDS,
    )


def pulled_digest(to: Path) -> str:
    """Return the digest of the pulled image."""
    index = json.loads((to / "image" / "index.json").read_text())
    return str(index["manifests"][0]["digest"])
