"""``client.authentication.k8s.io/v1``: requests to and responses from exec credential plugins for clusters.

v1beta1 has the same fields.
"""

from __future__ import annotations

import re

from keyferry._core.json import dumps, loads
from keyferry._core.values import replace
from keyferry.api.wire import WireValue, base64, boolean, json_text, object_of, text, unquoted_time, wire
from keyferry.errors import DocumentError, Kind

__all__ = [
    "API_VERSION",
    "API_VERSIONS",
    "ClusterInfo",
    "ExecCredential",
    "ExecCredentialSpec",
    "ExecCredentialStatus",
    "encode_exec_credential",
    "encode_exec_info",
]

GROUP = "client.authentication.k8s.io"
KIND = "ExecCredential"
API_VERSION = f"{GROUP}/v1"
API_VERSIONS = (API_VERSION, f"{GROUP}/v1beta1")
_JSON_BEGINS = tuple('\t\r\n {[ntf"-0123456789')
_UNRECOGNIZED = "cannot convert RawExtension with unrecognized content type to unstructured"


class ClusterInfo(WireValue):
    """The cluster that a credential is for; *config* is the plugin's configuration as JSON text."""

    server: str = wire("server", text, always=True, default="")
    tls_server_name: str = wire("tls-server-name", text, default="")
    insecure_skip_tls_verify: bool = wire("insecure-skip-tls-verify", boolean, default=False)
    certificate_authority_data: bytes = wire("certificate-authority-data", base64, default=b"")
    proxy_url: str = wire("proxy-url", text, default="", repr=False)  # may hold a password
    disable_compression: bool = wire("disable-compression", boolean, default=False)
    config: str | None = wire("config", json_text, default=None, repr=False)


class ExecCredentialSpec(WireValue):
    """A request: the cluster that the credential is for, and whether the plugin may ask the user."""

    cluster: ClusterInfo | None = wire("cluster", object_of(ClusterInfo), default=None)
    interactive: bool = wire("interactive", boolean, always=True, default=False)


class ExecCredentialStatus(WireValue):
    """The response: a token, a certificate and key as PEM, or both; *expiration_ns* is Unix time."""

    expiration_ns: int | None = wire("expirationTimestamp", unquoted_time, default=None)
    token: str = wire("token", text, default="", repr=False)
    client_certificate_data: str = wire("clientCertificateData", text, default="")
    client_key_data: str = wire("clientKeyData", text, default="", repr=False)


class ExecCredential(WireValue):
    """A request, in *spec*, or a response, in *status*. Kubernetes ignores its unknown and repeated fields."""

    spec: ExecCredentialSpec = wire(
        "spec", object_of(ExecCredentialSpec), always=True, default=ExecCredentialSpec()
    )
    status: ExecCredentialStatus | None = wire("status", object_of(ExecCredentialStatus), default=None)


def encode_exec_info(api_version: str, cluster: ClusterInfo | None, *, interactive: bool) -> str:
    """Return the text of KUBERNETES_EXEC_INFO exactly as client-go writes it, with its final newline.

    Raise DocumentError for a config that is not JSON.
    """
    spec = f'"interactive":{"true" if interactive else "false"}'
    if cluster is not None:
        fields = replace(cluster, config=None).to_document()
        # The config is not decoded and encoded again, which would change the order of keys and the form of numbers.
        spec = f'"cluster":{dumps(fields)[:-1]},"config":{_compact(cluster.config)}}},{spec}'
    return f'{{"kind":"{KIND}","apiVersion":{dumps(api_version)},"spec":{{{spec}}}}}\n'


def encode_exec_credential(status: ExecCredentialStatus, api_version: str = API_VERSION) -> bytes:
    """Return the bytes a plugin of *api_version* writes: one JSON document on one line, without empty fields.

    The expiry is rounded down to whole seconds, as plugins written in Go do.
    """
    document = {"kind": KIND, "apiVersion": api_version, **ExecCredential(status=status).to_document()}
    return (dumps(document) + "\n").encode()


def _compact(config: str | None) -> str:
    """Return JSON text without blanks outside strings, with Go's escapes."""
    if config is None:
        return "null"
    # Kubernetes checks the first byte of the config before it passes the config to the encoder.
    failure = "" if config[:1] in _JSON_BEGINS else _UNRECOGNIZED
    try:
        loads(config, quoting=True)
    except DocumentError as error:
        failure = failure or error.kubernetes_text
    if failure:
        text = f"json: error calling MarshalJSON for type *runtime.RawExtension: {failure}"
        raise DocumentError(
            "the cluster's config for the plugin is not JSON",
            kubernetes_text=f"encode ExecCredentials: {text}",
            kind=Kind.OTHER,
        )
    kept = re.sub(r'("[^"\\]*(?:\\.[^"\\]*)*")|[ \t\r\n]+', lambda match: match[1] or "", config)
    return re.sub("[<>&\u2028\u2029]", lambda match: f"\\u{ord(match[0]):04x}", kept)
