"""Which mirrors containerd has for a registry, found where containerd looks, in the order in which it does."""

import os
from pathlib import Path

import pytest

from keyferry.pulls.registry.mirrors import Mirrors, find_mirrors

MIRROR = '[host."https://mirror.example"]\n'
CERTS = Path("etc/containerd/certs.d")


def write(root: Path, path: str | Path, text: str) -> str:
    target = root / path
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_text(text)
    return str(target)


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
    assert find_mirrors(registry, root=str(tmp_path)) == Mirrors(file, ("https://mirror.example",))
    assert (find_mirrors("other.io", root=str(tmp_path)) is None) == (folder != "_default")


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
    assert find_mirrors("reg.io", root=str(tmp_path)) is None


@pytest.mark.parametrize(
    ("registry", "text", "hosts"),
    [
        pytest.param("reg.io", 'server = "https://up.example"', ("https://up.example",), id="server"),
        pytest.param(
            "docker.io",
            'server = "https://registry-1.docker.io"\n[host."http://10.0.0.1:5000"]\ncapabilities = ["pull"]',
            ("http://10.0.0.1:5000",),
            id="Docker Hub",
        ),
        pytest.param(
            "reg.io", '[host."https://a/v2/x"]\n[host."https://b"]', ("https://a/v2/x", "https://b"), id="two"
        ),
    ],
)
def test_other_hosts_are_mirrors(tmp_path: Path, registry: str, text: str, hosts: tuple[str, ...]) -> None:
    write(tmp_path, CERTS / registry / "hosts.toml", text)
    found = find_mirrors(registry, root=str(tmp_path))
    assert found is not None
    assert found.hosts == hosts


def test_the_first_folder_of_a_registry_counts(tmp_path: Path) -> None:
    """As in containerd: where a registry has a folder, even an empty one, the default is not looked at."""
    write(tmp_path, CERTS / "_default" / "hosts.toml", MIRROR)
    (tmp_path / CERTS / "reg.io").mkdir()
    assert find_mirrors("reg.io", root=str(tmp_path)) is None


@pytest.mark.parametrize(
    "section", ['"io.containerd.grpc.v1.cri"', '"io.containerd.cri.v1.images"', "cri"], ids=str
)
def test_the_runtimes_config_names_the_folders(tmp_path: Path, section: str) -> None:
    """In every version of it, in a file that it imports, with several folders."""
    file = write(tmp_path, "opt/hosts/reg.io/hosts.toml", MIRROR)
    write(tmp_path, "etc/containerd/config.toml", 'imports = ["conf.d/*.toml"]\n')
    text = f'[plugins.{section}.registry]\nconfig_path = "/none:/opt/hosts"\n'
    write(tmp_path, "etc/containerd/conf.d/mirrors.toml", text)
    assert find_mirrors("reg.io", root=str(tmp_path)) == Mirrors(file, ("https://mirror.example",))


@pytest.mark.parametrize("name", ["reg.io", "*"])
def test_mirrors_of_the_config_itself_are_found(tmp_path: Path, name: str) -> None:
    registry = '[plugins."io.containerd.grpc.v1.cri".registry.mirrors'
    text = f'{registry}."{name}"]\nendpoint = ["https://mirror.example"]\n'
    file = write(tmp_path, "etc/containerd/config.toml", text)
    assert find_mirrors("reg.io", root=str(tmp_path)) == Mirrors(file, ("https://mirror.example",))


def test_a_file_that_is_not_toml_may_name_a_mirror(tmp_path: Path) -> None:
    file = write(tmp_path, CERTS / "reg.io" / "hosts.toml", "[host")
    found = find_mirrors("reg.io", root=str(tmp_path))
    assert found == Mirrors(file, problem="it is not TOML")
    assert str(found) == f"{file} may name a mirror, but it is not TOML"


def test_a_file_that_cannot_be_read_may_name_a_mirror(tmp_path: Path) -> None:
    (tmp_path / CERTS / "reg.io" / "hosts.toml").mkdir(parents=True)
    found = find_mirrors("reg.io", root=str(tmp_path))
    assert found is not None
    assert found.problem == "it cannot be read: Is a directory"


def test_k3s_keeps_its_own_folder(tmp_path: Path) -> None:
    write(tmp_path, "var/lib/rancher/k3s/agent/etc/containerd/certs.d/reg.io/hosts.toml", MIRROR)
    assert find_mirrors("reg.io", root=str(tmp_path)) is not None


def test_a_folder_that_is_named_is_the_only_one(tmp_path: Path) -> None:
    write(tmp_path, CERTS / "reg.io" / "hosts.toml", MIRROR)
    other = os.fspath(tmp_path / "other")
    assert find_mirrors("reg.io", root=str(tmp_path), hosts_dir=other) is None
    assert find_mirrors("reg.io", root=other, hosts_dir=str(tmp_path / CERTS)) is not None


def test_a_node_without_containerd_has_none(tmp_path: Path) -> None:
    assert find_mirrors("reg.io", root=str(tmp_path)) is None


@pytest.mark.parametrize("capabilities", ["5", '"pull"', "{}"])
def test_capabilities_that_are_no_list_deny_nothing(tmp_path: Path, capabilities: str) -> None:
    file = write(tmp_path, CERTS / "reg.io" / "hosts.toml", f"{MIRROR}capabilities = {capabilities}\n")
    assert find_mirrors("reg.io", root=str(tmp_path)) == Mirrors(file, ("https://mirror.example",))


def test_imports_are_looked_for_below_the_root(tmp_path: Path) -> None:
    """As everything else that a config names by its path on the host."""
    write(tmp_path, "etc/containerd/config.toml", 'imports = ["/etc/containerd/conf.d/*.toml"]\n')
    section = '[plugins."io.containerd.cri.v1.images".registry]\nconfig_path = "/opt/certs"\n'
    write(tmp_path, "etc/containerd/conf.d/a.toml", section)
    file = write(tmp_path, "opt/certs/_default/hosts.toml", MIRROR)
    assert find_mirrors("reg.io", root=str(tmp_path)) == Mirrors(file, ("https://mirror.example",))


@pytest.mark.parametrize("closed", ["etc/containerd/config.toml", "etc/containerd/certs.d"])
def test_what_may_not_be_read_may_name_a_mirror(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, closed: str
) -> None:
    """Those who may not look cannot say that there is none."""
    write(tmp_path, "etc/containerd/config.toml", "version = 3\n")
    write(tmp_path, CERTS / "other.io" / "hosts.toml", MIRROR)
    assert find_mirrors("reg.io", root=str(tmp_path)) is None
    # From within, so that only the folder itself need be open to others.
    monkeypatch.chdir(tmp_path)
    tmp_path.chmod(0o711)
    os.chmod(tmp_path / closed, 0)
    was = os.geteuid()
    os.seteuid(was or 65534)  # root may read everything, so be somebody else for the moment
    try:
        found = find_mirrors("reg.io", root=".")
    finally:
        os.seteuid(was)
        os.chmod(tmp_path / closed, 0o700)
    assert found == Mirrors(f"./{closed}", problem="it cannot be read: Permission denied")


def test_the_words_fit_their_number() -> None:
    assert str(Mirrors("/f", ("a",))).endswith("a mirror for it, 'a' in /f, which was not tried")
    assert str(Mirrors("/f", ("a", "b"))).endswith("mirrors for it, 'a', 'b' in /f, which were not tried")
    assert str(Mirrors("/f", problem="it is not TOML")) == "/f may name a mirror, but it is not TOML"
