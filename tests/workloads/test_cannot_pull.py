"""Every block of docs/cannot-pull.md is run, for a pod that has the cause which the section is about.

Outputs are compared by ``is_shown``: files, addresses and the kubelet's process id have the names of a real
node (``PodWorld.names``), white space counts as one blank, and a line ``...`` of the page stands for any text. Ages and
times of day are those of the page.
"""

from __future__ import annotations

import json
import re
import socket
import sys
import tomllib
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from keyferry.pulls.mirrors.endpoints import MirrorPlaces
from keyferry.pulls.mirrors.find import find_mirrors
from support.account_world import AUDIENCE, registry_of
from support.bobs_cluster import bobs_cluster
from support.commands import PLUGIN, WIDTH
from support.fake_cloud import Reply
from support.kubernetes_api import Json, account, pod, pull_secret
from support.mirrors import CERTS, write
from support.pages import check_shown
from support.plugins import write_executable
from support.pod_world import HOST, PodWorld, pod_world
from support.pull_reports import aged
from support.records import open_quickly, secret, with_secrets
from support.waiting_world import make_page_world

PATH = Path(__file__).resolve().parents[2] / "docs" / "cannot-pull.md"
PAGE = PATH.read_text(encoding="utf-8")
pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="a kubelet is looked for in /proc")

EXPLAIN = "keyferry explain pod/web -n shop"
IMAGE = f"{HOST}/team/app:v1"
ECR = "123456789012.dkr.ecr.eu-west-1.amazonaws.com"
LOGIN = ("robot", "kf-marked-password")
AUTH = '{{"{0}": {{"username": "robot", "password": "kf-marked-password"}}}}'
OWN_AUTH = AUTH.format(HOST)
TOKENS = f"""\
  tokenAttributes:
    serviceAccountTokenAudience: {AUDIENCE}
    cacheType: Token
    requireServiceAccount: true
    requiredServiceAccountAnnotationKeys: [{HOST}/role]
"""
# What kubelets and containerd 1.6 write, word for word, with IMAGE and HOST for those of the pod.
_PULL = (
    'Failed to pull image "IMAGE": failed to pull and unpack image "IMAGE": '
    'failed to resolve reference "IMAGE": '
)
EVENTS = (
    _PULL + "pulling from host HOST failed with status code [manifests v1]: 401 Unauthorized",
    _PULL + 'failed to do request: Head "https://HOST/v2/team/app/manifests/v1": '
    "x509: certificate signed by unknown authority",
    _PULL + 'failed to do request: Head "http://HOST/v2/team/app/manifests/v1": '
    "dial tcp HOST: connect: connection refused",
    'Failed to pull image "IMAGE": rpc error: code = NotFound desc = failed to pull and unpack image "IMAGE": '
    'failed to resolve reference "IMAGE": IMAGE: not found',
    "Unable to retrieve some image pull secrets (regcred); attempting to pull the image may not succeed.",
    "Error: illegal base64 data at input byte 3",
    'Container image "IMAGE" is not present with pull policy of Never',
)


def sections() -> dict[str, str]:
    """The sections with a command, by heading."""
    parts = re.split(r"^##+ (.*)\n", PAGE, flags=re.MULTILINE)
    found = dict(zip(parts[1::2], parts[2::2], strict=True))
    return {heading: text for heading, text in found.items() if "```console" in text}


def blocks(section: str, kind: str) -> list[str]:
    """The blocks of a kind in a section."""
    return re.findall(rf"^```{kind}\n(.*?)^```", section, re.MULTILINE | re.DOTALL)


def commands(section: str) -> Iterator[tuple[str, str]]:
    """Yield each command of a section, and its output."""
    for block in blocks(section, "console"):
        first, _, output = block.partition("\n")
        yield first.removeprefix("$ "), output


# The causes, each by the heading of its section, and the cure after which the same command says yes.


