"""Hostile answers of plugins and hostile docker configs: refused in one sentence, or read safely."""

from __future__ import annotations

import base64
import json
import time
from pathlib import Path

import pytest

from keyferry.api.credentialprovider.v1 import CredentialProviderRequest, CredentialProviderResponse
from keyferry.api.meta import parse_time
from keyferry.api.wire import Reader
from keyferry.errors import PluginError, PluginOutputError, PluginProtocolError, PullSecretError, TimeError
from keyferry.images.dockerconfig import (
    PullSecret,
    parse_docker_config_json,
    parse_dockercfg,
    read_pull_secret,
)
from keyferry.images.lookup import Providers
from keyferry.images.provider.plugin import decode_response
from support.scripted import (
    SECOND,
    V1,
    Clock,
    Scripted,
    document,
    exec_plugin,
    provider,
    write_printer,
    write_script,
)

SECRET = "s3cr3t-hunter2"
GOOD = document({"reg.io": {"username": "user", "password": SECRET}})
HEAD = f'"kind":"CredentialProviderResponse","apiVersion":"{V1}","cacheKeyType":"Image"'
DOTTED_I = "k\u0131nd"

REFUSED = {
    "nothing": "",
    "blank": " \n\t ",
    "null": "null",
    "array": f"[{GOOD}]",
    "string": json.dumps(GOOD),
    "number": "1",
    "trailing-text": GOOD + " done",
    "trailing-brace": GOOD + "}",
    "two-documents": GOOD + "\n" + GOOD,
    "two-yaml-documents": GOOD + "\n---\n" + GOOD,
    "yaml": f"kind: CredentialProviderResponse\napiVersion: {V1}\ncacheKeyType: Image\n",
    "yaml-flow": f"{{kind: CredentialProviderResponse, apiVersion: {V1}, cacheKeyType: Image}}",
    "comment": f"// {SECRET}\n{GOOD}",
    "single-quotes": GOOD.replace('"', "'"),
    "trailing-comma": GOOD[:-1] + ",}",
    "cut-short": GOOD[:-20],
    "log-line-first": f"INFO token {SECRET}\n{GOOD}",
    "nan": f'{{{HEAD},"x":NaN}}',
    "nan-duration": f'{{{HEAD},"cacheDuration":NaN}}',
    "infinity": f'{{{HEAD},"cacheDuration":-Infinity}}',
    "control-character": f'{{{HEAD},"auth":{{"reg.io":{{"password":"{SECRET}\n"}}}}}}',
    "duplicate-top": f'{{{HEAD},"auth":{{}},"auth":{{"reg.io":{{"password":"{SECRET}"}}}}}}',
    "duplicate-kind": f'{{{HEAD},"kind":"CredentialProviderResponse"}}',
    "duplicate-auth-key": f'{{{HEAD},"auth":{{"reg.io":{{}},"reg.io":{{"password":"{SECRET}"}}}}}}',
    "duplicate-password": f'{{{HEAD},"auth":{{"reg.io":{{"password":"x","password":"{SECRET}"}}}}}}',
    "duplicate-by-escape": f'{{{HEAD},"auth":{{"reg.io":{{}},"r\\u0065g.io":{{"password":"{SECRET}"}}}}}}',
    "unknown-top": document(token=SECRET),
    "unknown-named-as-secret": document(**{SECRET: 1}),
    "unknown-in-auth": document({"reg.io": {"username": "u", "password": SECRET, "auth": "x"}}),
    "wrong-case": document(cacheKeyType=..., CacheKeyType="Image"),
    "wrong-case-password": document({"reg.io": {"username": "u", "Password": SECRET}}),
    "wrong-kind": document(kind="CredentialProviderRequest"),
    "wrong-kind-case": document(kind="credentialproviderresponse"),
    "foreign-kind": document(kind="Status"),
    "no-kind": document(kind=""),
    "missing-kind": document(kind=...),
    "dotless-i-kind": GOOD.replace('"kind"', f'"{DOTTED_I}"'),
    "older-version": document(version="credentialprovider.kubelet.k8s.io/v1beta1"),
    "upper-case-version": document(version=V1.upper()),
    "secret-as-version": document(version=SECRET),
    "many-slashes": document(version=f"a/b/{SECRET}"),
    "no-version": document(version=""),
    "version-is-a-list": document(version=[V1]),
    "kind-is-an-object": document(kind={}),
    "password-is-a-number": document({"reg.io": {"username": "u", "password": 12345}}),
    "password-is-a-list": document({"reg.io": {"username": "u", "password": [SECRET]}}),
    "username-is-a-bool": document({"reg.io": {"username": True, "password": SECRET}}),
    "auth-is-a-list": document([{"reg.io": SECRET}]),
    "auth-is-text": document(SECRET),
    "auth-entry-is-text": document({"reg.io": SECRET}),
    "duration-is-a-number": document(cacheDuration=600),
    "duration-is-an-object": document(cacheDuration={"seconds": 600}),
    "duration-without-unit": document(cacheDuration="600"),
    "duration-in-days": document(cacheDuration="1d"),
    "duration-is-a-secret": document(cacheDuration=SECRET),
    "duration-overflows": document(cacheDuration="2562047h47m16.854775808s"),
    "duration-overflows-far": document(cacheDuration="9" * 5000 + "h"),
    "duration-overflows-by-sum": document(cacheDuration="2562047h" * 3),
    "duration-in-other-digits": document(cacheDuration="\u0661\u0660m"),
    "cache-type-is-a-number": document(cacheKeyType=1),
}  # fmt: skip
REFUSED_BYTES = {name: text.encode() for name, text in REFUSED.items()} | {
    "byte-order-mark": b"\xef\xbb\xbf" + GOOD.encode(),
    "utf-16": GOOD.encode("utf-16"),
    "utf-16-without-mark": GOOD.encode("utf-16-le"),
    "utf-32": GOOD.encode("utf-32"),
    "nul-at-the-end": GOOD.encode() + b"\x00",
    "nul-at-the-start": b"\x00" + GOOD.encode(),
    "binary": bytes(range(256)),
}


