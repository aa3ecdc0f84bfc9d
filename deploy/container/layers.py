"""Layers and an image layout, whose bytes depend on the files alone: no times, no names of users, one order."""

from __future__ import annotations

import gzip
import hashlib
import io
import json
import os
import stat
import tarfile
from collections.abc import Iterator, Mapping
from pathlib import Path

OCI = "application/vnd.oci.image"
Json = dict[str, object]
# The best one takes four times as long for one part in a hundred.
LEVEL = 6


def digest_of(data: bytes) -> str:
    """Return the name of a blob."""
    return f"sha256:{hashlib.sha256(data).hexdigest()}"


def make_layer(root: Path, owners: Mapping[str, tuple[int, int]]) -> bytes:
    """Return the tree below *root* as a tar archive; all is root's but what *owners* names."""
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w", format=tarfile.GNU_FORMAT) as archive:
        for path in _walk(root):
            name = str(path.relative_to(root))
            entry = _entry(path, name, owners.get(f"/{name}", (0, 0)))
            archive.addfile(entry, io.BytesIO(path.read_bytes()) if entry.isreg() else None)
    return out.getvalue()


def _walk(folder: Path) -> Iterator[Path]:
    for path in sorted(folder.iterdir()):
        yield path
        if path.is_dir() and not path.is_symlink():
            yield from _walk(path)


def _entry(path: Path, name: str, owner: tuple[int, int]) -> tarfile.TarInfo:
    found = path.lstat()
    entry = tarfile.TarInfo(name)
    entry.uid, entry.gid = owner
    # Of the mode, only what does not depend on the umask of whoever builds.
    if stat.S_ISLNK(found.st_mode):
        entry.type, entry.mode, entry.linkname = tarfile.SYMTYPE, 0o777, os.readlink(path)
    elif stat.S_ISDIR(found.st_mode):
        entry.type, entry.mode = tarfile.DIRTYPE, 0o1777 if found.st_mode & stat.S_ISVTX else 0o755
    else:
        entry.mode, entry.size = 0o755 if found.st_mode & stat.S_IXUSR else 0o644, found.st_size
    return entry


def write_archive(path: Path, layers: list[bytes], config: Json, annotations: Mapping[str, str]) -> str:
    """Write an image of these layers as an OCI archive, and return the digest of its manifest."""
    packed = [gzip.compress(layer, LEVEL, mtime=0) for layer in layers]
    rootfs = {"type": "layers", "diff_ids": [digest_of(layer) for layer in layers]}
    config_bytes = _encode(config | {"rootfs": rootfs})
    manifest = _encode(
        {
            "schemaVersion": 2,
            "mediaType": f"{OCI}.manifest.v1+json",
            "config": _describe("config.v1+json", config_bytes),
            "layers": [_describe("layer.v1.tar+gzip", layer) for layer in packed],
            "annotations": {
                name: text for name, text in annotations.items() if not name.endswith(".ref.name")
            },
        }
    )
    index = _encode(
        {
            "schemaVersion": 2,
            "mediaType": f"{OCI}.index.v1+json",
            "manifests": [_describe("manifest.v1+json", manifest) | {"annotations": dict(annotations)}],
        }
    )
    files = {"oci-layout": b'{"imageLayoutVersion":"1.0.0"}', "index.json": index}
    files |= {f"blobs/sha256/{digest_of(blob)[7:]}": blob for blob in (manifest, config_bytes, *packed)}
    _write_tar(path, files)
    return digest_of(manifest)


def _describe(kind: str, data: bytes) -> Json:
    return {"mediaType": f"{OCI}.{kind}", "digest": digest_of(data), "size": len(data)}


def _encode(document: object) -> bytes:
    return json.dumps(document, sort_keys=True, separators=(",", ":")).encode()


def _write_tar(path: Path, files: Mapping[str, bytes]) -> None:
    draft = path.with_name(f"{path.name}.draft")
    with tarfile.open(draft, mode="w", format=tarfile.GNU_FORMAT) as archive:
        for name, data in sorted(files.items()):
            entry = tarfile.TarInfo(name)
            entry.size, entry.mode = len(data), 0o644
            archive.addfile(entry, io.BytesIO(data))
    draft.replace(path)
