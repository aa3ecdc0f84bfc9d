"""The examples of docs/kit.md: the plugin that looks correct, trials of a chain, and a trace that is replayed."""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path

import pytest

from support.account_world import IMAGE, LOGIN, AccountWorld, account_world
from support.commands import Node
from support.fake_cloud import Authority, ConnectProxy, Reply, serving
from support.federation import write_config
from support.kubernetes_api import ISSUER
from support.pages import ROOT, Block, Machine, blocks, check_shown, command_lines, prompts
from support.reference import write_launcher

PAGE = "docs/kit.md"
HOST = "registry.acme.example"
pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="runs shell scripts")
RUN, TRY, TRY_STEPS, TRACE, REPLAY = blocks(PAGE, "console")


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    """A machine with the plugin of the page."""
    made = Machine(tmp_path, {str(tmp_path): "/src"})
    (plugin,) = blocks(PAGE, "sh")
    made.run(plugin)
    return made


def test_the_run_of_the_page(machine: Machine) -> None:
    ((command, shown),) = prompts(RUN)
    output = machine.shell(command).stdout
    output = re.sub(r"in \d+\.\d s$", "in 1.1 s", output, flags=re.MULTILINE)
    check_shown(ROOT / PAGE, shown, output)


def test_the_python_examines_a_plugin(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    """The page's own plugin fails the test, with the codes of its run."""
    monkeypatch.chdir(machine.folder)
    names: dict[str, object] = {}
    (example,) = blocks(PAGE, "python")
    exec(example.text, names)  # noqa: S102 - our own page
    test = names["test_conformance"]
    assert callable(test)
    with pytest.raises(AssertionError) as failed:
        test()
    assert "KP128" in str(failed.value)


def test_the_trace_of_the_page_has_no_secret_and_is_replayed(machine: Machine) -> None:
    machine.show(TRACE)
    trace = json.loads((machine.folder / "trace.json").read_text())
    shown = json.loads(f"{{{blocks(PAGE, 'json')[0].text}}}")
    assert {key: trace["stdout"][key] for key in shown} == shown
    Node(machine.folder).add("acme-registry", [HOST])
    (machine.folder / "providers.yaml").rename(machine.folder / "config.yaml")
    machine.names = {str(machine.folder / "trace.json"): "/path/to/trace.json", **machine.names}
    cat, explain = prompts(REPLAY)
    written = cat[1].replace("/path/to/trace.json", str(machine.folder / "trace.json"))
    (machine.folder / "bin" / "acme-registry").write_text(written)
    assert machine.shell(cat[0]).stdout == cat[1]
    assert "a credential is found: user 'acme' of provider acme-registry" in machine.shell(explain[0]).stdout


def run_trial(world: AccountWorld, block: Block) -> str:
    """Run the trial of a block; the options for files and addresses are the world's."""
    ((_, _, _, image, option, name, *more),) = command_lines(block)
    assert option == "--service-account"
    done = world.run(image, *more, name=name)
    return done.stdout + done.stderr


def test_the_trial_of_the_page(tmp_path: Path) -> None:
    """Of a provider for service accounts, whose audience kubelets may not request."""
    host = "1234.dkr.ecr.eu-west-1.amazonaws.com"
    role = {"eks.amazonaws.com/ecr-role-arn": "arn:aws:iam::1234:role/pull"}
    with account_world(tmp_path, host, annotations=role) as world:
        world.api.node_audiences = set()
        world.fields |= {"name": "ecr-credential-provider", "matchImages": ["*.dkr.ecr.*.amazonaws.com"]}
        world.attributes |= {
            "serviceAccountTokenAudience": "sts.amazonaws.com",
            "optionalServiceAccountAnnotationKeys": [*role],
        }
        (world.bin_dir / "provider").rename(world.bin_dir / "ecr-credential-provider")
        output = run_trial(world, TRY)
    output = output.replace(ISSUER, "https://oidc.eks.eu-west-1.amazonaws.com/id/EXAMPLE")
    check_shown(ROOT / PAGE, TRY.text.partition("\n")[2], output)


def test_the_steps_of_the_page(tmp_path: Path) -> None:
    """Of keyferry-federate, whose exchange refuses the token."""
    host = "quay.example.com"
    (tmp_path / "exchange").mkdir()
    exchange = Authority(tmp_path / "exchange")
    with (
        account_world(tmp_path, host) as world,
        serving(lambda _: Reply(401, document={"error": "invalid_grant"}), exchange.context(host)) as server,
        ConnectProxy({host: server.port}) as proxy,
    ):
        rule = {
            "registries": [host],
            "subject": {"audience": "registry.audience.example", "issuer": ISSUER},
            "preset": "quay",
            "params": {"host": host, "robot": LOGIN[0]},
            "caFile": str(exchange.bundle),
        }
        config = write_config(tmp_path / "federation.json", rule)
        write_launcher(world.bin_dir, "federate")
        world.fields |= {"name": "keyferry-federate", "args": [f"--config={config}"]}
        world.fields["env"] = [{"name": "HTTPS_PROXY", "value": proxy.url}]
        output = run_trial(world, TRY_STEPS)
    output = output.replace(ISSUER, "https://kubernetes.example.com")
    check_shown(ROOT / PAGE, TRY_STEPS.text.partition("\n")[2], output)


def test_the_line_of_the_page_is_a_step(tmp_path: Path) -> None:
    (block,) = blocks(PAGE, "text")
    with account_world(tmp_path) as world:
        world.plugin(f"#!/bin/sh\ncat >/dev/null\ncat >&2 <<'END'\n{block.text}END\nexit 1\n")
        done = world.run(IMAGE, "-o", "json")
    (step,) = (each for each in json.loads(done.stdout)["links"] if each["name"] == "plugin/exchange")
    assert (step["state"], step["cure"]) == ("broken", "trust the issuer")
