"""A process without a free descriptor: a clear error or a line in the log, and everything goes on once there is one."""

from __future__ import annotations

import json
import re
import resource
import socket
import sys
from contextlib import ExitStack

import pytest

from support.agents import running_agent
from support.fault_table import Tried
from support.plugins import IMAGE, Node, print_answer, run_script, wait_until

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="limits descriptors as Linux does")

FAULT = "no descriptor is free (EMFILE)"
LIMIT, CLIENTS = 24, 60

NO_DESCRIPTOR = """
import json, os, resource
from keyferry import load_providers
providers = load_providers({config!r}, {bin_dir!r})
told = [providers.lookup("reg.example/app").credentials[0].password]
soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
before = len(os.listdir("/proc/self/fd"))
resource.setrlimit(resource.RLIMIT_NOFILE, (3, hard))
told.append(providers.lookup("reg.example/app").credentials[0].password)
(failure,) = providers.lookup("other.example/app").failures
told += [type(failure.error).__name__, str(failure.error)]
resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
told.append(providers.lookup("other.example/app").credentials[0].password)
told.append(len(os.listdir("/proc/self/fd")) - before)
print(json.dumps(told))
"""


def test_a_lookup_without_a_descriptor(node: Node, tried: Tried) -> None:
    both = {"reg.example": ("user", "pass"), "other.example": ("user", "pass")}
    node.shell(print_answer(auth=both))
    node.provider(matchImages=["reg.example", "other.example"])
    node.load()
    done = run_script(NO_DESCRIPTOR.format(config=str(node.config), bin_dir=str(node.bin_dir)))
    assert done.returncode == 0, done.stderr
    first, cached, kind, text, again, left = json.loads(done.stdout)
    assert (first, cached, again, left) == ("pass", "pass", "pass", 0)
    assert kind == "PluginStartError"
    assert "'plugin'" in text
    assert "too many open files" in text.lower()
    tried(
        FAULT,
        "a lookup",
        "cached answers are served; else an error that names the plugin; the next lookup succeeds",
    )


def test_an_agent_without_a_descriptor_for_its_clients(node: Node, tried: Tried) -> None:
    node.shell(print_answer())
    with running_agent(node) as agent, ExitStack() as stack:
        limits = resource.prlimit(agent.process.pid, resource.RLIMIT_NOFILE)
        resource.prlimit(agent.process.pid, resource.RLIMIT_NOFILE, (LIMIT, limits[1]))
        for _ in range(CLIENTS):
            client = stack.enter_context(socket.socket(socket.AF_UNIX))
            client.connect(agent.socket)
        line = f" warning no descriptor is free: the limit of this process is reached; clients wait limit={LIMIT}"
        wait_until(lambda: line in agent.log, "a line about descriptors")
        stack.close()
        assert agent.look_up(IMAGE).status == 200
        assert agent.stop() == 0
        for each in agent.log.splitlines():
            assert re.match(r"\d{4}-\d\d-\d\dT\S+ (debug|info|warning|error) ", each), each
        seconds = [each[:19] for each in agent.log.splitlines() if "no descriptor" in each]
        assert len(seconds) <= 2 * len(set(seconds))
    tried(
        FAULT,
        "the agent, which accepts clients",
        "clients wait, with a line a second in the log at most; they are served once there is one",
    )
