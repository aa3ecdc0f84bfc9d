"""What ``keyferry explain`` says of a pod whose image a real containerd pulls, or cannot pull, from a real registry.

The pod's status and events are as a kubelet writes them, with the runtime's own text. The node has the runtime's
socket, process and files, and no option names them.
"""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import pytest

from keyferry import ContainerRuntimeError, Credential, Source, SourceKind
from keyferry.pulls.cri import connect_runtime
from keyferry.pulls.failure_text import FailureKind, recognise
from support.containerd import Containerd
from support.fake_cloud import Authority, Reply, serving
from support.images import build, build_index, push
from support.parts import need
from support.pod_world import PodWorld
from support.pull_reports import (
    creating,
    failed,
    not_found,
    pulled,
    unauthorized,
    unreachable,
    untrusted,
    used,
)
from support.pull_world import USERS, World, running_world
from support.records import open_quickly, with_login
from support.registry import basic, running
from support.situations import LOGIN, check, login_secret, situation_here, situation_world, tell, web

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="a kubelet is looked for in /proc")

WRONG = ("alice", "kf-marked-wrong")
AGO = r"(\d s|less than a second) ago"
CREATE = r"kubectl create secret"
CERTS = "/etc/containerd/certs.d"


@pytest.fixture(scope="module")
def parts(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    """The runtime, and registries that know the pod's login."""
    folder, users = tmp_path_factory.mktemp("parts"), {**USERS, LOGIN[0]: LOGIN[1]}
    with running_world(folder) as world:
        world.tokens.users.update(users)
        for kind in ("basic", "tls"):
            world.registries[kind].set_users(users)
        yield world


def pull(containerd: Containerd, image: str, login: tuple[str, str] | None = LOGIN) -> str:
    """Let the runtime pull as the kubelet does; return the reference of the image."""
    source = Source(kind=SourceKind.PULL_SECRET, name="shop/regcred")
    credential = None
    if login is not None:
        key = image.partition("/")[0]
        credential = Credential(username=login[0], password=login[1], source=source, key=key)
    with connect_runtime(f"unix://{containerd.socket}") as runtime:
        return runtime.pull_image(image, credential)


def reason(containerd: Containerd, image: str, login: tuple[str, str] | None = LOGIN) -> str:
    """Return why the runtime cannot pull, as the kubelet tells it: with the code of the error, if it has one."""
    with pytest.raises(ContainerRuntimeError) as caught:
        pull(containerd, image, login)
    return caught.value.kubernetes_text.removeprefix("rpc error: code = Unknown desc = ")


def node_with(
    world: PodWorld, containerd: Containerd, image: str, login: tuple[str, str] | None = LOGIN
) -> None:
    """Give the node the runtime, and the pod the image and a secret with the login."""
    world.kubelet_config["containerRuntimeEndpoint"] = f"unix://{containerd.socket}"
    world.processes.show(containerd.pid)
    # The files of the runtime are below the root of the node, under their own names.
    files = world.node.folder / containerd.folder.relative_to("/")
    files.parent.mkdir(parents=True)
    files.symlink_to(containerd.folder)
    world.api.add(web(image, secrets=() if login is None else ("regcred",)))
    if login is not None:
        world.api.add(login_secret(host=image.partition("/")[0], login=":".join(login)))


def failed_world(
    folder: Path,
    containerd: Containerd,
    image: str,
    login: tuple[str, str] | None = LOGIN,
    *,
    is_in_process: bool = True,
) -> AbstractContextManager[PodWorld]:
    """A world in which the runtime tried to pull the pod's image, and failed."""
    return situation_world(
        folder,
        lambda world: node_with(world, containerd, image, login),
        lambda world: world.report(failed(image, reason(containerd, image, login))),
        is_in_process=is_in_process,
    )


@dataclass(frozen=True)
class Failure:
    """An image that cannot be pulled; the text of the runtime, as other tests have it; and what must be said."""

    image: Callable[[World], str]
    case: str
    says: tuple[str, ...]
    cures: tuple[str, ...]
    text: Callable[[str], str] | None = None
    login: tuple[str, str] | None = LOGIN
    never: tuple[str, ...] = (CREATE,)


def no_such_tag(parts: World) -> str:
    return parts.put("basic", "tag/app").replace(":v1", ":v9")


REFUSED = (r"refuse", "'alice'", "shop/regcred", r"\b401\b", AGO)
PASSWORD = (r"kubectl .*\bregcred\b.*-n shop|kubectl .*-n shop .*\bregcred\b",)
FAILURES = {
    "wrong-password": Failure(
        lambda parts: parts.put("basic", "wrong/app"), "refused", REFUSED, PASSWORD, unauthorized, WRONG, ()
    ),
    "wrong-password-for-the-token-server": Failure(
        lambda parts: parts.put("bearer", "wrong/app"), "refused", REFUSED, PASSWORD, login=WRONG, never=()
    ),
    "no-such-tag": Failure(
        no_such_tag, "other-reason", ("no such image or tag", r"tag/app:v9"), (r"the tag",), not_found
    ),
    "registry-does-not-listen": Failure(
        lambda _: "127.0.0.1:1/plain/app:v1",
        "other-reason",
        (r"cannot reach 127\.0\.0\.1:1\b", "connection refused"),
        (r"127\.0\.0\.1:1/v2/",),
        unreachable,
    ),
    "host-does-not-resolve": Failure(
        lambda _: "registry.invalid/plain/app:v1",
        "other-reason",
        (r"cannot resolve registry\.invalid\b",),
        (r"getent hosts registry\.invalid",),
        login=None,
        never=(),
    ),
}


@pytest.mark.parametrize("name", FAILURES)
def test_a_pull_that_fails_is_explained_from_what_the_runtime_says(
    parts: World, name: str, tmp_path: Path
) -> None:
    failure = FAILURES[name]
    with failed_world(tmp_path, parts.containerd, failure.image(parts), failure.login) as world:
        told = tell(world)
    check(told, failure.case, failure.says, failure.cures, never=failure.never)
    if failure.login is None:
        first = told.explanation["cure"][0]
        assert not re.search(CREATE, "\n".join((first["text"], *first["lines"])))


@pytest.mark.parametrize("name", [name for name, failure in FAILURES.items() if failure.text is not None])
def test_the_recorded_texts_are_those_of_the_runtime(parts: World, name: str) -> None:
    failure = FAILURES[name]
    image = failure.image(parts)
    assert failure.text is not None
    check_recorded(parts.containerd, reason(parts.containerd, image, failure.login), failure.text(image))


def check_recorded(containerd: Containerd, text: str, recorded: str) -> None:
    """Compare the runtime's text with what was recorded of containerd 1.6; later ones use other words for some."""
    with connect_runtime(f"unix://{containerd.socket}") as runtime:
        is_recorded = runtime.version().version.startswith("1.6.")
    assert text == recorded or not is_recorded


def test_an_unknown_authority_is_told_and_its_cure_cures(parts: World, tmp_path: Path) -> None:
    """As pasted: the certificate and the lines in the runtime's folder of hosts. Then the next attempt decides."""
    authority = Authority(tmp_path)
    pem, containerd = authority.certificate("127.0.0.1"), parts.containerd
    with running(tmp_path / "unknown", pem=pem, bundle=authority.bundle) as registry:
        registry.set_users({LOGIN[0]: LOGIN[1]})
        push(registry, "team/app", "v1", build(b"unknown authority"), basic(*LOGIN))
        image, folder = f"{registry.host}/team/app:v1", containerd.folder / "certs.d" / registry.host
        # Without a file the runtime would speak plain HTTP to an address of this machine.
        containerd.serve(registry.host, registry.url)
        check_recorded(containerd, reason(containerd, image), untrusted(image))
        (tmp_path / "world").mkdir()
        # The change of the file that cures it is told by the system's clock, which cannot be stepped.
        with failed_world(tmp_path / "world", containerd, image, is_in_process=False) as world:
            told = tell(world)
            (cure,) = told.explanation["cure"]
            (folder / "ca.crt").write_text(authority.bundle.read_text())
            lines = "\n".join(cure["lines"]).replace(CERTS, str(containerd.folder / "certs.d"))
            (folder / "hosts.toml").write_text(f"{lines}\n")
            changed = tell(world)
        assert pull(containerd, image)
    says = ("does not trust", re.escape(registry.host), "certificate signed by unknown authority")
    cures = (rf"{CERTS}/{registry.host}/hosts\.toml", r"\bca = ")
    check(told, "other-reason", says, cures, never=(CREATE,))
    assert changed.verdict == ("unknown", "changed"), changed.text


def test_a_certificate_for_another_name_is_told_with_a_line_that_shows_its_names(
    parts: World, tmp_path: Path
) -> None:
    """No authority would help: the runtime knows it already."""
    need("openssl")
    with (
        contextmanager(wrong_name)(parts) as image,
        failed_world(tmp_path, parts.containerd, image) as world,
    ):
        told = tell(world)
        says = (r"does not accept the certificate of the mirror localhost:\d+", "wanted to match localhost")
        check(told, "other-reason", says, (r"openssl x509 .*subjectAltName",), never=(CREATE, r"\bca = "))
        (line,) = told.explanation["cure"][0]["lines"]
        done = subprocess.run(["sh", "-c", line], capture_output=True, text=True, check=False)
    assert "IP Address:127.0.0.1" in done.stdout, done.stderr


def own_trust(parts: World) -> str:
    """An image of a registry whose authority only the runtime knows, from its hosts.toml."""
    registry = parts.registries["tls"]
    authority = parts.containerd.folder / "certs.d" / registry.host / "ca.crt"
    authority.write_text(parts.authority.read_text())
    parts.containerd.serve(registry.host, registry.url, authority)
    return parts.put("tls", "trusted/app")


def through_mirror(parts: World, name: str = "mirrored") -> str:
    """An image of a registry that has no address; its mirror has the image, for the same login."""
    host = "mirrored.invalid"
    image = parts.put("basic", f"{name}/app")
    folder = parts.containerd.folder / "certs.d" / host
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "hosts.toml").write_text(
        f'server = "https://{host}"\n[host."{parts.registries["basic"].url}"]\n'
    )
    return image.replace(parts.host("basic"), host)


