"""The agent's image: built here without a registry, the same bytes every time, and run with the least rights."""

from __future__ import annotations

import base64
import json
import os
import re
import tomllib
from pathlib import Path

import pytest

import keyferry
from support.agent_image import (
    BUILD_SECONDS,
    CACHE,
    KEYFERRY,
    PREFIX,
    PROBE,
    ROOT,
    SBOM,
    SOCKET_FOLDER,
    USER,
    Archive,
    ImageRunner,
    agent_image,
    build_image,
    read_archive,
)
from support.fake_cloud import Authority
from support.host_root import CONFIG, IMAGE, HostRoot
from support.locks import locked
from support.pages import Machine, blocks
from support.parts import need
from support.plugins import compile_program, provider_entry, write_config
from support.registry import running

pytestmark = pytest.mark.timeout(BUILD_SECONDS)

REFERENCE = f"localhost/keyferry:{keyferry.__version__}"
ENVIRONMENT = {
    "PATH": f"{PREFIX}/bin:/usr/bin",
    "LANG": "C.UTF-8",
    "SSL_CERT_FILE": "/etc/ssl/certs/ca-certificates.crt",
    "KEYFERRY_AGENT": f"{SOCKET_FOLDER}/agent.sock",
}
LEAST_RIGHTS = """\
import os
status = dict(line.split(":\\t", 1) for line in open("/proc/self/status").read().splitlines())
print(status["Uid"].split()[1], status["Gid"].split()[1], status["CapBnd"], status["CapEff"], status["NoNewPrivs"])
for place in ("/", "/opt/keyferry", "/tmp"):
    print(place, os.access(place, os.W_OK), os.statvfs(place).f_flag & os.ST_RDONLY)
"""


RUN_ALL = """\
import os, subprocess
for name in sorted(os.listdir("/opt/keyferry/bin")):
    if name != "python":
        words = ["/opt/keyferry/bin/" + name, *(["--version"] if name == "keyferry" else [])]
        done = subprocess.run(words, input=b"{}", stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        print(name, done.returncode, done.stdout.decode().replace("\\n", " ").strip())
"""


# What the runtime of Go uses of the C library when a program is built with cgo.
CGO_LIKE = """\
#include <netdb.h>
#include <pthread.h>
#include <stdio.h>
static void *look_up(void *found) { return getaddrinfo("127.0.0.1", "443", NULL, found) ? found : NULL; }
int main(void) {
    pthread_t thread;
    struct addrinfo *found = NULL;
    void *failed = &thread;
    if (pthread_create(&thread, NULL, look_up, &found) || pthread_join(thread, &failed) || failed) return 1;
    puts("looked up");
    return 0;
}
"""


@pytest.fixture(scope="module")
def archive() -> Archive:
    return read_archive(agent_image())


def test_a_second_build_gives_the_same_bytes(tmp_path: Path) -> None:
    """By another umask and in another time zone; both start from the same Debian packages."""
    first = agent_image()
    umask = ("sh", "-c", 'umask 077; exec "$@"', "sh")
    with locked(CACHE / "lock"):
        build_image(tmp_path, *umask, TZ="Asia/Tokyo", LANG="C", PYTHONHASHSEED="7")
    assert read_archive(tmp_path / first.name).digest == read_archive(first).digest
    for name in ("sbom.cdx.json", "debian-packages.txt"):
        assert (tmp_path / name).read_bytes() == first.with_name(name).read_bytes()


def test_it_holds_python_keyferry_and_the_shim_and_no_shell(archive: Archive) -> None:
    programs = {path for path, entry in archive.entries.items() if entry.isreg() and entry.mode & 0o111}
    own = {path for path in programs if path.startswith(f"{PREFIX}/")}
    libraries = {path for path in programs if ".so" in path or path.endswith(".py")}
    assert programs - own - libraries == {"/usr/bin/python3.11"}
    shim = f"{PREFIX}/lib/keyferry/keyferry-shim-{os.uname().machine}"
    assert own - libraries == {shim} | {path for path in own if path.startswith(f"{PREFIX}/bin/")}
    assert archive.contents[shim].startswith(b"\x7fELF")
    assert b"/ld-" not in archive.contents[shim], "it is static"
    assert f"{PREFIX}/bin/keyferry-shim" in own, "the one in Python"


def test_everything_is_roots_but_the_place_of_the_socket(archive: Archive) -> None:
    owners = {path: entry.uid for path, entry in archive.entries.items() if entry.uid or entry.gid}
    assert owners == {str(SOCKET_FOLDER): USER}
    for path, entry in archive.entries.items():
        assert not entry.mode & 0o6000, path
        assert path in ("/tmp", "/var/tmp") or entry.issym() or not entry.mode & 0o022, path


