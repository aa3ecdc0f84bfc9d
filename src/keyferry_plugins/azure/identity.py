"""Choose the identity that requests registry credentials, and obtain its token."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from keyferry._core.values import Value, field
from keyferry.sdk import Deadline, ProvideError, Request
from keyferry.sdk.flags import Flags
from keyferry.sdk.http import HttpOptions, Retry
from keyferry_plugins.azure.clouds import REGISTRY_RESOURCE, REGISTRY_SCOPE, Cloud
from keyferry_plugins.azure.config import Config
from keyferry_plugins.azure.entra import Application, assertion_fields, check_tenant, read_token, refusal
from keyferry_plugins.azure.federation import exchange_assertion, read_token_file
from keyferry_plugins.azure.managed_identity import Identity, IdentityRequest, request_identity_token
from keyferry_plugins.oauth.answers import Token, refused
from keyferry_plugins.oauth.calls import post_form

DEFAULT_CA_FILE = "/etc/kubernetes/certs/ca.crt"
CLIENT_ANNOTATION = "kubernetes.azure.com/acr-client-id"
TENANT_ANNOTATION = "kubernetes.azure.com/acr-tenant-id"


class Bindings(Value):
    """The endpoint of AKS identity bindings, which a cluster serves to exchange a pod's token.

    *server_name* is its TLS server name, *address* the one to connect to, and *ca_file* the CA to trust.
    """

    server_name: str
    address: str
    default_client_id: str = ""
    default_tenant_id: str = ""
    ca_file: str = DEFAULT_CA_FILE


class RegistryIdentity(Value):
    """An identity; *obtain* requests its token, *tenant* is named to the registry, *grantee* is its name in hints.

    An identity without *obtain* is a service principal that logs in with *password*.
    """

    grantee: str
    tenant: str = ""
    obtain: Callable[[], Token] | None = None
    password: str = field(default="", repr=False)


class RequestContext(Value):
    """Everything that determines which identity is used and how its token is requested."""

    request: Request
    config: Config
    cloud: Cloud
    environ: Mapping[str, str] = field(repr=False)
    deadline: Deadline
    bindings: Bindings | None = None
    retry: Retry | None = None
    is_compat: bool = False

    def registry_tenant(self, named: str = "") -> str:
        """Return the tenant to name to the registry: the one *named*, or the config's, which upstream always names."""
        if self.is_compat:
            return self.config.tenant_id
        tenant = named or self.config.tenant_id
        return check_tenant(tenant) if tenant else ""

    def application(self, client_id: str, tenant: str = "") -> Application:
        """Return an application in *tenant*, or in the config's tenant if that is empty."""
        authority, named = self.cloud.authority, tenant or self.config.tenant_id
        # A private cloud with AD FS includes it in its login endpoint.
        if authority.lower().endswith("/adfs/"):
            authority, named = authority[: -len("adfs/")], "adfs"
        return Application(
            authority=authority, tenant=named, client_id=client_id, user_agent=self.config.user_agent
        )


def read_bindings(flags: Flags) -> Bindings | None:
    """Return the endpoint that the flags set, or None; raise ProvideError if the flags are inconsistent."""
    name, address = flags.text("ib-sni-name"), flags.text("ib-apiserver-ip")
    if not name:
        for flag in ("ib-apiserver-ip", "ib-default-client-id", "ib-default-tenant-id"):
            if flags.text(flag):
                raise ProvideError(f"flag --{flag} needs --ib-sni-name, which is not given")
        return None
    if "://" in name or any(mark in name for mark in "/@?#") or any(char <= " " for char in name):
        raise ProvideError(f"flag --ib-sni-name: {name[:80]!r} is not a host name", "leave https:// out")
    if not address:
        raise ProvideError("flag --ib-sni-name needs --ib-apiserver-ip, which is not given")
    return Bindings(
        server_name=name,
        address=_check_address(address),
        default_client_id=flags.text("ib-default-client-id"),
        default_tenant_id=flags.text("ib-default-tenant-id"),
        ca_file=flags.text("ib-ca-file") or DEFAULT_CA_FILE,
    )


def _check_address(text: str) -> str:
    """Check an IP address, or a host name that is resolved on connecting, and return it."""
    address = text.removeprefix("[").removesuffix("]")
    if ":" in address or not address.strip("0123456789."):
        from ipaddress import ip_address

        try:
            ip_address(address)
        except ValueError:
            raise ProvideError(
                f"flag --ib-apiserver-ip: {text[:80]!r} is neither an address nor a name"
            ) from None
    return address


def choose_pod_identity(context: RequestContext) -> RegistryIdentity | None:
    """Return the identity of the pod's service account, or None if the kubelet sends no token for it."""
    if context.bindings is not None:
        return _by_binding(context, context.bindings)
    return _by_federation(context) if context.request.service_account_token else None


