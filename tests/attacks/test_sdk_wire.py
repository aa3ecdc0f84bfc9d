"""Hostile requests to plugins on the SDK: a clear error, or a right answer, and nothing else."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator

import pytest

from keyferry.errors import ProvideError
from keyferry.sdk import ExecRequest, ExecResponse, Request, Response
from keyferry.sdk.cluster import respond_cluster
from keyferry.sdk.image import respond
from support.plugins import PATIENCE_SECONDS
from support.sdk_plugins import (
    CLUSTER_GROUP,
    IMAGE_GROUP,
    SECRET,
    cluster_plugin,
    exec_info,
    image_plugin,
    python,
    request_bytes,
    run_source,
)

V1 = f"{IMAGE_GROUP}/v1"
SPOILT = {"serviceAccountToken": SECRET}
MAX_REQUEST_BYTES = 4 * 1024 * 1024
# Python alone takes some 10 MB; the request may take its 4 MB a few times over.
MAX_RESIDENT_KB = 64 * 1024


def wire(text: str) -> bytes:
    """A request with something out of the ordinary in the place of ``@``."""
    head = f'{{"kind":"CredentialProviderRequest","apiVersion":"{V1}","serviceAccountToken":"{SECRET}"'
    return f'{head},"image":"registry.example/app"@}}'.replace("@", text).encode()


BROKEN = {
    "nothing": (b"   \n", "empty"),
    "no-json": (b"image: registry.example/app\n", "cannot be read"),
    "yaml-in-braces": (b"{kind: CredentialProviderRequest}", "cannot be read"),
    "list": (b"[]", "not a JSON object"),
    "text": (b'"registry.example"', "not a JSON object"),
    "null": (b"null", "not a JSON object"),
    "nan": (wire(',"x":NaN'), "cannot be read"),
    "infinity": (wire(',"x":-Infinity'), "cannot be read"),
    "byte-order-mark": (b"\xef\xbb\xbf" + wire(""), "cannot be read"),
    "utf-16": (wire("").decode().encode("utf-16"), "cannot be read"),
    "cut": (wire("")[:-1], "cannot be read"),
    "trailing-garbage": (wire("") + b"x", "cannot be read"),
    "two-documents": (wire("") + b"\n" + wire(""), "cannot be read"),
    "nul": (wire("") + b"\0", "cannot be read"),
    "depth": (wire(',"x":' + "[" * 100_000 + "]" * 100_000), "cannot be read"),
    "open-depth": (b'{"a":' * 500_000, "cannot be read"),
    "trailing-comma": (wire(","), "cannot be read"),
    "comment": (b"// " + wire(""), "cannot be read"),
    "raw-control-character": (wire(',"x":"\x01"'), "cannot be read"),
}


@pytest.mark.parametrize("case", BROKEN.values(), ids=BROKEN)
def test_what_is_no_request_is_refused_without_a_word_of_it(case: tuple[bytes, str]) -> None:
    """The message says what kind of thing is wrong, and nothing of what was sent."""
    data, words = case
    ran = run_source(image_plugin(), data)
    ran.failed_with(words)
    assert SECRET not in ran.stderr
    assert "in the plugin itself" not in ran.stderr


WRONG = {
    "kind": ({"kind": "CredentialProviderResponse"}, "kind is 'CredentialProviderResponse'"),
    "kind-case": ({"kind": "credentialproviderrequest"}, "kind is 'credentialproviderrequest'"),
    "no-kind": ({"kind": None}, "kind is ''"),
    "kind-number": ({"kind": 1}, "kind is not a string"),
    "version": ({"apiVersion": f"{IMAGE_GROUP}/v2"}, "expected one of"),
    "version-case": ({"apiVersion": f"{IMAGE_GROUP}/V1"}, "expected one of"),
    "group": ({"apiVersion": "kubelet.config.k8s.io/v1"}, "expected one of"),
    "no-group": ({"apiVersion": "v1"}, "expected one of"),
    "no-version": ({"apiVersion": ""}, "apiVersion is ''"),
    "version-list": ({"apiVersion": [V1]}, "apiVersion is not a string"),
    "empty-image": ({"image": ""}, "image is empty"),
    "no-image": ({"image": None}, "image is empty"),
    "image-object": ({"image": {}}, "image is not a string"),
    "token-number": ({"serviceAccountToken": 5}, "serviceAccountToken is not a string"),
    "annotations-list": ({"serviceAccountAnnotations": ["a"]}, "is not an object of strings"),
    "annotations-numbers": ({"serviceAccountAnnotations": {"a": 1}}, "is not an object of strings"),
}


@pytest.mark.parametrize("case", WRONG.values(), ids=WRONG)
def test_a_request_of_another_kind_is_refused(case: tuple[dict[str, object], str]) -> None:
    """Kind, version, group and the types of all fields are what the kubelet writes, or there is no answer."""
    changes, words = case
    data = request_bytes(**{**SPOILT, **changes})  # type: ignore[arg-type] # the fields are the table's
    with pytest.raises(ProvideError, match="request: ") as caught:
        respond(lambda _: Response(), data)
    assert words in str(caught.value)
    assert SECRET not in str(caught.value)


def test_a_long_version_is_cut_in_the_message() -> None:
    """Nobody's megabyte gets into a log."""
    with pytest.raises(ProvideError) as caught:
        respond(lambda _: Response(), request_bytes(apiVersion="x" * 1_000_000))
    assert len(str(caught.value)) < 1000


