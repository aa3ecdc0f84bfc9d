"""Pull a big image into an OCI layout: keyferry, and skopeo from the same registry."""

import json
import os
import re
import secrets
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from bench.measure import SOURCES, Row, median, seconds_of, skipped, take_turns

_SIZES = (80_000_000, 60_000_000, 40_000_000, 20_000_000)
_ROUNDS = 5
_WAIT_SECONDS = 30.0
_OCI = "application/vnd.oci.image"
_WHAT = "pull of a 200 MB image of 4 layers into an OCI layout"
_PULL = """\
import sys
sys.path.insert(0, sys.argv[3])
from keyferry import pull
pull(sys.argv[1], to=sys.argv[2], credentials=())
"""


def run(folder: str) -> list[Row]:
    """One row: both from the start of their process to its end, from a registry on loopback."""
    missing = [name for name in ("docker-registry", "skopeo") if shutil.which(name) is None]
    if missing:
        return [skipped(_WHAT, f"{' and '.join(missing)} not installed")]
    home = Path(folder) / "pulls"
    home.mkdir()
    layout = _write_image(home / "source")
    with _registry(home) as host:
        image = f"{host}/bench/big:v1"
        _skopeo(f"oci:{layout}:v1", f"docker://{image}", "--dest-tls-verify=false")
        rounds = take_turns(
            {
                "keyferry": lambda: [_timed(home, lambda to: _keyferry(image, to))],
                "skopeo": lambda: [
                    _timed(
                        home,
                        lambda to: _skopeo(f"docker://{image}", f"oci:{to}:v1", "--src-tls-verify=false"),
                    )
                ],
            },
            _ROUNDS,
        )
    shutil.rmtree(home)
    seconds, peer = median(rounds["keyferry"]), median(rounds["skopeo"])
    return [Row(_WHAT, 1000 * seconds, "ms", 1000 * peer, "skopeo", 1.0)]


def _timed(home: Path, pull: Callable[[str], None]) -> float:
    target = home / "target"
    seconds = seconds_of(lambda: pull(str(target)))
    shutil.rmtree(target)
    return seconds


def _keyferry(image: str, to: str) -> None:
    subprocess.run([sys.executable, "-c", _PULL, image, to, SOURCES], check=True)


def _skopeo(source: str, target: str, option: str) -> None:
    command = ["skopeo", "--insecure-policy", "copy", "--quiet", option, source, target]
    subprocess.run(command, check=True, env={"PATH": os.environ["PATH"], "HOME": "/nonexistent"})


def _write_image(folder: Path) -> Path:
    """A layout whose layers do not get shorter when they are packed; they are not packed twice by anybody."""
    import gzip
    from hashlib import sha256

    blobs = folder / "blobs" / "sha256"
    blobs.mkdir(parents=True)

    def put(kind: str, data: bytes) -> dict[str, object]:
        name = sha256(data).hexdigest()
        (blobs / name).write_bytes(data)
        return {"mediaType": f"{_OCI}.{kind}", "digest": f"sha256:{name}", "size": len(data)}

    # Not packed any further, but a gzip stream: else skopeo would pack it, and be measured for that.
    contents = [secrets.token_bytes(size) for size in _SIZES]
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
    return folder


@contextmanager
def _registry(home: Path) -> Iterator[str]:
    settings = {
        "version": "0.1",
        "storage": {"filesystem": {"rootdirectory": str(home / "data")}},
        "http": {"addr": "127.0.0.1:0", "secret": "of no use"},
    }
    (home / "registry.json").write_text(json.dumps(settings))
    with (home / "log").open("wb") as log:
        command = ["docker-registry", "serve", str(home / "registry.json")]
        with subprocess.Popen(command, stdout=log, stderr=log, env={"PATH": os.environ["PATH"]}) as server:
            try:
                yield f"127.0.0.1:{_await_port(home / 'log')}"
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
