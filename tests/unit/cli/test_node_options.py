"""Where the command line does not say, the running kubelet does; where that does not either, the usual is used."""

from __future__ import annotations

from pathlib import Path

import pytest

from keyferry.cli.exits import WrongUsage
from keyferry.cli.node_options import node_policy, node_root, node_runtime
from keyferry.images.node.settings import Node
from support.kubelets import Processes, write_config

ALLOWLISTED = "NeverVerifyAllowlistedImages"


def test_without_a_kubelet_the_usual_is_used(processes: Processes) -> None:
    """And nothing is said."""
    node = Node(str(processes))
    assert node_root(None, node) == "/var/lib/kubelet"
    assert node_root("x", node) == f"{Path.cwd()}/x"
    assert node_runtime("", node) == node_runtime("auto", node) == ""
    assert node_runtime("/x.sock", node) == "/x.sock"
    assert node_policy(None, (), "/r", node).name == "NeverVerifyPreloadedImages"


@pytest.mark.parametrize("endpoint", ["unix:///nonexistent/x.sock", "tcp://127.0.0.1:1"])
def test_a_runtime_that_cannot_be_used_is_looked_for(processes: Processes, endpoint: str) -> None:
    """A socket that is not there, or an address that is none."""
    processes.write(17, "kubelet", f"--container-runtime-endpoint={endpoint}")
    assert node_runtime("auto", Node(str(processes))) == ""


def test_the_image_service_is_the_runtime_to_pull_into(
    processes: Processes, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Where a kubelet has one apart from the other."""
    for name in ("one", "two"):
        (tmp_path / name).touch()
    flags = f"--container-runtime-endpoint={tmp_path / 'one'}", f"--image-service-endpoint={tmp_path / 'two'}"
    processes.write(17, "kubelet", *flags)
    assert node_runtime("auto", Node(str(processes))) == str(tmp_path / "two")
    said = f"keyferry: container runtime {tmp_path / 'two'} (flags of the kubelet, process 17)\n"
    assert capsys.readouterr().err == said


def test_a_list_on_the_command_line_replaces_the_kubelets(processes: Processes, tmp_path: Path) -> None:
    """The policy may stay its own; a policy that is given takes nothing of it."""
    config = write_config(
        tmp_path / "kubelet.yaml",
        imagePullCredentialsVerificationPolicy=ALLOWLISTED,
        preloadedImagesVerificationAllowlist=["kubelet.example/*"],
    )
    processes.write(17, "kubelet", f"--config={config}", f"--root-dir={tmp_path}")
    node, root = Node(str(processes)), str(tmp_path)
    assert [str(each) for each in node_policy(None, (), root, node).allowlist.patterns] == [
        "kubelet.example/*"
    ]
    ours = node_policy(None, ["our.example/*"], root, node)
    assert (ours.name, [str(each) for each in ours.allowlist.patterns]) == (ALLOWLISTED, ["our.example/*"])
    assert node_policy(ALLOWLISTED, (), root, node).allowlist.patterns == ()
    assert node_policy(None, (), "/elsewhere", node).name == "NeverVerifyPreloadedImages"
    with pytest.raises(WrongUsage, match="takes no allowlist"):
        node_policy("AlwaysVerify", ["our.example/*"], root, node)
