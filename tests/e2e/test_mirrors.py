"""Who is asked for an image, and who gets its credential: containerd and skopeo beside what their files tell us."""

from __future__ import annotations

import base64
import json
import os
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from keyferry import ContainerRuntimeError, Credential, Kind, Source, SourceKind, parse_image
from keyferry.pulls.cri import connect_runtime
from keyferry.pulls.mirrors.containerd import read_section
from keyferry.pulls.mirrors.endpoints import CredentialOffer, MirrorPlaces, Mirrors
from keyferry.pulls.mirrors.find import find_endpoints, find_mirrors
from keyferry.pulls.registry.check import check_endpoints
from support.containerd import Containerd, running_containerd
from support.fake_cloud import Authority, FakeServer, Received, Reply, serving
from support.mirrors import write
from support.parts import need

CREDENTIAL = Credential(
    username="user",
    password="pass-word",
    source=Source(kind=SourceKind.PROVIDER, name="test"),
    key="own.example",
)
LOGIN = f"Basic {base64.b64encode(b'user:pass-word').decode()}"


@pytest.fixture(scope="module")
def containerd() -> Iterator[Containerd]:
    with running_containerd() as running:
        yield running


def refuse(_: Received) -> Reply:
    """Ask for a login, whoever comes."""
    return Reply(401, headers={"WWW-Authenticate": 'Basic realm="test"'})


def asked(server: FakeServer) -> list[tuple[str, str]]:
    """The paths that were asked for with a credential or without one."""
    return [(each.path, each.headers.get("authorization", "")) for each in server.received]


def had_login(server: FakeServer) -> bool:
    return any(login == LOGIN for _, login in asked(server))


def told(mirrors: Mirrors | None) -> list[tuple[str, bool]]:
    """The hosts in order, and whether each is offered the credential."""
    assert mirrors is not None
    return [(each.host, each.offer is CredentialOffer.OFFERED) for each in mirrors.endpoints]


def test_containerd_offers_the_credential_to_every_host_in_order(containerd: Containerd) -> None:
    with ExitStack() as stack:
        first, second, own = (stack.enter_context(serving(refuse)) for _ in range(3))
        image, folder = "own.example/team/app:v1", containerd.folder / "certs.d"
        write(
            folder,
            "own.example/hosts.toml",
            f'server = "{own.url}"\n[host."{first.url}"]\n[host."{second.url}/sub"]\n',
        )
        with connect_runtime(str(containerd.socket)) as runtime, pytest.raises(ContainerRuntimeError):
            runtime.pull_image(image, CREDENTIAL)
        found = told(find_mirrors(image, MirrorPlaces(hosts_dir=str(folder))))
    servers = (first, second, own)
    assert found == [(f"127.0.0.1:{each.port}", True) for each in servers]
    assert [had_login(each) for each in servers] == [True, True, True]
    starts = [asked(each)[0][0] for each in servers]
    assert starts[0].startswith("/v2/team/app/")
    assert starts[1].startswith("/sub/v2/team/app/")


def test_a_check_sends_what_containerd_sends(containerd: Containerd, tmp_path: Path) -> None:
    """To every host in order: the trust and the headers of its own, the namespace, then the credential."""
    authority = Authority(tmp_path)

    def sent(server: FakeServer) -> set[tuple[str, str, str]]:
        found = {
            (each.target, each.headers.get("authorization", ""), each.headers.get("x-key", ""))
            for each in server.received
        }
        server.received.clear()
        return found

    with ExitStack() as stack:
        contexts = (authority.context("127.0.0.1"), authority.context("127.0.0.1"), None, None)
        servers = [stack.enter_context(serving(refuse, context)) for context in contexts]
        first, second, third, own = servers
        image, folder = "asked.example/team/app:v1", containerd.folder / "certs.d"
        header = 'X-Key = "k"\nAuthorization = "Basic bzpv"\n'
        text = (
            f'server = "{own.url}"\n'
            f'[host."{first.url}"]\nca = "ca.pem"\n[host."{first.url}".header]\n{header}'
            f'[host."{second.url}/a"]\nskip_verify = true\noverride_path = true\n'
            f'[host."{third.url}"]\ncapabilities = ["pull"]\n'
        )
        write(folder, "asked.example/hosts.toml", text)
        write(folder, "asked.example/ca.pem", authority.bundle.read_text())
        with connect_runtime(str(containerd.socket)) as runtime, pytest.raises(ContainerRuntimeError):
            runtime.pull_image(image, CREDENTIAL)
        theirs = [sent(each) for each in servers]
        mirrors = find_endpoints(image, MirrorPlaces(hosts_dir=str(folder)))
        (attempt,) = check_endpoints(image, [CREDENTIAL], mirrors)
        ours = [sent(each) for each in servers]
    assert ours == theirs
    assert (theirs[2], len(theirs[0])) == (set(), 2)
    assert attempt.kind is Kind.REFUSED


@pytest.mark.parametrize("file", ["absent.pem", "wrong.pem"])
def test_containerd_asks_nobody_with_an_authority_that_it_cannot_read(
    containerd: Containerd, file: str
) -> None:
    folder = containerd.folder / "certs.d"
    with serving(refuse) as server:
        text = f'server = "{server.url}"\n[host."https://127.0.0.1:9"]\nca = "{file}"\n'
        write(folder, "unread.example/hosts.toml", text)
        write(folder, "unread.example/wrong.pem", "no certificate")
        with (
            connect_runtime(str(containerd.socket)) as runtime,
            pytest.raises(ContainerRuntimeError, match=file),
        ):
            runtime.pull_image("unread.example/app:v1", CREDENTIAL)
        mirrors = find_endpoints("unread.example/app:v1", MirrorPlaces(hosts_dir=str(folder)))
        (attempt,) = check_endpoints("unread.example/app:v1", [CREDENTIAL], mirrors)
        assert server.received == []
    assert file in attempt.answers[0].doubt