def refusal(stdout: bytes) -> PluginProtocolError:
    with pytest.raises(PluginProtocolError) as caught:
        decode_response("plugin", V1, stdout)
    return caught.value


@pytest.mark.parametrize("stdout", REFUSED_BYTES.values(), ids=REFUSED_BYTES)
def test_a_malformed_answer_is_refused_without_quoting_it(stdout: bytes) -> None:
    """Whatever is wrong with an answer, the error holds no byte of it and no decoder's exception."""
    error = refusal(stdout)
    assert SECRET not in str(error) + repr(error)
    assert error.__context__ is None
    assert error.__cause__ is None


@pytest.mark.parametrize("name", ["nan", "nan-duration", "infinity"])
def test_constants_that_json_does_not_have_are_no_json(name: str) -> None:
    """NaN and its relatives, which Python's own parser reads, are a syntax error wherever they stand."""
    assert refusal(REFUSED_BYTES[name]).document_kind == "json-syntax"


def test_an_answer_that_is_read_too_late_is_refused() -> None:
    """The time to read an answer is part of the plugin's: nobody waits longer for a large one."""
    large = document().encode() + b" " * 20_000
    with pytest.raises(PluginOutputError, match="its response could not be parsed within its timeout"):
        decode_response("plugin", V1, large, until=time.monotonic())


@pytest.mark.parametrize("kind", ["", "x", "image", "IMAGE", "Image ", "Global\n", SECRET])
def test_an_unknown_cache_key_type_is_refused(kind: str) -> None:
    """A cacheKeyType that is none of the three fails the provider, and is not shown."""
    decoded = decode_response("plugin", V1, document(cacheKeyType=kind).encode())
    provision = provider(Scripted(decoded), Clock()).provide("reg.io/app")
    assert isinstance(provision.error, PluginProtocolError)
    assert SECRET not in str(provision.error) + repr(provision)
    assert not provision.auth


@pytest.mark.parametrize("depth", [600, 5_000, 200_000])
@pytest.mark.parametrize("opening", [b"[", b'{"a":'], ids=["arrays", "objects"])
def test_a_depth_bomb_is_refused_at_once(depth: int, opening: bytes) -> None:
    """Nesting of any depth, closed or not, is refused in no time and without a RecursionError."""
    closing = b"]" if opening == b"[" else b"}"
    started = time.thread_time()
    refusal(opening * depth)
    refusal(b'{"x":' + opening * depth + b"1" + closing * depth + b"}")
    assert time.thread_time() - started < 5


