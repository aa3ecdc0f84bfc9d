"""What a caller chooses about a cluster: kubectl's global flags as plain data."""

from __future__ import annotations

from collections.abc import Iterator

from keyferry._core.values import Value, field


class Overrides(Value):
    """The values of kubectl's global flags; an empty value overrides nothing.

    *request_timeout_seconds* limits each request as a whole, 0 means no limit, and None leaves it to each request.
    """

    context: str = ""
    cluster: str = ""
    user: str = ""
    namespace: str = ""
    server: str = ""
    tls_server_name: str = ""
    username: str = ""
    password: str = field(default="", repr=False)
    token: str = field(default="", repr=False)
    insecure: bool = False
    certificate_authority: str = ""
    proxy_url: str = field(default="", repr=False)
    disable_compression: bool = False
    client_certificate: str = ""
    client_key: str = ""
    impersonate: str = ""
    impersonate_uid: str = ""
    impersonate_groups: tuple[str, ...] = ()
    request_timeout_seconds: float | None = None


class ClusterOptions(Overrides):
    """The cluster to ask, with the meaning of ``load_cluster``: the kubeconfig, and what replaces its values."""

    kubeconfig: str | None = None
    trust: bool = False

    def flags(self) -> Iterator[str]:
        """Yield the words of a command line of kubectl for the same cluster and user; the token is a placeholder."""
        for name, flag in _FLAGS.items():
            value = getattr(self, name)
            if value is True:
                yield flag
                continue
            for each in value if isinstance(value, tuple) else (value,):
                if each not in ("", None, False):
                    yield from (flag, "TOKEN" if name == "token" else _word(each))


def _word(value: object) -> str:
    return f"{value:g}" if isinstance(value, float) else str(value)


# kubectl's flags for the fields; the namespace stands with what is asked about.
_FLAGS = {
    "kubeconfig": "--kubeconfig",
    "context": "--context",
    "cluster": "--cluster",
    "user": "--user",
    "server": "--server",
    "tls_server_name": "--tls-server-name",
    "certificate_authority": "--certificate-authority",
    "insecure": "--insecure-skip-tls-verify",
    "token": "--token",
    "impersonate": "--as",
    "impersonate_groups": "--as-group",
    "impersonate_uid": "--as-uid",
    "request_timeout_seconds": "--request-timeout",
}
