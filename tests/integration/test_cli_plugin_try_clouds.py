"""``keyferry plugin try`` with the reference plugins of the clouds, whose services exchange the account's token."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from subprocess import CompletedProcess

from support import azure_cloud, google_world
from support.account_world import AccountWorld, account_world
from support.aws_services import ANNOTATION, PASSWORD, ROLE, FakeAws
from support.aws_services import HOST as ECR_HOST
from support.aws_services import IMAGE as ECR_IMAGE
from support.azure_acr import ANNOTATIONS
from support.azure_cloud import serving_azure
from support.fake_cloud import Received, Reply, serving
from support.reference import write_launcher

AZURE_AUDIENCE, GOOGLE_AUDIENCE = "api://AzureADTokenExchange", "demo.svc.id.goog"
GOOGLE_HOST = "us-docker.pkg.dev"


def configure(
    world: AccountWorld, plugin: str, audience: str, annotations: Mapping[str, str], env: Mapping[str, str]
) -> None:
    """Let the node use a reference plugin in the environment of its cloud."""
    write_launcher(world.bin_dir, plugin, file_name="provider")
    world.fields["env"] = [{"name": name, "value": value} for name, value in env.items()]
    world.attributes["serviceAccountTokenAudience"] = audience
    world.attributes["requiredServiceAccountAnnotationKeys"] = list(annotations)
    world.api.node_audiences = {audience}


def check_all_in_order(world: AccountWorld, done: CompletedProcess[str], image: str, *secrets: str) -> None:
    """Check the verdict, and that no secret of the chain is shown."""
    assert done.stdout.startswith(f"yes: shop/puller can pull {image}\n"), done.stdout
    assert (done.returncode, done.stdout.count("\n✓")) == (0, 8)
    for secret in (world.api.issued[-1], *secrets):
        assert secret not in done.stdout + done.stderr


def test_the_chain_of_ecr(tmp_path: Path) -> None:
    """STS exchanges the token for the annotation's role, and ECR returns the registry's password."""
    annotations = {ANNOTATION: ROLE}
    aws = FakeAws()
    with account_world(tmp_path, ECR_HOST, annotations=annotations) as world:

        def answer(received: Received) -> Reply:
            aws.identity_token = world.api.issued[-1]
            return aws(received)

        with serving(answer) as server:
            env = {"AWS_ENDPOINT_URL": server.url, "AWS_EC2_METADATA_DISABLED": "true", "HOME": str(tmp_path)}
            configure(world, "ecr", "sts.amazonaws.com", annotations, env)
            world.accepts[:] = [("AWS", PASSWORD)]
            done = world.run(f"{ECR_IMAGE}:v1", "--pod", "web")
    check_all_in_order(world, done, f"{ECR_IMAGE}:v1", PASSWORD)
    assert [action for action, _ in aws.calls] == ["AssumeRoleWithWebIdentity", "ecr"]


def test_the_chain_of_acr(tmp_path: Path) -> None:
    """Entra exchanges the token for the annotations' identity, and the registry returns its own token."""
    host, token = azure_cloud.REGISTRY, azure_cloud.registry_token()
    (tmp_path / "azure").mkdir()
    with (
        account_world(tmp_path, host, annotations=ANNOTATIONS) as world,
        serving_azure(tmp_path / "azure") as azure,
    ):

        def exchange(received: Received) -> Reply:
            return azure_cloud.federated_answers(world.api.issued[-1])(received)

        azure.on(azure_cloud.ENTRA, exchange)
        azure.on(host, azure_cloud.registry_answers(token))
        configure(world, "acr", AZURE_AUDIENCE, ANNOTATIONS, azure.environ)
        world.fields["args"] = [azure.config(tenantId=azure_cloud.TENANT)]
        world.accepts[:] = [(azure_cloud.ZERO_USER, token)]
        done = world.run(f"{host}/team/app:v1")
    check_all_in_order(world, done, f"{host}/team/app:v1", token, azure_cloud.ENTRA_TOKEN)


def test_the_chain_of_gcr(tmp_path: Path) -> None:
    """Google's STS exchanges the token for one that the registry accepts."""
    annotations = {"iam.gke.io/enable-wi-image-pull": "true"}
    image = f"{GOOGLE_HOST}/demo/repo/app:v1"
    (tmp_path / "google").mkdir()
    with (
        account_world(tmp_path, GOOGLE_HOST, annotations=annotations) as world,
        google_world.google_world(tmp_path / "google") as google,
    ):

        def exchange(received: Received) -> Reply:
            assert received.json["subject_token"] == world.api.issued[-1]
            return google_world.token_reply(google_world.FEDERATED_TOKEN)

        google.on(f"POST {google_world.STS}/v1/token", exchange)
        configure(world, "gcr", GOOGLE_AUDIENCE, annotations, google.node_env())
        world.fields["args"] = ["--identity-provider=https://idp.example.com/demo", "--project-id=demo"]
        world.accepts[:] = [("_token", google_world.FEDERATED_TOKEN)]
        done = world.run(image)
    check_all_in_order(world, done, image, google_world.FEDERATED_TOKEN)


def test_a_trust_policy_that_refuses_the_token(tmp_path: Path) -> None:
    """The plugin is the broken link, and its claims are shown for the comparison with the policy."""
    annotations = {ANNOTATION: ROLE}
    with account_world(tmp_path, ECR_HOST, annotations=annotations) as world:
        refusal = Reply(403, body=b"<ErrorResponse><Error><Code>AccessDenied</Code></Error></ErrorResponse>")
        with serving(lambda _: refusal) as server:
            env = {"AWS_ENDPOINT_URL": server.url, "AWS_EC2_METADATA_DISABLED": "true", "HOME": str(tmp_path)}
            configure(world, "ecr", "sts.amazonaws.com", annotations, env)
            done = world.run(f"{ECR_IMAGE}:v1")
    assert done.returncode == 4
    assert f"grant sts:AssumeRoleWithWebIdentity on {ROLE}" in done.stdout
    assert "sub: system:serviceaccount:shop:puller" in done.stdout
    assert world.api.issued[-1] not in done.stdout + done.stderr
