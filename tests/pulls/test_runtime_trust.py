"""A check asks where and how the container runtime asks: its hosts in order, with its trust and its headers."""

from __future__ import annotations

import os
import ssl
from pathlib import Path

import pytest

from keyferry import Credential, PullVerdict, RegistryRoute
from keyferry.errors import Kind
from keyferry.explain.registry import RegistryCheck, attempt_lines, verdict
from keyferry.pulls.mirrors.endpoints import MirrorPlaces, RuntimeKind
from keyferry.pulls.mirrors.find import find_endpoints
from keyferry.pulls.registry.check import check_endpoints
from support import certificates
from support.commands import Node, plain_pod, run_in_process
from support.fake_cloud import Authority, ConnectProxy, FakeServer, Received, Reply, serving
from support.fake_registry import PAIR, PASSWORD, REPOSITORY, TAG, USER, FakeRegistry, credential
from support.images import build
from support.mirrors import CERTS, CONFIG, write

IMAGE = build(b"layer")
NAME = f"own.invalid/{REPOSITORY}:{TAG}"
SECRET = "kf-marked-header-value"
BASIC = "Basic realm=r"
LOGIN = f"Basic {PAIR}"
USUAL_ROUTE = RegistryRoute()


def ask(
    root: Path,
    image: str = NAME,
    *credentials: Credential,
    runtime: RuntimeKind = RuntimeKind.CONTAINERD,
    route: RegistryRoute = USUAL_ROUTE,
) -> RegistryCheck:
    """Check an image by the files below *root*: containerd's in ``hosts``, CRI-O's in ``registries.conf``."""
    if runtime is RuntimeKind.CONTAINERD:
        places = MirrorPlaces(root=str(root), hosts_dir=str(root / "hosts"))
    else:
        places = MirrorPlaces(root=str(root), registries_conf=str(root / "registries.conf"))
    mirrors = find_endpoints(image, places)
    assert mirrors is not None
    attempts = check_endpoints(image, credentials or (credential(),), mirrors, route=route)
    return RegistryCheck(image=image, attempts=attempts, mirrors=mirrors)


def write_hosts(root: Path, text: str, registry: str = "own.invalid") -> None:
    write(root, f"hosts/{registry}/hosts.toml", text)


def folder_of(server: FakeServer) -> str:
    return f"127.0.0.1_{server.port}_"


def logins(server: FakeServer) -> list[str]:
    return [each.headers.get("authorization", "") for each in server.received]


def said(check: RegistryCheck) -> str:
    return "\n".join((verdict(check), *attempt_lines(check)))


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    (tmp_path / "ca").mkdir()
    return Authority(tmp_path / "ca")


@pytest.mark.parametrize("value", ['"ca.pem"', '["ca.pem"]', '"{root}/hosts/{folder}/ca.pem"'])
def test_the_authority_of_hosts_toml_is_trusted(tmp_path: Path, authority: Authority, value: str) -> None:
    """Relative to its folder, as in containerd, and for the host that names it."""
    with serving(FakeRegistry(IMAGE, BASIC), authority.context("127.0.0.1")) as server:
        image, folder = f"127.0.0.1:{server.port}/{REPOSITORY}:{TAG}", folder_of(server)
        write_hosts(tmp_path, f'server = "{server.url}"\n', folder)
        assert ask(tmp_path, image).kind is Kind.UNREACHABLE
        write(tmp_path, f"hosts/{folder}/ca.pem", authority.bundle.read_text())
        ca = value.format(root=tmp_path, folder=folder)
        write_hosts(tmp_path, f'server = "{server.url}"\nca = {ca}\n', folder)
        assert ask(tmp_path, image).verdict is PullVerdict.YES
        write_hosts(tmp_path, f'[host."{server.url}"]\nca = {ca}\n', folder)
        assert ask(tmp_path, image).verdict is PullVerdict.YES