@pytest.mark.parametrize("put", [own_trust, through_mirror])
def test_a_pull_that_works_is_told_and_so_is_what_the_registry_says(
    parts: World, put: Callable[[World], str], tmp_path: Path
) -> None:
    """The registry is asked as the runtime asks it: at the same places, and with the same trust."""
    image = put(parts)

    def pull_and_record(world: PodWorld) -> None:
        ref = pull(parts.containerd, image)
        uid = world.api.objects["", "secrets", "shop", "regcred"]["metadata"]["uid"]  # type: ignore[index] # a map
        open_quickly(world.root).record_pulled(image, ref, with_login(*LOGIN, uid=str(uid)))
        world.report(pulled(image))

    with situation_here(
        tmp_path, lambda world: node_with(world, parts.containerd, image), pull_and_record
    ) as world:
        plain, checked = tell(world), tell(world, "--check-registry")
    for told in (plain, checked):
        check(told, "runs", ("runs since", f"pulled {AGO}"), never=("not trusted", "cannot tell", "kubectl"))
    registry = checked.explanation["registry"]
    (attempt,) = registry["attempts"]
    assert (registry["canPull"], attempt["credential"]["username"]) == (True, LOGIN[0])
    (answer,) = attempt["endpoints"]
    assert answer["url"] == parts.registries["tls" if put is own_trust else "basic"].url


