"""``keyferry doctor`` on a made-up node: nothing is run, what is found is told, and its page shows it."""

from __future__ import annotations

import json
import os
import re
import shlex
import sys
from pathlib import Path

import pytest
import yaml

from keyferry import __version__
from support.agents import running_agent
from support.audit import audited
from support.commands import run_in_process
from support.doctor import DoctorNode, pick
from support.kubelets import write_config
from support.mirrors import CERTS, MIRROR, write
from support.parts import root
from support.plugins import Node as PluginNode
from support.terminal import show_in_process

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="a kubelet is looked for in /proc")


def test_a_node_on_which_all_is_well(machine: DoctorNode) -> None:
    """The verdict comes first, then a section for each subject; exit code 0."""
    with machine.running() as pid:
        done = machine.visit()
    assert (done.returncode, done.stderr) == (0, "")
    verdict, _, *rest = done.stdout.splitlines()
    assert verdict == "all is well"
    titles = [line for line in rest if line and not line.startswith(" ")]
    assert titles == [
        "KUBELET",
        "PROVIDER CONFIG",
        "PLUGINS",
        "PATTERNS",
        "CONTAINER RUNTIME",
        "PULL RECORDS",
        "PROXIES",
        "DISK",
    ]
    assert f"  ✓ kubelet: process {pid} (kubelet) runs" in rest
    assert f"  ✓ socket: {machine.socket} (flags of the kubelet, process {pid})" in rest
    assert f"{machine.node.config} (flags of the kubelet, process {pid}): 2 providers; lint: " in done.stdout


def test_a_laptop_is_told_so_and_what_can_be_done(tmp_path: Path) -> None:
    """Exit code 6: nothing can be told; what was looked for is said, as on the page."""
    done = DoctorNode(tmp_path).visit()
    assert done.returncode == 6
    assert done.stdout.startswith("cannot tell: this machine does not look like a node\n")
    assert "/var/lib/kubelet/credential-provider-config.yaml" in done.stdout
    for command in ("keyferry doctor --config FILE --bin-dir DIR", "keyferry demo", "keyferry kube explain"):
        assert f"try: {command}\n" in f"{done.stdout}\n"
    proposed = done.stdout.partition("WHAT CAN BE DONE HERE\n")[2].splitlines()
    assert [line[:4] for line in proposed if "try:" not in line] == ["  → "] * 3
    assert shown(done.stdout, {}) == blocks()[1]


def test_what_hides_a_kubelet_is_said(tmp_path: Path) -> None:
    machine = DoctorNode(tmp_path)
    machine.processes.set_namespace("pid:[1]")
    assert "does not see the processes of its host" in machine.visit().stdout


def test_problems_are_counted_and_named_with_the_next_command(machine: DoctorNode) -> None:
    machine.node.add("gone", ["gone.io/*"])
    (machine.node.bin_dir / "gone").unlink()
    (machine.node.bin_dir / "own").chmod(0o777)
    with machine.running(has_socket=False):
        done = machine.visit()
        lines = machine.lines()
    assert done.returncode == 1
    assert done.stdout.startswith("3 problems, 2 warnings\n")
    assert pick(lines, "plugins", "gone")[0][0] == "problem"
    assert "is missing (KF141)" in pick(lines, "plugins", "gone")[0][1]
    ((level, text),) = pick(lines, "plugins", "own")
    assert (level, "everybody can write" in text) == ("warning", True)
    ((level, text),) = pick(lines, "patterns", "gone")
    assert (level, "KF151" in text) == ("warning", True)
    ((level, text),) = pick(lines, "container runtime", "socket")
    assert (level, text.endswith("does not exist; is the runtime running?")) == ("problem", True)
    lint = next(line["next"] for line in lines if line["subject"] == "gone")
    again = run_in_process(*shlex.split(lint)[1:])
    assert (again.returncode, "KF141" in again.stdout) == (1, True)


def test_a_config_that_stops_the_kubelet_is_a_problem_and_the_rest_is_told(machine: DoctorNode) -> None:
    machine.node.config.write_text(machine.node.config.read_text().replace("defaultCacheDuration", "default"))
    with machine.running():
        lines = machine.lines()
    found = pick(lines, "provider config")
    assert found[0][0] == "problem"
    assert found[-1][0] == "problem"
    assert found[-1][1].endswith("a kubelet does not start with it")
    assert pick(lines, "container runtime")