@pytest.mark.parametrize("text", ["[host", '[host."http://127.0.0.1:9"]\ncapabilities = ["pul"]\n'])
def test_containerd_ignores_a_file_that_is_wrong(containerd: Containerd, text: str) -> None:
    """It goes to the registry itself, which says so by its name here."""
    folder = containerd.folder / "certs.d"
    write(folder, "wrong.invalid/hosts.toml", text)
    with (
        connect_runtime(str(containerd.socket)) as runtime,
        pytest.raises(ContainerRuntimeError, match=r"wrong\.invalid/v2"),
    ):
        runtime.pull_image("wrong.invalid/app:v1")
    found = find_mirrors("wrong.invalid/app", MirrorPlaces(hosts_dir=str(folder)))
    assert found is not None
    assert found.problem


def test_containerd_1_replaces_a_plugin_that_an_import_sets_again(tmp_path: Path) -> None:
    """What its own dump says; where both readings agree, ours is the same."""
    cri = 'plugins."io.containerd.grpc.v1.cri"'
    main = write(
        tmp_path, "config.toml", f'version = 2\nimports = ["b.toml"]\n[{cri}]\nenable_selinux = true\n'
    )
    write(tmp_path, "b.toml", f'version = 2\n[{cri}.registry]\nconfig_path = "/a:/b"\n')
    dump = subprocess.run(
        [need("containerd"), "--config", main, "config", "dump"], capture_output=True, text=True, check=True
    ).stdout
    dumped = read_section(write(tmp_path, "dump.toml", dump.replace('imports = ["', 'imported = ["')))
    found = read_section(main)
    assert found is not None
    assert dumped is not None
    assert found.folders == dumped.folders == ("/a", "/b")
    assert "enable_selinux = false" in dump


def test_skopeo_sends_the_credential_to_the_images_own_host_alone(tmp_path: Path) -> None:
    """As CRI-O, which uses the same library: the mirror is asked first, and gets none."""
    with ExitStack() as stack:
        mirror, own = (stack.enter_context(serving(refuse)) for _ in range(2))
        image = f"127.0.0.1:{own.port}/team/app:v1"
        entry = (
            f'[[registry]]\nlocation = "127.0.0.1:{own.port}"\ninsecure = true\n'
            f'[[registry.mirror]]\nlocation = "localhost:{mirror.port}/sub"\ninsecure = true\n'
        )
        conf = write(tmp_path, "registries.conf", entry)
        write(tmp_path, "auth.json", json.dumps({}))
        words = [need("skopeo"), "--registries-conf", conf, "inspect", "--creds", "user:pass-word"]
        done = subprocess.run(
            [*words, f"docker://{parse_image(image).text}"],
            env={
                "PATH": "/usr/bin:/bin",
                "REGISTRY_AUTH_FILE": str(tmp_path / "auth.json"),
                "HOME": str(tmp_path),
            },
            capture_output=True,
            text=True,
            check=False,
        )
        found = told(find_mirrors(image, MirrorPlaces(registries_conf=conf)))
    assert done.returncode != 0
    assert found == [(f"localhost:{mirror.port}", False), (f"127.0.0.1:{own.port}", True)]
    assert (bool(mirror.received), had_login(mirror), had_login(own)) == (True, False, True)


@pytest.mark.parametrize(("insecure", "is_tls"), [(True, False), (True, True), (False, False), (False, True)])
def test_a_check_reaches_what_skopeo_reaches(tmp_path: Path, insecure: bool, is_tls: bool) -> None:
    """The certificates of the folder, any certificate, or plain HTTP; a loopback address is no exception."""
    authority = Authority(tmp_path)
    with serving(refuse, authority.context("127.0.0.1") if is_tls else None) as server:
        host = f"127.0.0.1:{server.port}"
        text = f'[[registry]]\nlocation = "{host}"\ninsecure = {str(insecure).lower()}\n'
        conf = write(tmp_path, "registries.conf", text)
        if not insecure:
            write(tmp_path, f"certs.d/{host}/ca.crt", authority.bundle.read_text())
        write(tmp_path, "auth.json", json.dumps({}))
        words = [need("skopeo"), "--registries-conf", conf, "inspect", "--creds", "user:pass-word"]
        home = write(tmp_path, ".config/containers/certs.d/x", "")
        os.remove(home)
        os.rmdir(os.path.dirname(home))
        os.symlink(tmp_path / "certs.d", os.path.dirname(home))
        subprocess.run(
            [*words, f"docker://{host}/team/app:v1"],
            env={
                "PATH": "/usr/bin:/bin",
                "REGISTRY_AUTH_FILE": str(tmp_path / "auth.json"),
                "HOME": str(tmp_path),
            },
            capture_output=True,
            check=False,
        )
        is_reached = had_login(server)
        server.received.clear()
        mirrors = find_endpoints(f"{host}/team/app:v1", MirrorPlaces(registries_conf=conf))
        check_endpoints(f"{host}/team/app:v1", [CREDENTIAL], mirrors)
        assert had_login(server) is is_reached
    assert is_reached is (insecure or is_tls)
