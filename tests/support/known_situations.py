"""Situations that a real kubelet was seen in: the world of each, and what must be said of its pod.

Each has the pod's status and events as that kubelet wrote them, the objects, the node's files and a running kubelet.
"""

from __future__ import annotations

import base64
import json
import re

from keyferry.api.kubeletconfig.records import ImagePullSecret

from .account_world import AUDIENCE, registry_of
from .fake_cloud import Reply
from .kube import TOKEN
from .kubernetes_api import account, pull_secret
from .mirrors import CERTS, write
from .pod_world import HOST, NODE, PodWorld
from .pull_reports import (
    QPS_EXCEEDED,
    Reported,
    aged,
    failed,
    initializing,
    lacking_secrets,
    never_pulled,
    no_such_host,
    not_found,
    pulled,
    running,
    unauthorized,
    unreachable,
    unreadable_secret,
    untrusted,
    used,
)
from .records import HASH, open_quickly, with_secrets
from .situations import (
    CREATE,
    IMAGE,
    LOGIN,
    TOKENS,
    Situation,
    add_provider,
    login_secret,
    web,
)

PORT_IMAGE = f"{HOST}:25555/noport/app:v1"
REF = f"sha256:{'a' * 64}"
AGO = r"(\d s|less than a second) ago"
TIME = r"\b\d\d:\d\d\b"
RESTART = r"systemctl restart kubelet"
NOT_ANOTHER = r"(?s)\A(?!.*(another|noaud))"
LOAD = r"(?i)load the image|images import|ctr .*import"


# Secrets.


def wrong_password(world: PodWorld) -> None:
    world.api.add(web(secrets=("wrongpw",)), login_secret("wrongpw", login="alice:kf-marked-wrong"))
    world.answer = registry_of([LOGIN])
    world.report(failed(IMAGE, unauthorized(IMAGE)))


def secret_elsewhere(world: PodWorld) -> None:
    world.api.add(login_secret(namespace="default"))
    absent_secret(world)


def absent_secret(world: PodWorld) -> None:
    world.api.add(web(secrets=("regcred",)))
    world.report(lacking_secrets("regcred"), failed(IMAGE, unauthorized(IMAGE)))


def secrets_forbidden(world: PodWorld) -> None:
    user = world.api.users[TOKEN]
    user.permitted = {rule for rule in user.permitted if rule[1] != "secrets"}
    absent_secret(world)


def opaque_secret(world: PodWorld) -> None:
    world.api.add(web(secrets=("regcred",)), login_secret(type="Opaque"))
    world.report(failed(IMAGE, unauthorized(IMAGE)))


def not_base64(world: PodWorld) -> None:
    content = base64.b64encode(json.dumps({"auths": {HOST: {"auth": "?kf-marked-auth"}}}).encode())
    world.api.add(web(secrets=("regcred",)), aged(pull_secret(data={".dockerconfigjson": content.decode()})))
    world.report(unreadable_secret("illegal base64 data at input byte 0"))


def key_without_port(world: PodWorld) -> None:
    world.api.add(web(PORT_IMAGE, secrets=("regcred",)), login_secret())
    world.report(failed(PORT_IMAGE, unauthorized(PORT_IMAGE)))


def with_secret(world: PodWorld, image: str = IMAGE, policy: str = "IfNotPresent") -> None:
    """A secret that the registry accepts."""
    world.api.add(web(image, secrets=("regcred",), policy=policy), login_secret())
    world.answer = registry_of([LOGIN])


# Providers.


def unauthorized_pod(world: PodWorld) -> None:
    world.report(failed(IMAGE, unauthorized(IMAGE)))


def pattern_without_port(world: PodWorld) -> None:
    world.api.add(web(PORT_IMAGE))
    add_provider(world, f"{HOST}:25555/noaud", name="another", auth=f"{HOST}:25555")
    add_provider(world, f"{HOST}/noport", auth=f"{HOST}:25555")
    world.report(failed(PORT_IMAGE, unauthorized(PORT_IMAGE)))


def failing_plugin(world: PodWorld) -> None:
    complaint = "acme-registry: 169.254.169.254: no route to host"
    add_provider(world, HOST, before=f"echo '{complaint}' >&2; exit 3")
    unauthorized_pod(world)


def no_annotation(world: PodWorld) -> None:
    add_provider(world, HOST, extra=TOKENS)
    unauthorized_pod(world)


def no_audience(world: PodWorld) -> None:
    no_annotation(world)
    world.api.add(aged(account(**{f"{HOST}/role": "puller"})))
    world.api.node_audiences = set()


def reviews_forbidden(world: PodWorld) -> None:
    no_audience(world)
    world.api.node_audiences = None