def test_the_files_of_a_kubelet_are_read(machine: DoctorNode, tmp_path: Path) -> None:
    config = write_config(tmp_path / "kubelet.json", imagePullCredentialsVerificationPolicy="AlwaysVerify")
    machine.more_flags = [f"--config={config}"]
    with machine.running() as pid:
        lines = machine.lines()
        config.write_text("{")
        broken = machine.lines()
    assert pick(lines, "kubelet", "config file") == [("ok", f"{config} can be read")]
    assert pick(lines, "pull records", "policy") == [
        ("ok", f"AlwaysVerify ({config} of the kubelet, process {pid})")
    ]
    assert [level for level, _ in pick(broken, "kubelet", "config file")] == [
        "problem" if os.geteuid() == 0 else "unknown"
    ]


def test_fields_that_no_kubelet_has_are_a_warning(machine: DoctorNode, tmp_path: Path) -> None:
    config = write_config(tmp_path / "kubelet.json", imageCredentialProviderConfigFile="/p.yaml")
    machine.more_flags = [f"--config={config}"]
    with machine.running():
        ((level, text),) = pick(machine.lines(), "kubelet", "config file")
    assert level == "warning"
    assert "imageCredentialProviderConfigFile" in text


def test_files_that_changed_after_the_kubelet_started_need_a_restart(
    machine: DoctorNode, tmp_path: Path
) -> None:
    """The provider config, the kubelet's config and its drop-in files, each with both times."""
    config = write_config(tmp_path / "kubelet.json")
    drop_in = write_config(tmp_path / "conf.d" / "1.conf", maxPods=5)
    machine.more_flags = [f"--config={config}", f"--config-dir={drop_in.parent}"]
    with machine.running():
        assert pick(machine.lines(), "kubelet", "restart") == []
        for path in (config, drop_in, machine.node.config):
            os.utime(path, (4_000_000_000, 4_000_000_000))
        lines = machine.lines()
    found = pick(lines, "kubelet", "restart")
    assert [(level, text.partition(" ")[0]) for level, text in found] == [
        ("warning", str(config)),
        ("warning", str(drop_in)),
        ("warning", str(machine.node.config)),
    ]
    for _, text in found:
        assert "changed at 2096-10-02T07:06:40Z, after the kubelet started at 20" in text
        assert text.endswith("the kubelet may not have read it as it is now; restart the kubelet")
    assert {line["next"] for line in lines if line["subject"] == "restart"} == {"systemctl restart kubelet"}


def test_mirrors_say_where_the_runtime_goes(machine: DoctorNode) -> None:
    write(machine.folder, CERTS / "reg.io" / "hosts.toml", MIRROR)
    write(machine.folder, CERTS / "other.io" / "hosts.toml", "[host")
    write(machine.folder, CERTS / "_default" / "hosts.toml", '[host."http://10.0.0.1"]\n')
    with machine.running():
        lines = machine.lines()
    assert [line["subject"] for line in lines if line["title"] == "mirrors"] == [
        "reg.io",
        "other.io",
        "every other registry",
    ]
    own, broken, others = pick(lines, "mirrors")
    assert own[0] == "ok"
    assert own[1].startswith("containerd asks https://mirror.example, then https://reg.io (")
    assert broken[0] == "problem"
    assert (others[0], "offered without TLS to http://10.0.0.1" in others[1]) == ("warning", True)


def test_proxies_are_compared_with_the_registries_and_no_password_is_shown(machine: DoctorNode) -> None:
    proxy = "http://user:pass-word@proxy.example:3128"
    variables = {"HTTPS_PROXY": proxy, "HTTP_PROXY": proxy, "NO_PROXY": ".io"}
    machine.processes.write(30, "/usr/bin/containerd", environ=f"HTTPS_PROXY={proxy}\0".encode())
    with machine.running(variables):
        done = machine.visit()
        lines = machine.lines()
    assert "pass-word" not in done.stdout + json.dumps(lines)
    assert pick(lines, "proxies", "kubelet and its plugins") == [
        ("ok", "proxy proxy.example:3128 for other hosts, none for reg.io")
    ]
    assert pick(lines, "proxies", "containerd (pulls the images)") == [
        ("ok", "proxy proxy.example:3128 for reg.io")
    ]
    ((level, text),) = pick(lines, "proxies", "NO_PROXY")
    assert (level, "add 169.254.169.254 to the kubelet's NO_PROXY" in text) == ("warning", True)