def test_the_option_adds_an_authority(tmp_path: Path, authority: Authority) -> None:
    with serving(FakeRegistry(IMAGE, BASIC), authority.context("127.0.0.1")) as server:
        write_hosts(tmp_path, f'[host."{server.url}"]\n')
        assert ask(tmp_path).verdict is PullVerdict.UNKNOWN
        for route in (RegistryRoute(ca_file=str(authority.bundle)), RegistryRoute(is_insecure=True)):
            assert ask(tmp_path, route=route).verdict is PullVerdict.YES


def test_explain_and_can_pull_use_the_trust_and_the_mirrors_of_the_node(
    tmp_path: Path, authority: Authority
) -> None:
    """With the files that an option names: a registry with a private authority, and one behind a mirror."""
    with serving(FakeRegistry(IMAGE, BASIC), authority.context("127.0.0.1")) as server:
        host = f"127.0.0.1:{server.port}"
        settings = f'[host."{server.url}"]\nca = "{authority.bundle}"\n'
        login = f'{{"username": "{USER}", "password": "{PASSWORD}"}}'
        for registry, folder in ((host, folder_of(server)), ("own.invalid", "own.invalid")):
            write_hosts(tmp_path, settings, folder)
            (tmp_path / folder).mkdir()
            node = Node(tmp_path / folder).add("own", [registry], f'{{"{registry}": {login}}}')
            image = f"{registry}/{REPOSITORY}:{TAG}"
            words = [image, *plain_pod(tmp_path), *node.options(), "--hosts-dir", str(tmp_path / "hosts")]
            for command in (["explain", "--check-registry"], ["can-pull"]):
                done = run_in_process(*command, *words)
                source = f" from {server.url}" if registry == "own.invalid" else ""
                assert done.returncode == 0, done.stdout
                wanted = f"yes: {image} can be pulled{source} with {USER} of provider own"
                assert wanted in " ".join(done.stdout.split())


def test_a_client_certificate_is_shown_to_its_host(tmp_path: Path, authority: Authority) -> None:
    signer = certificates.Authority()
    pair = signer.client()
    context = authority.context("127.0.0.1")
    context.verify_mode = ssl.CERT_REQUIRED
    context.load_verify_locations(cadata=signer.pem)
    write(tmp_path, "hosts/own.invalid/cert.pem", pair.certificate)
    write(tmp_path, "hosts/own.invalid/key.pem", pair.key)
    write(tmp_path, "hosts/own.invalid/both.pem", pair.certificate + pair.key)
    with serving(FakeRegistry(IMAGE, BASIC), context) as server:
        start = f'[host."{server.url}"]\nca = "{authority.bundle}"\n'
        write_hosts(tmp_path, start)
        assert ask(tmp_path).verdict is PullVerdict.UNKNOWN
        for client in ('[["cert.pem", "key.pem"]]', '"both.pem"', '["both.pem"]'):
            write_hosts(tmp_path, f"{start}client = {client}\n")
            assert ask(tmp_path).verdict is PullVerdict.YES


@pytest.mark.parametrize("name", ["own.invalid", "_default"])
def test_certificates_beside_an_absent_hosts_toml_are_used(
    tmp_path: Path, authority: Authority, name: str
) -> None:
    """The registry itself is asked then, here behind a proxy."""
    with (
        serving(FakeRegistry(IMAGE, BASIC), authority.context("own.invalid")) as server,
        ConnectProxy({"own.invalid": server.port}) as proxy,
        pytest.MonkeyPatch.context() as patch,
    ):
        patch.setenv("HTTPS_PROXY", proxy.url)
        write(tmp_path, f"hosts/{name}/any.crt", authority.bundle.read_text())
        assert ask(tmp_path).verdict is PullVerdict.YES