def test_modules_are_compiled_and_need_no_times(archive: Archive) -> None:
    """On a read-only root, what is not compiled is compiled at every start."""
    start = f"{PREFIX}/lib/python3.11/site-packages/keyferry/"
    sources = [path for path in archive.contents if path.endswith(".py")]
    assert any(path.startswith(start) for path in sources)
    for path in sources:
        folder, _, name = path.rpartition("/")
        if path.startswith(("/usr/lib/python3.11/", f"{PREFIX}/lib/")):
            compiled = archive.contents[f"{folder}/__pycache__/{name.removesuffix('.py')}.cpython-311.pyc"]
            # PEP 552: bit 0 for a hash in place of a time, bit 1 for one that is checked.
            assert compiled[4:8] == b"\x01\0\0\0", path


def test_the_settings_are_those_of_the_page(archive: Archive) -> None:
    config = archive.config["config"]
    assert config["User"] == f"{USER}:{USER}"
    assert (config["Entrypoint"], config["Cmd"]) == ([KEYFERRY], ["agent", "run"])
    assert dict(each.split("=", 1) for each in config["Env"]) == ENVIRONMENT
    assert config["Labels"]["org.opencontainers.image.version"] == keyferry.__version__
    page = (ROOT / "docs" / "kubernetes.md").read_text()
    for name, value in ENVIRONMENT.items():
        assert f"`{name}={value}`" in page
    assert archive.annotations["org.opencontainers.image.ref.name"] == REFERENCE


def test_the_lists_of_parts_are_complete(archive: Archive) -> None:
    """Python's distributions are in the one inside, which is the one beside; Debian's packages are in the other."""
    inside = archive.contents[SBOM]
    assert inside == agent_image().with_name("sbom.cdx.json").read_bytes()
    document = json.loads(inside)
    assert document["bomFormat"] == "CycloneDX"
    parts = [document["metadata"]["component"], *document["components"]]
    distributions = {
        json_name(data)
        for path, data in archive.contents.items()
        if path.endswith(".dist-info/METADATA") and path.startswith(PREFIX)
    }
    assert {each["name"].lower().replace("_", "-") for each in parts} == distributions
    assert needed_by_the_agent() <= distributions
    listed = agent_image().with_name("debian-packages.txt").read_text().splitlines()
    packages = {line.partition("\t")[0].partition(":")[0] for line in listed}
    status = archive.contents["/var/lib/dpkg/status"].decode().splitlines()
    assert {line.removeprefix("Package: ") for line in status if line.startswith("Package: ")} == packages
    assert {"libc6", "libssl3", "python3.11-minimal"} <= packages
    assert not {"dash", "dpkg", "coreutils"} & packages


