"""Plugins as pip installs them: their start beside that of Python, and whole runs beside AWS' own tools."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import partial

from bench.certificate import make_certificate
from bench.measure import Row, run_of, take_turns
from bench.programs import AWS, BOTOCORE, ECR_HELPER, script

_STARTS = 40
_RUNS = 15
_BARE = "python -I -S"
# What a plugin in Python must load in any case: it reads and writes JSON.
_WITH_JSON = "python, import json"
_SDK_BAR, _HTTP_BAR, _HTTPS_BAR, _CLI_BAR = 2.5, 3.5, 5.0, 0.15
_AWS_HOSTS = ("api.ecr.us-east-1.amazonaws.com", "sts.us-east-1.amazonaws.com")
_REGISTRY = "123456789012.dkr.ecr.us-east-1.amazonaws.com"
_REQUEST = json.dumps(
    {
        "kind": "CredentialProviderRequest",
        "apiVersion": "credentialprovider.kubelet.k8s.io/v1",
        "image": f"{_REGISTRY}/app",
    }
).encode()
_SDK_PLUGIN = """\
#!{}
from keyferry.sdk import Response, serve

serve(lambda request: Response.for_registry(request, "user", "word"))
"""
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
    """Return rows for starts, for keyferry-ecr over TLS through a proxy, and for keyferry-eks."""
    environ = {"PATH": os.environ["PATH"], "HOME": folder, **_KEYS}
    home = os.path.join(folder, "aws")
    os.mkdir(home)
    certificate, key = make_certificate(home, *_AWS_HOSTS)
    with _endpoint(certificate, key) as url:
        proxied = {**environ, "HTTPS_PROXY": url, "AWS_CA_BUNDLE": certificate}
        return [*_start_rows(home, environ), *_ecr_rows(proxied), *_eks_rows(environ)]


@contextmanager
def _endpoint(certificate: str, key: str) -> Iterator[str]:
    """Run a fake AWS, which is also a proxy, for the length of a block; yield its address."""
    command = [sys.executable, os.path.join(os.path.dirname(__file__), "aws_endpoint.py"), certificate, key]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as server:
        assert server.stdout is not None
        try:
            yield f"http://127.0.0.1:{int(server.stdout.readline())}"
        finally:
            server.terminate()


def _start_rows(home: str, environ: Mapping[str, str]) -> list[Row]:
    plugin = os.path.join(home, "plugin")
    with open(plugin, "w", encoding="utf-8") as stream:
        stream.write(_SDK_PLUGIN.format(script("python")))
    os.chmod(plugin, 0o755)
    with socket.create_server(("127.0.0.1", 0)) as listener:
        listener.settimeout(30)
        address = f"127.0.0.1:{listener.getsockname()[1]}"
        results = take_turns(
            {
                _BARE: run_of((script("python"), "-I", "-S", "-c", "pass"), environ),
                _WITH_JSON: run_of((script("python"), "-c", "import json"), environ),
                "SDK": run_of((plugin,), environ, _REQUEST),
                "http": partial(_until_first_byte, listener, environ, f"http://{address}"),
                "https": partial(_until_first_byte, listener, environ, f"https://{address}"),
            },
            _STARTS,
        )
    return [
        results.row("SDK plugin that answers at once", "SDK", _BARE, most_times=_SDK_BAR),
        results.row("SDK plugin that answers at once", "SDK", _WITH_JSON),
        results.row("keyferry-ecr to its first byte, http", "http", _BARE, most_times=_HTTP_BAR),
        results.row("keyferry-ecr to its first byte, https", "https", _BARE, most_times=_HTTPS_BAR),
    ]


def _until_first_byte(listener: socket.socket, environ: Mapping[str, str], url: str) -> list[float]:
    """Return the milliseconds from the start of keyferry-ecr to the first byte it sends; then kill it."""
    before = time.perf_counter()
    with subprocess.Popen(
        [script("keyferry-ecr")],
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        env={**environ, "AWS_ENDPOINT_URL": url},
    ) as process:
        assert process.stdin is not None
        process.stdin.write(_REQUEST)
        process.stdin.close()
        client, _ = listener.accept()
        with client:
            client.recv(1)
            passed = time.perf_counter() - before
            process.kill()
    return [passed * 1e3]


def _ecr_rows(environ: Mapping[str, str]) -> list[Row]:
    results = take_turns(
        {
            "keyferry-ecr": run_of((script("keyferry-ecr"),), environ, _REQUEST),
            "aws ecr": run_of((AWS, "ecr", "get-authorization-token"), environ),
            "botocore": run_of((BOTOCORE, "-c", _BOTOCORE_ECR), environ),
            "Go's ecr-login": run_of((ECR_HELPER, "get"), environ, _REGISTRY.encode()),
        },
        _RUNS,
    )
    row = partial(results.row, "keyferry-ecr, TLS through a proxy", "keyferry-ecr")
    return [row("aws ecr", most_times=_CLI_BAR), row("botocore"), row("Go's ecr-login")]


def _eks_rows(environ: Mapping[str, str]) -> list[Row]:
    words = ("eks", "get-token", "--cluster-name", "c")
    results = take_turns(
        {
            "keyferry-eks": run_of((script("keyferry-eks"), *words), environ),
            "aws eks": run_of((AWS, *words), environ),
            "botocore": run_of((BOTOCORE, "-c", _BOTOCORE_EKS), environ),
        },
        _RUNS,
    )
    row = partial(results.row, "keyferry-eks, whole job", "keyferry-eks")
    return [row("aws eks", most_times=_CLI_BAR), row("botocore")]