def test_millions_of_brackets_are_measured_no_deeper_than_needed() -> None:
    """The depth of 16 million open brackets is judged by its first ten thousand."""
    started = time.thread_time()
    refusal(b"[" * 16_000_000)
    assert time.thread_time() - started < 3


def test_countless_unknown_fields_do_not_fill_the_memory() -> None:
    """Of a flood of unknown fields the first thousand are remembered, and still a type error after them."""
    fields = {f"field{number}": 0 for number in range(5_000)}
    reader = Reader()
    CredentialProviderResponse.from_document(fields | {"cacheKeyType": 7}, reader)
    assert len(reader.problems) == 1_001
    assert reader.problems[-1][1].kind == "wrong-type"


@pytest.mark.parametrize("digits", [5_000, 1_000_000])
def test_numbers_of_any_length_are_no_trouble(digits: int) -> None:
    """An integer that the interpreter refuses to convert is a wrong type like any other."""
    assert "found a number" in str(
        refusal(document(cacheKeyType=...)[:-1].encode() + b',"cacheKeyType":' + b"9" * digits + b"}")
    )


def test_a_hundred_megabyte_string_ends_at_the_cap(tmp_path: Path) -> None:
    """A plugin that prints without end is killed at the cap; what it printed is dropped."""
    path = write_script(
        tmp_path, "flood", f"printf '%s' '{GOOD[:-2]}'; head -c 100000000 /dev/zero | tr '\\0' a"
    )
    started = time.monotonic()
    with pytest.raises(PluginOutputError) as caught:
        exec_plugin(path)(CredentialProviderRequest(image="reg.io/app"))
    assert time.monotonic() - started < 20
    assert len(str(caught.value)) < 200


def test_a_string_below_the_cap_is_read_whole(tmp_path: Path) -> None:
    """A password of four megabytes arrives unchanged."""
    password = "x" * 4_000_000
    path = write_printer(
        tmp_path, "big", document({"reg.io": {"username": "u", "password": password}}).encode()
    )
    answer, _ = exec_plugin(path)(CredentialProviderRequest(image="reg.io/app"))
    assert answer.auth is not None
    assert answer.auth["reg.io"].password == password


@pytest.mark.parametrize(
    ("written", "read"),
    [
        ('"\\ud800"', "\ufffd"),
        ('"a\\udc00b"', "a\ufffdb"),
        ('"\\ud83d\\ude00"', "\U0001f600"),
        ('"\\ud800\\ud800"', "\ufffd\ufffd"),
        ('"\\\\ud800"', "\\ud800"),
        ('"\\u0000"', "\0"),
    ],
    ids=["high", "low", "pair", "two-high", "escaped-backslash", "nul"],
)
def test_lone_surrogates_are_replaced_as_in_go(written: str, read: str) -> None:
    """A password never holds a lone surrogate, which no encoder could write again."""
    text = document({"reg.io": {"username": "u", "password": "@"}}).replace('"@"', written)
    auth = decode_response("plugin", V1, text.encode()).auth
    assert auth is not None
    assert auth["reg.io"].password == read
    auth["reg.io"].password.encode()


def test_bytes_that_are_not_utf8_are_replaced() -> None:
    """Invalid UTF-8 inside a string gives U+FFFD, as in the kubelet, and no UnicodeDecodeError."""
    text = document({"reg.io": {"username": "u", "password": "@"}}).encode().replace(b"@", b"\xff\xc3")
    auth = decode_response("plugin", V1, text).auth
    assert auth is not None
    assert auth["reg.io"].password == "\ufffd\ufffd"


@pytest.mark.parametrize(
    "password", ["line\r\nX-Evil: 1", "\n", "a:b:c", ":", "\0", "\x1b[2J", "\u202e", " pad "]
)
def test_odd_passwords_arrive_unchanged_and_are_never_shown(password: str) -> None:
    """CR, LF, colons and controls in a password are the registry's business; no repr has them."""
    text = document({"reg.io": {"username": "u:x", "password": password + SECRET}})
    decoded = decode_response("plugin", V1, text.encode())
    answer = Providers([provider(Scripted(decoded), Clock())]).lookup("reg.io/app")
    (credential,) = answer.credentials
    assert (credential.username, credential.password) == ("u:x", password + SECRET)
    assert SECRET not in repr(answer) + repr(credential) + repr(decoded)


