"""Run Azure's registry plugin as a kubelet would."""

from __future__ import annotations

from support import azure_cloud as cloud
from support.azure_cloud import CLIENT, REGISTRY, TENANT, Azure
from support.reference import Answer, ask_image

IMAGE = f"{REGISTRY}/team/app"
ANNOTATIONS = {
    "kubernetes.azure.com/acr-client-id": CLIENT,
    "kubernetes.azure.com/acr-tenant-id": TENANT,
}
MANAGED: dict[str, object] = {"useManagedIdentityExtension": True, "tenantId": TENANT}
PRINCIPAL: dict[str, object] = {
    "aadClientId": CLIENT,
    "aadClientSecret": cloud.CLIENT_SECRET,
    "tenantId": TENANT,
}
STATIC = (CLIENT, cloud.CLIENT_SECRET)


def ask(
    azure: Azure,
    config: dict[str, object],
    *args: str,
    image: str = IMAGE,
    token: str = "",
    annotations: dict[str, str] | None = None,
    env: dict[str, str] | None = None,
) -> Answer:
    """Run the plugin on one request, with *config* as the node's config."""
    argv = [azure.config(**config), *args]
    told = azure.environ | (env or {})
    answer = ask_image("acr", image, args=argv, env=told, token=token, annotations=annotations)
    if answer.status:
        assert answer.stdout == ""
        assert answer.stderr.startswith("keyferry-acr: ")
        cloud.never_shown(answer.stderr)
    return answer


def serve_managed(azure: Azure, **identity: str) -> str:
    """Serve the machine's identity and the registry; return the registry's token."""
    token = cloud.registry_token()
    azure.on_imds(cloud.imds_answers(**identity))
    azure.on(REGISTRY, cloud.registry_answers(token))
    return token
