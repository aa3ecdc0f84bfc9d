"""What ``keyferry explain`` says of a pod in situations that a real kubelet was seen in."""

from __future__ import annotations

import hashlib
import re
import sys
from pathlib import Path

import pytest

from support.known_situations import SITUATIONS, change_config, old_config
from support.kube import TOKEN
from support.pod_world import NODE
from support.situations import check, situation_here, tell

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="a kubelet is looked for in /proc")


@pytest.mark.parametrize("name", SITUATIONS)
def test_what_is_said_of_a_pod(name: str, tmp_path: Path) -> None:
    """Verdict, cause and cure; the exit code is that of the verdict."""
    found = SITUATIONS[name]
    with situation_here(tmp_path, found.make, found.then) as world:
        told = tell(world, found.options)
    check(told, found.case, found.says, found.cures, never=found.never, notes=found.notes)


@pytest.mark.parametrize("is_read", [False, True])
def test_the_hash_that_the_kubelet_reports_decides_whether_it_has_read_its_config(
    tmp_path: Path, *, is_read: bool
) -> None:
    """Of a file that is newer than the kubelet; who may not read the kubelet's metrics has only the times."""
    with situation_here(tmp_path, old_config, change_config) as world:
        size, content = world.node.config.stat().st_size, world.node.config.read_bytes()
        read = hashlib.sha256(size.to_bytes(8, "big") + content).hexdigest() if is_read else "0" * 64
        world.api.kubelet_metrics[NODE] = (
            f'kubelet_credential_provider_config_info{{hash="sha256:{read}"}} 1\n'
        )
        doubtful = tell(world)
        world.api.permit(TOKEN, "get", "nodes/proxy", "*")
        told = tell(world)
    assert re.search("may not have read", doubtful.first_line), doubtful.text
    if is_read:
        assert told.verdict[1] != "not-known-yet", told.text
    else:
        assert re.search("has not read", told.first_line), told.text


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("node-may-not-request-tokens", f"node '{NODE}' may not request tokens for audience"),
        ("account-lacks-an-annotation", "annotation"),
    ],
)
def test_what_keeps_a_provider_from_its_token_is_the_cause_if_no_plugin_is_run(
    name: str, said: str, tmp_path: Path
) -> None:
    with situation_here(tmp_path, SITUATIONS[name].make) as world:
        told = tell(world, "--no-run")
    assert told.verdict == ("no", "no-credential")
    assert said in told.first_line