@pytest.mark.parametrize(
    ("text", "nanoseconds"),
    [
        ("2562047h47m16.854775807s", 2**63 - 1),
        ("-2562047h47m16.854775808s", -(2**63)),
        ("-1ns", -1),
        ("0", 0),
        ("-0s", 0),
        ("0.9999999999ns", 0),
        ("1h1h", 7200 * SECOND),
    ],
)
def test_the_extremes_of_durations_are_read_as_in_go(text: str, nanoseconds: int) -> None:
    """The longest, the negative and the smallest durations are no errors."""
    assert (
        decode_response("plugin", V1, document(cacheDuration=text).encode()).cache_duration_ns == nanoseconds
    )


LONG_DURATIONS = {
    "leading zeros": "0" * 4_000_000 + "1s",
    "a fraction": "1." + "1" * 4_000_000 + "s",
    "many terms": "1ns" * 1_000_000,
    "nonsense": "x" * 4_000_000,
    "control characters": "\x01" * 1_000_000,
}


@pytest.mark.parametrize("text", LONG_DURATIONS.values(), ids=LONG_DURATIONS)
def test_durations_of_megabytes_are_refused_and_not_kept(text: str) -> None:
    """Neither read nor quoted nor remembered: that would take seconds, and memory for good."""
    import tracemalloc

    stdout = document(cacheDuration=text).encode()
    tracemalloc.start()
    try:
        with pytest.raises(PluginProtocolError, match="not a Go duration") as caught:
            decode_response("plugin", V1, stdout)
        assert len(f"{caught.value!r} {caught.value.kubernetes_text}") < 1000
        del caught
        kept, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert kept < len(text) / 10


def test_only_short_durations_are_remembered() -> None:
    """A plugin that says another one each time fills no memory."""
    import tracemalloc

    tracemalloc.start()
    try:
        for number in range(500):
            text = f"{number}ns" + "0" * 900 + "1s"
            assert decode_response("plugin", V1, document(cacheDuration=text).encode()).cache_duration_ns
        kept, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert kept < 100_000


@pytest.mark.parametrize("digits", [10, 5_000_000])
def test_a_time_is_read_up_to_a_length(digits: int) -> None:
    """Go takes any number of digits after the seconds; here a text may have 16,384 characters."""
    text = f"2030-01-01T00:00:00.{'0' * digits}Z"
    if digits == 10:
        assert parse_time(text) == 1_893_456_000 * SECOND
        return
    with pytest.raises(TimeError, match=f"a text of {len(text)} characters") as caught:
        parse_time(text)
    assert len(str(caught.value)) < 200


@pytest.mark.parametrize("status", [1, 127, 255])
def test_success_on_stdout_does_not_excuse_a_bad_exit(tmp_path: Path, status: int) -> None:
    """A perfect answer with a status other than 0 is a failure."""
    path = write_printer(tmp_path, "liar", GOOD.encode(), status=status)
    with pytest.raises(PluginError) as caught:
        exec_plugin(path)(CredentialProviderRequest(image="reg.io/app"))
    assert SECRET not in str(caught.value)


def test_success_on_stderr_is_no_answer(tmp_path: Path) -> None:
    """A perfect answer on standard error, with status 0, is not read."""
    path = write_printer(tmp_path, "confused", stderr=GOOD.encode())
    with pytest.raises(PluginProtocolError):
        exec_plugin(path)(CredentialProviderRequest(image="reg.io/app"))


# Docker configs and pull secrets.


def basic(text: str | bytes) -> str:
    return base64.b64encode(text if isinstance(text, bytes) else text.encode()).decode()


def entry(**fields: object) -> bytes:
    return json.dumps({"auths": {"reg.io": fields}}).encode()