def test_the_settings_of_containerd_1_are_used(tmp_path: Path, authority: Authority) -> None:
    with serving(FakeRegistry(IMAGE, BASIC), authority.context("127.0.0.1")) as server:
        start = 'plugins."io.containerd.grpc.v1.cri".registry'
        mirror = f'[{start}.mirrors."own.invalid"]\nendpoint = ["{server.url}"]\n'
        for tls in (f'ca_file = "{authority.bundle}"', "insecure_skip_verify = true"):
            write(tmp_path, CONFIG, f'{mirror}[{start}.configs."127.0.0.1:{server.port}".tls]\n{tls}\n')
            mirrors = find_endpoints(NAME, MirrorPlaces(root=str(tmp_path), runtime=RuntimeKind.CONTAINERD))
            (attempt,) = check_endpoints(NAME, [credential()], mirrors)
            assert attempt.mirror == server.url


@pytest.mark.parametrize(
    ("make", "problem"),
    [
        (lambda _: None, "does not exist"),
        (lambda path: path.write_text("no certificate"), "cannot be read as certificates in PEM"),
        (lambda path: path.mkdir(), "cannot be read: Is a directory"),
        (os.mkfifo, "is not a regular file"),
    ],
    ids=["absent", "other text", "folder", "pipe"],
)
def test_an_authority_that_cannot_be_read_is_said(tmp_path: Path, make: object, problem: str) -> None:
    """As in containerd, which then asks nobody; whether that is so on the node is not known."""
    assert callable(make)
    with serving(FakeRegistry(IMAGE)) as server:
        write_hosts(tmp_path, f'[host."{server.url}"]\n[host."https://b"]\nca = "ca.pem"\n')
        make(tmp_path / "hosts/own.invalid/ca.pem")
        check = ask(tmp_path)
        assert server.received == []
    assert check.verdict is PullVerdict.UNKNOWN
    assert f"'{tmp_path}/hosts/own.invalid/ca.pem' {problem}" in verdict(check)


def test_a_header_with_a_login_comes_before_the_credential(tmp_path: Path) -> None:
    with serving(FakeRegistry(IMAGE, BASIC)) as server:
        write_hosts(tmp_path, f'[host."{server.url}".header]\nAuthorization = "Basic {SECRET}"\n')
        assert ask(tmp_path).verdict is PullVerdict.YES
    assert logins(server)[:2] == [f"Basic {SECRET}", LOGIN]


@pytest.mark.parametrize("status", [401, 403, 404, 429, 500])
def test_after_any_failure_the_next_host_is_asked(tmp_path: Path, status: int) -> None:
    with serving(lambda _: Reply(status)) as first, serving(FakeRegistry(IMAGE, BASIC)) as second:
        write_hosts(tmp_path, f'[host."{first.url}"]\n[host."{second.url}"]\n')
        check = ask(tmp_path)
    assert check.verdict is PullVerdict.YES
    assert check.attempts[0].mirror == second.url
    assert first.received


@pytest.mark.parametrize(
    ("first", "second", "verdict_", "kind"),
    [
        (404, 401, PullVerdict.NO, Kind.REFUSED),
        (403, 404, PullVerdict.NO, Kind.REFUSED),
        (404, 404, PullVerdict.NO, Kind.NOT_FOUND),
        (500, 404, PullVerdict.UNKNOWN, Kind.ERROR),
    ],
)
def test_a_no_needs_the_no_of_every_host(
    tmp_path: Path, first: int, second: int, verdict_: PullVerdict, kind: Kind
) -> None:
    with serving(lambda _: Reply(first)) as one, serving(lambda _: Reply(second)) as two:
        write_hosts(tmp_path, f'server = "{two.url}"\n[host."{one.url}"]\n')
        check = ask(tmp_path)
    assert (check.verdict, check.kind) == (verdict_, kind)


def test_only_hosts_that_resolve_are_asked_for_a_tag(tmp_path: Path) -> None:
    with serving(FakeRegistry(IMAGE)) as first, serving(FakeRegistry(IMAGE)) as second:
        text = f'server = "{second.url}"\n[host."{first.url}"]\ncapabilities = ["pull"]\n'
        write_hosts(tmp_path, text)
        assert ask(tmp_path).attempts[0].mirror == second.url
        assert first.received == []
        assert ask(tmp_path, f"own.invalid/{REPOSITORY}@{IMAGE.digest}").attempts[0].mirror == first.url