def test_a_preloaded_image_is_used_and_nothing_is_pulled(parts: World, tmp_path: Path) -> None:
    """The pod has no credential, and needs none."""
    image = parts.put("basic", "preloaded/app")
    pull(parts.containerd, image)
    with situation_here(
        tmp_path,
        lambda world: node_with(world, parts.containerd, image, None),
        lambda world: world.report(used(image)),
    ) as world:
        told = tell(world)
    check(told, "runs", ("on the node", "may use", "nothing is pulled"), never=("kubectl",))


def test_a_preloaded_image_is_seen_on_the_node_without_being_asked_for(parts: World, tmp_path: Path) -> None:
    """The kubelet has not reported anything yet; what the runtime has decides."""
    image = parts.put("basic", "seen/app")
    with situation_here(tmp_path, lambda world: node_with(world, parts.containerd, image, None)) as world:
        world.report(creating())
        world.publish()
        absent = tell(world)
        pull(parts.containerd, image)
        present = tell(world)
    assert absent.verdict[1] != "runs"
    check(present, "runs", ("on the node", "may use", "nothing is pulled"), never=("kubectl",))
    access = present.explanation["access"]
    assert (access["rule"], access["policy"]) == ("policy", "NeverVerifyPreloadedImages")


def registry_reply(reply: Reply, _: World) -> Iterator[str]:
    """Yield an image of a registry that gives the same reply to everything."""
    with serving(lambda _: reply) as server:
        yield f"127.0.0.1:{server.port}/team/app:v1"


