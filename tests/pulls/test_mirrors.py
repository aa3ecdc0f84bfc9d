"""The mirrors of a node's runtime, and the trust that goes with them."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from keyferry import Node, parse_image
from keyferry.pulls.mirrors.endpoints import (
    CredentialOffer,
    MirrorPlaces,
    Mirrors,
    RuntimeKind,
    running_places,
    runtime_of,
    stale_sources,
)
from keyferry.pulls.mirrors.find import configured_registries, find_mirrors
from support.kubelets import Processes
from support.mirrors import CERTS, CONFIG, MIRROR, REGISTRIES, mirror_hosts, write
from support.parts import root

CRIO = '[[registry]]\nlocation = "reg.io"\n[[registry.mirror]]\nlocation = "crio.example"\n'


def test_a_node_without_a_runtime_has_none(tmp_path: Path) -> None:
    assert find_mirrors("reg.io/app", MirrorPlaces(root=str(tmp_path))) is None


def test_containerd_comes_first_where_the_runtime_is_not_known(tmp_path: Path) -> None:
    write(tmp_path, REGISTRIES, CRIO)
    assert mirror_hosts(find_mirrors("reg.io/app", MirrorPlaces(root=str(tmp_path)))) == ["crio.example"]
    write(tmp_path, CERTS / "reg.io" / "hosts.toml", MIRROR)
    assert mirror_hosts(find_mirrors("reg.io/app", MirrorPlaces(root=str(tmp_path)))) == ["mirror.example"]


@pytest.mark.parametrize(
    ("runtime", "host"), [(RuntimeKind.CONTAINERD, "mirror.example"), (RuntimeKind.CRIO, "crio.example")]
)
def test_only_the_files_of_a_known_runtime_count(tmp_path: Path, runtime: RuntimeKind, host: str) -> None:
    write(tmp_path, REGISTRIES, CRIO)
    write(tmp_path, CERTS / "reg.io" / "hosts.toml", MIRROR)
    found = find_mirrors("reg.io/app", MirrorPlaces(root=str(tmp_path), runtime=runtime))
    assert found is not None
    assert (found.runtime, mirror_hosts(found)) == (runtime, [host])


def test_a_file_or_folder_that_is_named_is_the_only_one(tmp_path: Path) -> None:
    write(tmp_path, CERTS / "reg.io" / "hosts.toml", MIRROR)
    write(tmp_path, REGISTRIES, CRIO)
    other, root = os.fspath(tmp_path / "other"), str(tmp_path)
    assert find_mirrors("reg.io/app", MirrorPlaces(root=root, hosts_dir=other)) is None
    assert find_mirrors("reg.io/app", MirrorPlaces(root=root, registries_conf=other)) is None
    named = MirrorPlaces(root=other, hosts_dir=str(tmp_path / CERTS))
    assert mirror_hosts(find_mirrors("reg.io/app", named)) == ["mirror.example"]
    named = MirrorPlaces(root=other, registries_conf=str(tmp_path / REGISTRIES))
    assert mirror_hosts(find_mirrors("reg.io/app", named)) == ["crio.example"]


def test_the_registries_that_have_settings_are_listed(tmp_path: Path) -> None:
    write(tmp_path, CERTS / "reg.io_5000_" / "hosts.toml", MIRROR)
    write(tmp_path, CERTS / "_default" / "hosts.toml", MIRROR)
    write(tmp_path, REGISTRIES, '[[registry]]\nprefix = "*.example"\n')
    section = '[plugins.cri.registry.mirrors."docker.io"]\nendpoint = ["https://m"]\n'
    write(tmp_path, CONFIG, section)
    listed = configured_registries(MirrorPlaces(root=str(tmp_path)))
    assert listed == ("reg.io:5000", "docker.io", "*.example")
    only = MirrorPlaces(root=str(tmp_path), hosts_dir=str(tmp_path / CERTS))
    assert configured_registries(only) == ("reg.io:5000",)


def test_what_cannot_be_read_lists_nothing(tmp_path: Path) -> None:
    write(tmp_path, CONFIG, "[")
    write(tmp_path, REGISTRIES, "[")
    assert configured_registries(MirrorPlaces(root=str(tmp_path))) == ()


def test_a_file_that_is_not_toml_is_named_with_its_line(tmp_path: Path) -> None:
    write(tmp_path, CONFIG, "version = 2\n[plugins\nx = 1\n")
    found = find_mirrors("reg.io/app", MirrorPlaces(root=str(tmp_path)))
    assert found is not None
    assert found.file == str(tmp_path / CONFIG)
    assert "it is not TOML: " in str(found)
    assert "line 2" in str(found)


def test_nothing_is_opened_that_could_block(tmp_path: Path) -> None:
    (tmp_path / CONFIG).parent.mkdir(parents=True)
    os.mkfifo(tmp_path / CONFIG)
    found = find_mirrors("reg.io/app", MirrorPlaces(root=str(tmp_path)))
    assert found == Mirrors(
        runtime=RuntimeKind.CONTAINERD, file=str(tmp_path / CONFIG), problem="it is not a regular file"
    )


CONTAINERD_SOCKET = "unix:///run/containerd/containerd.sock"
CRIO_SOCKET = "unix:///var/run/crio/crio.sock"


@pytest.mark.parametrize(
    ("endpoint", "kind"),
    [
        (CONTAINERD_SOCKET, RuntimeKind.CONTAINERD),
        ("unix:///run/k3s/containerd/containerd.sock", RuntimeKind.CONTAINERD),
        (CRIO_SOCKET, RuntimeKind.CRIO),
        ("unix:///run/cri-dockerd.sock", None),
        ("", None),
    ],
)
def test_the_socket_tells_the_runtime(endpoint: str, kind: RuntimeKind | None) -> None:
    assert runtime_of(endpoint) is kind


def test_the_only_runtime_that_runs_is_the_one(processes: Processes) -> None:
    processes.write(20, "/usr/bin/crio", "-d", "/etc/crio")
    assert running_places(Node().kubelets.runtimes).runtime is RuntimeKind.CRIO
    processes.write(21, "/usr/bin/containerd")
    assert running_places(Node().kubelets.runtimes).runtime is None


@pytest.mark.parametrize("flag", [("-c", "{}"), ("--config={}",), ("--config", "{}")])
def test_a_running_containerd_names_its_config(
    processes: Processes, tmp_path: Path, flag: tuple[str, ...]
) -> None:
    path = str(tmp_path / "own.toml")
    processes.write(20, "/bin/containerd", *(word.format(path) for word in flag))
    found = running_places(Node().kubelets.runtimes, CONTAINERD_SOCKET, root="/host")
    assert found.containerd_configs == (path,)
    assert running_places(Node().kubelets.runtimes, CRIO_SOCKET).containerd_config == ""


def test_a_runtime_at_another_socket_is_another_one(processes: Processes) -> None:
    processes.write(20, "containerd", "-c", "/other.toml", "-a", "/run/other.sock")
    processes.write(21, "containerd", "-c", "/own.toml", "-a", "/run/containerd/containerd.sock")
    assert running_places(Node().kubelets.runtimes, CONTAINERD_SOCKET).containerd_config == "/own.toml"


@root
def test_a_runtime_of_another_user_names_nothing(processes: Processes) -> None:
    home = processes.write(20, "containerd", "-c", "/own.toml")
    os.chown(home, 1234, 1234)
    assert running_places(Node().kubelets.runtimes, CONTAINERD_SOCKET).containerd_config == ""


def test_a_source_is_stale_if_it_is_newer_than_what_is_written_from_it(tmp_path: Path) -> None:
    file = write(tmp_path, "etc/rancher/k3s/registries.yaml", "mirrors: {}\n")
    folder = tmp_path / "var/lib/rancher/k3s/agent/etc/containerd/certs.d"
    assert stale_sources(str(tmp_path)) == ((file, str(folder)),)
    folder.mkdir(parents=True)
    os.utime(file, (1, 1))
    assert stale_sources(str(tmp_path)) == ()


def find(root: Path, image: str = "reg.io/team/app", config: str = "") -> Mirrors | None:
    places = MirrorPlaces(root=str(root), runtime=RuntimeKind.CONTAINERD, containerd_config=config)
    return find_mirrors(image, places)


def mirrors_of(root: Path, image: str = "reg.io/team/app") -> Mirrors:
    found = find(root, image)
    assert found is not None
    return found


def problem_of(root: Path, image: str = "reg.io/team/app") -> tuple[str, str]:
    found = mirrors_of(root, image)
    return found.file, found.problem


@pytest.mark.parametrize(
    ("registry", "folder"),
    [
        ("reg.io", "reg.io"),
        ("reg.io:5000", "reg.io:5000"),
        ("reg.io:5000", "reg.io_5000_"),
        ("docker.io", "docker.io"),
        ("reg.io", "_default"),
    ],
)
def test_a_mirror_is_found_under_each_name_of_a_registrys_folder(
    tmp_path: Path, registry: str, folder: str
) -> None:
    file = write(tmp_path, CERTS / folder / "hosts.toml", MIRROR)
    found = mirrors_of(tmp_path, f"{registry}/team/app")
    assert (found.file, mirror_hosts(found)) == (file, ["mirror.example"])
    assert (find(tmp_path, "other.io/app") is None) == (folder != "_default")


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("", id="nothing"),
        pytest.param('server = "https://reg.io"\n[host."https://reg.io"]\n', id="itself"),
        pytest.param('[host."https://reg.io:443"]\nca = "/ca.pem"\n', id="itself, with a port"),
        pytest.param('[host."https://mirror.example"]\ncapabilities = ["push"]\n', id="for pushes"),
        pytest.param('host = "odd"\n', id="odd"),
    ],
)
def test_what_leads_to_nobody_else_is_no_mirror(tmp_path: Path, text: str) -> None:
    write(tmp_path, CERTS / "reg.io" / "hosts.toml", text)
    assert find(tmp_path) is None


@pytest.mark.parametrize(
    ("image", "text", "endpoints"),
    [
        pytest.param(
            "reg.io/app",
            'server = "https://up.example"',
            [("https://up.example", "https://up.example/v2", False)],
            id="server",
        ),
        pytest.param(
            "busybox",
            'server = "https://registry-1.docker.io"\n[host."http://10.0.0.1:5000"]\ncapabilities = ["Pull"]',
            [
                ("http://10.0.0.1:5000", "http://10.0.0.1:5000/v2", False),
                ("https://registry-1.docker.io", "https://registry-1.docker.io/v2", True),
            ],
            id="Docker Hub",
        ),
        pytest.param(
            "reg.io/app",
            '[host."https://a/v2/x"]\n[host.b]\n[host."https://c/y"]\noverride_path = true',
            [
                ("https://a/v2/x", "https://a/v2/x/v2", False),
                ("https://b", "https://b/v2", False),
                ("https://c/y", "https://c/y", False),
                ("https://reg.io", "https://reg.io/v2", True),
            ],
            id="paths, in the order of the file",
        ),
    ],
)
def test_the_places_are_asked_in_order(
    tmp_path: Path, image: str, text: str, endpoints: list[tuple[str, str, bool]]
) -> None:
    name = parse_image(image)
    write(tmp_path, CERTS / name.registry / "hosts.toml", text)
    found = mirrors_of(tmp_path, image)
    assert [(each.url, each.api, each.is_registry) for each in found.endpoints] == endpoints
    assert {each.repository for each in found.endpoints} == {name.path}


def test_every_host_is_offered_the_kubelets_credential(tmp_path: Path) -> None:
    """The kubelet names no server in it; a host with a header of its own gets that first, which is not shown."""
    text = '[host."https://a"]\n[host."https://b".header]\nauthorization = "Basic eA=="\n'
    write(tmp_path, CERTS / "reg.io" / "hosts.toml", text)
    found = mirrors_of(tmp_path)
    assert {each.offer for each in found.endpoints} == {CredentialOffer.OFFERED}
    assert [each.has_login for each in found.endpoints] == [False, True, False]
    assert "eA==" not in repr(found)


def test_a_login_of_containerds_own_is_told(tmp_path: Path) -> None:
    """It is used if the kubelet passes none; the secret in it is not kept."""
    cri = 'plugins."io.containerd.grpc.v1.cri".registry'
    for host, image in (("registry-1.docker.io", "busybox"), ("reg.io", "reg.io/app")):
        tls = f'[{cri}.configs."other.io".tls]\nca_file = "/ca.pem"\n'
        text = f'[{cri}.configs."{host}".auth]\npassword = "pass-word"\n{tls}'
        file = write(tmp_path, CONFIG, text)
        found = mirrors_of(tmp_path, image)
        assert [(each.host, each.has_login, each.is_registry) for each in found.endpoints] == [
            (host, True, True)
        ]
        assert found.file == file
        assert "pass-word" not in repr(found)
    assert find(tmp_path, "other.io/app") is None
    write(tmp_path, CERTS / "reg.io" / "hosts.toml", MIRROR)
    found = mirrors_of(tmp_path, "reg.io/app")
    assert [each.has_login for each in found.endpoints] == [False, True]


def test_no_password_of_a_url_is_kept(tmp_path: Path) -> None:
    write(tmp_path, CERTS / "reg.io" / "hosts.toml", '[host."https://user:pass-word@mirror.example"]\n')
    found = find(tmp_path)
    assert mirror_hosts(found) == ["mirror.example"]
    assert "pass-word" not in repr(found)


def test_rewrites_of_k3s_leave_the_repository_open(tmp_path: Path) -> None:
    text = '[host."https://a"]\nskip_verify = true\n[host."https://a".rewrite]\n"^(.*)$" = "proxy/$1"\n'
    folder = "var/lib/rancher/k3s/agent/etc/containerd/certs.d/reg.io/hosts.toml"
    write(tmp_path, folder, text)
    found = mirrors_of(tmp_path)
    (mirror,) = found.others
    assert (mirror.url, mirror.repository, mirror.is_insecure) == ("https://a", "", True)
    assert found.doubt == ""


def test_the_first_folder_of_a_registry_counts(tmp_path: Path) -> None:
    """As in containerd: where a registry has a folder, even an empty one, the default is not looked at."""
    write(tmp_path, CERTS / "_default" / "hosts.toml", MIRROR)
    (tmp_path / CERTS / "reg.io").mkdir()
    assert find(tmp_path) is None


def test_a_folder_that_no_config_names_is_in_doubt(tmp_path: Path) -> None:
    write(tmp_path, CERTS / "reg.io" / "hosts.toml", MIRROR)
    found = mirrors_of(tmp_path)
    assert "containerd before 2.2" in found.doubt
    section = '[plugins."io.containerd.grpc.v1.cri".registry]\nconfig_path = "/etc/containerd/certs.d"\n'
    write(tmp_path, CONFIG, section)
    found = mirrors_of(tmp_path)
    assert found.doubt == ""


def test_the_config_of_the_running_runtime_is_the_only_one(tmp_path: Path) -> None:
    write(tmp_path, CERTS / "reg.io" / "hosts.toml", MIRROR)
    own = write(tmp_path, "run/own.toml", '[plugins.cri.registry]\nconfig_path = "/none"\n')
    assert find(tmp_path, config=own) is None


@pytest.mark.parametrize("name", ["reg.io", "*"])
def test_mirrors_of_the_config_itself_are_found(tmp_path: Path, name: str) -> None:
    registry = '[plugins."io.containerd.grpc.v1.cri".registry.mirrors'
    file = write(
        tmp_path, CONFIG, f'{registry}."{name}"]\nendpoint = ["https://mirror.example", 5, "plain"]\n'
    )
    found = mirrors_of(tmp_path)
    assert found.file == file
    assert [each.url for each in found.endpoints] == [
        "https://mirror.example",
        "https://plain",
        "https://reg.io",
    ]


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("[host", "it is not TOML: "),
        ("x = '\udcff'", "it is not TOML: it is not UTF-8"),
        (f"{MIRROR}capabilities = 5\n", "capabilities is not a list, so containerd ignores the file"),
        (
            f'{MIRROR}capabilities = ["pul"]\n',
            "it has the unknown capability 'pul', so containerd ignores it",
        ),
    ],
)
def test_a_file_that_containerd_cannot_use_may_name_a_mirror(tmp_path: Path, text: str, problem: str) -> None:
    path = tmp_path / CERTS / "reg.io" / "hosts.toml"
    path.parent.mkdir(parents=True)
    path.write_bytes(text.encode(errors="surrogateescape"))
    file, said = problem_of(tmp_path)
    assert file == str(path)
    assert said.startswith(problem)


@pytest.mark.parametrize("closed", [str(CONFIG), str(CERTS)])
def test_what_may_not_be_read_may_name_a_mirror(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, closed: str
) -> None:
    """Those who may not look cannot say that there is none; nor can they of a folder in place of a file."""
    (tmp_path / CERTS / "folder.io" / "hosts.toml").mkdir(parents=True)
    assert problem_of(tmp_path, "folder.io/app")[1] == "it cannot be read: Is a directory"
    write(tmp_path, CONFIG, "version = 3\n")
    write(tmp_path, CERTS / "other.io" / "hosts.toml", MIRROR)
    assert find(tmp_path) is None
    # From within, so that only the folder itself need be open to others.
    monkeypatch.chdir(tmp_path)
    tmp_path.chmod(0o711)
    os.chmod(tmp_path / closed, 0)
    was = os.geteuid()
    os.seteuid(was or 65534)  # root may read everything, so be somebody else for the moment
    try:
        found = find_mirrors("reg.io/app", MirrorPlaces(root=".", runtime=RuntimeKind.CONTAINERD))
    finally:
        os.seteuid(was)
        os.chmod(tmp_path / closed, 0o700)
    assert found == Mirrors(
        runtime=RuntimeKind.CONTAINERD, file=f"./{closed}", problem="it cannot be read: Permission denied"
    )


def test_a_name_that_is_no_url_is_passed_over(tmp_path: Path) -> None:
    write(tmp_path, CERTS / "reg.io" / "hosts.toml", '[host."https://[::1"]\n[host."http://"]\n')
    assert find(tmp_path) is None


CRI = 'plugins."io.containerd.grpc.v1.cri"'


def write_mirror(root: Path, folder: str, host: str = "mirror.example") -> None:
    """Write a mirror into a folder that a config may name."""
    write(root, f"{folder}/reg.io/hosts.toml", f'[host."https://{host}"]\n')


@pytest.mark.parametrize(
    "section", ['"io.containerd.grpc.v1.cri"', '"io.containerd.cri.v1.images"', "cri"], ids=str
)
def test_the_folders_are_named_in_every_version(tmp_path: Path, section: str) -> None:
    """In a file that is imported, with several folders."""
    write(tmp_path, CONFIG, 'imports = ["conf.d/*.toml"]\n')
    text = f'[plugins.{section}.registry]\nconfig_path = "/none:/opt/hosts"\n'
    write(tmp_path, "etc/containerd/conf.d/mirrors.toml", text)
    write_mirror(tmp_path, "opt/hosts")
    assert mirror_hosts(find(tmp_path)) == ["mirror.example"]


def test_imports_are_looked_for_below_the_root(tmp_path: Path) -> None:
    """As everything else that a config names by its path on the host."""
    write(tmp_path, CONFIG, 'version = 3\nimports = ["/etc/containerd/a.toml"]\n')
    write(tmp_path, "etc/containerd/a.toml", 'imports = ["b.toml", "config.toml"]\n')
    text = '[plugins."io.containerd.cri.v1.images".registry]\nconfig_path = "/opt/certs"\n'
    write(tmp_path, "etc/containerd/b.toml", text)
    write_mirror(tmp_path, "opt/certs")
    assert mirror_hosts(find(tmp_path)) == ["mirror.example"]


def test_a_later_file_overrides(tmp_path: Path) -> None:
    write(tmp_path, CONFIG, f'version = 3\nimports = ["b.toml"]\n[{CRI}.registry]\nconfig_path = "/a"\n')
    write(tmp_path, "etc/containerd/b.toml", f'[{CRI}.registry]\nconfig_path = "/b"\n')
    for name in "ab":
        write_mirror(tmp_path, name, f"{name}.example")
    assert mirror_hosts(find(tmp_path)) == ["b.example"]


@pytest.mark.parametrize("version", [2, 3])
def test_a_plugin_that_two_files_set_is_merged_by_containerd_2_alone(tmp_path: Path, version: int) -> None:
    text = f'version = {version}\nimports = ["b.toml"]\n[{CRI}.registry]\nconfig_path = "/a"\n'
    write(tmp_path, CONFIG, text)
    write(tmp_path, "etc/containerd/b.toml", f"[{CRI}]\nenable_selinux = true\n")
    write_mirror(tmp_path, "a")
    if version == 3:
        assert mirror_hosts(find(tmp_path)) == ["mirror.example"]
    else:
        assert "which containerd 1 replaces and containerd 2 merges" in problem_of(tmp_path)[1]


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        (
            f'[{CRI}.registry]\nconfig_path = "/a"\n[{CRI}.registry.mirrors.x]\nendpoint = ["https://a"]\n',
            "does not start",
        ),
        ('imports = ["gone.toml"]\n', "gone.toml, which does not exist"),
    ],
    ids=["both kinds of mirrors", "an absent import"],
)
def test_what_stops_containerd_is_a_problem(tmp_path: Path, text: str, problem: str) -> None:
    write(tmp_path, CONFIG, text)
    assert problem in problem_of(tmp_path)[1]


DIGEST = f"@sha256:{'a' * 64}"
TWO = """\
[[registry]]
prefix = "reg.io/team"
location = "reg.io/real"
mirror-by-digest-only = {digest_only}
[[registry.mirror]]
location = "a.example/x"
insecure = true
[[registry.mirror]]
location = "b.example"
pull-from-mirror = "{pull_from}"
"""


def crio_mirrors(root: Path, image: str) -> Mirrors:
    found = find_mirrors(image, MirrorPlaces(root=str(root), runtime=RuntimeKind.CRIO))
    return found or Mirrors(runtime=RuntimeKind.CRIO, file="")


def places(root: Path, image: str) -> list[str]:
    """Where CRI-O asks for an image; nothing is said of one that no file is about."""
    found = crio_mirrors(root, image)
    assert found.problem == ""
    return [f"{each.host}/{each.repository}" for each in found.endpoints]


@pytest.mark.parametrize(
    ("image", "digest_only", "pull_from", "expected"),
    [
        ("reg.io/team/app:v1", "false", "all", ["a.example/x/app", "b.example/app", "reg.io/real/app"]),
        ("reg.io/team/app:v1", "true", "", ["reg.io/real/app"]),
        (f"reg.io/team/app{DIGEST}", "true", "", ["a.example/x/app", "b.example/app", "reg.io/real/app"]),
        ("reg.io/team/app", "false", "digest-only", ["a.example/x/app", "reg.io/real/app"]),
        (f"reg.io/team/app{DIGEST}", "false", "tag-only", ["a.example/x/app", "reg.io/real/app"]),
        ("reg.io/teams/app", "false", "all", []),
        ("reg.io/other", "false", "all", []),
    ],
)
def test_the_mirrors_of_a_prefix_come_before_its_own_place(
    tmp_path: Path, image: str, digest_only: str, pull_from: str, expected: list[str]
) -> None:
    write(tmp_path, REGISTRIES, TWO.format(digest_only=digest_only, pull_from=pull_from))
    assert places(tmp_path, image) == expected


def test_another_host_does_not_get_the_kubelets_credential(tmp_path: Path) -> None:
    write(tmp_path, REGISTRIES, TWO.format(digest_only="false", pull_from="all"))
    found = crio_mirrors(tmp_path, "reg.io/team/app")
    withheld, offered = CredentialOffer.WITHHELD, CredentialOffer.OFFERED
    assert [each.offer for each in found.endpoints] == [withheld, withheld, offered]
    assert [each.is_insecure for each in found.endpoints] == [True, False, False]


@pytest.mark.parametrize(
    ("image", "expected"),
    [
        ("a.corp.example/app", ["proxy.example/app"]),
        ("a.b.corp.example:5000/app", ["proxy.example:5000/app"]),
        ("corp.example/app", []),
        ("evil/corp.example/app", []),
        ("a.corp.example.org/app", []),
    ],
)
def test_a_wildcard_covers_subdomains(tmp_path: Path, image: str, expected: list[str]) -> None:
    text = '[[registry]]\nprefix = "*.corp.example"\nlocation = "proxy.example"\n'
    write(tmp_path, REGISTRIES, text)
    assert places(tmp_path, image) == expected


def test_a_wildcard_without_a_location_keeps_the_name(tmp_path: Path) -> None:
    text = '[[registry]]\nprefix = "*.corp.example"\n[[registry.mirror]]\nlocation = "m.example"\n'
    write(tmp_path, REGISTRIES, text)
    assert places(tmp_path, "a.corp.example/app") == ["m.example/app", "a.corp.example/app"]


def test_the_longest_prefix_wins_and_later_files_replace(tmp_path: Path) -> None:
    entry = '[[registry]]\nprefix = "{}"\nlocation = "{}"\n'
    write(tmp_path, REGISTRIES, entry.format("reg.io", "one.example"))
    write(tmp_path, f"{REGISTRIES}.d/10.conf", entry.format("reg.io/team", "two.example"))
    write(tmp_path, f"{REGISTRIES}.d/20.conf", entry.format("reg.io", "three.example"))
    write(tmp_path, f"{REGISTRIES}.d/30.txt", "[")
    assert places(tmp_path, "reg.io/app") == ["three.example/app"]
    assert places(tmp_path, "reg.io/team/app") == ["two.example/app"]


def test_a_blocked_image_is_not_pulled(tmp_path: Path) -> None:
    file = write(tmp_path, REGISTRIES, '[[registry]]\nlocation = "reg.io"\nblocked = true\n')
    found = crio_mirrors(tmp_path, "reg.io/app")
    assert found.is_blocked
    assert str(found) == f"CRI-O does not pull it: {file} blocks it"


def test_a_short_name_goes_where_its_alias_leads_or_to_the_searched_registries(tmp_path: Path) -> None:
    """The kubelet looks it up at Docker Hub; a full name is not affected."""
    text = 'unqualified-search-registries = ["quay.example", "docker.io"]\n'
    write(tmp_path, REGISTRIES, text)
    write(tmp_path, f"{REGISTRIES}.d/a.conf", '[aliases]\n"team/app" = "alias.example/app"\n')
    assert places(tmp_path, "busybox:v1") == ["quay.example/busybox", "docker.io/busybox"]
    assert places(tmp_path, f"team/app{DIGEST}") == ["alias.example/app"]
    assert places(tmp_path, "docker.io/library/busybox") == []
    found = crio_mirrors(tmp_path, "busybox")
    assert {each.offer for each in found.endpoints} == {CredentialOffer.UNKNOWN}


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("[[registry]\n", "it is not TOML"),
        ("registry = 5\n", "registry is not a list of tables"),
        ("[[registry]]\nblocked = true\n", "registry[0] has no location"),
        ("[[registry]]\nlocation = 5\n", "registry[0].location is not a string"),
        (
            '[[registry]]\nlocation = "u:secret@reg.io"\n',
            "registry[0].location has an '@', which is not allowed",
        ),
        ('[[registry]]\nlocation = "https://reg.io"\n', "registry[0].location has a scheme"),
        ('[[registry]]\nlocation = "reg.io"\n[[registry.mirror]]\n', "registry[0].mirror[0] has no location"),
        (
            '[[registry]]\nlocation = "r"\n[[registry.mirror]]\nlocation = "m"\npull-from-mirror = "never"\n',
            "registry[0].mirror[0] has the unknown pull-from-mirror 'never'",
        ),
        ("[registries.search]\nregistries = []\n", "it has the section [registries] of version 1"),
    ],
)
def test_a_file_that_is_wrong_is_named(tmp_path: Path, text: str, problem: str) -> None:
    file = write(tmp_path, REGISTRIES, text)
    found = crio_mirrors(tmp_path, "reg.io/app")
    assert found.file == file
    assert found.problem.startswith(problem)
