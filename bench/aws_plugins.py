"""The AWS plugins as processes: whole runs compared with AWS' own tools, and the cost of their start."""

from __future__ import annotations

import base64
import json
import os
import shutil
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from time import perf_counter

from bench.certificate import make_certificate
from bench.measure import SOURCES, Row, median, seconds_of, skipped, take_turns
from bench.peers import AWS, BOTOCORE

_ROUNDS = 15
_STARTS = 40
_RUN_BAR, _START_BAR = 2.0, 3.0
_AWS_HOSTS = ("api.ecr.us-east-1.amazonaws.com", "sts.us-east-1.amazonaws.com")
_HOST = "123456789012.dkr.ecr.us-east-1.amazonaws.com"
_REQUEST = json.dumps(
    {
        "kind": "CredentialProviderRequest",
        "apiVersion": "credentialprovider.kubelet.k8s.io/v1",
        "image": f"{_HOST}/app",
    }
).encode()
_SUBJECT = {"iss": "https://cluster.example", "aud": ["registry.example"], "sub": "pod", "exp": 1 << 40}
_FEDERATE = (
    "--registry=registry.example",
    "--preset=passthrough",
    "--audience=registry.example",
    "--issuer=https://cluster.example",
)
_BARE = (sys.executable, "-I", "-S", "-c", "pass")
_LAUNCH = "import sys; sys.path.insert(0, {!r}); from keyferry_plugins.{} import main; main()"
_MINIMAL = (
    f"import sys; sys.path.insert(0, {SOURCES!r}); from keyferry.sdk import Response, serve;"
    "serve(lambda request: Response.for_registry(request, 'user', 'word'))"
)
_BOTOCORE_ECR = "import botocore.session as s; s.Session().create_client('ecr').get_authorization_token()"
_BOTOCORE_EKS = """
import base64, botocore.session
from botocore.auth import SigV4QueryAuth
from botocore.awsrequest import AWSRequest
keys = botocore.session.Session().get_credentials().get_frozen_credentials()
request = AWSRequest("GET", "https://sts.us-east-1.amazonaws.com/?Action=GetCallerIdentity&Version=2011-06-15",
                     headers={"x-k8s-aws-id": "c"})
SigV4QueryAuth(keys, "sts", "us-east-1", expires=60).add_auth(request)
print("k8s-aws-v1." + base64.urlsafe_b64encode(request.url.encode()).decode().rstrip("="))
"""
_KEYS = {
    "AWS_ACCESS_KEY_ID": "AKIAIOSFODNN7EXAMPLE",
    "AWS_SECRET_ACCESS_KEY": "made-up",
    "AWS_DEFAULT_REGION": "us-east-1",
    "AWS_REGION": "us-east-1",
    "AWS_EC2_METADATA_DISABLED": "true",
    "AWS_ECR_DISABLE_CACHE": "1",
}


def run(folder: str) -> list[Row]:
    """Return rows for starts, for keyferry-ecr and for keyferry-eks."""
    home = os.path.join(folder, "aws")
    os.mkdir(home)
    with _endpoint(*make_certificate(home, *_AWS_HOSTS)) as port:
        local = {"AWS_ENDPOINT_URL": f"http://127.0.0.1:{port}"}
        proxied = {
            "HTTPS_PROXY": f"http://127.0.0.1:{port}",
            "AWS_CA_BUNDLE": os.path.join(home, "server.crt"),
        }
        return [
            *_start_rows(folder),
            *_rows("keyferry-ecr, whole job, http", _ecr_contestants(folder, local)),
            *_rows("keyferry-ecr, whole job, TLS through a proxy", _proxy_contestants(folder, proxied)),
            *_rows("keyferry-eks, whole job", _eks_contestants(folder)),
        ]


def plugin(name: str) -> tuple[str, ...]:
    """Return the command that starts a plugin from the sources."""
    return (sys.executable, "-I", "-S", "-c", _LAUNCH.format(SOURCES, name))


@contextmanager
def _endpoint(certificate: str, key: str) -> Iterator[int]:
    script = os.path.join(os.path.dirname(__file__), "aws_endpoint.py")
    command = [sys.executable, script, certificate, key]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as server:
        assert server.stdout is not None
        try:
            yield int(server.stdout.readline())
        finally:
            server.terminate()


Contestants = dict[str, Callable[[], Sequence[float]]]


def _ecr_contestants(folder: str, more: Mapping[str, str]) -> Contestants:
    return {
        "": _timed(plugin("ecr"), folder, more, _REQUEST),
        "botocore": _timed((BOTOCORE, "-c", _BOTOCORE_ECR), folder, more),
        "aws ecr get-authorization-token": _timed((AWS, "ecr", "get-authorization-token"), folder, more),
    }