def plain_registry_with_tls(parts: World) -> Iterator[str]:
    parts.containerd.serve("plain.invalid", f"https://{parts.host('basic')}")
    yield "plain.invalid/team/app:v1"


def wrong_name(parts: World) -> Iterator[str]:
    port = parts.registries["tls"].port
    parts.containerd.serve("name.invalid", f"https://localhost:{port}", parts.authority)
    yield "name.invalid/team/app:v1"


def no_tls(parts: World) -> Iterator[str]:
    with serving(lambda _: Reply(raw=b"SSH-2.0-server\r\n")) as server:
        parts.containerd.serve("ssh.invalid", f"https://127.0.0.1:{server.port}")
        yield "ssh.invalid/team/app:v1"


def other_platform(parts: World) -> Iterator[str]:
    yield parts.put("basic", "platform/app", build_index(build(b"for another", architecture="other")))


def bad_name(_: World) -> Iterator[str]:
    yield "127.0.0.1:1/Team/app:v1"


TEXTS = {
    "403": (partial(registry_reply, Reply(403)), FailureKind.REFUSED, "403 Forbidden"),
    "429": (partial(registry_reply, Reply(429)), FailureKind.RATE_LIMIT, "429 Too Many Requests"),
    "500": (partial(registry_reply, Reply(500)), FailureKind.SERVER, "500 Internal Server Error"),
    "503": (partial(registry_reply, Reply(503)), FailureKind.SERVER, "503 Service Unavailable"),
    "hangs-up": (partial(registry_reply, Reply(is_closed=True)), FailureKind.UNREACHABLE, "EOF"),
    "no-http": (
        partial(registry_reply, Reply(raw=b"SSH-2.0-server\r\n")),
        FailureKind.PROTOCOL,
        "malformed HTTP response",
    ),
    "no-tls": (no_tls, FailureKind.PROTOCOL, "first record does not look like a TLS handshake"),
    "http-for-https": (
        plain_registry_with_tls,
        FailureKind.PROTOCOL,
        "server gave HTTP response to HTTPS client",
    ),
    "wrong-name": (
        wrong_name,
        FailureKind.CERTIFICATE,
        "certificate is not valid for any names, but wanted to match localhost",
    ),
    "other-platform": (other_platform, FailureKind.PLATFORM, "no match for platform"),
    "bad-name": (bad_name, FailureKind.NAME, "invalid reference format"),
}


@pytest.mark.parametrize(("trouble", "kind", "detail"), TEXTS.values(), ids=TEXTS)
def test_what_the_runtime_says_of_other_troubles_is_recognised(
    parts: World, trouble: Callable[[World], Iterator[str]], kind: FailureKind, detail: str
) -> None:
    with contextmanager(trouble)(parts) as image:
        why = reason(parts.containerd, image)
    failure = recognise(f'Failed to pull image "{image}": {why}')
    assert (failure.kind, failure.detail) == (kind, detail)


def test_a_mirror_that_refuses_is_named(parts: World, tmp_path: Path) -> None:
    """It gets the credential of the registry."""
    image = through_mirror(parts, "refused")  # which no other test has brought to the node
    with failed_world(tmp_path, parts.containerd, image, WRONG) as world:
        told = tell(world)
    check(told, "refused", (re.escape(parts.host("basic")), "mirror .* refuse"), (r"\S",))