def other_keys(world: PodWorld) -> None:
    add_provider(world, HOST, auth="acme.example")
    unauthorized_pod(world)


def other_images(world: PodWorld) -> None:
    add_provider(world, "*.dkr.ecr.*.amazonaws.com", name="unrelated", auth="else.example")
    unauthorized_pod(world)


def init_container(world: PodWorld) -> None:
    init = [{"name": "setup", "image": IMAGE, "imagePullPolicy": "IfNotPresent"}]
    world.api.add(web(secrets=("regcred",), initContainers=init))
    world.answer = registry_of([LOGIN])
    reason = unauthorized(IMAGE)
    world.report(
        lacking_secrets("regcred"), failed(IMAGE, reason, container="setup", is_init=True), initializing()
    )


def good_provider(world: PodWorld) -> None:
    add_provider(world, HOST)
    world.answer = registry_of([LOGIN])
    unauthorized_pod(world)


def other_pod(world: PodWorld) -> None:
    add_provider(world, "else.example", name="gone", auth="else.example")
    with_secret(world)
    world.report(pulled(IMAGE))


def own_pod(world: PodWorld) -> None:
    add_provider(world, HOST, name="gone")
    unauthorized_pod(world)


def remove_plugin(world: PodWorld) -> None:
    (world.node.bin_dir / "gone").unlink()


def old_config(world: PodWorld) -> None:
    add_provider(world, "else.example")
    world.answer = registry_of([LOGIN])
    unauthorized_pod(world)


def change_config(world: PodWorld) -> None:
    world.node.config.write_text(world.node.config.read_text().replace("else.example", HOST))
    world.change_later(world.node.config)


def made_up_fields(world: PodWorld) -> None:
    good_provider(world)
    world.has_provider_flags = False
    world.kubelet_config["imageCredentialProviderConfigFile"] = str(world.node.config)
    world.kubelet_config["imageCredentialProviderBinDir"] = str(world.node.bin_dir)


# Other reasons than a credential.


def no_such_tag(world: PodWorld) -> None:
    image = IMAGE.replace("v1", "v9")
    with_secret(world, image)
    world.report(failed(image, not_found(image)))


def nobody_listens(world: PodWorld) -> None:
    with_secret(world)
    world.report(failed(IMAGE, unreachable(IMAGE)))


def unknown_authority(world: PodWorld) -> None:
    with_secret(world)
    world.report(failed(IMAGE, untrusted(IMAGE)))


def no_address(world: PodWorld) -> None:
    world.report(failed(IMAGE, no_such_host(IMAGE)))


# The image on the node.


def on_node(world: PodWorld, verification: str = "") -> None:
    world.run_runtime({IMAGE: REF})
    if verification:
        world.kubelet_config["imagePullCredentialsVerificationPolicy"] = verification


def recorded(world: PodWorld, uid: str = "uid-of-another", name: str = "another") -> None:
    on_node(world)
    entry = with_secrets(ImagePullSecret(uid=uid, namespace="shop", name=name, credential_hash=HASH))
    open_quickly(world.root).record_pulled(IMAGE, REF, entry)


def recorded_for_another(world: PodWorld) -> None:
    recorded(world)
    unauthorized_pod(world)


def recorded_for_another_never(world: PodWorld) -> None:
    recorded(world)
    world.api.add(web(policy="Never"))
    world.report(never_pulled(IMAGE))


def recorded_own(world: PodWorld, policy: str = "IfNotPresent") -> None:
    with_secret(world, policy=policy)
    metadata = world.api.objects["", "secrets", "shop", "regcred"]["metadata"]
    recorded(world, metadata["uid"], "regcred")  # type: ignore[index] # a map
    world.report(used(IMAGE))


def recorded_own_never(world: PodWorld) -> None:
    recorded_own(world, "Never")


def preloaded(world: PodWorld) -> None:
    on_node(world)
    world.report(used(IMAGE))


def absent_never(world: PodWorld) -> None:
    world.api.add(web(policy="Never"))
    world.report(never_pulled(IMAGE))


def preloaded_verified(world: PodWorld) -> None:
    on_node(world, "AlwaysVerify")
    no_address(world)


def preloaded_verified_never(world: PodWorld) -> None:
    on_node(world, "AlwaysVerify")
    absent_never(world)


# Pods that run.


def hosts(world: PodWorld, text: str) -> None:
    table = '[plugins."io.containerd.grpc.v1.cri".registry]\nconfig_path = "/etc/containerd/certs.d"\n'
    write(world.node.folder, "etc/containerd/config.toml", f"version = 2\n{table}")
    write(world.node.folder, CERTS / HOST / "hosts.toml", text)


def own_trust(world: PodWorld) -> None:
    unseen_own_trust(world)
    world.report(pulled(IMAGE))