def test_a_proxy_that_is_no_url_is_a_problem_that_is_not_quoted(machine: DoctorNode) -> None:
    with machine.running({"HTTPS_PROXY": "http://user:pass/word@proxy.example"}):
        lines = machine.lines()
    ((level, text),) = pick(lines, "proxies", "kubelet and its plugins")
    assert (level, "pass" in text.replace("PASSWORD", "")) == ("problem", False)


def test_files_of_another_node_are_checked_alone(machine: DoctorNode) -> None:
    """Nothing of this machine counts as that node's; proposed commands repeat the options."""
    write(machine.folder, CERTS / "reg.io" / "hosts.toml", MIRROR)
    options = machine.node.options()
    lines = machine.lines(*options)
    assert {line["title"] for line in lines} == {"kubelet", "provider config", "plugins", "patterns"}
    options += ["--hosts-dir", str(machine.folder / CERTS)]
    named = machine.lines(*options)
    (mirror,) = [line for line in named if line["title"] == "mirrors"]
    assert mirror["next"] == shlex.join(["keyferry", "explain", "reg.io/image", *options])


def test_a_config_without_a_bin_dir_is_a_problem(machine: DoctorNode) -> None:
    lines = machine.lines("--config", str(machine.node.config))
    ((level, text),) = pick(lines, "provider config", "bin dir")
    assert (level, "a kubelet needs both" in text) == ("problem", True)


def test_a_kubelet_without_a_provider_config_is_well(machine: DoctorNode) -> None:
    with machine.processes.kubelet(env={"PATH": "/bin"}):
        lines = machine.lines()
    ((level, text),) = pick(lines, "provider config")
    assert (level, text.startswith("none: ")) == ("ok", True)


@root
def test_a_kubelet_of_another_user_is_not_believed(machine: DoctorNode) -> None:
    with machine.processes.kubelet(*machine.flags(), env={"PATH": "/bin"}, user=12345) as pid:
        lines = machine.lines()
    assert pick(lines, "kubelet", "kubelet")[0] == (
        "warning",
        f"process {pid} is called kubelet but belongs to user 12345, so it is ignored",
    )
    assert not pick(lines, "plugins")


def test_yaml_has_the_same_document(machine: DoctorNode) -> None:
    """But for the free space of the disk, to which others write between the two."""
    with machine.running():
        shown = yaml.safe_load(machine.visit("-o", "yaml").stdout)
        document = json.loads(machine.visit("-o", "json").stdout)
    for each in (shown, document):
        [disk] = [line for part in each["sections"] for line in part["lines"] if line["subject"] == "disk"]
        assert " are free (" in disk.pop("text")
    assert shown == document
    assert (document["kind"], document["isNode"], document["online"]) == ("NodeHealth", True, False)


def events_of(machine: DoctorNode, *words: str) -> list[str]:
    """The programs that the command starts, and the sockets that it opens."""
    used = ("socket.", "subprocess.", "os.exec", "os.fork", "os.posix_spawn", "os.system", "pty.")
    with audited() as events:
        machine.visit(*words)
    return [event for event, _ in events if event.startswith(used)]


def test_no_program_is_run_and_no_socket_is_opened(machine: DoctorNode) -> None:
    """Also not that of the container runtime; with --online, sockets are opened, and still no program is run."""
    machine.node.add("local", ["127.0.0.1:1"])
    with machine.running():
        assert events_of(machine) == []
    with machine.running(has_socket=False):
        online = events_of(machine, "--online")
    assert "socket.connect" in online
    assert [event for event in online if not event.startswith("socket.")] == []
    assert not list(machine.node.bin_dir.glob("*.runs"))


def test_a_config_that_is_not_there_is_said(tmp_path: Path) -> None:
    lines = DoctorNode(tmp_path).lines("--config", str(tmp_path / "none.yaml"), "--bin-dir", str(tmp_path))
    assert pick(lines, "provider config")[0][0] == "problem"