def test_paths_and_the_namespace_are_those_of_containerd(tmp_path: Path) -> None:
    def answer(request: Received) -> Reply:
        reached.append(request.target)
        return Reply(404)

    reached: list[str] = []
    with serving(answer) as server:
        text = f'[host."{server.url}/a"]\n[host."{server.url}/b"]\noverride_path = true\n'
        write_hosts(tmp_path, f"server = '{server.url}'\n{text}")
        ask(tmp_path)
    end = f"{REPOSITORY}/manifests/{TAG}?ns=own.invalid"
    assert list(dict.fromkeys(reached)) == [f"/a/v2/{end}", f"/b/{end}", f"/v2/{end}"]


def test_a_repository_that_a_mirror_rewrites_is_not_known(tmp_path: Path) -> None:
    with serving(lambda _: Reply(404)) as server:
        text = f'server = \'{server.url}\'\n[host."http://127.0.0.1:9".rewrite]\n"^a" = "b"\n'
        write_hosts(tmp_path, text)
        check = ask(tmp_path)
    assert check.verdict is PullVerdict.UNKNOWN
    assert "for a repository that is not known here (rewrite)" in said(check)


CRIO = '[[registry]]\nlocation = "own.invalid"\n[[registry.mirror]]\nlocation = "{host}"\ninsecure = {insecure}\n'


def test_cri_o_trusts_the_certificates_of_its_folder(tmp_path: Path, authority: Authority) -> None:
    """And does not send the credential to a mirror."""
    with serving(FakeRegistry(IMAGE), authority.context("127.0.0.1")) as server:
        host = f"127.0.0.1:{server.port}"
        write(tmp_path, "registries.conf", CRIO.format(host=host, insecure="false"))
        assert ask(tmp_path, runtime=RuntimeKind.CRIO).verdict is PullVerdict.UNKNOWN
        write(tmp_path, f"certs.d/{host}/any.crt", authority.bundle.read_text())
        assert ask(tmp_path, runtime=RuntimeKind.CRIO).attempts[0].mirror == server.url
        image = f"{host}/{REPOSITORY}:{TAG}"
        assert ask(tmp_path, image, runtime=RuntimeKind.CRIO).verdict is PullVerdict.YES
        write(tmp_path, f"certs.d/{host}/some.cert", "")
        assert "some.cert and some.key without the other" in said(ask(tmp_path, runtime=RuntimeKind.CRIO))


@pytest.mark.parametrize("is_tls", [False, True])
def test_cri_o_accepts_what_is_insecure_where_its_file_says_so(
    tmp_path: Path, authority: Authority, is_tls: bool
) -> None:
    with serving(FakeRegistry(IMAGE), authority.context("127.0.0.1") if is_tls else None) as server:
        host = f"127.0.0.1:{server.port}"
        write(tmp_path, "registries.conf", CRIO.format(host=host, insecure="false"))
        assert ask(tmp_path, runtime=RuntimeKind.CRIO).verdict is PullVerdict.UNKNOWN
        write(tmp_path, "registries.conf", CRIO.format(host=host, insecure="true"))
        assert ask(tmp_path, runtime=RuntimeKind.CRIO).verdict is PullVerdict.YES


def test_a_login_that_only_the_runtime_has_leaves_the_answer_open(tmp_path: Path) -> None:
    """A mirror of CRI-O that asks for one gets it from CRI-O's auth file."""
    with serving(FakeRegistry(IMAGE, BASIC)) as mirror, serving(lambda _: Reply(404)) as own:
        text = f'[[registry]]\nprefix = "own.invalid"\nlocation = "127.0.0.1:{own.port}"\ninsecure = true\n'
        text += f'[[registry.mirror]]\nlocation = "127.0.0.1:{mirror.port}"\ninsecure = true\n'
        write(tmp_path, "registries.conf", text)
        check = ask(tmp_path, runtime=RuntimeKind.CRIO)
    assert check.verdict is PullVerdict.UNKNOWN
    assert "CRI-O may have a login of its own for 127.0.0.1" in said(check)
    assert LOGIN not in logins(mirror) + logins(own)