def test_unknown_fields_and_repeated_ones_are_taken_as_go_does() -> None:
    """A newer kubelet may send more; of two fields with one name the last counts."""
    seen: list[Request] = []

    def provide(request: Request) -> Response:
        seen.append(request)
        return Response()

    respond(provide, wire(',"podUID":"1","image":"other.example/app"'))
    assert seen == [Request(image="other.example/app", service_account_token=SECRET)]


def test_half_a_surrogate_pair_in_a_request_becomes_a_replacement_character() -> None:
    """As Go reads it; nothing in the plugin meets text that cannot be written."""
    seen: list[Request] = []

    def provide(request: Request) -> Response:
        seen.append(request)
        return Response()

    respond(provide, wire(r',"serviceAccountAnnotations":{"a\ud800":"\udfff"}'))
    respond(provide, wire(',"serviceAccountAnnotations":{"b":"@"}').replace(b"@", b"\xff"))
    assert [dict(request.service_account_annotations) for request in seen] == [{"a�": "�"}, {"b": "�"}]


# Not getrusage: its peak begins with that of the process we were forked from.
_MEASURE = """
def at_exit():
    with open("/proc/self/status") as status:
        os.write(2, next(line for line in status if line.startswith("VmHWM")).encode())
import atexit; atexit.register(at_exit)
"""


