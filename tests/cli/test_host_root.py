"""A node whose files are below a folder, as a debug container sees its host: ``--host-root``."""

from __future__ import annotations

import json
import os
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from support.commands import plain_pod, run_in_process
from support.fake_cloud import Authority
from support.host_root import CONFIG, IMAGE, PLUGIN, REAL, USUAL, HostRoot
from support.images import build, push
from support.kubelets import Processes
from support.parts import need, root
from support.records import NAME, plant
from support.registry import basic, running


@pytest.fixture
def host(tmp_path: Path) -> HostRoot:
    return HostRoot(tmp_path / "host")


@root
def test_the_plugin_runs_with_the_folder_as_its_root(host: HostRoot) -> None:
    """It is found by discovery, through absolute links; the paths that are shown are the node's own."""
    host.add_plugin()
    done = host.run("get", IMAGE, "-o", "json", "--reveal")
    assert done.returncode == 0, done.stderr
    (credential,) = json.loads(done.stdout)["credentials"]
    assert (credential["username"], credential["password"]) == ("node", "node-7")
    assert f"the node's files are those below {host.folder}" in done.stderr
    wide = host.run("explain", IMAGE, "-o", "wide")
    assert wide.returncode == 0, wide.stderr
    assert f"providers: {CONFIG} (the usual place of EKS)" in wide.stdout
    assert f"plugins: {USUAL} (the usual place of EKS)" in wide.stdout
    shown = wide.stdout.replace(f"below {host.folder}", "").replace(f"--host-root {host.folder}", "")
    assert str(host.folder) not in shown


@root
@pytest.mark.parametrize("is_seen", [False, True], ids=["no kubelet", "a kubelet that hides its environment"])
def test_plugins_do_not_get_the_variables_of_the_image(host: HostRoot, *, is_seen: bool) -> None:
    """Its certificates, libraries and programs are not the node's; a note tells that the kubelet's are not known."""
    host.add_plugin()
    more = {"KEYFERRY_CONFIG": "", "KEYFERRY_BIN_DIR": "", "KEYFERRY_AGENT": "off"}
    if is_seen:
        flags = (
            f"--image-credential-provider-config={CONFIG}",
            f"--image-credential-provider-bin-dir={USUAL}",
        )
        host.write("/proc/1/cmdline", "/sbin/init\0")
        host.write("/proc/42/cmdline", "\0".join(("kubelet", *flags, "")))
        more["KEYFERRY_PROC"] = ""
    done = host.run(
        *("explain", IMAGE),
        **more,
        SSL_CERT_FILE="/image/ca.pem",
        SSL_CERT_DIR="/image/certs",
        LD_LIBRARY_PATH="/image/lib",
        PYTHONPATH="/image/python",
        HTTPS_PROXY="http://proxy.example:3128",
    )
    assert done.returncode == 0, done.stderr
    found = dict(line.split("=", 1) for line in host.at("/environment").read_text().splitlines())
    assert not [name for name in found if name.startswith(("KEYFERRY_", "LD_", "PYTHON", "SSL_"))]
    assert found["PATH"] == "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
    assert found["HTTPS_PROXY"] == "http://proxy.example:3128"
    assert "plugins get the environment of this process, " in done.stdout
    chosen = host.run("explain", IMAGE, "--env-from", "self", SSL_CERT_DIR="/image/certs", **more)
    assert chosen.returncode == 0, chosen.stderr
    assert "SSL_CERT_DIR=/image/certs\n" in host.at("/environment").read_text()