def lists_secret(**more: object) -> Json:
    return pod(imagePullSecrets=[{"name": "regcred"}], **more)  # type: ignore[arg-type] # fields of the spec


def good_secret(**more: object) -> Json:
    return pull_secret(login=":".join(LOGIN), **more)  # type: ignore[arg-type] # by name


def with_good_secret(world: PodWorld) -> None:
    world.api.add(lists_secret(), good_secret())
    world.answer = registry_of([LOGIN])


def on_a_laptop(world: PodWorld) -> None:
    world.is_node = False


def nothing(_: PodWorld) -> None:
    """Neither secrets nor providers."""


def absent_secret(world: PodWorld) -> None:
    world.api.add(lists_secret(), good_secret(namespace="default"))


def opaque_secret(world: PodWorld) -> None:
    world.api.add(lists_secret(), good_secret(type="Opaque"))


def plain_auth(world: PodWorld) -> None:
    content = json.dumps({"auths": {HOST: {"auth": "bob:pass-word"}}})
    world.api.add(lists_secret(), pull_secret(stringData={".dockerconfigjson": content}))


def unlisted_secret(world: PodWorld) -> None:
    (world.folder / "regcred.yaml").write_text(json.dumps(good_secret()))


def late_secret(world: PodWorld) -> None:
    world.api.add(account(secrets=["regcred"]), good_secret())


def add_provider(world: PodWorld, pattern: str, auth: str = OWN_AUTH, **more: str) -> None:
    world.node.add("acme-registry", [pattern], auth, **more)


def no_port(world: PodWorld) -> None:
    world.api.add(pod(images=(f"{HOST}:5000/team/app:v1",)))
    add_provider(world, HOST, AUTH.format(f"{HOST}:5000"))


def few_parts(world: PodWorld) -> None:
    world.api.add(pod(images=(f"{ECR}/team/app:v1",)))
    add_provider(world, "*.amazonaws.com", AUTH.format(ECR))


def star_in_path(world: PodWorld) -> None:
    add_provider(world, f"{HOST}/*")


def no_plugin(world: PodWorld) -> None:
    add_provider(world, HOST)
    (world.node.bin_dir / "acme-registry").unlink()


def failing_plugin(world: PodWorld) -> None:
    complaint = "acme-registry: 169.254.169.254: no route to host"
    add_provider(world, HOST, before=f"echo '{complaint}' >&2; exit 3")


def other_keys(world: PodWorld) -> None:
    add_provider(world, HOST, AUTH.format("acme.example"))


def no_annotation(world: PodWorld) -> None:
    add_provider(world, HOST, extra=TOKENS)


def no_audience(world: PodWorld) -> None:
    no_annotation(world)
    world.api.add(account(**{f"{HOST}/role": "puller"}))
    world.api.node_audiences = set()
    world.answer = registry_of([LOGIN])


def old_password(world: PodWorld) -> None:
    with_good_secret(world)
    world.api.add(pull_secret(login="robot:old"))


def not_found(world: PodWorld) -> None:
    with_good_secret(world)
    errors = {"errors": [{"code": "NAME_UNKNOWN", "message": "repository name not known to registry"}]}
    world.answer = lambda _: Reply(404, errors)


def refused_connection(world: PodWorld) -> None:
    with socket.create_server(("127.0.0.1", 0)) as closed:
        own = f"127.0.0.1:{closed.getsockname()[1]}"
    world.names[own] = "127.0.0.1:5000"
    world.api.add(pod(images=(f"{own}/team/app:v1",)))


def unknown_authority(world: PodWorld) -> None:
    with_good_secret(world)
    del world.env["SSL_CERT_FILE"]


def mirror(world: PodWorld) -> None:
    add_provider(world, "mirror.example")
    table = '[plugins."io.containerd.grpc.v1.cri".registry]\nconfig_path = "/etc/containerd/certs.d"\n'
    write(world.node.folder, "etc/containerd/config.toml", f"version = 2\n{table}")
    write(world.node.folder, CERTS / HOST / "hosts.toml", '[host."https://mirror.example"]\n')


