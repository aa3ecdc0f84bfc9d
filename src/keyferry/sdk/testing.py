"""What a test of a plugin needs: ask its function, or its executable, as the kubelet or a client would.

``ask`` and ``ask_cluster`` call a plugin's function in this process, through the same reading, checking and
writing as a real run. ``run`` and ``run_cluster`` start an executable, in any language. All of them give an
Outcome; a test looks at its status, its response and what went to standard error.
"""

import os
import subprocess
from collections.abc import Mapping, Sequence
from time import time

from keyferry._core.json import loads, loads_with_duplicates
from keyferry._core.values import Value, field
from keyferry.api.clientauthentication import v1 as clientauthentication
from keyferry.api.clientauthentication.v1 import (
    ClusterInfo,
    ExecCredentialStatus,
    encode_exec_info,
    read_exec_credential,
)
from keyferry.api.codec import Reader
from keyferry.api.credentialprovider.v1 import (
    GROUP,
    AuthConfig,
    CredentialProviderRequest,
    CredentialProviderResponse,
    encode_request,
    read_response,
)
from keyferry.errors import DocumentError, ProvideError
from keyferry.sdk.cluster import VARIABLE, respond_cluster
from keyferry.sdk.image import GLOBAL, IMAGE, REGISTRY, respond

TYPE_CHECKING = False
if TYPE_CHECKING:
    from keyferry.sdk.cluster import ProvideCluster
    from keyferry.sdk.image import Provide

__all__ = ["Outcome", "ask", "ask_cluster", "run", "run_cluster"]

TIMEOUT_SECONDS = 60.0
_NANOSECONDS = 1_000_000_000


class Outcome(Value):
    """What a plugin did: its exit status, what it said on standard error, and its answer if it gave one.

    Shows no secret in a test's output: *stdout* and *stderr* are not part of its repr.
    """

    status: int
    stdout: bytes = field(default=b"", repr=False)
    stderr: str = field(default="", repr=False)

    @property
    def response(self) -> CredentialProviderResponse:
        """The answer of an image plugin; AssertionError if there is none, or one that the kubelet would refuse."""
        document = self.document("CredentialProviderResponse")
        reader = Reader(loads_with_duplicates(self.stdout)[1])
        response = read_response(document, reader)
        problem = reader.problems[0][1].message if reader.problems else ""
        if not problem and response.cache_key_type not in (IMAGE, REGISTRY, GLOBAL):
            problem = "cacheKeyType is none of Image, Registry, Global"
        if problem:
            raise AssertionError(f"the kubelet would refuse the answer: {problem}")
        return response

    @property
    def credential(self) -> ExecCredentialStatus:
        """The answer of a cluster plugin; AssertionError if there is none, or one that a client would refuse."""
        reader = Reader(lenient=True)
        status = read_exec_credential(self.document("ExecCredential"), reader).status
        if reader.problems:
            raise AssertionError(f"a client would refuse the answer: {reader.problems[0][1].message}")
        if status is None:
            raise AssertionError("the answer has no status")
        return status

    @property
    def auth(self) -> Mapping[str, AuthConfig]:
        """The credentials of an image plugin's answer, by key."""
        return self.response.auth or {}

    @property
    def cache_seconds(self) -> float | None:
        """How long an image plugin's answer may be cached; None if it does not say."""
        duration = self.response.cache_duration_ns
        return None if duration is None else duration / _NANOSECONDS

    @property
    def lifetime_seconds(self) -> float | None:
        """How long from now a cluster plugin's answer holds; None if it does not say."""
        expiry = self.credential.expiration_ns
        return None if expiry is None else expiry / _NANOSECONDS - time()

    def document(self, kind: str) -> dict[str, object]:
        """Standard output, which is to be one JSON object of *kind*; AssertionError otherwise."""
        if self.status != 0:
            raise AssertionError(f"the plugin exited with status {self.status}: {self.stderr.strip()}")
        document: object = None
        try:
            document = loads(self.stdout)
        except DocumentError:
            pass
        if not isinstance(document, dict):
            raise AssertionError("standard output is not one JSON object, and nothing else")  # noqa: TRY004 - a test fails
        if document.get("kind") != kind:
            raise AssertionError(f"the answer is of kind {document.get('kind')!r}, not {kind!r}")
        return document


def ask(
    provide: "Provide",
    image: str,
    *,
    service_account_token: str = "",
    service_account_annotations: Mapping[str, str] | None = None,
    api_version: str = "v1",
) -> Outcome:
    """Ask an image plugin's function for *image*."""
    request = _request(image, service_account_token, service_account_annotations, api_version)
    try:
        return Outcome(0, respond(provide, request))
    except ProvideError as error:
        return Outcome(1, stderr=f"{error}\n")


def ask_cluster(
    provide: "ProvideCluster",
    *,
    interactive: bool = False,
    cluster: ClusterInfo | None = None,
    api_version: str = "v1",
) -> Outcome:
    """Ask a cluster plugin's function, as a client would that may or may not ask its user."""
    info = encode_exec_info(f"{clientauthentication.GROUP}/{api_version}", cluster, interactive=interactive)
    try:
        return Outcome(0, respond_cluster(provide, info))
    except ProvideError as error:
        return Outcome(1, stderr=f"{error}\n")


def run(
    command: Sequence[str],
    image: str,
    *,
    service_account_token: str = "",
    service_account_annotations: Mapping[str, str] | None = None,
    api_version: str = "v1",
    env: Mapping[str, str] | None = None,
) -> Outcome:
    """Start an image plugin as the kubelet does and ask it for *image*; *env* is set on top of this process's own."""
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
    return encode_request(CredentialProviderRequest(image, token, annotations), f"{GROUP}/{api_version}")


def _run(command: Sequence[str], stdin: bytes, env: Mapping[str, str]) -> Outcome:
    done = subprocess.run(
        command,
        input=stdin,
        env={**os.environ, **env},
        capture_output=True,
        timeout=TIMEOUT_SECONDS,
        check=False,
    )
    return Outcome(done.returncode, done.stdout, done.stderr.decode("utf-8", "replace"))