def test_who_may_not_chroot_is_told_so(host: HostRoot) -> None:
    """An ordinary user, or root in a container without that right; without plugins, the files are read all the same."""
    words = [sys.executable, "-m", "keyferry", "explain", IMAGE, "--host-root", str(host.folder)]
    if os.geteuid() == 0:
        words = [need("setpriv"), "--bounding-set=-sys_chroot", *words]
    host.at(f"{REAL}/ecr").write_text("#!/bin/sh\n")
    host.at(f"{REAL}/ecr").chmod(0o755)
    done = subprocess.run(words, capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 3
    assert f"run with {host.folder} as their root (chroot), which needs root" in done.stderr
    assert "--no-run" in done.stderr
    read = subprocess.run(
        [*words, "--no-run", "-o", "wide"], capture_output=True, text=True, check=False, timeout=60
    )
    assert f"providers: {CONFIG}" in " ".join(read.stdout.split())


def test_a_missing_plugin_is_named_by_its_path_on_the_node(host: HostRoot) -> None:
    done = host.run("doctor", "-o", "json")
    lines = [line for each in json.loads(done.stdout)["sections"] for line in each["lines"]]
    (missing,) = (line for line in lines if line["subject"] == "ecr" and line["level"] == "problem")
    assert f"{PLUGIN} is missing" in missing["text"]
    # The command works as it is pasted: the links of the node are followed in it.
    assert f"keyferry lint {host.folder}{REAL}/config.json --bin-dir {host.folder}{REAL}" in missing["next"]
    again = run_in_process(*shlex.split(missing["next"])[1:])
    assert (again.returncode, "ecr" in again.stdout) == (1, True), again.stderr


def test_the_flags_of_the_running_kubelet_count(host: HostRoot, processes: Processes) -> None:
    """Its config file and its policy are read below the folder."""
    shutil.move(host.at(f"{REAL}/config.json"), host.write("/etc/kubernetes/providers.json"))
    kubelet_config = {
        "apiVersion": "kubelet.config.k8s.io/v1beta1",
        "kind": "KubeletConfiguration",
        "imagePullCredentialsVerificationPolicy": "AlwaysVerify",
    }
    host.write("/usr/share/kubelet.json", json.dumps(kubelet_config))
    host.link("/etc/kubernetes/kubelet.json", "/usr/share/kubelet.json")
    host.link("/srv/kubelet", "/mnt/kubelet")
    host.at("/mnt/kubelet").mkdir(parents=True)
    flags = [
        "--image-credential-provider-config=/etc/kubernetes/providers.json",
        f"--image-credential-provider-bin-dir={USUAL}",
        "--config=/etc/kubernetes/kubelet.json",
        "--root-dir=/srv/kubelet",
    ]
    with processes.kubelet(*flags):
        done = host.run("doctor", "-o", "json")
    lines = {
        line["subject"]: line["text"]
        for each in json.loads(done.stdout)["sections"]
        for line in each["lines"]
    }
    assert "/etc/kubernetes/providers.json (flags of the kubelet" in lines["provider config"]
    assert lines["policy"].startswith("AlwaysVerify (/etc/kubernetes/kubelet.json of the kubelet")
    assert lines["records"].startswith("/srv/kubelet/image_manager does not exist")


def test_the_processes_below_the_folder_are_the_nodes(host: HostRoot) -> None:
    """Where the host's are mounted there; without them, those of the container's own namespace count."""
    shutil.move(host.at(f"{REAL}/config.json"), host.write("/srv/providers.json"))
    host.write("/proc/1/cmdline", "/sbin/init\0")
    flags = ("kubelet", "--image-credential-provider-config=/srv/providers.json")
    host.write("/proc/42/cmdline", "\0".join(flags) + "\0")
    done = host.run("doctor", "-o", "json", KEYFERRY_PROC="")
    assert "/srv/providers.json (flags of the kubelet, process 42)" in done.stdout


def test_the_records_of_the_node_are_read(host: HostRoot) -> None:
    file = plant(host.at("/mnt/disk/kubelet"))
    host.link("/var/lib/kubelet", "/mnt/disk/kubelet")
    done = host.run("records", "list", "-o", "json")
    assert done.returncode == 0, done.stderr
    document = json.loads(done.stdout)
    assert document["root"] == "/var/lib/kubelet"
    assert [each["name"] for each in document["records"][0]["names"]] == [NAME]
    shown = host.run("records", "show", NAME).stdout
    assert f"file     /var/lib/kubelet/image_manager/pulled/{file.name}" in shown
    # What writes does so on its own machine.
    assert host.run("records", "prune", "--yes").returncode == 2


def test_the_docker_config_of_the_node_counts(host: HostRoot) -> None:
    login = {"auths": {"registry.example": {"username": "alice", "password": "wonder"}}}
    host.write("/etc/pull/login.json", json.dumps(login))
    host.link("/var/lib/kubelet/config.json", "/etc/pull/login.json")
    done = host.run("explain", IMAGE, "--docker-config", "auto", "--here", "--no-run", "-o", "json")
    document = json.loads(done.stdout)
    assert document["config"]["dockerConfig"] == "/var/lib/kubelet/config.json"
    assert [each["username"] for each in document["credentials"]] == ["alice"]


def test_the_mirrors_of_the_node_count(host: HostRoot) -> None:
    host.link("/etc/containerd", "/usr/share/containerd")
    host.write(
        "/usr/share/containerd/config.toml", 'imports = ["/etc/containerd/conf.d/*.toml"]\nversion = 2\n'
    )
    host.write(
        "/usr/share/containerd/conf.d/mirrors.toml",
        'version = 2\n[plugins."io.containerd.grpc.v1.cri".registry]\nconfig_path = "/etc/mirrors"\n',
    )
    host.link("/etc/mirrors", "/opt/mirrors")
    host.write(
        "/opt/mirrors/registry.example/hosts.toml", '[host."https://mirror.example"]\nca = "/etc/ca.pem"\n'
    )
    done = host.run("doctor", "-o", "json")
    assert "mirror.example" in done.stdout, done.stdout
    assert "/etc/mirrors/registry.example/hosts.toml" in done.stdout
    assert "/opt/mirrors" not in done.stdout


def test_registries_are_trusted_as_the_node_trusts_them(host: HostRoot, tmp_path: Path) -> None:
    """By the bundle of the node's authorities, where Go's programs look for it."""
    authority = Authority(tmp_path)
    authority.context("127.0.0.1")
    (pem,) = tmp_path.glob("server-*.pem")
    with running(tmp_path / "registry", pem=pem, bundle=authority.bundle) as registry:
        registry.set_users({"alice": "wonder"})
        push(registry, "team/app", "v1", build(b"hello"), basic("alice", "wonder"))
        words = ["can-pull", f"{registry.host}/team/app:v1", *plain_pod(tmp_path)]
        host.at(f"{REAL}/config.json").unlink()
        assert "is not trusted" in host.run(*words).stdout
        host.write("/usr/share/ca/all.pem", authority.bundle.read_text())
        host.link("/etc/pki/tls/certs/ca-bundle.crt", "/usr/share/ca/all.pem")
        done = host.run(*words)
        assert "asks for a credential (status 401" in done.stdout


def test_an_environment_that_cannot_be_read_is_said(host: HostRoot, processes: Processes) -> None:
    """Without the right to trace the kubelet, which the debug profile sysadmin gives."""
    flags = (f"--image-credential-provider-config={CONFIG}", f"--image-credential-provider-bin-dir={USUAL}")
    processes.write(7, "kubelet", *flags)
    done = host.run("explain", IMAGE, "--env-from", "kubelet", "--no-run")
    assert done.returncode == 3
    assert "kubectl debug --profile=sysadmin" in done.stderr


def test_a_folder_that_does_not_exist_is_said(tmp_path: Path) -> None:
    done = run_in_process("doctor", "--host-root", str(tmp_path / "nowhere"))
    assert done.returncode == 3
    assert done.stderr == f"keyferry: host root {str(tmp_path / 'nowhere')!r}: it is not a folder\n"