def unseen_own_trust(world: PodWorld) -> None:
    with_secret(world)
    del world.env["SSL_CERT_FILE"]
    authority = f"/{CERTS}/{HOST}/ca.crt"
    write(world.node.folder, authority.lstrip("/"), world.bundle.read_text())
    hosts(world, f'server = "https://{HOST}"\n[host."https://{HOST}"]\n  ca = "{authority}"\n')


def mirror(world: PodWorld) -> None:
    with_secret(world)
    hosts(world, '[host."https://mirror.example"]\n  capabilities = ["pull", "resolve"]\n')
    world.answer = lambda _: Reply(503)
    world.report(pulled(IMAGE))


def on_laptop(world: PodWorld) -> None:
    world.is_node = False
    world.report(pulled(IMAGE, ago=5 * 60))


def long_on_laptop(world: PodWorld) -> None:
    world.is_node = False
    world.report(running(IMAGE))


def many_at_once(world: PodWorld) -> None:
    with_secret(world)
    why = f'Failed to pull image "{IMAGE}": {QPS_EXCEEDED}'
    world.report(pulled(IMAGE, before=[Reported("Failed", why, 8, type="Warning")]))


SECRET, PORT_SECRET = "shop/regcred", rf"add an entry for {re.escape(HOST)}:25555\b"
SITUATIONS = {
    "wrong-password": Situation(
        wrong_password,
        "refused",
        (r"refuse", "'alice'", "shop/wrongpw", r"\b401\b", AGO),
        (r"kubectl .*\bwrongpw\b.*-n shop|kubectl .*-n shop .*\bwrongpw\b",),
    ),
    "secret-in-another-namespace": Situation(
        secret_elsewhere, "no-credential", ("regcred", "shop"), (CREATE, "regcred")
    ),
    "secret-does-not-exist": Situation(
        absent_secret, "no-credential", ("regcred", "not exist", "shop"), (CREATE, "regcred")
    ),
    "pattern-lacks-only-the-port": Situation(
        pattern_without_port,
        "no-credential",
        ("acme-registry", rf"{HOST}/noport", "port|25555", NOT_ANOTHER),
        (rf"{HOST}:25555/noport", NOT_ANOTHER),
    ),
    "plugin-fails": Situation(
        failing_plugin, "plugin-failed", ("acme-registry", "169.254.169.254: no route to host"), (r"\S",)
    ),
    "account-lacks-an-annotation": Situation(
        no_annotation,
        "no-credential",
        (f"{HOST}/role", "annotation"),
        (rf"kubectl annotate (sa|serviceaccount) default -n shop {HOST}/role=",),
    ),
    "node-may-not-request-tokens": Situation(
        no_audience,
        "no-credential",
        (f"'{NODE}'", f"'{AUDIENCE}'", "may not|cannot|not allowed"),
        (AUDIENCE, "kubectl|kind: ClusterRole"),
        never=("kubectl (delete|replace)",),
    ),
    "nobody-may-tell-whether-the-node-requests-tokens": Situation(
        reviews_forbidden, "unexplained", (AUDIENCE,), (r"\S",), notes=("subjectaccessreviews",)
    ),
    "no-such-tag": Situation(
        no_such_tag, "other-reason", ("no such|not found|does not exist", rf"{HOST}|v9"), (r"\S",), (CREATE,)
    ),
    "registry-does-not-listen": Situation(
        nobody_listens, "other-reason", (HOST, "connection refused"), (r"\S",), (CREATE,)
    ),
    "recorded-for-another-secret": Situation(
        recorded_for_another, "no-credential", ("on the node", "credential"), (CREATE,), (LOAD,)
    ),
    "recorded-for-another-secret-and-never-pulled": Situation(
        recorded_for_another_never,
        "other-reason",
        ("on the node|is there", "policy|may not use"),
        (CREATE, "IfNotPresent"),
        (LOAD,),
    ),
    "recorded-for-the-pods-own-secret": Situation(
        recorded_own, "runs", ("on the node|present", "may use|allowed|runs"), never=("kubectl", LOAD)
    ),
    "preloaded": Situation(preloaded, "runs", ("on the node|present",), never=("kubectl", LOAD)),
    "recorded-for-the-pods-own-secret-and-never-pulled": Situation(
        recorded_own_never, "runs", ("on the node|present",), never=("kubectl", LOAD)
    ),
    "absent-and-never-pulled": Situation(
        absent_never,
        "other-reason",
        ("Never", "not on the node|absent|not present|not there"),
        (f"{LOAD}|IfNotPresent",),
    ),
    "opaque-secret": Situation(
        opaque_secret,
        "no-credential",
        ("regcred", "Opaque"),
        (r"kubectl get secret regcred -n shop -o yaml > \S+ && .*kubectl replace",),
        ("kubectl delete",),
    ),
    "plugin-answers-for-another-host": Situation(
        other_keys, "no-credential", ("acme-registry", "acme.example"), (r"\S",)
    ),
    "nothing-is-configured": Situation(
        other_images, "no-credential", (HOST, "nothing|no credential"), (CREATE,), ("unrelated", "amazonaws")
    ),
    "init-container": Situation(
        init_container, "no-credential", ("regcred", "not exist"), (CREATE,), notes=("init container setup",)
    ),
    "init-container-and-the-registry-is-asked": Situation(
        init_container,
        "no-credential",
        ("regcred", "not exist"),
        (CREATE,),
        notes=("init container setup",),
        options="--check-registry",
    ),
    "unknown-authority": Situation(
        unknown_authority,
        "other-reason",
        (HOST, "certificate", "trust|unknown authority"),
        (r"hosts\.toml", r"\bca\b"),
        (CREATE,),
    ),
    "secret-is-not-base64": Situation(
        not_base64, "no-credential", (SECRET, "cannot be read|base64"), ("kubectl .*regcred",)
    ),
    "plugin-was-removed-and-another-pod": Situation(
        other_pod, "runs", ("pulled", AGO), notes=("gone", "restart"), then=remove_plugin
    ),
    "plugin-was-removed": Situation(
        own_pod, "plugin-failed", ("gone", "plugin"), (r"\S",), notes=("restart",), then=remove_plugin
    ),
    "secret-key-without-port": Situation(
        key_without_port, "no-credential", (SECRET, HOST), (PORT_SECRET,), ("--docker-server",)
    ),
    "works-with-the-runtimes-own-trust": Situation(
        own_trust, "runs", ("pulled", AGO), never=("not trusted",)
    ),
    "works-with-the-runtimes-own-trust-and-the-registry-is-asked": Situation(
        own_trust, "runs", ("pulled", AGO), never=("not trusted",), options="--check-registry"
    ),
    "the-registry-is-asked-with-the-runtimes-own-trust": Situation(
        unseen_own_trust, "found", (HOST, "alice"), never=("not trusted",), options="--check-registry"
    ),
    "works-through-a-mirror": Situation(mirror, "runs", ("pulled", AGO)),
    "works-through-a-mirror-and-the-registry-is-asked": Situation(
        mirror, "runs", ("pulled", AGO), options="--check-registry"
    ),
    "host-does-not-resolve": Situation(
        no_address, "other-reason", ("resolve|no such host|no address", HOST), (r"\S",)
    ),
    "preloaded-and-always-verified": Situation(
        preloaded_verified,
        "other-reason",
        ("on the node|is there", "AlwaysVerify", "resolve|no such host|no address"),
        (r"\S",),
        (LOAD,),
    ),
    "preloaded-and-always-verified-and-never-pulled": Situation(
        preloaded_verified_never,
        "other-reason",
        ("on the node|is there", "AlwaysVerify"),
        (CREATE, "IfNotPresent"),
        (LOAD,),
    ),
    "config-changed-after-the-kubelets-start": Situation(
        old_config,
        "not-known-yet",
        ("kubelet", "started", rf"{TIME}.*{TIME}", "providers.yaml|config"),
        (RESTART,),
        (CREATE,),
        then=change_config,
    ),
    "the-kubelet-holds-an-older-answer": Situation(
        good_provider, "refused", (r"\b401\b|refused", AGO), (RESTART,), (CREATE,), notes=(rf"until {TIME}",)
    ),
    "the-kubelet-holds-an-older-answer-and-the-registry-is-asked": Situation(
        good_provider,
        "refused",
        (r"\b401\b|refused", AGO),
        (RESTART,),
        (CREATE,),
        notes=(rf"until {TIME}",),
        options="--check-registry",
    ),
    "fields-that-kubernetes-does-not-have": Situation(
        made_up_fields,
        "no-credential",
        ("imageCredentialProviderConfigFile",),
        ("--image-credential-provider-config", "--image-credential-provider-bin-dir"),
    ),
    "runs-and-is-seen-from-a-laptop": Situation(on_laptop, "runs", ("runs", r"pulled 5 min( \d+ s)? ago")),
    "runs-for-long-and-is-seen-from-a-laptop": Situation(
        long_on_laptop, "runs", (rf"since .*{TIME}",), never=("pulled \\d",)
    ),
    "secrets-may-not-be-read": Situation(
        secrets_forbidden, "no-credential", ("kubelet cannot read pull secret shop/regcred",), (r"regcred",)
    ),
    "many-pods-at-once": Situation(
        many_at_once, "runs", ("pulled", AGO), notes=(f"{QPS_EXCEEDED}|registryPullQPS",)
    ),
}
