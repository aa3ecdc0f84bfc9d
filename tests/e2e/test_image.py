"""The agent's image: built here without an engine, the same bytes every time, and run with the least rights."""

from __future__ import annotations

import base64
import json
import os
import struct
from collections.abc import Iterator
from pathlib import Path

import pytest

import keyferry
from support.agent_image import (
    KEYFERRY,
    RECIPE,
    SETTINGS,
    USER,
    Archive,
    ImageRunner,
    agent_image,
    build_image,
    read_archive,
)
from support.containerd import running_containerd
from support.fake_cloud import Authority
from support.pages import Machine, blocks
from support.parts import need
from support.plugins import compile_program, provider_entry, write_config
from support.registry import running

PREFIX = SETTINGS["prefix"]
MACHINES = {"x86_64": 62, "aarch64": 183}  # as elf.h numbers them
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


@pytest.fixture(scope="module")
def runner() -> Iterator[ImageRunner]:
    with running_containerd() as containerd:
        yield ImageRunner(containerd, agent_image())


def test_a_second_build_gives_the_same_bytes(tmp_path: Path) -> None:
    """By another umask, in another time zone, and with no finished part of the first."""
    first, second = agent_image(), tmp_path / "second.oci.tar"
    umask = ("sh", "-c", 'umask 077; exec "$@"', "sh")
    build_image(second, "--fresh", before=umask, TZ="Asia/Tokyo", LANG="C", PYTHONHASHSEED="7")
    assert second.read_bytes() == first.read_bytes()
    assert (tmp_path / "sbom.cdx.json").read_bytes() == first.with_name("sbom.cdx.json").read_bytes()


def test_it_holds_python_keyferry_and_both_shims_and_no_shell(archive: Archive) -> None:
    programs = {path for path, entry in archive.entries.items() if entry.isreg() and entry.mode & 0o111}
    own = {path for path in programs if path.startswith(f"{PREFIX}/")}
    libraries = {path for path in programs if ".so" in path or path.endswith(".py")}
    assert programs - own - libraries == {"/usr/bin/python3.11"}
    shims = {machine: f"{PREFIX}/lib/keyferry/keyferry-shim-{machine}" for machine in MACHINES}
    assert own - libraries == {*shims.values()} | {path for path in own if path.startswith(f"{PREFIX}/bin/")}
    for machine, path in shims.items():
        shim = archive.contents[path]
        assert (shim[:4], struct.unpack("<H", shim[18:20])[0]) == (b"\x7fELF", MACHINES[machine])
        assert b"/ld-musl" not in shim, "it is static"
    assert f"{PREFIX}/bin/keyferry-shim" in own, "the one in Python"


def test_everything_is_roots_but_the_place_of_the_socket(archive: Archive) -> None:
    owners = {path: entry.uid for path, entry in archive.entries.items() if entry.uid or entry.gid}
    assert owners == {SETTINGS["socketFolder"]: USER}
    for path, entry in archive.entries.items():
        assert not entry.mode & 0o6000, path
        assert path == "/tmp" or entry.issym() or not entry.mode & 0o022, path
        assert entry.mtime == 0


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


def test_the_settings_are_those_of_the_recipe(archive: Archive) -> None:
    config = archive.config["config"]
    assert config["User"] == f"{USER}:{SETTINGS['group']}"
    assert (config["Entrypoint"], config["Cmd"]) == (SETTINGS["entrypoint"], SETTINGS["command"])
    assert dict(each.split("=", 1) for each in config["Env"]) == SETTINGS["environment"]
    assert config["Labels"].items() >= SETTINGS["labels"].items()
    assert config["Labels"]["org.opencontainers.image.version"] == keyferry.__version__
    assert config["Healthcheck"]["Test"] == ["CMD", *SETTINGS["healthcheck"]]


def test_the_list_of_parts_is_complete(archive: Archive) -> None:
    """The one inside is the one beside; each Debian package, each distribution and each shim is in it."""
    inside = archive.contents[SETTINGS["sbom"]]
    assert inside == agent_image().with_name("sbom.cdx.json").read_bytes()
    document = json.loads(inside)
    assert (document["bomFormat"], document["specVersion"]) == ("CycloneDX", "1.5")
    listed = {each["purl"].partition("@")[0] for each in document["components"]}
    lines = (RECIPE / "debian-packages.txt").read_text().splitlines()
    packages = {line for line in lines if not line.startswith("#")}
    distributions = {
        json_name(data)
        for path, data in archive.contents.items()
        if path.endswith(".dist-info/METADATA") and path.startswith(PREFIX)
    }
    assert listed == {
        *(f"pkg:deb/debian/{name}" for name in packages),
        *(f"pkg:pypi/{name}" for name in distributions),
        "pkg:generic/keyferry-shim",
    }
    status = "/var/lib/dpkg/status.d/"
    assert {path.removeprefix(status) for path in archive.contents if path.startswith(status)} == packages
    assert all(each["hashes"][0]["content"] for each in document["components"])


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
    assert runner.run(*SETTINGS["healthcheck"]).returncode == 1
    socket_folder = tmp_path / "run"
    socket_folder.mkdir()
    os.chown(socket_folder, USER, USER)
    mounts = {
        Path("/run/keyferry"): (socket_folder, "rw"),
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
    put, verify, *_ = blocks("docs/container.md", "sh")
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
