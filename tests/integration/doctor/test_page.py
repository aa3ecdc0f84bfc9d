"""The page about ``keyferry doctor`` shows what the command says."""

from __future__ import annotations

import os
import re
import sys
from pathlib import Path

import pytest

from support.doctor import DoctorNode
from support.mirrors import CERTS, write

PAGE = Path(__file__).resolve().parents[3] / "docs" / "doctor.md"
pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="a kubelet is looked for in /proc")


def blocks() -> list[str]:
    """The outputs on the page, without the commands, on one line each: a terminal may be of any width."""
    found = re.findall(
        r"^```console\n\$ [^\n]*\n(.*?)^```", PAGE.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL
    )
    return [" ".join(each.split()) for each in found]


def shown(text: str, names: dict[str, str]) -> str:
    """An output with the names that the page uses, and another machine's disk."""
    for own, named in names.items():
        text = text.replace(own, named)
    text = re.sub(
        r"[\d.]+ \w+ of [\d.]+ \w+ are free \(\d+ %\)", "61.5 GiB of 98.3 GiB are free (62 %)", text
    )
    return " ".join(text.split())


def test_the_node_of_the_page(tmp_path: Path) -> None:
    machine = DoctorNode(tmp_path)
    machine.node.add("ecr-credential-provider", ["*.dkr.ecr.*.amazonaws.com"])
    machine.node.add("acme-registry", ["registry.acme.example/*"])
    (machine.node.bin_dir / "acme-registry").chmod(0o644)
    section = '[plugins."io.containerd.grpc.v1.cri".registry]\nconfig_path = "/etc/containerd/certs.d"\n'
    write(tmp_path, "etc/containerd/config.toml", f"version = 2\n{section}")
    hosts = '[host."https://mirror.acme.example"]\n'
    write(tmp_path, CERTS / "registry.acme.example" / "hosts.toml", hosts)
    proxy = {"HTTPS_PROXY": "http://proxy.acme.example:3128", "HTTP_PROXY": "http://proxy.acme.example:3128"}
    with machine.running({"PATH": "/bin", **proxy}) as pid:
        done = machine.visit()
    names = {
        str(machine.socket): "/run/containerd/containerd.sock",
        str(machine.node.config): "/etc/kubernetes/providers.yaml",
        str(machine.node.bin_dir): "/usr/libexec/credential-providers",
        f"{tmp_path}/image_manager": "/var/lib/kubelet/image_manager",
        f"{tmp_path}/etc": "/etc",
        str(tmp_path): "/var/lib/kubelet",
        str(pid): "812",
        f"belongs to user {os.geteuid()}": "belongs to root",
    }
    assert done.returncode == 1
    assert shown(done.stdout, names) == blocks()[0]


def test_the_laptop_of_the_page(tmp_path: Path) -> None:
    done = DoctorNode(tmp_path).visit()
    assert done.returncode == 6
    assert shown(done.stdout, {}) == blocks()[1]