def _proxy_contestants(folder: str, more: Mapping[str, str]) -> Contestants:
    helper = shutil.which("docker-credential-ecr-login")
    return {
        **_ecr_contestants(folder, more),
        "docker-credential-ecr-login": _timed((helper or "", "get"), folder, more, _HOST.encode()),
    }


def _eks_contestants(folder: str) -> Contestants:
    words = ("eks", "get-token", "--cluster-name", "c")
    return {
        "": _timed((*plugin("eks"), *words), folder, {}),
        "botocore": _timed((BOTOCORE, "-c", _BOTOCORE_EKS), folder, {}),
        "aws eks get-token": _timed((AWS, *words), folder, {}),
    }


def _rows(what: str, contestants: Contestants) -> list[Row]:
    """Return one row for each peer: keyferry's figure compared with the peer's."""
    failures = {name: _failure(contestant) for name, contestant in contestants.items()}
    if failures[""]:
        return [skipped(what, failures[""])]
    results = take_turns({name: contestants[name] for name in contestants if not failures[name]}, _ROUNDS)
    note = f"medians of {_ROUNDS} runs each"
    return [
        skipped(f"{what}, against {name}", failures[name])
        if failures[name]
        else Row(f"{what}, against {name}", median(results[""]), "ms", median(results[name]), name, note=note)
        for name in contestants
        if name
    ]


def _failure(contestant: Callable[[], Sequence[float]]) -> str:
    """Return why a contestant cannot be measured; empty if it can."""
    try:
        contestant()
    except OSError:
        return "not installed"
    except subprocess.CalledProcessError as error:
        return f"exit status {error.returncode}"
    return ""


def _timed(
    command: Sequence[str], folder: str, more: Mapping[str, str], stdin: bytes = b""
) -> Callable[[], Sequence[float]]:
    env = {"PATH": os.environ["PATH"], "HOME": folder, **_KEYS, **more}
    # Output goes nowhere: a pipe that is read would add this process's own work.
    quiet = partial(
        subprocess.run,
        command,
        input=stdin,
        env=env,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        check=True,
    )
    return lambda: [seconds_of(quiet) * 1e3]


def _start_rows(folder: str) -> list[Row]:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
        results = take_turns(
            {
                "bare": _timed(_BARE, folder, {}),
                "minimal": _timed((sys.executable, "-I", "-S", "-c", _MINIMAL), folder, {}, _REQUEST),
                "federate": _timed((*plugin("federate"), *_FEDERATE), folder, {}, _federate_request()),
                "http": partial(_until_first_byte, listener, folder, f"http://127.0.0.1:{port}"),
                "https": partial(_until_first_byte, listener, folder, f"https://127.0.0.1:{port}"),
            },
            _STARTS,
        )
    bare, note = median(results["bare"]), f"medians of {_STARTS} starts each"
    texts = {
        "minimal": "a plugin of the SDK that answers at once",
        "federate": "keyferry-federate, a token that is passed on",
        "http": "keyferry-ecr until its first byte to AWS, http",
        "https": "keyferry-ecr until its first byte to AWS, https",
    }
    bars = (_RUN_BAR, _RUN_BAR, _START_BAR, _START_BAR)
    return [
        Row(text, median(results[name]), "ms", bare, "python3 -I -S -c pass", bar, note)
        for (name, text), bar in zip(texts.items(), bars, strict=True)
    ]


def _federate_request() -> bytes:
    """Return a request with the token of a service account."""
    parts = [base64.urlsafe_b64encode(json.dumps(each).encode()).rstrip(b"=") for each in ({}, _SUBJECT)]
    token = b".".join([*parts, b"c2ln"]).decode()
    return json.dumps(
        {**json.loads(_REQUEST), "image": "registry.example/app", "serviceAccountToken": token}
    ).encode()


def _until_first_byte(listener: socket.socket, folder: str, url: str) -> list[float]:
    """Return the milliseconds from the start of keyferry-ecr to the first byte it sends; then kill it."""
    env = {"HOME": folder, **_KEYS, "AWS_ENDPOINT_URL": url}
    before = perf_counter()
    with subprocess.Popen(
        plugin("ecr"), stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env=env
    ) as process:
        assert process.stdin is not None
        process.stdin.write(_REQUEST)
        process.stdin.close()
        client, _ = listener.accept()
        with client:
            client.recv(1)
            passed = perf_counter() - before
            process.kill()
    return [passed * 1e3]