def needed_by_the_agent() -> set[str]:
    """The distributions that keyferry and its extra for the agent require; each has to be pinned in the recipe."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    required = (*project["dependencies"], *project["optional-dependencies"]["agent"])
    return {re.split(r"[<>=\[ ]", each)[0].lower() for each in required}


def json_name(metadata: bytes) -> str:
    """The normalised name of a distribution."""
    line = next(line for line in metadata.decode().splitlines() if line.startswith("Name: "))
    return line.removeprefix("Name: ").lower().replace("_", "-")


def test_it_runs_with_the_least_rights(runner: ImageRunner) -> None:
    done = runner.run(f"{PREFIX}/bin/python", "-c", LEAST_RIGHTS)
    first, *places = done.stdout.splitlines()
    assert first == f"{USER} {USER} {'0' * 16} {'0' * 16} 1", done.stderr
    assert places == ["/ False 1", "/opt/keyferry False 1", "/tmp False 1"]


def test_every_program_in_it_finds_its_modules(runner: ImageRunner) -> None:
    """What the plugins are asked is no request, and they say so."""
    done = runner.run(f"{PREFIX}/bin/python", "-c", RUN_ALL)
    lines = done.stdout.splitlines()
    assert len(lines) > 10, done.stderr
    assert "Traceback" not in done.stdout
    assert "ModuleNotFoundError" not in done.stdout
    assert f"keyferry 0 keyferry {keyferry.__version__}" in lines


def test_it_serves_as_a_debug_container(runner: ImageRunner, tmp_path: Path) -> None:
    """As root, with the root of its host at /host: the plugin is the node's, and so is the runtime's socket."""
    host = HostRoot(tmp_path / "host")
    host.add_plugin()
    host.at("/run").mkdir()
    mounts = {Path("/host"): (host.folder, "ro"), Path("/host/run"): (runner.socket.parent, "ro")}
    words = [IMAGE, "--host-root", "/host", "-o", "json"]
    explained = runner.run_as_root(KEYFERRY, "explain", *words, mounts=mounts)
    document = json.loads(explained.stdout)
    assert [each["username"] for each in document["credentials"]] == ["node"], explained.stderr
    checked = runner.run_as_root(KEYFERRY, "doctor", "--host-root", "/host", "-o", "json", mounts=mounts)
    assert CONFIG in checked.stdout, checked.stderr
    socket = f"unix:///run/{runner.socket.name}"
    listed = runner.run_as_root(
        KEYFERRY,
        *("records", "plan", "--policy", "AlwaysVerify", "--cri", socket, "--host-root", "/host"),
        mounts=mounts,
    )
    # The runtime answered; there are no records.
    assert "/var/lib/kubelet: there is no such folder" in listed.stderr


def test_a_plugin_that_needs_the_c_library_alone_runs(runner: ImageRunner, tmp_path: Path) -> None:
    """The page says which one: that of Debian 12."""
    compile_program(tmp_path / "plugin", CGO_LIKE)
    tmp_path.chmod(0o755)
    assert b"/ld-linux" in (tmp_path / "plugin").read_bytes(), "it is not static"
    done = runner.run("/node/plugin", mounts={Path("/node"): (tmp_path, "ro")})
    assert (done.returncode, done.stdout) == (0, "looked up\n"), done.stderr


def test_the_agent_serves_and_its_probe_tells(runner: ImageRunner, tmp_path: Path) -> None:
    """Without an agent the probe says no; with one it says yes, and the agent's state does not matter to it."""
    compile_program(tmp_path / "plugin", "int main(void) { return 1; }\n", static=True)
    config = write_config(tmp_path / "providers.json", [provider_entry("plugin")])
    tmp_path.chmod(0o755)
    assert runner.run(PROBE, "ready").returncode == 1
    socket_folder = tmp_path / "run"
    socket_folder.mkdir()
    os.chown(socket_folder, USER, USER)
    mounts = {
        SOCKET_FOLDER: (socket_folder, "rw"),
        Path("/node"): (tmp_path, "ro"),
    }
    with runner.agent(mounts, KEYFERRY_CONFIG="/node/providers.json", KEYFERRY_BIN_DIR="/node") as agent:
        config.write_text("{")
        assert (agent.probe("live"), agent.probe("ready")) == (0, 0)
        status = agent.execute(KEYFERRY, "agent", "status", "-o", "json")
        assert json.loads(status.stdout)["uid"] == USER
        assert (socket_folder / "agent.sock").stat().st_uid == USER


def test_the_commands_of_the_page_take_the_archive(runner: ImageRunner, tmp_path: Path) -> None:
    """Into a registry, an engine's storage and a node's runtime; and its digest is the one that the build printed."""
    for program in ("ctr", "podman", "skopeo"):
        need(program)
    found = blocks("docs/kubernetes.md", "sh")
    put, verify = (
        next(each for each in found if word in each.text) for word in ("podman load", "{{.Digest}}")
    )
    authority, login = Authority(tmp_path), ("pusher", "kf-push-word")
    pem = authority.certificate("127.0.0.1")
    with running(tmp_path / "registry", pem=pem, bundle=authority.bundle) as registry:
        registry.set_users(dict([login]))
        write_tool_files(tmp_path, registry.host, login)
        names = {str(agent_image()): ".cache/image/keyferry.oci.tar", registry.host: "registry.example"}
        mounts = "mount -t tmpfs none /run && mkdir /run/containerd\n"
        mounts += f"ln -s {runner.socket} /run/containerd/containerd.sock\n"
        machine = Machine(
            tmp_path,
            names,
            mounts=mounts,
            CONTAINERS_STORAGE_CONF=str(tmp_path / "storage.conf"),
            REGISTRY_AUTH_FILE=str(tmp_path / "auth.json"),
            SSL_CERT_FILE=str(authority.bundle),
        )
        assert "localhost/keyferry" in machine.run(put)
        build, inspect = verify.text.splitlines()
        assert build.startswith("make image ")
        pushed = inspect.replace(
            "oci-archive:.cache/image/keyferry.oci.tar", "docker://registry.example/keyferry:0.1.0"
        )
        first, second = machine.shell(f"{inspect}\n{pushed}").stdout.split()
    assert first == second


def write_tool_files(folder: Path, host: str, login: tuple[str, str]) -> None:
    """Write what skopeo and podman read: storage, policy, and a login."""
    storage = f'[storage]\ndriver = "vfs"\ngraphroot = "{folder}/graph"\nrunroot = "{folder}/run"\n'
    (folder / "storage.conf").write_text(storage)
    auth = base64.b64encode(":".join(login).encode()).decode()
    (folder / "auth.json").write_text(json.dumps({"auths": {host: {"auth": auth}}}))
    policy = folder / ".config" / "containers" / "policy.json"
    policy.parent.mkdir(parents=True)
    policy.write_text('{"default": [{"type": "insecureAcceptAnything"}]}')