BROKEN_DOCKER = {
    "nothing-but-blank": b"  ",
    "yaml": f"auths:\n  reg.io:\n    password: {SECRET}\n".encode(),
    "byte-order-mark": b"\xef\xbb\xbf" + entry(password=SECRET),
    "utf-16": entry(password=SECRET).decode().encode("utf-16"),
    "two-documents": entry(password=SECRET) * 2,
    "cut-short": entry(password=SECRET)[:-3],
    "nan": b'{"auths":{"reg.io":{"password":NaN}}}',
    "depth-bomb": b'{"auths":' + b"[" * 100_000,
    "array": b"[" + entry(password=SECRET) + b"]",
    "auths-is-text": json.dumps({"auths": SECRET}).encode(),
    "entry-is-text": json.dumps({"auths": {"reg.io": SECRET}}).encode(),
    "entry-is-a-list": json.dumps({"auths": {"reg.io": [SECRET]}}).encode(),
    "password-is-a-list": entry(username="u", password=[SECRET]),
    "auth-is-a-number": entry(auth=1),
    "auth-not-base64": entry(auth=SECRET),
    "auth-url-safe-alphabet": entry(auth=base64.urlsafe_b64encode(b"u:\xff\xfe\xfd\xfb\xef").decode()),
    "auth-without-colon": entry(auth=basic(SECRET)),
    "auth-of-one-letter": entry(auth="a"),
    "auth-padded-wrongly": entry(auth=basic(f"u:{SECRET}1") + "="),
    "auth-with-leading-space": entry(auth=" " + basic(f"u:{SECRET}")),
    "auth-not-ascii": entry(auth="\u00e9" + basic(f"u:{SECRET}")),
    "headers-are-text": json.dumps({"HttpHeaders": SECRET}).encode(),
    "header-is-a-list": json.dumps({"HttpHeaders": {"X": [SECRET]}}).encode(),
}


def pull_secret(content: bytes, kind: str = "dockerconfigjson") -> PullSecret:
    return PullSecret(namespace="ns", name="pull", type=f"kubernetes.io/{kind}", data={f".{kind}": content})


@pytest.mark.parametrize("content", BROKEN_DOCKER.values(), ids=BROKEN_DOCKER)
def test_a_broken_docker_config_is_refused_without_quoting_it(content: bytes) -> None:
    """As a file and as a pull secret alike, the error names the place and holds no byte of the content."""
    for read in (parse_docker_config_json, lambda data: read_pull_secret(pull_secret(data))):
        with pytest.raises(PullSecretError) as caught:
            read(content)
        error = caught.value
        assert SECRET not in str(error) + repr(error)
        assert error.__context__ is None


def test_one_broken_secret_fails_the_whole_lookup() -> None:
    """A pull secret that cannot be read is never passed over in favour of the next one."""
    good = pull_secret(entry(username="u", password="p"))
    providers = Providers([])
    assert providers.lookup("reg.io/app", pull_secrets=[good]).credentials
    with pytest.raises(PullSecretError, match="ns/pull"):
        providers.lookup("reg.io/app", pull_secrets=[good, pull_secret(entry(auth="!"))])


@pytest.mark.parametrize(
    ("auth", "username", "password"),
    [
        (basic("u:p:q:"), "u", "p:q:"),
        (basic("u:"), "u", ""),
        (basic(":"), "", ""),
        (basic("u:a\r\nb"), "u", "a\r\nb"),
        (basic("u:pw").rstrip("="), "u", "pw"),
        (basic("u:" + "p" * 90)[:60] + "\r\n" + basic("u:" + "p" * 90)[60:], "u", "p" * 90),
        (basic(b"u:\xff\x00"), "u", "\udcff\0"),
    ],
    ids=["colons", "empty-password", "empty", "newlines", "unpadded", "wrapped", "not-utf8"],
)
def test_odd_docker_auths_are_split_at_the_first_colon(auth: str, username: str, password: str) -> None:
    """Colons, newlines and odd bytes in the password of an auth field are kept exactly."""
    found = parse_docker_config_json(entry(username="x", password="y", auth=auth))["reg.io"]
    assert (found.username, found.password) == (username, password)


def test_the_last_of_equal_docker_keys_counts() -> None:
    """Repeated members are no error in docker configs: as in Go, the last one wins."""
    content = b'{"reg.io":{"username":"a"},"reg.io":{"username":"b","USERNAME":"c"}}'
    assert parse_dockercfg(content)["reg.io"].username == "c"
