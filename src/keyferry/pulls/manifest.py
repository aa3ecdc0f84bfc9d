"""Images as registries describe them: manifests, indexes and digests, parsed strictly, and platforms."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterable, Iterator

from keyferry._core.json import loads_with_duplicates
from keyferry._core.values import Value, field
from keyferry.errors import DocumentError, EnvironmentProblem

TYPE_CHECKING = False
if TYPE_CHECKING:
    from hashlib import _Hash

_ARCHITECTURES = {
    "x86_64": "amd64",
    "x86-64": "amd64",
    "i386": "386",
    "i486": "386",
    "i586": "386",
    "i686": "386",
    "aarch64": "arm64",
    "armhf": "arm",
    "armel": "arm",
}
_ARM_VARIANTS = ("v8", "v7", "v6", "v5")
_AMD64_VARIANTS = ("v4", "v3", "v2", "v1")
_MAX_PARTS = 3
_CHARACTERS = frozenset("abcdefghijklmnopqrstuvwxyz0123456789._-")
_OCI = "application/vnd.oci.image."
_DOCKER = "application/vnd.docker."
_MANIFESTS = (f"{_OCI}manifest.v1+json", f"{_DOCKER}distribution.manifest.v2+json")
_INDEXES = (f"{_OCI}index.v1+json", f"{_DOCKER}distribution.manifest.list.v2+json")
_CONFIGS = (f"{_OCI}config.v1+json", f"{_DOCKER}container.image.v1+json")
_LAYERS = frozenset(
    (
        *(f"{_OCI}layer.v1.tar{suffix}" for suffix in ("", "+gzip", "+zstd")),
        *(f"{_OCI}layer.nondistributable.v1.tar{suffix}" for suffix in ("", "+gzip", "+zstd")),
        *(f"{_DOCKER}image.rootfs.diff.tar{suffix}" for suffix in ("", ".gzip", ".zstd")),
        f"{_DOCKER}image.rootfs.foreign.diff.tar.gzip",
    )
)
_SCHEMA_1 = f"{_DOCKER}distribution.manifest.v1"
ACCEPTED = ", ".join((*_MANIFESTS, *_INDEXES))
_HEX_LENGTHS = {"sha256": 64, "sha384": 96, "sha512": 128}
_HEX_DIGITS = frozenset("0123456789abcdef")
_MAX_BLOB_BYTES = 1 << 50
_MAX_CONFIG_BYTES = 8 << 20
_ATTESTATION = "vnd.docker.reference.type"


class Platform(Value):
    """An operating system, a processor architecture and, for some architectures, a variant."""

    os: str
    architecture: str
    variant: str = ""

    def __str__(self) -> str:
        return "/".join(part for part in (self.os, self.architecture, self.variant) if part)


def parse_platform(text: str) -> Platform:
    """Parse ``os/architecture[/variant]``; raise EnvironmentProblem for any other text."""
    parts = text.lower().split("/")
    if not 1 < len(parts) <= _MAX_PARTS or not all(part and _CHARACTERS.issuperset(part) for part in parts):
        raise EnvironmentProblem(
            f"platform {text!r}: expected os/architecture or os/architecture/variant, such as 'linux/arm64'"
        )
    return normalise(Platform(**dict(zip(("os", "architecture", "variant"), parts, strict=False))))


def this_machine() -> Platform:
    """Return the platform that this process runs on."""
    machine = os.uname().machine.lower()
    if machine.startswith("armv"):
        return normalise(Platform(os="linux", architecture="arm", variant=machine[3:5]))
    return normalise(Platform(os=os.uname().sysname.lower(), architecture=machine))


def normalise(platform: Platform) -> Platform:
    """Return *platform* in its canonical spelling: ``x86_64`` becomes ``amd64``, default variants are left out."""
    architecture = _ARCHITECTURES.get(platform.architecture, platform.architecture)
    variant = platform.variant
    if architecture == "arm":
        variant = {"armel": "v6"}.get(platform.architecture, variant or "v7")
        variant = variant if variant.startswith("v") else f"v{variant}"
    if (architecture, variant) in (("arm64", "v8"), ("arm64", "8"), ("amd64", "v1")):
        variant = ""
    return Platform(os=platform.os, architecture=architecture, variant=variant)


def preferences(platform: Platform) -> Iterator[Platform]:
    """Yield the platforms whose images run on *platform*, best first: itself, then its predecessors."""
    wanted = normalise(platform)
    yield wanted
    yield from (
        Platform(os=wanted.os, architecture=wanted.architecture, variant=variant)
        for variant in _older(wanted)
    )
    if wanted.architecture == "arm64":
        yield from (Platform(os=wanted.os, architecture="arm", variant=variant) for variant in _ARM_VARIANTS)


def _older(platform: Platform) -> Iterable[str]:
    known = {"arm": _ARM_VARIANTS, "amd64": (*_AMD64_VARIANTS[:-1], "")}.get(platform.architecture, ())
    if platform.variant in known:
        return known[known.index(platform.variant) + 1 :]
    return ("",) if platform.variant else ()


class ContentError(Exception):
    """Content from a registry is invalid; the message quotes digests, types, platforms and sizes only."""


class Descriptor(Value):
    """A document's reference to another one: type, digest and size; *urls* name other locations and are not fetched."""

    media_type: str
    digest: str
    size: int
    platform: Platform | None = None
    urls: tuple[str, ...] = field(default=(), repr=False)
    is_attestation: bool = False