def choose_node_identity(context: RequestContext) -> RegistryIdentity | None:
    """Return the node's identity, or None if the config sets none."""
    config = context.config
    if config.use_federated_identity and not context.is_compat:
        return _by_token_file(context)
    if config.use_managed_identity:
        return _managed(context)
    if context.is_compat or (config.client_id and config.client_secret):
        return RegistryIdentity(grantee=f"application {config.client_id!r}", password=config.client_secret)
    if config.client_id and config.certificate_path:
        return _by_certificate(context)
    if config.federated_token_file or context.environ.get("AZURE_FEDERATED_TOKEN_FILE"):
        return _by_token_file(context)
    return None


def _managed(context: RequestContext) -> RegistryIdentity:
    identity = Identity.parse(context.config.user_assigned_identity)
    question = IdentityRequest(
        resource=REGISTRY_RESOURCE,
        identity=identity,
        environ=context.environ,
        deadline=context.deadline,
        retry=context.retry,
    )
    return RegistryIdentity(
        tenant=context.registry_tenant(),
        grantee=str(identity),
        obtain=lambda: request_identity_token(question),
    )


def _federated(
    context: RequestContext, client: str, tenant: str, assertion: Callable[[], str]
) -> RegistryIdentity:
    """Return an application that exchanges an assertion, which is read or signed when it is needed."""
    application = context.application(client, tenant)
    return RegistryIdentity(
        tenant=context.registry_tenant(tenant),
        grantee=f"application {client!r}",
        obtain=lambda: exchange_assertion(
            application, assertion(), REGISTRY_SCOPE, deadline=context.deadline, retry=context.retry
        ),
    )


def _by_federation(context: RequestContext) -> RegistryIdentity:
    annotations, token = context.request.service_account_annotations, context.request.service_account_token
    client, tenant = annotations.get(CLIENT_ANNOTATION, ""), annotations.get(TENANT_ANNOTATION, "")
    if not client or not tenant:
        missing = TENANT_ANNOTATION if client else CLIENT_ANNOTATION
        raise ProvideError(
            f"the service account has no annotation {missing!r}, or an empty one",
            "annotate the service account, and name both annotations in requiredServiceAccountAnnotationKeys"
            " of the provider's tokenAttributes",
        )
    return _federated(context, client, tenant, lambda: token)


def _by_binding(context: RequestContext, bindings: Bindings) -> RegistryIdentity:
    annotations, token = context.request.service_account_annotations, context.request.service_account_token
    client = annotations.get(CLIENT_ANNOTATION, bindings.default_client_id)
    tenant = annotations.get(TENANT_ANNOTATION, bindings.default_tenant_id)
    if not token:
        raise ProvideError(
            "identity bindings need the service account's token, but the request has none",
            "set tokenAttributes with serviceAccountTokenAudience api://AKSIdentityBinding in the kubelet's config",
        )
    if not client:
        raise ProvideError(
            "identity bindings: there is no client ID",
            f"annotate the service account with {CLIENT_ANNOTATION}, or give --ib-default-client-id",
        )
    return RegistryIdentity(
        tenant=context.registry_tenant(tenant),
        grantee=f"application {client!r}",
        obtain=lambda: _exchange_by_binding(context, bindings, client, token),
    )


def _exchange_by_binding(
    context: RequestContext, bindings: Bindings, client_id: str, assertion: str
) -> Token:
    """Return a token for registries from the cluster's endpoint, in exchange for a pod's token."""
    fields = {
        "grant_type": "client_credentials",
        **assertion_fields(assertion),
        "scope": REGISTRY_SCOPE,
        "client_id": client_id,
    }
    reply = post_form(
        f"https://{bindings.server_name}",
        fields,
        deadline=context.deadline,
        retry=context.retry or Retry(),
        options=HttpOptions(
            use_proxy=False, ca_file=bindings.ca_file, address=bindings.address, connect_seconds=30.0
        ),
    )
    if reply.status == 200:
        return read_token(reply)
    raise refused(
        reply,
        f"identity binding for client {client_id!r}: {refusal(reply, (assertion,)).message}",
        "bind the managed identity to this cluster, and allow the service account to use it (az aks identity-binding)",
    )


def _by_certificate(context: RequestContext) -> RegistryIdentity:
    config = context.config
    application = context.application(config.client_id)

    def sign() -> str:
        from keyferry_plugins.azure.signatures import sign_assertion

        return sign_assertion(application, config.certificate_path, config.certificate_password)

    return _federated(context, config.client_id, config.tenant_id, sign)


def _by_token_file(context: RequestContext) -> RegistryIdentity:
    config, environ = context.config, context.environ
    client = config.client_id or environ.get("AZURE_CLIENT_ID", "")
    tenant = config.tenant_id or environ.get("AZURE_TENANT_ID", "")
    path = config.federated_token_file or environ.get("AZURE_FEDERATED_TOKEN_FILE", "")
    if not client or not tenant or not path:
        raise ProvideError(
            "workload identity needs a client ID, a tenant and a token file, but not all are set",
            "set aadClientId, tenantId and aadFederatedTokenFile in the cloud config,"
            " or AZURE_CLIENT_ID, AZURE_TENANT_ID and AZURE_FEDERATED_TOKEN_FILE",
        )
    return _federated(context, client, tenant, lambda: read_token_file(path, "the federated token file"))
