"""All requests to a plugin in a test: normal ones, in other versions and environments, and malformed ones."""

from __future__ import annotations

import shlex
import shutil
import socket
import subprocess
from collections.abc import Iterator
from functools import cache

from keyferry._core.json import dumps
from keyferry._core.secrets import MASK
from keyferry._core.values import replace
from keyferry.api.clientauthentication.v1 import GROUP, KIND, ClusterInfo, encode_exec_info
from keyferry.api.credentialprovider.v1 import CredentialProviderRequest, encode_request
from keyferry.clusters.auth.plugin_environment import EXEC_INFO
from keyferry.clusters.why.masking import exec_info_document, write_document
from keyferry.images.reference import registry_of
from keyferry.kit.lab.experiments import Experiment, Family
from keyferry.kit.plugin import PluginKind, PluginUnderTest

__all__ = ["CANARY", "FOREIGN", "SIMULTANEOUS_RUNS", "isolation", "normal_request", "plan"]

# A registry that cannot exist, because the domain is reserved.
FOREIGN = "registry.invalid/none"
# The service account token if none is given; it must not appear on standard error.
CANARY = "keyferry-kit-canary-5c1b0e7d2f94a8"
SIMULTANEOUS_RUNS = 8
_ANNOTATIONS = {"keyferry.example/unknown-to-you": "value"}
_DEPTH = 100_000
_HUGE = 12 * 1024 * 1024
_LONG = 5000
_MADE_UP = ClusterInfo(
    server="https://kubernetes.keyferry.invalid:6443", certificate_authority_data=b"", config='{"a":"b"}'
)
# A variable is limited to 128 KiB on Linux; this leaves room for its name.
_HUGE_INFO = 100_000
_NO_HOME = "/dev/null/no-home"
_PROXIES = ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "http_proxy", "https_proxy", "all_proxy")


def normal_request(plugin: PluginUnderTest) -> Experiment:
    """Return the request of the kubelet for the first image, or of client-go."""
    if plugin.kind is PluginKind.CLUSTER:
        asked = _exec_info("good", plugin.api_version, plugin.cluster)
    else:
        asked = _ask(plugin, "good", plugin.images[0])
    return replace(asked, is_sampled=True, family=Family.NORMAL)


def plan(plugin: PluginUnderTest, canary_file: str) -> Iterator[Experiment]:
    """Yield all experiments, the normal request first; a command in an image name creates *canary_file*."""
    good = normal_request(plugin)
    yield good
    if plugin.kind is PluginKind.CLUSTER:
        yield from _cluster_experiments(plugin, good)
    else:
        yield from _image_experiments(plugin, good, canary_file)
    plain = replace(good, is_sampled=False, family=Family.OTHER)
    yield from _in_other_environments(plain)
    for number in range(1, SIMULTANEOUS_RUNS + 1):
        yield replace(plain, name=f"at once {number}", family=Family.SIMULTANEOUS)


def _image_experiments(plugin: PluginUnderTest, good: Experiment, canary_file: str) -> Iterator[Experiment]:
    image, *others = plugin.images
    yield replace(good, name="again", is_sampled=False, family=Family.LAST)
    for number, other in enumerate(others, 2):
        yield replace(_ask(plugin, f"good {number}", other), family=Family.NORMAL)
    yield _ask(plugin, "sibling", f"{registry_of(image)}/keyferry-kit/other")
    yield _ask(plugin, "foreign", FOREIGN)
    yield _ask(plugin, "account", image, with_account=True)
    for version in plugin.other_versions():
        one = _ask(plugin, f"version {version.rpartition('/')[2]}", image, version)
        yield replace(one, family=Family.VERSION)
    yield from _refusable(plugin, image)
    yield from _malformed(plugin, image)
    yield from _odd_images(plugin, canary_file)


def _ask(
    plugin: PluginUnderTest, name: str, image: str, api_version: str = "", *, with_account: bool = False
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


def _cluster_experiments(plugin: PluginUnderTest, good: Experiment) -> Iterator[Experiment]:
    good = replace(good, is_sampled=False, family=Family.OTHER)
    yield replace(good, name="again")
    for version in plugin.other_versions():
        one = _exec_info(f"version {version.rpartition('/')[2]}", version, plugin.cluster)
        yield replace(one, family=Family.VERSION)
    yield _exec_info("with cluster", plugin.api_version, plugin.cluster or _MADE_UP)
    yield replace(good, name="input", stdin=b"keyferry\n", is_input_watched=True, feed="echo keyferry")
    yield replace(good, name="no exec info", env=(), shown=b"", unset=(EXEC_INFO,))
    yield from _malformed_infos(plugin)


def _exec_info(name: str, api_version: str, cluster: ClusterInfo | None) -> Experiment:
    text = encode_exec_info(api_version, cluster, interactive=False)
    shown = write_document(exec_info_document(text)).encode()
    return Experiment(name=name, stdin=None, shown=shown, api_version=api_version, env=((EXEC_INFO, text),))


def _malformed_infos(plugin: PluginUnderTest) -> Iterator[Experiment]:
    texts = {
        "empty exec info": "",
        "text for exec info": "this is not JSON",
        "truncated exec info": f'{{"kind":"{KIND}","apiVersion":"{plugin.api_version}","spec":{{"inter',
        "array for exec info": "[]",
        "null for exec info": "null",
        "wrong types in exec info": _info_text(plugin.api_version, spec="text"),
        "exec info of another kind": _info_text("v1", kind="Pod"),
        "unknown version": _info_text(f"{GROUP}/v99"),
        "unknown field in exec info": _info_text(plugin.api_version, fieldOfTheFuture=[1]),
        "huge exec info": _info_text(plugin.api_version, fieldOfTheFuture="x" * _HUGE_INFO),
    }
    for name, text in texts.items():
        shown = text.encode() if len(text) < _HUGE_INFO else b"a very long text"
        yield Experiment(
            name=name, stdin=None, shown=shown, api_version=plugin.api_version, env=((EXEC_INFO, text),)
        )


def _info_text(api_version: str, /, **other: object) -> str:
    return dumps({"kind": KIND, "apiVersion": api_version, "spec": {"interactive": False}, **other}) + "\n"


def _in_other_environments(good: Experiment) -> Iterator[Experiment]:
    yield replace(good, name="bare environment", is_bare=True)
    yield replace(good, name="no home", unset=("HOME",))
    yield replace(good, name="home that is no folder", env=(*good.env, ("HOME", _NO_HOME)))
    for name, locale in (("locale C", "C"), ("locale Latin-1", "en_US.ISO-8859-1")):
        variables = (("LC_ALL", locale), ("LANG", locale))
        yield replace(good, name=name, env=(*good.env, *variables), family=Family.LOCALE)
    yield replace(good, name="working directory /", cwd="/")
    yield replace(good, name="no reader", has_reader=False)
    proxy = f"http://127.0.0.1:{_closed_port()}"
    proxies = ((name, proxy) for name in _PROXIES)
    yield replace(
        good,
        name="no network",
        env=(*good.env, *proxies),
        unset=("NO_PROXY", "no_proxy"),
        prefix=isolation(),
        is_patient=True,
    )


@cache
def isolation() -> tuple[str, ...]:
    """Return the words that run a program in a network of its own without connections; none if that is not possible."""
    program = shutil.which("unshare")
    for flags in ("-rn", "-n") if program else ():
        words = (program or "", flags)
        done = subprocess.run([*words, "true"], capture_output=True, check=False)
        if done.returncode == 0:
            return words
    return ()


def _closed_port() -> int:
    """Return a port of this machine that nobody listens on."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port