def newer_config(world: PodWorld) -> None:
    add_provider(world, HOST)
    world.start_kubelet()
    world.change_later(world.node.config)
    world.event_ago = 0


def mended_secret(world: PodWorld) -> None:
    world.api.add(lists_secret(), aged(good_secret(), changed=3))


def restart(world: PodWorld) -> None:
    world.start_kubelet()


def verified_image(world: PodWorld) -> None:
    world.kubelet_config["imagePullCredentialsVerificationPolicy"] = "AlwaysVerify"
    open_quickly(world.root).record_pulled(IMAGE, f"sha256:{'a' * 64}", with_secrets(secret("regcred")))


# The cures.


def paste_pattern(world: PodWorld) -> None:
    """Add the pattern of the output to the config."""
    (pattern,) = re.findall(r'^ *- ("\S+")$', world.run(EXPLAIN).stdout, re.MULTILINE)
    text = world.node.config.read_text()
    world.node.config.write_text(text.replace("matchImages: [", f"matchImages: [{pattern}, "))


def mend_plugin(world: PodWorld) -> None:
    plugin = PLUGIN.format(before="", cache_key_type="Registry", auth=OWN_AUTH)
    write_executable(world.node.bin_dir / "acme-registry", plugin)


def annotate(world: PodWorld) -> None:
    world.api.add(account(**{f"{HOST}/role": "puller"}))


def permit_audience(world: PodWorld) -> None:
    world.api.node_audiences = {AUDIENCE}


def trust(world: PodWorld) -> None:
    world.env["SSL_CERT_FILE"] = str(world.bundle)


def run_registry(world: PodWorld) -> None:
    world.api.add(pod())
    with_good_secret(world)


Change = Callable[[PodWorld], None]
CAUSES: dict[str, tuple[Change, Change]] = {
    "From a laptop": (on_a_laptop, with_good_secret),
    "Nothing is configured for the registry": (nothing, with_good_secret),
    "The secret is in another namespace": (absent_secret, with_good_secret),
    "The secret has the wrong type": (opaque_secret, with_good_secret),
    "The secret cannot be read": (plain_auth, with_good_secret),
    "The pod does not list the secret": (unlisted_secret, with_good_secret),
    "The pod is older than the account's secret": (late_secret, with_good_secret),
    "The pattern has no port": (no_port, paste_pattern),
    "The pattern has too few parts": (few_parts, paste_pattern),
    "The pattern has a * in its path": (star_in_path, paste_pattern),
    "The pattern is for a mirror": (mirror, paste_pattern),
    "The plugin is missing": (no_plugin, mend_plugin),
    "The plugin fails": (failing_plugin, mend_plugin),
    "The kubelet has not read the config yet": (newer_config, restart),
    "The plugin answers for another host": (other_keys, mend_plugin),
    "The service account lacks an annotation": (no_annotation, annotate),
    "The kubelet may not request the token": (no_audience, permit_audience),
    "The registry refuses the credential": (old_password, with_good_secret),
    "The image does not exist, or is hidden": (not_found, with_good_secret),
    "The registry cannot be reached": (refused_connection, run_registry),
    "The registry's certificate is not trusted": (unknown_authority, trust),
    "The image is on the node, and the pod may not use it": (verified_image, with_good_secret),
    "Something changed since the last attempt": (mended_secret, nothing),
}


def test_every_section_has_a_cause() -> None:
    assert list(sections()) == list(CAUSES)


@pytest.mark.parametrize("heading", CAUSES)
def test_the_command_finds_the_cause_and_after_the_cure_says_yes(heading: str, tmp_path: Path) -> None:
    cause, cure = CAUSES[heading]
    section = sections()[heading]
    with pod_world(tmp_path) as world:
        world.is_in_process = True
        cause(world)
        for event in events_of(section):
            world.add_event(event)
        for line, shown in commands(section):
            done = world.run(line)
            assert done.returncode, line
            check_shown(PATH, shown, at_the_pages_time(done.stdout + done.stderr))
            assert LOGIN[1] not in done.stdout + done.stderr
        cure(world)
        world.forget_events()
        line = next(commands(section))[0]
        done = world.run(line)
        assert done.returncode == 0, done.stdout + done.stderr


