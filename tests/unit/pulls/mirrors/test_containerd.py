"""Where containerd goes for an image, by its files."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from keyferry.images.reference import parse_image
from keyferry.pulls.mirrors.containerd import RegistrySection, read_section
from keyferry.pulls.mirrors.endpoints import CredentialOffer, MirrorPlaces, Mirrors, RuntimeKind
from keyferry.pulls.mirrors.files import TomlProblem
from keyferry.pulls.mirrors.find import find_mirrors
from support.mirrors import CERTS, CONFIG, MIRROR, mirror_hosts, write


def find(root: Path, image: str = "reg.io/team/app", config: str = "") -> Mirrors | None:
    places = MirrorPlaces(root=str(root), runtime=RuntimeKind.CONTAINERD, containerd_config=config)
    return find_mirrors(image, places)


def problem_of(root: Path, image: str = "reg.io/team/app") -> tuple[str, str]:
    found = find(root, image)
    assert found is not None
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
    found = find(tmp_path, f"{registry}/team/app")
    assert found is not None
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
    found = find(tmp_path, image)
    assert found is not None
    assert [(each.url, each.api, each.is_registry) for each in found.endpoints] == endpoints
    assert {each.repository for each in found.endpoints} == {name.path}


def test_every_host_is_offered_the_kubelets_credential(tmp_path: Path) -> None:
    """The kubelet names no server in it; a host with a header of its own gets that first, which is not shown."""
    text = '[host."https://a"]\n[host."https://b".header]\nauthorization = "Basic eA=="\n'
    write(tmp_path, CERTS / "reg.io" / "hosts.toml", text)
    found = find(tmp_path)
    assert found is not None
    assert {each.offer for each in found.endpoints} == {CredentialOffer.OFFERED}
    assert [each.has_login for each in found.endpoints] == [False, True, False]
    assert "eA==" not in repr(found)


def test_a_login_of_containerds_own_is_told(tmp_path: Path) -> None:
    """It is used if the kubelet passes none; the secret in it is not kept."""
    cri = 'plugins."io.containerd.grpc.v1.cri".registry'
    for host, image in (("registry-1.docker.io", "busybox"), ("reg.io", "reg.io/app")):
        text = f'[{cri}.configs."{host}".auth]\npassword = "pass-word"\n'
        file = write(tmp_path, CONFIG, text)
        found = find(tmp_path, image)
        assert found is not None
        assert [(each.host, each.has_login, each.is_registry) for each in found.endpoints] == [
            (host, True, True)
        ]
        assert found.file == file
        assert "pass-word" not in repr(found)
    assert find(tmp_path, "other.io/app") is None
    write(tmp_path, CERTS / "reg.io" / "hosts.toml", MIRROR)
    found = find(tmp_path, "reg.io/app")
    assert found is not None
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
    found = find(tmp_path)
    assert found is not None
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
    found = find(tmp_path)
    assert found is not None
    assert "containerd before 2.2" in found.doubt
    section = '[plugins."io.containerd.grpc.v1.cri".registry]\nconfig_path = "/etc/containerd/certs.d"\n'
    write(tmp_path, CONFIG, section)
    found = find(tmp_path)
    assert found is not None
    assert found.doubt == ""


def test_the_config_of_the_running_runtime_is_the_only_one(tmp_path: Path) -> None:
    write(tmp_path, CERTS / "reg.io" / "hosts.toml", MIRROR)
    own = write(tmp_path, "run/own.toml", '[plugins.cri.registry]\nconfig_path = "/none"\n')
    assert find(tmp_path, config=own) is None


@pytest.mark.parametrize("name", ["reg.io", "*"])
def test_mirrors_of_the_config_itself_are_found(tmp_path: Path, name: str) -> None:
    registry = '[plugins."io.containerd.grpc.v1.cri".registry.mirrors'
    file = write(tmp_path, CONFIG, f'{registry}."{name}"]\nendpoint = ["https://mirror.example", "plain"]\n')
    found = find(tmp_path)
    assert found is not None
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


def test_a_file_that_cannot_be_read_may_name_a_mirror(tmp_path: Path) -> None:
    (tmp_path / CERTS / "reg.io" / "hosts.toml").mkdir(parents=True)
    assert problem_of(tmp_path)[1] == "it cannot be read: Is a directory"


@pytest.mark.parametrize("closed", [str(CONFIG), str(CERTS)])
def test_what_may_not_be_read_may_name_a_mirror(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, closed: str
) -> None:
    """Those who may not look cannot say that there is none."""
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


def read(root: Path) -> RegistrySection:
    found = read_section(str(root / CONFIG), str(root))
    assert found is not None
    return found


def test_no_config_is_no_section(tmp_path: Path) -> None:
    assert read_section(str(tmp_path / CONFIG)) is None


@pytest.mark.parametrize(
    "section", ['"io.containerd.grpc.v1.cri"', '"io.containerd.cri.v1.images"', "cri"], ids=str
)
def test_the_folders_are_named_in_every_version(tmp_path: Path, section: str) -> None:
    """In a file that is imported, with several folders."""
    write(tmp_path, CONFIG, 'imports = ["conf.d/*.toml"]\n')
    text = f'[plugins.{section}.registry]\nconfig_path = "/none:/opt/hosts"\n'
    write(tmp_path, "etc/containerd/conf.d/mirrors.toml", text)
    assert read(tmp_path).folders == (str(tmp_path / "none"), str(tmp_path / "opt/hosts"))


def test_imports_are_looked_for_below_the_root(tmp_path: Path) -> None:
    """As everything else that a config names by its path on the host."""
    write(tmp_path, CONFIG, 'version = 3\nimports = ["/etc/containerd/a.toml"]\n')
    write(tmp_path, "etc/containerd/a.toml", 'imports = ["b.toml", "config.toml"]\n')
    text = '[plugins."io.containerd.cri.v1.images".registry]\nconfig_path = "/opt/certs"\n'
    write(tmp_path, "etc/containerd/b.toml", text)
    assert read(tmp_path).folders == (str(tmp_path / "opt/certs"),)


def test_a_later_file_overrides(tmp_path: Path) -> None:
    write(tmp_path, CONFIG, f'version = 3\nimports = ["b.toml"]\n[{CRI}.registry]\nconfig_path = "/a"\n')
    write(tmp_path, "etc/containerd/b.toml", f'[{CRI}.registry]\nconfig_path = "/b"\n')
    assert read(tmp_path).folders == (str(tmp_path / "b"),)


@pytest.mark.parametrize("version", [2, 3])
def test_a_plugin_that_two_files_set_is_merged_by_containerd_2_alone(tmp_path: Path, version: int) -> None:
    text = f'version = {version}\nimports = ["b.toml"]\n[{CRI}.registry]\nconfig_path = "/a"\n'
    write(tmp_path, CONFIG, text)
    write(tmp_path, "etc/containerd/b.toml", f"[{CRI}]\nenable_selinux = true\n")
    if version == 3:
        assert read(tmp_path).folders == (str(tmp_path / "a"),)
        return
    with pytest.raises(TomlProblem) as caught:
        read(tmp_path)
    assert "which containerd 1 replaces and containerd 2 merges" in caught.value.problem


def test_mirrors_and_logins_of_containerd_1_are_read(tmp_path: Path) -> None:
    text = (
        f'[{CRI}.registry.mirrors."reg.io"]\nendpoint = ["https://a", 5]\n'
        f'[{CRI}.registry.configs."a".auth]\nusername = "u"\n[{CRI}.registry.configs."b".tls]\nx = 1\n'
    )
    write(tmp_path, CONFIG, text)
    section = read(tmp_path)
    assert (section.mirrors, section.logins) == ({"reg.io": ("https://a",)}, frozenset({"a"}))


def test_both_kinds_of_mirrors_stop_the_cri_plugin(tmp_path: Path) -> None:
    text = f'[{CRI}.registry]\nconfig_path = "/a"\n[{CRI}.registry.mirrors.x]\nendpoint = ["https://a"]\n'
    write(tmp_path, CONFIG, text)
    with pytest.raises(TomlProblem) as caught:
        read(tmp_path)
    assert "does not start" in caught.value.problem


def test_an_import_that_is_absent_is_a_problem(tmp_path: Path) -> None:
    write(tmp_path, CONFIG, 'imports = ["gone.toml"]\n')
    with pytest.raises(TomlProblem) as caught:
        read(tmp_path)
    assert "gone.toml, which does not exist" in caught.value.problem
