"""The places that a container runtime asks for an image, in order, as values."""

from __future__ import annotations

from enum import StrEnum

from keyferry._core.docker_hub import HUB, REGISTRY_HOST
from keyferry._core.values import Value
from keyferry.pulls.mirrors.trust import HostTrust

__all__ = ["CredentialOffer", "Endpoint", "Mirrors", "RuntimeKind", "is_registry_host"]


class RuntimeKind(StrEnum):
    """The container runtimes whose files are read."""

    CONTAINERD = "containerd"
    CRIO = "CRI-O"


class CredentialOffer(StrEnum):
    """Whether a host that asks for a credential gets the one that the kubelet passes to the runtime."""

    OFFERED = "offered"
    WITHHELD = "withheld"
    UNKNOWN = "unknown"


class Endpoint(Value):
    """A place that the runtime asks: its *url* as it is set, its *host* with the port, and where requests start.

    *api* is that start, usually the URL and ``/v2``. *repository* is the image's repository there, empty if it is not
    known. *is_registry* tells whether the host is the image's own registry. *is_insecure* means plain HTTP, or any
    certificate. With *has_login*, the runtime has a credential of its own for the host: a header that it sends first,
    or one for pulls without a credential.

    *trust* is how the runtime connects to this host. If *falls_back*, it tries HTTPS and then plain HTTP. *resolves*
    tells whether it asks this host for the manifest of such an image. *namespace* is the registry's name, which
    containerd tells a host that is not the registry.
    """

    url: str
    host: str
    api: str
    repository: str = ""
    is_registry: bool = False
    offer: CredentialOffer = CredentialOffer.OFFERED
    is_insecure: bool = False
    has_login: bool = False
    trust: HostTrust = HostTrust()
    falls_back: bool = False
    resolves: bool = True
    namespace: str = ""


class Mirrors(Value):
    """Where a runtime goes for an image, by *file*, or the *problem* that kept the file from being read.

    *doubt* tells why the runtime may not read the file. A blocked image is not pulled at all; *blocked_line* is the
    number of the line that blocks it, 0 if it is not known.
    """

    runtime: RuntimeKind
    file: str
    endpoints: tuple[Endpoint, ...] = ()
    problem: str = ""
    doubt: str = ""
    is_blocked: bool = False
    blocked_line: int = 0

    @property
    def others(self) -> tuple[Endpoint, ...]:
        """The places that are not the image's own registry."""
        return tuple(each for each in self.endpoints if not each.is_registry)

    @property
    def hosts(self) -> tuple[str, ...]:
        """The URLs of these places."""
        return tuple(each.url for each in self.others)

    @property
    def is_login_only(self) -> bool:
        """Whether the file has only a login for the registry itself."""
        return not self.others and any(each.has_login for each in self.endpoints)

    def asks_registry(self, repository: str) -> bool:
        """Return whether the runtime asks the image's own registry for *repository*, as far as the file tells."""
        if not self.endpoints:
            return True
        own = (each for each in self.endpoints if each.is_registry)
        return any(each.repository == repository and each.api.endswith(f"//{each.host}/v2") for each in own)

    def is_registry_alone(self, repository: str) -> bool:
        """Return whether the file only tells how to connect to the image's own registry for *repository*."""
        has_login = any(each.has_login for each in self.endpoints)
        is_other = self.problem or self.is_blocked or self.others or has_login
        return not is_other and self.asks_registry(repository)

    def __str__(self) -> str:
        if self.problem:
            return f"{self.file} may name a mirror, but {self.problem}"
        if self.is_blocked:
            return f"{self.runtime} does not pull it: {self.file} blocks it"
        names = ", then ".join(each.url for each in self.endpoints)
        doubt = f"; {self.doubt}" if self.doubt else ""
        return f"{self.runtime} asks {names} ({self.file}{doubt})"


def is_registry_host(host: str, registry: str) -> bool:
    """Return whether *host* is the server of *registry*."""
    own = (registry, f"{registry}:443", f"{registry}:80")
    return host in own or (registry == HUB and host == REGISTRY_HOST)
