"""Choose the identity that requests registry credentials, and obtain its token."""

from __future__ import annotations

from keyferry._core.values import Value, field
from keyferry.sdk import ProvideError
from keyferry_plugins.azure.clouds import REGISTRY_RESOURCE, REGISTRY_SCOPE
from keyferry_plugins.azure.entra import Application

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from keyferry.sdk import Deadline, Request
    from keyferry.sdk.http import Retry
    from keyferry_plugins.azure.bindings import Bindings
    from keyferry_plugins.azure.clouds import Cloud
    from keyferry_plugins.azure.config import Config
    from keyferry_plugins.azure.tokens import Token

__all__ = ["RequestContext", "Source", "choose_node_source", "choose_pod_source"]

CLIENT_ANNOTATION = "kubernetes.azure.com/acr-client-id"
TENANT_ANNOTATION = "kubernetes.azure.com/acr-tenant-id"


class Source(Value):
    """An identity; *obtain* requests its token, *tenant* is its tenant, *grantee* its name in hints.

    An identity without *obtain* is a service principal that logs in with *password*.
    """

    tenant: str
    grantee: str
    obtain: Callable[[], Token] | None = None
    password: str = field(default="", repr=False)


class RequestContext(Value):
    """Everything that determines which identity is used and how its token is requested."""

    request: Request
    config: Config
    cloud: Cloud
    environ: Mapping[str, str]
    deadline: Deadline
    bindings: Bindings | None = None
    retry: Retry | None = None
    compat: bool = False

    def application(self, client_id: str, tenant: str = "") -> Application:
        """Return an application in *tenant*, or in the config's tenant if that is empty."""
        authority, named = self.cloud.authority, tenant or self.config.tenant_id
        # A private cloud with AD FS includes it in its login endpoint.
        if authority.lower().endswith("/adfs/"):
            authority, named = authority[: -len("adfs/")], "adfs"
        return Application(authority, named, client_id, self.config.user_agent)


def choose_pod_source(given: RequestContext) -> Source | None:
    """Return the identity of the pod's service account, or None if the kubelet sends no token for it."""
    if given.bindings is not None:
        return _by_binding(given, given.bindings)
    return _by_federation(given) if given.request.service_account_token else None


def choose_node_source(given: RequestContext) -> Source | None:
    """Return the node's identity, or None if the config sets none."""
    config = given.config
    if config.use_federated_identity and not given.compat:
        return _by_token_file(given)
    if config.use_managed_identity:
        return _managed(given)
    if given.compat or (config.client_id and config.client_secret):
        return Source(config.tenant_id, f"application {config.client_id!r}", password=config.client_secret)
    if config.client_id and config.certificate_path:
        return _by_certificate(given)
    if config.federated_token_file or given.environ.get("AZURE_FEDERATED_TOKEN_FILE"):
        return _by_token_file(given)
    return None


def _managed(given: RequestContext) -> Source:
    from keyferry_plugins.azure.managed_identity import Identity, IdentityRequest, request_identity_token

    identity = Identity.parse(given.config.user_assigned_identity)
    question = IdentityRequest(REGISTRY_RESOURCE, identity, given.environ, given.deadline, given.retry)
    return Source(given.config.tenant_id, str(identity), lambda: request_identity_token(question))


def _by_federation(given: RequestContext) -> Source:
    from keyferry_plugins.azure.federation import exchange_assertion

    client, tenant = (_annotation(given, name) for name in (CLIENT_ANNOTATION, TENANT_ANNOTATION))
    if not client or not tenant:
        missing = TENANT_ANNOTATION if client else CLIENT_ANNOTATION
        raise ProvideError(
            f"the service account has no annotation {missing!r}, or an empty one",
            "annotate the service account, and name both annotations in requiredServiceAccountAnnotationKeys"
            " of the provider's tokenAttributes",
        )
    application = given.application(client, tenant)
    token = given.request.service_account_token
    return Source(
        given.config.tenant_id if given.compat else tenant,
        f"application {client!r}",
        lambda: exchange_assertion(
            application, token, REGISTRY_SCOPE, deadline=given.deadline, retry=given.retry
        ),
    )


def _by_binding(given: RequestContext, bindings: Bindings) -> Source:
    from keyferry_plugins.azure.bindings import exchange_by_binding

    annotations, token = given.request.service_account_annotations, given.request.service_account_token
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
    return Source(
        given.config.tenant_id if given.compat else tenant or given.config.tenant_id,
        f"application {client!r}",
        lambda: exchange_by_binding(bindings, client, token, deadline=given.deadline, retry=given.retry),
    )


def _by_certificate(given: RequestContext) -> Source:
    from keyferry_plugins.azure.certificate import sign_assertion
    from keyferry_plugins.azure.federation import exchange_assertion

    config = given.config
    application = given.application(config.client_id)

    def obtain() -> Token:
        assertion = sign_assertion(application, config.certificate_path, config.certificate_password)
        return exchange_assertion(
            application, assertion, REGISTRY_SCOPE, deadline=given.deadline, retry=given.retry
        )

    return Source(config.tenant_id, f"application {config.client_id!r}", obtain)


def _by_token_file(given: RequestContext) -> Source:
    from keyferry_plugins.azure.federation import exchange_assertion, read_token_file

    config, environ = given.config, given.environ
    client = config.client_id or environ.get("AZURE_CLIENT_ID", "")
    tenant = config.tenant_id or environ.get("AZURE_TENANT_ID", "")
    path = config.federated_token_file or environ.get("AZURE_FEDERATED_TOKEN_FILE", "")
    if not client or not tenant or not path:
        raise ProvideError(
            "workload identity needs a client ID, a tenant and a token file, but not all are set",
            "set aadClientId, tenantId and aadFederatedTokenFile in the cloud config,"
            " or AZURE_CLIENT_ID, AZURE_TENANT_ID and AZURE_FEDERATED_TOKEN_FILE",
        )
    application = given.application(client, tenant)

    def obtain() -> Token:
        assertion = read_token_file(path, "the federated token file")
        return exchange_assertion(
            application, assertion, REGISTRY_SCOPE, deadline=given.deadline, retry=given.retry
        )

    return Source(tenant, f"application {client!r}", obtain)


def _annotation(given: RequestContext, name: str) -> str:
    return given.request.service_account_annotations.get(name, "")