@pytest.mark.parametrize("columns", [60, 120])
def test_on_a_terminal_nothing_is_wider_than_it(columns: int, machine: DoctorNode) -> None:
    """But words that cannot be broken, and commands to paste."""
    with machine.running():
        shown = show_in_process("doctor", columns=columns, cwd=None, **machine.variables).screen
    lines = shown.split("\n")
    assert [
        line for line in lines if len(line) > columns and len(line.split()) > 1 and "try: " not in line
    ] == []
    assert any(line.startswith("  ✓ ") for line in lines)


PAGE = Path(__file__).resolve().parents[2] / "docs" / "node.md"


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


def test_a_shim_and_its_agent(shimmed: DoctorNode) -> None:
    folder, options = shimmed.folder, shimmed.node.options()
    socket = f"{folder}/run/agent.sock"
    absent = shimmed.lines(*options)
    ((level, text),) = pick(absent, "plugins")
    assert (level, text.count("it is a shim")) == ("ok", 1)
    assert f"asks the node agent at {socket}; behind it, {folder}/bin/own.real belongs to " in text
    named = f"{socket} (named by the shim of own)"
    assert pick(absent, "node agent") == [("warning", f"{named} is not there; plugins are run without it")]
    with running_agent(PluginNode(folder), *options) as agent:
        assert pick(shimmed.lines(*options), "node agent") == [("ok", f"{named} is there; --online asks it")]
        online = shimmed.lines(*options, "--online", "--registry-timeout", "5")
        assert pick(online, "node agent") == [("ok", f"{named} answers, version {__version__}: All is well")]
        other = folder / "other.json"
        other.write_text(
            json.dumps({"apiVersion": "kubelet.config.k8s.io/v1", "kind": "CredentialProviderConfig"})
        )
        words = ("--config", str(other), *options[2:], "--online", "--registry-timeout", "5")
        lines = shimmed.lines(*words, KEYFERRY_AGENT=socket)
        assert [level for level, _ in pick(lines, "node agent")] == ["ok", "warning"]
        agent.process.kill()
        agent.process.wait()
    dead = shimmed.lines(*options, "--online", "--registry-timeout", "5")
    assert "gives no answer, and plugins are run without it" in pick(dead, "node agent")[0][1]


def test_a_shim_that_asks_in_the_usual_place(shimmed: DoctorNode) -> None:
    """An installer writes ``auto`` unless it is told a socket; the kubelet, which executes the shim, is root."""
    link = shimmed.node.bin_dir / "own.agent"
    link.unlink()
    link.symlink_to("auto")
    lines = shimmed.lines(*shimmed.node.options(), KEYFERRY_AGENT="")
    assert "asks the node agent at /run/keyferry/agent.sock; " in pick(lines, "plugins")[0][1]
    ((_, text),) = pick(lines, "node agent")
    assert text.startswith("/run/keyferry/agent.sock (named by the shim of own) ")


def test_a_machine_without_an_agent_has_no_line_about_one(tmp_path: Path) -> None:
    made = DoctorNode(tmp_path)
    made.node.add("own", ["reg.invalid"])
    assert pick(made.lines(*made.node.options(), KEYFERRY_AGENT=""), "node agent") == []


def test_a_provider_that_fails_in_the_agent_is_named_with_its_reason(tmp_path: Path) -> None:
    made = DoctorNode(tmp_path)
    made.node.add("failing", ["reg.invalid"], before="echo 'no role for this node' >&2; exit 3")
    options = made.node.options()
    with running_agent(PluginNode(tmp_path), *options) as agent:
        agent.look_up("reg.invalid/app")
        words = (*options, "--online", "--registry-timeout", "5")
        lines = made.lines(*words, KEYFERRY_AGENT=str(tmp_path / "run" / "agent.sock"))
        problems = made.lines(*words, "--problems", KEYFERRY_AGENT=str(tmp_path / "run" / "agent.sock"))
        told = run_in_process("agent", "status", "--socket", agent.socket)
    (_, answers), found = pick(lines, "node agent")
    assert answers.endswith(": 1 problem")
    text = "Provider failing fails, and nothing of it is cached"
    reason = "exited with status 3: no role for this node"
    assert found == ("problem", f"{text}: {reason}")
    assert (told.returncode, text in told.stdout, reason in told.stdout) == (1, True, True)
    assert pick(problems, "node agent") == [found]
    assert "ok" not in {each["level"] for each in problems}
