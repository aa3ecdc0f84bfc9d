"""Pulls into an OCI layout: big and small layers, plain and over TLS; keyferry and skopeo from the same registry."""

from __future__ import annotations

import gzip
import json
import os
import re
import secrets
import shutil
import subprocess
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from hashlib import sha256
from pathlib import Path
from typing import NamedTuple

from bench.certificate import make_certificate
from bench.measure import Contestant, Row, run_of, take_turns
from bench.plugins import write_config, write_script
from bench.programs import script

_IMAGES = {
    "200 MB in 4 layers": (80_000_000, 60_000_000, 40_000_000, 20_000_000),
    "64 layers of 1 MB": (1_000_000,) * 64,
}
_ROUNDS = 7
# As quick as skopeo, within the noise of one run.
_BARS = {"64 layers of 1 MB": 1.1}
_WAIT_SECONDS = 30.0
_OCI = "application/vnd.oci.image"


class Server(NamedTuple):
    """A running registry: its address, and a folder with the authority to trust; empty for plain HTTP."""

    host: str
    authorities: str


def run(folder: str) -> list[Row]:
    """Return rows for each image, plain and over TLS: both programs from the start of their process to its end."""
    missing = [name for name in ("docker-registry", "skopeo") if shutil.which(name) is None]
    if missing:
        return [Row(what="pulls into an OCI layout", why=f"{' and '.join(missing)} not installed")]
    rows = []
    for way in ("plain", "TLS"):
        home = Path(folder) / f"pulls-{way}"
        home.mkdir()
        with serve_registry(home, has_tls=way == "TLS") as server:
            rows += [_row_of(way, name, sizes, server, home) for name, sizes in _IMAGES.items()]
        shutil.rmtree(home)
    return rows


def _row_of(way: str, name: str, sizes: Sequence[int], server: Server, home: Path) -> Row:
    image = f"{server.host}/bench/layers-{len(sizes)}:v1"
    source, target = home / "source", home / "target"
    write_image(source, sizes)
    environ = {"PATH": os.environ["PATH"], "HOME": "/nonexistent"}
    push = skopeo_copy(f"oci:{source}:v1", f"docker://{image}", trust_options(server, "dest"))
    subprocess.run(push, env=environ, check=True)
    shutil.rmtree(source)
    trust = ("--ca-file", os.path.join(server.authorities, "ca.crt")) if server.authorities else ()
    write_script(str(home / "unused"))
    config = write_config(str(home / "config.json"), "unused", ["registry.invalid"])
    pull = (script("keyferry"), "pull", image, "--to", str(target), *trust)
    commands: dict[str, Sequence[str]] = {
        "keyferry": (*pull, "--config", config, "--bin-dir", str(home)),
        "skopeo": skopeo_copy(f"docker://{image}", f"oci:{target}:v1", trust_options(server, "src")),
    }
    pulls = {each: run_of(command, environ) for each, command in commands.items()}
    results = take_turns({each: partial(_pull, pulls[each], target) for each in pulls}, _ROUNDS)
    return results.row(f"pull {name}, {way}", "keyferry", "skopeo", most_times=_BARS.get(name))


def _pull(pull: Contestant, target: Path) -> Sequence[float]:
    figures = pull()
    shutil.rmtree(target)
    return figures


def skopeo_copy(source: str, target: str, options: Sequence[str]) -> Sequence[str]:
    """Return the command that copies an image."""
    return ("skopeo", "--insecure-policy", "copy", "--quiet", *options, source, target)


def trust_options(server: Server, side: str) -> Sequence[str]:
    """Return skopeo's options for the trust in the registry, for the side of the copy that it is on."""
    if server.authorities:
        return (f"--{side}-cert-dir", server.authorities)
    return (f"--{side}-tls-verify=false",)


def write_image(folder: Path, sizes: Sequence[int]) -> None:
    """Write a layout with incompressible layers, already gzip streams, so that skopeo does not compress them."""
    blobs = folder / "blobs" / "sha256"
    blobs.mkdir(parents=True)

    def put(kind: str, data: bytes) -> dict[str, object]:
        name = sha256(data).hexdigest()
        (blobs / name).write_bytes(data)
        return {"mediaType": f"{_OCI}.{kind}", "digest": f"sha256:{name}", "size": len(data)}

    # Not packed any further, but a gzip stream: else skopeo would pack it, and be measured for that.
    contents = [secrets.token_bytes(size) for size in sizes]
    layers = [put("layer.v1.tar+gzip", gzip.compress(content, 0)) for content in contents]
    rootfs = {"type": "layers", "diff_ids": [f"sha256:{sha256(content).hexdigest()}" for content in contents]}
    config = put(
        "config.v1+json", json.dumps({"os": "linux", "architecture": "amd64", "rootfs": rootfs}).encode()
    )
    manifest = {
        "schemaVersion": 2,
        "mediaType": f"{_OCI}.manifest.v1+json",
        "config": config,
        "layers": layers,
    }
    entry = put("manifest.v1+json", json.dumps(manifest).encode())
    named = {**entry, "annotations": {"org.opencontainers.image.ref.name": "v1"}}
    (folder / "index.json").write_text(json.dumps({"schemaVersion": 2, "manifests": [named]}))
    (folder / "oci-layout").write_text('{"imageLayoutVersion":"1.0.0"}')


@contextmanager
def serve_registry(home: Path, *, has_tls: bool) -> Iterator[Server]:
    """Run a registry for the length of a block, with its files in *home*."""
    http: dict[str, object] = {"addr": "127.0.0.1:0", "secret": "of no use"}
    authorities = home / "authorities"
    if has_tls:
        authorities.mkdir()
        certificate, key = make_certificate(str(home))
        shutil.copy(certificate, authorities / "ca.crt")
        http["tls"] = {"certificate": certificate, "key": key}
    storage = {"filesystem": {"rootdirectory": str(home / "data")}}
    (home / "registry.json").write_text(json.dumps({"version": "0.1", "storage": storage, "http": http}))
    with (home / "log").open("wb") as log:
        command = ["docker-registry", "serve", str(home / "registry.json")]
        with subprocess.Popen(command, stdout=log, stderr=log, env={"PATH": os.environ["PATH"]}) as server:
            try:
                yield Server(f"127.0.0.1:{_await_port(home / 'log')}", str(authorities) if has_tls else "")
            finally:
                server.kill()


def _await_port(log: Path) -> str:
    until = time.monotonic() + _WAIT_SECONDS
    while time.monotonic() < until:
        found = re.search(r"listening on 127[0-9.]+:([0-9]+)", log.read_text())
        if found:
            return found[1]
        time.sleep(0.02)
    raise AssertionError("the registry does not listen")