@pytest.mark.parametrize("shape", ["string", "blanks", "zeros"])
def test_far_too_much_input_is_refused_in_bounded_memory(shape: str) -> None:
    """A hundred megabytes are not read: the plugin gives up after four, and says so."""
    start = {"string": wire("")[:-2], "blanks": b" ", "zeros": b"\0"}[shape]
    filling = {"string": b"a", "blanks": b" ", "zeros": b"\0"}[shape] * (1 << 20)
    source = image_plugin(before=_MEASURE)
    with subprocess.Popen(
        python(source), stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as process:
        assert process.stdin is not None
        try:
            process.stdin.write(start)
            for _ in range(100):
                process.stdin.write(filling)
        except BrokenPipeError:
            pass
        stdout, stderr = process.communicate(timeout=3 * PATIENCE_SECONDS)
    assert (process.returncode, stdout) == (1, b"")
    assert f"longer than {MAX_REQUEST_BYTES} bytes".encode() in stderr
    assert int(stderr.split()[-2]) < MAX_RESIDENT_KB


def test_a_request_that_just_fits_is_answered() -> None:
    """The limit is a limit, not a wall around ordinary requests."""
    room = MAX_REQUEST_BYTES - len(request_bytes(x=""))
    ran = run_source(image_plugin(), request_bytes(x="a" * room))
    assert ran.document["kind"] == "CredentialProviderResponse"


def variable(text: str) -> str:
    """An exec info with something out of the ordinary in the place of ``@``."""
    head = f'{{"kind":"ExecCredential","apiVersion":"{CLUSTER_GROUP}/v1","spec":{{"secret":"{SECRET}"'
    return f"{head}@}}}}".replace("@", text)


BAD_EXEC_INFOS = {
    "no-json": "spec: {}",
    "list": "[]",
    "null": "null",
    "nan": variable(',"x":NaN'),
    "byte-order-mark": "\ufeff" + variable(""),
    "cut": variable("")[:-1],
    "garbage": variable("") + "x",
    "depth": variable(',"x":' + "[" * 30_000),
    "kind": variable("").replace('"ExecCredential"', '"Execcredential"'),
    "null-kind": variable("").replace('"ExecCredential"', "null"),
    "version": variable("").replace("/v1", "/v1alpha1"),
    "group": variable("").replace(CLUSTER_GROUP, "authentication.k8s.io"),
    "version-number": variable("").replace(f'"{CLUSTER_GROUP}/v1"', "1"),
    "spec-list": f'{{"kind":"ExecCredential","apiVersion":"{CLUSTER_GROUP}/v1","spec":[]}}',
    "cluster-text": variable(f',"cluster":"{SECRET}"'),
    "server-number": variable(',"cluster":{"server":5}'),
    "ca-no-base64": variable(f',"cluster":{{"server":"s","certificate-authority-data":"{SECRET}!"}}'),
}


@pytest.mark.parametrize("text", BAD_EXEC_INFOS.values(), ids=BAD_EXEC_INFOS)
def test_exec_info_that_cannot_be_meant_is_refused(text: str) -> None:
    """The variable's name is in the message, and nothing of what may be secret in it."""
    ran = run_source(cluster_plugin(), env={"KUBERNETES_EXEC_INFO": text})
    ran.failed_with("KUBERNETES_EXEC_INFO")
    assert SECRET not in ran.stderr
    assert "in the plugin itself" not in ran.stderr


def test_exec_info_as_large_as_linux_allows_is_read() -> None:
    """One variable may have 128 KiB on Linux."""
    info = json.loads(exec_info()["KUBERNETES_EXEC_INFO"])
    info["spec"]["cluster"] = {"server": "https://c.example", "config": {"x": "a" * 130_000}}
    ran = run_source(
        cluster_plugin("return ExecResponse(token=str(len(request.cluster.config)))"),
        env={"KUBERNETES_EXEC_INFO": json.dumps(info, separators=(",", ":"))},
    )
    assert ran.document["status"] == {"token": "130008"}


def test_the_plugins_own_config_is_given_as_it_is_written() -> None:
    """Numbers that no float can hold, and the order of names, survive."""
    text = variable(',"cluster":{"server":"s","config":{"b": 1e400, "a": 12345678901234567890.10}}')
    seen: list[ExecRequest] = []

    def provide(request: ExecRequest) -> ExecResponse:
        seen.append(request)
        return ExecResponse(token="t")

    respond_cluster(provide, text)
    assert seen[0].cluster is not None
    assert seen[0].cluster.config == '{"b": 1e400, "a": 12345678901234567890.10}'


def test_bytes_that_are_no_text_in_the_variable_are_replaced() -> None:
    """The environment is bytes; what is no UTF-8 reaches the plugin as Go would read it."""
    text = variable(',"cluster":{"server":"s\udcff","config":"\udcff"}')
    seen: list[ExecRequest] = []

    def provide(request: ExecRequest) -> ExecResponse:
        seen.append(request)
        return ExecResponse(token="t")

    respond_cluster(provide, text)
    assert seen[0].cluster is not None
    assert (seen[0].cluster.server, seen[0].cluster.config) == ("s�", '"�"')


@pytest.fixture
def no_terminal() -> Iterator[int]:
    """Something that is no terminal."""
    fd = os.open(os.devnull, os.O_RDONLY)
    yield fd
    os.close(fd)


@pytest.mark.parametrize("env", [{}, {"KUBERNETES_EXEC_INFO": ""}, {"KUBERNETES_EXEC_INFO": " \n"}], ids=str)
def test_without_the_variable_v1beta1_is_meant(env: dict[str, str], no_terminal: int) -> None:
    """Old clients tell nothing, and a person who tries the plugin does not either."""
    body = "return ExecResponse(token=f'{request.is_informed}-{request.interactive}-{request.cluster}')"
    done = subprocess.run(
        [sys.executable, "-IS", "-c", cluster_plugin(body)],
        stdin=no_terminal, env=env, capture_output=True, check=True,
    )  # fmt: skip
    document = json.loads(done.stdout)
    assert document["apiVersion"] == f"{CLUSTER_GROUP}/v1beta1"
    assert document["status"] == {"token": "False-False-None"}