def test_a_host_that_cannot_be_reached_is_asked_once(tmp_path: Path) -> None:
    with serving(lambda _: Reply(is_closed=True)) as first, serving(FakeRegistry(IMAGE, BASIC)) as second:
        write_hosts(tmp_path, f'[host."{first.url}"]\n[host."{second.url}"]\n')
        check = ask(tmp_path, NAME, credential(), credential(password="other"))
    assert [attempt.worked for attempt in check.attempts] == [True, False]
    assert len(first.received) == 1


@pytest.mark.parametrize("is_listed", [True, False])
def test_the_files_of_this_machine_count_as_far_as_its_containerd_reads_them(
    tmp_path: Path, authority: Authority, is_listed: bool
) -> None:
    """Old versions read the folder only if config_path names it: without that, both ways must lead to the image."""
    with serving(FakeRegistry(IMAGE, BASIC), authority.context("127.0.0.1")) as server:
        host = f"127.0.0.1:{server.port}"
        text = f'server = "{server.url}"\nca = "/ca.pem"\n'
        write(tmp_path, CERTS / folder_of(server) / "hosts.toml", text)
        write(tmp_path, "ca.pem", authority.bundle.read_text())
        section = '[plugins."io.containerd.grpc.v1.cri".registry]\nconfig_path = "/etc/containerd/certs.d"\n'
        write(tmp_path, CONFIG, section if is_listed else "version = 2\n")
        login = f'{{"username": "{USER}", "password": "{PASSWORD}"}}'
        node = Node(tmp_path).add("own", [host], f'{{"{host}": {login}}}')
        words = [f"{host}/{REPOSITORY}:{TAG}", *plain_pod(tmp_path), *node.options()]
        for command in (["explain", "--check-registry"], ["can-pull"]):
            done = run_in_process(*command, *words, cwd=None, KEYFERRY_HOST_ROOT=str(tmp_path))
            assert done.returncode == (0 if is_listed else 6), done.stdout
            wanted = f"it depends on whether containerd reads {tmp_path / CERTS / folder_of(server)}"
            assert (wanted in " ".join(done.stdout.split())) is not is_listed
        sure = run_in_process(
            "can-pull", *words, "--ca-file", str(authority.bundle), cwd=None, KEYFERRY_HOST_ROOT=str(tmp_path)
        )
        assert sure.returncode == 0, sure.stdout


def test_a_login_of_containerds_config_leaves_a_refusal_without_a_credential_open(tmp_path: Path) -> None:
    with serving(FakeRegistry(IMAGE, BASIC)) as server:
        host = f"127.0.0.1:{server.port}"
        cri = 'plugins."io.containerd.grpc.v1.cri".registry'
        write(tmp_path, CONFIG, f'[{cri}.configs."{host}".auth]\npassword = "{SECRET}"\n')
        image = f"{host}/{REPOSITORY}:{TAG}"
        mirrors = find_endpoints(image, MirrorPlaces(root=str(tmp_path), runtime=RuntimeKind.CONTAINERD))
        check = RegistryCheck(image=image, attempts=check_endpoints(image, (), mirrors), mirrors=mirrors)
        assert check.verdict is PullVerdict.UNKNOWN
        assert "containerd has a login of its own for" in verdict(check)
        refused = check_endpoints(image, [credential(password="other")], mirrors)
        assert RegistryCheck(image=image, attempts=refused, mirrors=mirrors).verdict is PullVerdict.NO
    assert SECRET not in repr(check)


def test_certificates_of_docker_do_not_make_cri_o_the_runtime(tmp_path: Path) -> None:
    write(tmp_path, "etc/docker/certs.d/own.invalid/any.crt", "")
    assert find_endpoints(NAME, MirrorPlaces(root=str(tmp_path))) is None
    found = find_endpoints(NAME, MirrorPlaces(root=str(tmp_path), runtime=RuntimeKind.CRIO))
    assert found is not None
    assert len(found.endpoints[0].trust.ca_files) == 1
