"""AKS identity bindings: an endpoint of the cluster, with its own address and server name, exchanges a pod's token."""

from __future__ import annotations

from keyferry._core.values import Value
from keyferry.sdk import ProvideError
from keyferry_plugins.azure.clouds import REGISTRY_SCOPE

TYPE_CHECKING = False
if TYPE_CHECKING:
    from keyferry.sdk import Deadline
    from keyferry.sdk.flags import Flags
    from keyferry.sdk.http import Retry
    from keyferry_plugins.azure.tokens import Token

__all__ = ["CA_FILE", "Bindings", "exchange_by_binding", "read_bindings"]

CA_FILE = "/etc/kubernetes/certs/ca.crt"
_NUMERIC = frozenset("0123456789.")


class Bindings(Value):
    """The endpoint of identity bindings: its TLS server name, the address to connect to, and the CA to trust."""

    server_name: str
    address: str
    default_client_id: str = ""
    default_tenant_id: str = ""
    ca_file: str = CA_FILE


def read_bindings(flags: Flags) -> Bindings | None:
    """Return the endpoint that the flags set, or None; raise ProvideError if the flags are inconsistent."""
    name, address = flags.text("ib-sni-name"), flags.text("ib-apiserver-ip")
    client, tenant = flags.text("ib-default-client-id"), flags.text("ib-default-tenant-id")
    if not name:
        for flag in ("ib-apiserver-ip", "ib-default-client-id", "ib-default-tenant-id"):
            if flags.text(flag):
                raise ProvideError(f"flag --{flag} needs --ib-sni-name, which is not given")
        return None
    if "://" in name or any(mark in name for mark in "/@?#") or any(char <= " " for char in name):
        raise ProvideError(f"flag --ib-sni-name: {name[:80]!r} is not a host name", "leave https:// out")
    if not address:
        raise ProvideError("flag --ib-sni-name needs --ib-apiserver-ip, which is not given")
    return Bindings(name, _check_address(address), client, tenant, flags.text("ib-ca-file") or CA_FILE)


def exchange_by_binding(
    bindings: Bindings, client_id: str, assertion: str, *, deadline: Deadline, retry: Retry | None = None
) -> Token:
    """Return a token for registries from the cluster's endpoint, in exchange for a pod's token."""
    from keyferry._net.forms import encode_form
    from keyferry.sdk.http import HttpOptions, Retry, fetch
    from keyferry_plugins.azure.entra import assertion_fields
    from keyferry_plugins.azure.tokens import read_token

    fields = {
        "grant_type": "client_credentials",
        **assertion_fields(assertion),
        "scope": REGISTRY_SCOPE,
        "client_id": client_id,
    }
    reply = fetch(
        "POST",
        f"https://{bindings.server_name}",
        deadline=deadline,
        headers={"Content-Type": "application/x-www-form-urlencoded", "Accept": "application/json"},
        body=encode_form(fields),
        retry=retry or Retry(),
        options=HttpOptions(
            use_proxy=False, ca_file=bindings.ca_file, address=bindings.address, connect_seconds=30.0
        ),
    )
    if reply.status == 200:
        return read_token(reply)
    from keyferry_plugins.azure.entra import refusal

    said = refusal(reply, (assertion,))
    raise ProvideError(
        f"identity binding for client {client_id!r}: {said.message}",
        "bind the managed identity to this cluster, and allow the service account to use it (az aks identity-binding)",
    )


def _check_address(text: str) -> str:
    """Check an IP address, or a host name that is resolved on connecting, and return it."""
    address = text.removeprefix("[").removesuffix("]")
    if ":" in address or _NUMERIC.issuperset(address):
        from ipaddress import ip_address

        try:
            ip_address(address)
        except ValueError:
            raise ProvideError(
                f"flag --ib-apiserver-ip: {text[:80]!r} is neither an address nor a name"
            ) from None
    return address
