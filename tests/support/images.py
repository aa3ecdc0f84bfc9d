"""Images for tests of pulls: with any number of layers, for one platform or several, with OCI's or Docker's types."""

from __future__ import annotations

import gzip
import hashlib
import io
import json
import os
import tarfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from support.registry import Registry

OCI = {
    "manifest": "application/vnd.oci.image.manifest.v1+json",
    "index": "application/vnd.oci.image.index.v1+json",
    "config": "application/vnd.oci.image.config.v1+json",
    "layer": "application/vnd.oci.image.layer.v1.tar+gzip",
}
DOCKER = {
    "manifest": "application/vnd.docker.distribution.manifest.v2+json",
    "index": "application/vnd.docker.distribution.manifest.list.v2+json",
    "config": "application/vnd.docker.container.image.v1+json",
    "layer": "application/vnd.docker.image.rootfs.diff.tar.gzip",
}


@dataclass(frozen=True)
class BuiltImage:
    """An image: its manifest, or index, and everything below it."""

    media_type: str
    manifest: bytes
    blobs: Mapping[str, bytes]
    below: Sequence[BuiltImage] = field(default=())
    platform: Mapping[str, str] = field(default_factory=dict)

    @property
    def digest(self) -> str:
        """The digest of the manifest."""
        return digest_of(self.manifest)

    @property
    def document(self) -> dict[str, object]:
        """The decoded manifest."""
        loaded = json.loads(self.manifest)
        assert isinstance(loaded, dict)
        return loaded


def digest_of(data: bytes, algorithm: str = "sha256") -> str:
    """Return the name of a blob."""
    return f"{algorithm}:{hashlib.new(algorithm, data).hexdigest()}"


def describe(media_type: str, data: bytes, **more: object) -> dict[str, object]:
    """Return a descriptor."""
    return {"mediaType": media_type, "digest": digest_of(data), "size": len(data), **more}


def make_layer(name: str, content: bytes, level: int = 6) -> tuple[bytes, str]:
    """Return a compressed layer of one file, and the digest of its content."""
    plain = io.BytesIO()
    with tarfile.open(fileobj=plain, mode="w") as archive:
        entry = tarfile.TarInfo(name)
        entry.size = len(content)
        archive.addfile(entry, io.BytesIO(content))
    return gzip.compress(plain.getvalue(), level, mtime=0), digest_of(plain.getvalue())


def build(
    *contents: bytes, types: Mapping[str, str] = OCI, architecture: str = "amd64", variant: str = ""
) -> BuiltImage:
    """Return an image with a layer for each of the contents."""
    layers = [make_layer(f"file-{at}", content) for at, content in enumerate(contents or (b"hello",))]
    return assemble(layers, types=types, architecture=architecture, variant=variant)


def assemble(
    layers: Sequence[tuple[bytes, str]],
    *,
    types: Mapping[str, str] = OCI,
    architecture: str = "amd64",
    variant: str = "",
) -> BuiltImage:
    """Return an image of layers that are already compressed."""
    platform = {"architecture": architecture, "os": "linux", **({"variant": variant} if variant else {})}
    rootfs = {"type": "layers", "diff_ids": [diff_id for _, diff_id in layers]}
    config = json.dumps({**platform, "config": {}, "rootfs": rootfs}).encode()
    manifest = {
        "schemaVersion": 2,
        "mediaType": types["manifest"],
        "config": describe(types["config"], config),
        "layers": [describe(types["layer"], layer) for layer, _ in layers],
    }
    blobs = {digest_of(data): data for data in (config, *(layer for layer, _ in layers))}
    return BuiltImage(types["manifest"], json.dumps(manifest).encode(), blobs, platform=platform)


def build_index(*images: BuiltImage, types: Mapping[str, str] = OCI, attested: bool = False) -> BuiltImage:
    """Return an index of images; *attested* puts an attestation first, as builders do."""
    entries = [describe(image.media_type, image.manifest, platform=image.platform) for image in images]
    if attested:
        entries.insert(0, _attestation(images[0]))
    index = {"schemaVersion": 2, "mediaType": types["index"], "manifests": entries}
    return BuiltImage(types["index"], json.dumps(index).encode(), {}, images)


def _attestation(image: BuiltImage) -> dict[str, object]:
    return describe(
        image.media_type,
        image.manifest,
        platform={"architecture": "unknown", "os": "unknown"},
        annotations={"vnd.docker.reference.type": "attestation-manifest"},
    )


def push(registry: Registry, repository: str, reference: str, image: BuiltImage, authorization: str) -> str:
    """Push an image and everything below it; return the digest that the registry reports."""
    for below in image.below:
        push(registry, repository, below.digest, below, authorization)
    for name, data in image.blobs.items():
        place = registry._call("POST", f"/v2/{repository}/blobs/uploads/", b"", authorization)
        mark = "&" if "?" in place["Location"] else "?"
        registry._call("PUT", f"{place['Location']}{mark}digest={name}", data, authorization)
    path = f"/v2/{repository}/manifests/{reference}"
    return registry._call("PUT", path, image.manifest, authorization, image.media_type)[
        "Docker-Content-Digest"
    ]


def noise(size: int) -> bytes:
    """Return incompressible bytes."""
    return os.urandom(size)