class ImageManifest(Value):
    """An image for one platform: its config, its layers, and the exact bytes of the manifest."""

    media_type: str
    digest: str
    config: Descriptor
    layers: tuple[Descriptor, ...]
    content: bytes = field(repr=False)

    @property
    def blobs(self) -> tuple[Descriptor, ...]:
        """The config and then the layers, each digest once."""
        return tuple({blob.digest: blob for blob in (self.config, *self.layers)}.values())


class ImageIndex(Value):
    """Images for several platforms under one name."""

    media_type: str
    digest: str
    manifests: tuple[Descriptor, ...]


class StoredImage(Value):
    """An image that a target stores: its id, which is the key of its record, and all its names.

    In a layout *id* is the digest of the image's config, as in container runtimes. *name* is the image's name in the
    layout's index, *manifest_digest* the digest of its manifest. A runtime reports neither of them, and no platform
    or layers.
    """

    id: str
    tags: tuple[str, ...] = ()
    digests: tuple[str, ...] = ()
    size: int = 0
    is_pinned: bool = False
    name: str = ""
    manifest_digest: str = ""
    platform: Platform | None = None
    layers: tuple[Descriptor, ...] = field(default=(), repr=False)

    @property
    def digest(self) -> str:
        """The digest of the first name that has one; empty if none does."""
        return self.digests[0].partition("@")[2] if self.digests else ""


def hasher(digest: str) -> _Hash:
    """Return a new hash object for a digest's algorithm; raise ContentError if it is malformed or not supported."""
    algorithm, _, encoded = digest.partition(":")
    if len(encoded) != _HEX_LENGTHS.get(algorithm, -1) or not _HEX_DIGITS.issuperset(encoded):
        raise ContentError("a digest is not one of sha256, sha384 or sha512 in lower-case hexadecimal")
    return hashlib.new(algorithm)


def digest_of(content: bytes, like: str = "sha256:") -> str:
    """Return the digest of *content*, with the algorithm of the digest *like*."""
    algorithm = like.partition(":")[0]
    return f"{algorithm}:{hashlib.new(algorithm, content).hexdigest()}"


def is_manifest_type(content_type: str) -> bool:
    """Return whether *content_type* is that of a manifest or an index, schema version 1 included."""
    said = _plain_type(content_type)
    return said in _MANIFESTS or said in _INDEXES or said.startswith(_SCHEMA_1)


def read_manifest(content: bytes, content_type: str, digest: str) -> ImageManifest | ImageIndex:
    """Parse a manifest or an index; *content_type* is the type that the server, or the parent index, gives it.

    Raise ContentError if it is invalid or ambiguous: two types, duplicate keys, or the fields of both kinds.
    """
    document = _load(content)
    media_type = _media_type(document, content_type)
    if media_type in _INDEXES:
        if "config" in document or "layers" in document:
            raise ContentError(f"the index {digest} also has fields of a manifest")
        manifests = tuple(_descriptor(entry, "manifests") for entry in _list(document, "manifests"))
        return ImageIndex(media_type=media_type, digest=digest, manifests=manifests)
    if "manifests" in document or "fsLayers" in document:
        raise ContentError(f"the manifest {digest} also has fields of another kind")
    config = _descriptor(document.get("config"), "config")
    layers = tuple(_descriptor(entry, "layers") for entry in _list(document, "layers"))
    _check_kinds(config, layers)
    _check_sizes((config, *layers))
    return ImageManifest(media_type=media_type, digest=digest, config=config, layers=layers, content=content)


