"""What the kit asks an image plugin: good requests, other versions, and everything that may go wrong with one."""

import shlex
from collections.abc import Iterator

from keyferry._core.json import dumps
from keyferry._core.secrets import MASK
from keyferry.api.credentialprovider.v1 import CredentialProviderRequest, encode_request
from keyferry.images.reference import registry_of
from keyferry.kit.lab.experiments import Experiment
from keyferry.kit.lab.subject import Subject

__all__ = ["CANARY", "FOREIGN", "ask", "good_requests", "image_experiments", "sibling_of"]

# A registry that nobody can have: the name is reserved.
FOREIGN = "registry.invalid/none"
# Stands for a service account's token where there is none; it must not turn up on standard error.
CANARY = "keyferry-kit-canary-5c1b0e7d2f94a8"
_ANNOTATIONS = {"keyferry.example/unknown-to-you": "value"}
_DEPTH = 100_000
_HUGE = 12 * 1024 * 1024
_LONG = 5000


def image_experiments(subject: Subject, canary_file: str) -> Iterator[Experiment]:
    """Every request beside the good ones; *canary_file* is what an image name that is run would make."""
    image = subject.images[0]
    yield ask(subject, "sibling", sibling_of(image))
    yield ask(subject, "foreign", FOREIGN)
    yield ask(subject, "account", image, with_account=True)
    for version in subject.other_versions():
        yield ask(subject, f"version {version.rpartition('/')[2]}", image, version)
    yield from _refusable(subject, image)
    yield from _malformed(subject, image)
    yield from _odd_images(subject, canary_file)


def good_requests(subject: Subject) -> Iterator[Experiment]:
    """The first image, the same again, and all other images."""
    first, *others = subject.images
    yield ask(subject, "good", first, is_sampled=True)
    yield ask(subject, "again", first)
    for number, image in enumerate(others, 2):
        yield ask(subject, f"good {number}", image)


def sibling_of(image: str) -> str:
    """Another image of the same registry."""
    return f"{registry_of(image)}/keyferry-kit/other"


def ask(
    subject: Subject,
    name: str,
    image: str,
    api_version: str = "",
    *,
    with_account: bool = False,
    is_sampled: bool = False,
) -> Experiment:
    """The request that a kubelet makes for an image."""
    version = api_version or subject.api_version
    token, annotations = "", {}
    if with_account or subject.token:
        token = subject.token or CANARY
        annotations = {**subject.annotations, **(_ANNOTATIONS if with_account else {})}
    request = CredentialProviderRequest(image, token, annotations)
    shown = CredentialProviderRequest(image, MASK if token else "", annotations)
    return Experiment(
        name,
        encode_request(request, version),
        encode_request(shown, version),
        image=image,
        api_version=version,
        is_sampled=is_sampled,
    )


def _request(api_version: str, image: str, /, **other: object) -> bytes:
    fields = {"kind": "CredentialProviderRequest", "apiVersion": api_version, "image": image, **other}
    return (dumps(fields) + "\n").encode()


def _plain(name: str, data: bytes, subject: Subject, feed: str = "", **fields: object) -> Experiment:
    shown = b"" if feed else data.replace(CANARY.encode(), MASK.encode())
    return Experiment(name, data, shown, feed, api_version=subject.api_version, **fields)  # type: ignore[arg-type] # by name, and the caller knows them


def _refusable(subject: Subject, image: str) -> Iterator[Experiment]:
    version = subject.api_version
    yield _plain("unknown field", _request(version, image, fieldOfTheFuture={"a": [1]}), subject)
    yield _plain("wrong kind", _request(version, image, kind="CredentialProviderFoo"), subject)
    yield _plain("wrong group", _request("keyferry.invalid/v1", image), subject)
    yield _plain("wrong version", _request(f"{version.partition('/')[0]}/v99", image), subject)
    yield _plain("empty image", _request(version, ""), subject)


def _malformed(subject: Subject, image: str) -> Iterator[Experiment]:
    whole = _request(subject.api_version, image, serviceAccountToken=CANARY)
    yield _plain("empty input", b"", subject)
    yield _plain("text", f"token {CANARY} is not a request\n".encode(), subject)
    yield _plain("binary", bytes(range(256)), subject)
    yield _plain("array", b"[]\n", subject)
    yield _plain("wrong types", _request(subject.api_version, "", image={"a": CANARY}), subject)
    yield _plain("truncated", whole.strip()[:-3], subject)
    yield _plain("byte order mark", b"\xef\xbb\xbf" + whole, subject)
    yield _plain("UTF-16", whole.decode().encode("utf-16"), subject)
    yield _plain("two documents", whole + whole, subject)
    yield _plain("repeated field", whole.replace(b'"image"', b'"image":"x.invalid/y","image"', 1), subject)
    deep = b"[" * _DEPTH
    yield _plain("deep nesting", deep, subject, f"""python3 -c 'print("[" * {_DEPTH}, end="")'""")
    head, tail = _request(subject.api_version, image, fieldOfTheFuture="@").decode().rsplit("@", 1)
    huge = head.encode() + b"x" * _HUGE + tail.encode()
    yield _plain("huge input", huge, subject, _printing(head, "x", _HUGE, tail))


def _printing(head: str, middle: str, times: int, tail: str) -> str:
    """A shell's way to print what is too long to be shown."""
    return f"python3 -c {shlex.quote(f'print({head!r} + {middle!r} * {times} + {tail.strip()!r})')}"


def _odd_images(subject: Subject, canary_file: str) -> Iterator[Experiment]:
    registry, touch = registry_of(subject.images[0]), f"touch {canary_file}"
    images = {
        "unicode": f"{registry}/t\u00e9\u00e4m/\u4e2d\u6587/\U0001f4a5",
        "control characters": f"{registry}/a\nb\r\tc\x01\x7f",
        "quotes": f"{registry}/a\"b'c\\d%s%n{{}}",
        "an option": "--help",
        "a path": f"{registry}/../../../../etc/passwd",
        "no registry": "/",
        "shell words": f"{registry}/x;{touch};$({touch})`{touch}`|{touch}",
        "shell quotes": f"{registry}/x';{touch};'\";{touch};\"",
    }
    for name, image in images.items():
        yield _plain(f"image: {name}", _request(subject.api_version, image), subject, image=image)
    head, tail = _request(subject.api_version, f"{registry}/@").decode().rsplit("@", 1)
    long = head.encode() + b"a" * _LONG + tail.encode()
    yield _plain("image: very long", long, subject, _printing(head, "a", _LONG, tail))
