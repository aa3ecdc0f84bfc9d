"""Requests to an image plugin: normal ones, other versions, and malformed ones."""

from __future__ import annotations

import shlex
from collections.abc import Iterator

from keyferry._core.json import dumps
from keyferry._core.secrets import MASK
from keyferry.api.credentialprovider.v1 import CredentialProviderRequest, encode_request
from keyferry.images.reference import registry_of
from keyferry.kit.lab.experiments import Experiment, Family
from keyferry.kit.lab.plugin_under_test import PluginUnderTest

__all__ = ["CANARY", "FOREIGN", "ask", "good_requests", "image_experiments", "sibling_of"]

# A registry that cannot exist, because the domain is reserved.
FOREIGN = "registry.invalid/none"
# The service account token if none is given; it must not appear on standard error.
CANARY = "keyferry-kit-canary-5c1b0e7d2f94a8"
_ANNOTATIONS = {"keyferry.example/unknown-to-you": "value"}
_DEPTH = 100_000
_HUGE = 12 * 1024 * 1024
_LONG = 5000


def image_experiments(plugin: PluginUnderTest, canary_file: str) -> Iterator[Experiment]:
    """Yield all experiments other than the normal requests; a command in an image name creates *canary_file*."""
    image = plugin.images[0]
    yield ask(plugin, "sibling", sibling_of(image))
    yield ask(plugin, "foreign", FOREIGN)
    yield ask(plugin, "account", image, with_account=True)
    for version in plugin.other_versions():
        name = f"version {version.rpartition('/')[2]}"
        yield ask(plugin, name, image, version, family=Family.VERSION)
    yield from _refusable(plugin, image)
    yield from _malformed(plugin, image)
    yield from _odd_images(plugin, canary_file)


def good_requests(plugin: PluginUnderTest) -> Iterator[Experiment]:
    """Yield requests for the first image, for the same again after all others, and for all other images."""
    first, *others = plugin.images
    yield ask(plugin, "good", first, is_sampled=True, family=Family.NORMAL)
    yield ask(plugin, "again", first, family=Family.LAST)
    for number, image in enumerate(others, 2):
        yield ask(plugin, f"good {number}", image, family=Family.NORMAL)


def sibling_of(image: str) -> str:
    """Return another image of the same registry."""
    return f"{registry_of(image)}/keyferry-kit/other"


def ask(
    plugin: PluginUnderTest,
    name: str,
    image: str,
    api_version: str = "",
    *,
    with_account: bool = False,
    is_sampled: bool = False,
    family: Family = Family.OTHER,
) -> Experiment:
    """Return an experiment with the kubelet's request for an image."""
    version = api_version or plugin.api_version
    token, annotations = "", {}
    if with_account or plugin.token:
        token = plugin.token or CANARY
        annotations = {**plugin.annotations, **(_ANNOTATIONS if with_account else {})}
    request = CredentialProviderRequest(
        image=image, service_account_token=token, service_account_annotations=annotations
    )
    shown = CredentialProviderRequest(
        image=image,
        service_account_token=MASK if plugin.token else token,
        service_account_annotations=annotations,
    )
    return Experiment(
        name=name,
        stdin=encode_request(request, version),
        shown=encode_request(shown, version),
        image=image,
        api_version=version,
        is_sampled=is_sampled,
        family=family,
    )


def _request(api_version: str, image: str, /, **other: object) -> bytes:
    fields = {"kind": "CredentialProviderRequest", "apiVersion": api_version, "image": image, **other}
    return (dumps(fields) + "\n").encode()


def _plain(name: str, data: bytes, plugin: PluginUnderTest, feed: str = "", **fields: object) -> Experiment:
    shown = b"" if feed else data
    if plugin.token:
        shown = shown.replace(plugin.token.encode(), MASK.encode())
    return Experiment(name=name, stdin=data, shown=shown, feed=feed, api_version=plugin.api_version, **fields)  # type: ignore[arg-type] # by name, and the caller knows them


def _refusable(plugin: PluginUnderTest, image: str) -> Iterator[Experiment]:
    version = plugin.api_version
    # This request is to be answered, so it has the token that a plugin may need.
    account = {"serviceAccountToken": plugin.token, "serviceAccountAnnotations": dict(plugin.annotations)}
    known = account if plugin.token else {}
    yield _plain("unknown field", _request(version, image, **known, fieldOfTheFuture={"a": [1]}), plugin)
    yield _plain("wrong kind", _request(version, image, kind="CredentialProviderFoo"), plugin)
    yield _plain("wrong group", _request("keyferry.invalid/v1", image), plugin)
    yield _plain("wrong version", _request(f"{version.partition('/')[0]}/v99", image), plugin)
    yield _plain("empty image", _request(version, ""), plugin)


def _malformed(plugin: PluginUnderTest, image: str) -> Iterator[Experiment]:
    whole = _request(plugin.api_version, image, serviceAccountToken=CANARY)
    yield _plain("empty input", b"", plugin)
    yield _plain("text", f"token {CANARY} is not a request\n".encode(), plugin)
    yield _plain("binary", bytes(range(256)), plugin)
    yield _plain("array", b"[]\n", plugin)
    yield _plain("wrong types", _request(plugin.api_version, "", image={"a": CANARY}), plugin)
    yield _plain("truncated", whole.strip()[:-3], plugin)
    yield _plain("byte order mark", b"\xef\xbb\xbf" + whole, plugin)
    yield _plain("UTF-16", whole.decode().encode("utf-16"), plugin)
    yield _plain("two documents", whole + whole, plugin)
    yield _plain("repeated field", whole.replace(b'"image"', b'"image":"x.invalid/y","image"', 1), plugin)
    deep = b"[" * _DEPTH
    yield _plain("deep nesting", deep, plugin, f"""python3 -c 'print("[" * {_DEPTH}, end="")'""")
    head, tail = _request(plugin.api_version, image, fieldOfTheFuture="@").decode().rsplit("@", 1)
    huge = head.encode() + b"x" * _HUGE + tail.encode()
    yield _plain("huge input", huge, plugin, _printing(head, "x", _HUGE, tail))


def _printing(head: str, middle: str, times: int, tail: str) -> str:
    """Return a shell command that prints an input that is too long to be shown."""
    return f"python3 -c {shlex.quote(f'print({head!r} + {middle!r} * {times} + {tail.strip()!r})')}"


def _odd_images(plugin: PluginUnderTest, canary_file: str) -> Iterator[Experiment]:
    registry, touch = registry_of(plugin.images[0]), f"touch {canary_file}"
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
    family = Family.IMAGE_NAME
    for name, image in images.items():
        data = _request(plugin.api_version, image)
        yield _plain(f"image: {name}", data, plugin, image=image, family=family)
    head, tail = _request(plugin.api_version, f"{registry}/@").decode().rsplit("@", 1)
    long = head.encode() + b"a" * _LONG + tail.encode()
    yield _plain("image: very long", long, plugin, _printing(head, "a", _LONG, tail), family=family)