def choose_manifest(index: ImageIndex, platform: Platform) -> Descriptor:
    """Return the image of an index that fits *platform* best.

    Raise ContentError, which lists the platforms of the index, if none fits.
    """
    images = [entry for entry in index.manifests if _is_image(entry)]
    by_platform: dict[Platform, Descriptor] = {}
    for entry in images:
        if entry.platform is not None:
            by_platform.setdefault(normalise(entry.platform), entry)
    for wanted in preferences(platform):
        if wanted in by_platform:
            return by_platform[wanted]
    if len(images) == 1 and images[0].platform is None:
        return images[0]
    found = ", ".join(sorted({str(entry) for entry in by_platform})) or "none"
    raise ContentError(f"no image for {platform}; there are images for: {found}")


def read_config_platform(content: bytes) -> Platform:
    """Return the platform that an image's config names; raise ContentError if it is invalid."""
    document = _load(content)
    names = {name: document.get(name, "") for name in ("os", "architecture", "variant")}
    if not all(isinstance(value, str) for value in names.values()):
        raise ContentError("the image's config names no platform")
    return normalise(Platform(**{name: str(value) for name, value in names.items()}))


def _load(content: bytes) -> dict[str, object]:
    document: object = None
    try:
        document, duplicates = loads_with_duplicates(content)
        document = None if duplicates else document
    except DocumentError:
        pass
    if not isinstance(document, dict):
        # Raised outside the except block, because the decoder's error holds the document.
        raise ContentError("it is not a JSON object, or it has duplicate keys")
    return document


def _media_type(document: dict[str, object], content_type: str) -> str:
    said = _plain_type(content_type)
    own = document.get("mediaType")
    if document.get("schemaVersion") == 1 or said.startswith(_SCHEMA_1):
        raise ContentError(
            "it is a manifest of schema version 1, which is not supported; push the image again"
        )
    known = [kind for kind in (said, own) if kind in _MANIFESTS or kind in _INDEXES]
    if not known:
        raise ContentError(f"its type {said!r} is not that of an image manifest or index")
    if own is not None and own != known[0]:
        raise ContentError(f"it is served as {known[0]!r}, but its mediaType is different")
    return str(known[0])


def _plain_type(content_type: str) -> str:
    return content_type.partition(";")[0].strip().lower()


def _list(document: dict[str, object], name: str) -> list[object]:
    found = document.get(name)
    if not isinstance(found, list):
        raise ContentError(f"{name}: expected a list")
    return found


def _descriptor(value: object, where: str) -> Descriptor:
    if not isinstance(value, dict):
        raise ContentError(f"{where}: expected an object")
    media_type, digest, size = value.get("mediaType"), value.get("digest"), value.get("size")
    if not isinstance(media_type, str) or not isinstance(digest, str):
        raise ContentError(f"{where}: mediaType and digest must be strings")
    if type(size) is not int or not 0 <= size <= _MAX_BLOB_BYTES:
        raise ContentError(f"{where}: size must be a number of bytes")
    hasher(digest)
    urls = value.get("urls")
    return Descriptor(
        media_type=media_type,
        digest=digest,
        size=size,
        platform=_platform(value.get("platform")),
        urls=tuple(map(str, urls)) if isinstance(urls, list) else (),
        is_attestation=_is_attestation(value.get("annotations")),
    )


def _platform(value: object) -> Platform | None:
    if not isinstance(value, dict):
        return None
    names = {name: value.get(name) for name in ("os", "architecture", "variant")}
    return Platform(**{name: text.lower() if isinstance(text, str) else "" for name, text in names.items()})


def _is_attestation(annotations: object) -> bool:
    return isinstance(annotations, dict) and annotations.get(_ATTESTATION) == "attestation-manifest"


def _is_image(entry: Descriptor) -> bool:
    is_known = entry.media_type in _MANIFESTS or entry.media_type in _INDEXES
    is_unknown_platform = entry.platform is not None and entry.platform.os == "unknown"
    return is_known and not entry.is_attestation and not is_unknown_platform


def _check_kinds(config: Descriptor, layers: tuple[Descriptor, ...]) -> None:
    if config.media_type not in _CONFIGS:
        raise ContentError("its config is not that of a container image")
    if config.size > _MAX_CONFIG_BYTES:
        raise ContentError(f"its config has {config.size} bytes, expected at most {_MAX_CONFIG_BYTES}")
    for layer in layers:
        if layer.media_type not in _LAYERS:
            raise ContentError(f"the type of layer {layer.digest} is not that of a container image's layer")


def _check_sizes(blobs: tuple[Descriptor, ...]) -> None:
    sizes: dict[str, int] = {}
    for blob in blobs:
        if sizes.setdefault(blob.digest, blob.size) != blob.size:
            raise ContentError(f"the manifest gives two sizes for {blob.digest}")