def at_the_pages_time(output: str) -> str:
    """Return an output with the ages and times of day that the page has."""
    output = re.sub(
        r"(changed )?(?:\d+ s|less than a second) ago",
        lambda age: (age[1] and "changed 3 s ago") or "12 s ago",
        output,
    )
    return re.sub(r"\b\d\d:\d\d:\d\d\b", "11:52:07", output)


def events_of(section: str) -> list[str]:
    """The events of a section, each on one line: those that it quotes, or the first one of the page's table."""
    found = [" ".join(each.split()) for each in blocks(section, "text")]
    if "The event is `401 Unauthorized`." in section:
        image = re.findall(r"[\w.:-]+/team/app:v1", section)[0]
        found.append(EVENTS[0].replace("IMAGE", image).replace("HOST", image.partition("/")[0]))
    return found


def test_events_are_quoted_word_for_word() -> None:
    images = set(re.findall(r"[\w.:-]+/team/app:v1", PAGE))
    known = {
        event.replace("IMAGE", image).replace("HOST", image.partition("/")[0])
        for event in EVENTS
        for image in images
    }
    for section in sections().values():
        assert set(events_of(section)) <= known


def test_the_table_has_every_event() -> None:
    """In the table, IMAGE and HOST stand for those of the pod."""
    table = " ".join(PAGE.partition("\n## ")[0].split())
    for event in EVENTS:
        assert event.removeprefix(_PULL) in table, event


def test_the_links_of_the_table_lead_to_sections() -> None:
    anchors = {re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-") for heading in sections()}
    linked = set(re.findall(r"\]\(#([^)]+)\)", PAGE.partition("\n## ")[0]))
    assert linked <= anchors
    assert anchors - linked == {"from-a-laptop"}


def test_the_first_commands_of_the_page_find_a_cause(tmp_path: Path) -> None:
    """With the pod's own name and namespace."""
    (block,) = blocks(PAGE, "sh")
    with pod_world(tmp_path) as world:
        world.is_in_process = True
        absent_secret(world)
        for line in block.splitlines():
            command = line.partition("#")[0].replace("NAMESPACE", "shop").replace("NAME", "web")
            done = world.run(command)
            assert done.returncode == 1, done.stderr
            assert "secret 'regcred', which the pod lists, does not exist in 'shop'" in done.stdout


def test_the_page_begins_with_all_pods(tmp_path: Path) -> None:
    """And shows what a cluster with four causes gives."""
    ((line, shown),) = commands(PAGE.partition("\n## ")[0])
    with bobs_cluster(tmp_path) as cluster:
        make_page_world(cluster.api)
        done = cluster.run(*line.split()[1:], columns=WIDTH)
    assert done.returncode == 1, done.stderr
    check_shown(PATH, shown, at_the_pages_time(done.stdout))


def test_the_file_of_the_page_names_an_authority_for_containerd(tmp_path: Path) -> None:
    """It stands in the folder in which keyferry's own reader looks for it, and names no mirror."""
    (block,) = blocks(PAGE, "toml")
    for text, is_mirror in (
        (block, False),
        (block.replace(f"https://{HOST}", "https://mirror.example"), True),
    ):
        write(tmp_path, CERTS / HOST / "hosts.toml", text)
        found = find_mirrors(IMAGE, MirrorPlaces(hosts_dir=str(tmp_path / CERTS)))
        assert (found is not None) is is_mirror
    assert tomllib.loads(block)["host"][f"https://{HOST}"]["ca"] == f"/{CERTS}/{HOST}/ca.crt"
