"""Helpers for tests of plugins: call a plugin's function or executable as the kubelet or a client does.

``ask`` and ``ask_cluster`` call a plugin's function in this process, with the same parsing and checks as a real run.
``run`` and ``run_cluster`` start an executable in any language. All of them return an Outcome with the exit status, the
response and the standard error.
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Mapping, Sequence
from time import time

from keyferry._core.json import loads, loads_with_duplicates
from keyferry._core.values import Value, field
from keyferry.api.clientauthentication import v1 as clientauthentication
from keyferry.api.clientauthentication.v1 import (
    ClusterInfo,
    ExecCredential,
    ExecCredentialStatus,
    encode_exec_info,
)
from keyferry.api.credentialprovider.v1 import (
    GROUP,
    AuthConfig,
    CredentialProviderRequest,
    CredentialProviderResponse,
    encode_request,
)
from keyferry.api.wire import Reader
from keyferry.errors import DocumentError, ProvideError
from keyferry.sdk.cluster import VARIABLE, ProvideCluster, respond_cluster
from keyferry.sdk.image import GLOBAL, IMAGE, REGISTRY, Provide, respond

__all__ = ["Outcome", "ask", "ask_cluster", "run", "run_cluster"]

TIMEOUT_SECONDS = 60.0
_NANOSECONDS = 1_000_000_000


class Outcome(Value):
    """The result of a plugin run: its exit status, its response if there is one, and its standard error.

    *stdout* and *stderr* are not part of the repr, so that a test's output shows no secret.
    """

    status: int
    stdout: bytes = field(default=b"", repr=False)
    stderr: str = field(default="", repr=False)

    @property
    def response(self) -> CredentialProviderResponse:
        """The response of an image plugin; raises AssertionError if the kubelet would reject it or there is none."""
        document = self.document("CredentialProviderResponse")
        reader = Reader(loads_with_duplicates(self.stdout)[1])
        response = CredentialProviderResponse.from_document(document, reader)
        problem = reader.problems[0][1].message if reader.problems else ""
        if not problem and response.cache_key_type not in (IMAGE, REGISTRY, GLOBAL):
            problem = "cacheKeyType is not Image, Registry or Global"
        if problem:
            raise AssertionError(f"the kubelet would reject the response: {problem}")
        return response

    @property
    def credential(self) -> ExecCredentialStatus:
        """The response of a cluster plugin; raises AssertionError if a client would reject it or there is none."""
        reader = Reader(lenient=True)
        status = ExecCredential.from_document(self.document("ExecCredential"), reader).status
        if reader.problems:
            raise AssertionError(f"a client would reject the response: {reader.problems[0][1].message}")
        if status is None:
            raise AssertionError("the response has no status")
        return status

    @property
    def auth(self) -> Mapping[str, AuthConfig]:
        """The credentials of an image plugin's response, by key."""
        return self.response.auth or {}

    @property
    def cache_seconds(self) -> float | None:
        """The seconds an image plugin's response may be cached; None if it does not set them."""
        duration = self.response.cache_duration_ns
        return None if duration is None else duration / _NANOSECONDS

    @property
    def lifetime_seconds(self) -> float | None:
        """The seconds until a cluster plugin's credential expires; None if it has no expiry."""
        expiry = self.credential.expiration_ns
        return None if expiry is None else expiry / _NANOSECONDS - time()

    def document(self, kind: str) -> dict[str, object]:
        """Return standard output as one JSON object of *kind*; raise AssertionError if it is anything else."""
        if self.status != 0:
            raise AssertionError(f"the plugin exited with status {self.status}: {self.stderr.strip()}")
        document: object = None
        try:
            document = loads(self.stdout)
        except DocumentError:
            pass
        if not isinstance(document, dict):
            raise AssertionError("standard output is not exactly one JSON object")  # noqa: TRY004 - a test fails
        if document.get("kind") != kind:
            raise AssertionError(f"the response is of kind {document.get('kind')!r}, expected {kind!r}")
        return document


def ask(
    provide: Provide,
    image: str,
    *,
    service_account_token: str = "",
    service_account_annotations: Mapping[str, str] | None = None,
    api_version: str = "v1",
) -> Outcome:
    """Call an image plugin's function with a request for *image*."""
    request = _request(image, service_account_token, service_account_annotations, api_version)
    try:
        return Outcome(status=0, stdout=respond(provide, request))
    except ProvideError as error:
        return Outcome(status=1, stderr=f"{error}\n")


def ask_cluster(
    provide: ProvideCluster,
    *,
    interactive: bool = False,
    cluster: ClusterInfo | None = None,
    api_version: str = "v1",
) -> Outcome:
    """Call a cluster plugin's function with a client's request, *interactive* or not."""
    info = encode_exec_info(f"{clientauthentication.GROUP}/{api_version}", cluster, interactive=interactive)
    try:
        return Outcome(status=0, stdout=respond_cluster(provide, info))
    except ProvideError as error:
        return Outcome(status=1, stderr=f"{error}\n")


def run(
    command: Sequence[str],
    image: str,
    *,
    service_account_token: str = "",
    service_account_annotations: Mapping[str, str] | None = None,
    api_version: str = "v1",
    env: Mapping[str, str] | None = None,
) -> Outcome:
    """Start an image plugin with a request for *image*, as the kubelet does; *env* is added to the environment."""
    request = _request(image, service_account_token, service_account_annotations, api_version)
    return _run(command, request, env or {})


def run_cluster(
    command: Sequence[str],
    *,
    cluster: ClusterInfo | None = None,
    api_version: str = "v1",
    env: Mapping[str, str] | None = None,
) -> Outcome:
    """Start a cluster plugin as a client without a terminal does."""
    info = encode_exec_info(f"{clientauthentication.GROUP}/{api_version}", cluster, interactive=False)
    return _run(command, b"", {**(env or {}), VARIABLE: info})


def _request(image: str, token: str, annotations: Mapping[str, str] | None, api_version: str) -> bytes:
    request = CredentialProviderRequest(
        image=image, service_account_token=token, service_account_annotations=annotations
    )
    return encode_request(request, f"{GROUP}/{api_version}")


def _run(command: Sequence[str], stdin: bytes, env: Mapping[str, str]) -> Outcome:
    done = subprocess.run(
        command,
        input=stdin,
        env={**os.environ, **env},
        capture_output=True,
        timeout=TIMEOUT_SECONDS,
        check=False,
    )
    stderr = done.stderr.decode("utf-8", "replace")
    return Outcome(status=done.returncode, stdout=done.stdout, stderr=stderr)
