"""What ``keyferry doctor`` says of each thing that it looks at, at which level, and the command that helps."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from keyferry import __version__, load_providers
from support.agent_server import telling
from support.doctor import DoctorNode, pick
from support.kubelets import write_config
from support.mirrors import CONFIG, REGISTRIES, write
from support.records import plant

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="a kubelet is looked for in /proc")
GATE = "KubeletEnsureSecretPulledImages"


@pytest.fixture
def _as_a_user(monkeypatch: pytest.MonkeyPatch) -> None:
    """Somebody who is not root, and who owns nothing here."""
    user = os.geteuid() or 65534
    monkeypatch.setattr(os, "geteuid", lambda: user)


def proposed(lines: list[dict[str, str]], title: str) -> list[str]:
    """The commands of a section."""
    return [line["next"] for line in lines if line["title"] == title]


@pytest.mark.usefixtures("_as_a_user")
def test_who_does_not_see_all_is_told_to_look_as_root(machine: DoctorNode) -> None:
    """At processes that are hidden; the command repeats the options, with quotes. What is unknown is no finding."""
    config = machine.node.config.rename(machine.folder / "my config.yaml")
    options = ("--config", str(config), "--bin-dir", str(machine.node.bin_dir), "--root", str(machine.folder))
    again = (
        f"sudo keyferry doctor --config '{config}' --bin-dir {machine.node.bin_dir} --root {machine.folder}"
    )
    assert pick(machine.lines(*options), "kubelet") == [("warning", "no kubelet is running")]
    done = machine.visit(*options)
    assert (done.returncode, done.stdout.startswith("1 warning\n")) == (1, True)
    machine.processes.hide()
    done, seen = machine.visit(*options), "all that can be seen is well, 1 thing could not be checked\n"
    assert (done.returncode, done.stdout.startswith(seen)) == (0, True)
    hidden = machine.lines(*options)
    assert [level for level, _ in pick(hidden, "kubelet")] == ["unknown"]
    assert proposed(hidden, "kubelet") == [again]
    assert proposed(machine.lines(), "what can be done here")[0] == "sudo keyferry doctor"
    (machine.node.bin_dir / "own").unlink()
    assert machine.visit(*options).stdout.startswith("2 problems, 1 thing could not be checked\n")


@pytest.mark.usefixtures("_as_a_user")
def test_an_environment_and_a_config_that_cannot_be_read_are_unknown(machine: DoctorNode) -> None:
    (machine.folder / "kubelet.json").write_text("{")
    machine.more_flags = [f"--config={machine.folder / 'kubelet.json'}"]
    (machine.processes.write(17, "kubelet", *machine.flags()) / "status").write_text("Uid:\t0\t0\t0\t0\n")
    lines = machine.lines()
    assert pick(lines, "proxies") == [("unknown", "the environment cannot be read")]
    assert proposed(lines, "proxies") == ["sudo keyferry doctor"]
    config = [(line["level"], line["next"]) for line in lines if line["subject"] == "config file"]
    assert config == [("unknown", "sudo keyferry doctor")]


def test_other_kubelets_are_named(machine: DoctorNode) -> None:
    machine.processes.write(8, "k3s", "server")
    with machine.running() as pid:
        runs, more, flags = pick(machine.lines(), "kubelet")
    assert runs == ("ok", f"process {pid} (kubelet) runs")
    assert more == ("warning", f"other kubelets run here too, processes 8; the settings are those of {pid}")
    assert flags == ("ok", " ".join(sorted(machine.flags())))


def test_words_of_others_cannot_harm_a_terminal(machine: DoctorNode) -> None:
    """Such as the arguments of processes."""
    machine.more_flags = ["--hostname-override=a\x1b[2Jb\u202ec\n  ✓ forged: yes"]
    with machine.running():
        shown = machine.visit().stdout
    assert "a\ufffd[2Jb\ufffdc\ufffd" in shown
    assert "\n  ✓ forged" not in shown


@pytest.mark.parametrize(
    ("pulls", "version", "gate", "levels"),
    [
        (32, "v1.36.1", None, ["problem"]),
        (31, "1.36", None, []),
        (None, "1.36", None, []),
        (32, "1.37", None, []),
        (32, "1.34", None, []),
        (32, "1.34", True, ["problem"]),
        (32, "1.35", False, []),
        (32, "", None, ["warning"]),
        (32, "", False, []),
    ],
)
def test_more_parallel_pulls_than_a_kubelet_has_locks(
    machine: DoctorNode, pulls: int | None, version: str, gate: bool | None, levels: list[str]
) -> None:
    """It panics if it keeps pull records and is of a version with the bug; a version that is not known may be one."""
    fields = {"maxParallelImagePulls": pulls, "featureGates": {} if gate is None else {GATE: gate}}
    machine.more_flags = [f"--config={write_config(machine.folder / 'kubelet.json', **fields)}"]
    with machine.running():
        found = pick(
            machine.lines(*(("--kubernetes", version) if version else ())), "kubelet", "maxParallelImagePulls"
        )
    assert [level for level, _ in found] == levels
    assert all("set 31 or less, or upgrade the kubelet" in text for _, text in found)


def test_each_finding_of_lint_is_in_one_section(machine: DoctorNode) -> None:
    """With the provider that it is about, or the folder; what is well has a line of its own, infos have none."""
    node = machine.node
    for number in range(2, 10):
        node.add(f"plugin-{number}", [f"reg{number}.io/team"])
    node.add("open", ["*.open.io/*"])
    (node.bin_dir / "open").chmod(0o777)
    node.bin_dir.chmod(0o777)
    with machine.running():
        lines = machine.lines()
    folder, own, *others, last = pick(lines, "plugins")
    assert (folder[0], "(KF190)" in folder[1]) == ("warning", True)
    assert own[1].startswith(f"{node.bin_dir / 'own'} is executable and belongs to ")
    assert own[1].endswith(" (mode 0755)")
    assert (last[0], "(KF191)" in last[1]) == ("warning", True)
    assert {level for level, _ in (own, *others)} == {"ok"}
    patterns = [line for line in lines if line["title"] == "patterns"]
    assert [line["subject"] for line in patterns if line["level"] == "warning"] == ["open"]
    assert "/team" in str(patterns)
    assert [level for level, _ in pick(lines, "provider config")] == ["ok"]


def test_many_findings_and_patterns_are_cut_short_and_counted(machine: DoctorNode) -> None:
    """Errors first; each of those that are left counts in the verdict, by its own severity."""
    wrong = [f"reg{number}.io/*" for number in range(9)] + [f"reg{number}.io:port" for number in range(5)]
    machine.node.add("wrong", wrong).add("many", [f"{name}.io" for name in "abcdef"])
    with machine.running():
        lines = machine.lines()
        shown = machine.visit().stdout
    found = pick(lines, "patterns", "wrong")
    assert [level for level, _ in found] == ["problem"] * 4 + ["warning"]
    assert [text for _, text in found[3:]] == ["and 2 more errors", "and 9 more warnings"]
    assert pick(lines, "patterns", "many") == [("ok", "a.io, b.io, c.io, d.io, and 2 more")]
    # The config itself is the sixth problem.
    assert shown.startswith("6 problems, 9 warnings\n")
    assert shown.count("try: keyferry lint") == 2, "once for the lines of a section that share it"


def test_a_shim_is_shown_with_what_is_behind_it(shimmed: DoctorNode) -> None:
    bin_dir, real = shimmed.node.bin_dir, shimmed.node.bin_dir / "own.real"

    def line() -> tuple[str, str]:
        ((level, text),) = pick(lines := shimmed.lines(*shimmed.node.options()), "plugins")
        assert proposed(lines, "plugins") == ["keyferry bridge kubelet status"]
        return level, text.partition("it is a shim that asks the node agent at ")[2]

    real.unlink()
    assert line() == ("ok", f"{shimmed.folder}/run/agent.sock, with a provider of its own")
    real.symlink_to("nowhere")
    assert line() == ("warning", f"{shimmed.folder}/run/agent.sock, and the plugin behind it is missing")
    real.unlink()
    real.write_text("#!/bin/sh\n")
    (bin_dir / "own.agent").unlink()
    assert line() == ("warning", f"(no link names it), and {real} behind it is not executable")


def status(**fields: object) -> dict[str, object]:
    """What an agent tells about itself."""
    return {"version": __version__, "config": {}, "health": {"verdict": "", "problems": []}, **fields}


def test_an_agent_of_another_version_with_another_config_is_told(machine: DoctorNode) -> None:
    document = status(version="0.0.9", config={"providerConfig": "/other", "hash": "x"})
    with telling(machine.folder / "run" / "agent.sock", document) as socket:
        lines = machine.lines(*machine.node.options(), "--online", KEYFERRY_AGENT=socket)
    assert pick(lines, "node agent") == [
        (
            "ok",
            f"{socket} (named by KEYFERRY_AGENT) answers, version 0.0.9; this command has version {__version__}",
        ),
        (
            "warning",
            "its config /other is not the one above, so lookups with that one do not use it",
        ),
    ]
    assert proposed(lines, "node agent") == ["", f"keyferry agent status --socket {socket}"]


@pytest.mark.parametrize(
    ("answer", "level", "text", "command"),
    [
        (403, "unknown", "answers; this user may not see its status", "sudo keyferry doctor "),
        (
            500,
            "warning",
            "gives no answer, and plugins are run without it: ",
            "keyferry agent status --socket ",
        ),
    ],
)
def test_an_agent_that_does_not_tell_its_status(
    machine: DoctorNode, answer: int, level: str, text: str, command: str
) -> None:
    with telling(machine.folder / "run" / "agent.sock", {}, answer) as socket:
        lines = machine.lines(*machine.node.options(), "--online", KEYFERRY_AGENT=socket)
    ((found, said),) = pick(lines, "node agent")
    assert (found, said.startswith(f"{socket} (named by KEYFERRY_AGENT) {text}")) == (level, True)
    assert proposed(lines, "node agent")[0].startswith(command)


def test_of_many_problems_of_an_agent_the_first_are_told_and_all_are_counted(machine: DoctorNode) -> None:
    used = load_providers(machine.node.config, machine.node.bin_dir)
    problems = [{"level": "bad" if at < 5 else "warn", "text": f"Provider {at} fails"} for at in range(10)]
    health = {"verdict": "10 problems", "problems": problems}
    document = status(config={"hash": used.config_hash}, health=health)
    with telling(machine.folder / "run" / "agent.sock", document) as socket:
        lines = machine.lines(*machine.node.options(), "--online", KEYFERRY_AGENT=socket)
    (_, answers), *told = pick(lines, "node agent")
    assert answers.endswith(f"version {__version__}: 10 problems")
    assert told == [
        *(("problem", f"Provider {at} fails") for at in range(3)),
        ("problem", "and 2 more problems"),
        ("warning", "and 5 more warnings"),
    ]


def test_a_variable_that_names_no_agent_is_said_to_name_none(machine: DoctorNode) -> None:
    lines = machine.lines(*machine.node.options(), KEYFERRY_AGENT="foo")
    expected = "'off', 'auto' or the absolute path of a socket; plugins are run without it"
    assert pick(lines, "node agent") == [("warning", f"KEYFERRY_AGENT is 'foo', expected {expected}")]


def test_the_socket_of_the_runtime_is_there_or_not(machine: DoctorNode) -> None:
    machine.socket = machine.folder / "crio.sock"
    with machine.running(has_socket=False):
        absent = machine.lines()
        machine.socket.write_text("")
        ((level, text),) = pick(machine.lines(), "container runtime")
    assert (level, text.endswith(" is not a socket")) == ("problem", True)
    assert [level for level, _ in pick(absent, "container runtime")] == ["problem"]
    assert proposed(absent, "container runtime") == ["systemctl status crio"]
    (machine.folder / "broken").write_text("{")
    with machine.processes.kubelet(f"--config={machine.folder / 'broken'}", env={"PATH": "/bin"}):
        unknown = pick(machine.lines(), "container runtime")
    assert unknown == [("unknown", "the socket is not known, as a file of the kubelet cannot be read")]


def test_a_login_of_the_runtimes_own_is_well(machine: DoctorNode) -> None:
    login = '[plugins.cri.registry.configs."reg.io".auth]\nusername = "u"\npassword = "pass-word"\n'
    write(machine.folder, CONFIG, login)
    with machine.running():
        lines = machine.lines()
    ((level, text),) = pick(lines, "mirrors", "reg.io")
    assert (level, text.startswith("containerd has a login of its own for it")) == ("ok", True)
    assert "pass-word" not in str(lines)


def test_a_file_of_k3s_that_was_changed_since_its_start_is_a_warning(machine: DoctorNode) -> None:
    source = Path(write(machine.folder, "etc/rancher/k3s/registries.yaml", ""))
    written = machine.folder / "var/lib/rancher/k3s/agent/etc/containerd/certs.d"
    written.mkdir(parents=True)
    os.utime(written, (1, 1))
    with machine.running():
        ((level, text),) = pick(machine.lines(), "mirrors", "registries.yaml")
    assert (level, text.startswith(f"{source} is newer than {written}")) == ("warning", True)


def test_mirrors_of_cri_o_get_no_credential_and_blocked_names_are_warned_of(machine: DoctorNode) -> None:
    mirror = '[[registry.mirror]]\nlocation = "m.example"\n'
    path = write(
        machine.folder,
        REGISTRIES,
        f'[[registry]]\nlocation = "reg.io"\n{mirror}[[registry]]\nlocation = "bad.io"\nblocked = true\n',
    )
    machine.socket = machine.folder / "crio.sock"
    with machine.running():
        lines = machine.lines()
        write(machine.folder, REGISTRIES, "[")
        broken = machine.lines()
    ((level, text),) = pick(lines, "mirrors", "reg.io")
    assert (level, text.endswith("CRI-O does not send them to another host")) == ("ok", True)
    assert pick(lines, "mirrors", "bad.io") == [("warning", f"{path} blocks it: CRI-O pulls none of it")]
    ((level, text),) = pick(broken, "mirrors")
    assert (level, text.startswith(f"{path}: ")) == ("problem", True), "once, for whatever registry"


@pytest.mark.parametrize(
    ("fields", "level", "text"),
    [
        ({"imagePullCredentialsVerificationPolicy": "Sometimes"}, "problem", "unknown policy"),
        ({"featureGates": {GATE: False}}, "ok", "every pod may use every image"),
    ],
)
def test_a_policy_that_is_none_or_off_is_told(
    machine: DoctorNode, fields: dict[str, object], level: str, text: str
) -> None:
    machine.more_flags = [f"--config={write_config(machine.folder / 'kubelet.json', **fields)}"]
    with machine.running():
        ((found, said),) = pick(machine.lines(), "pull records", "policy")
    assert (found, text in said) == (level, True)


def test_the_folder_of_records_is_linted_and_counted(machine: DoctorNode) -> None:
    folder = machine.folder / "image_manager"
    plant(machine.folder)
    with machine.running():
        lines = machine.lines()
        (folder / "pulled" / "sha256-broken").write_text("{")
        broken = pick(machine.lines(), "pull records", "records")
        (folder / "pulled").rename(machine.folder / "elsewhere")
        (folder / "pulled").write_text("no folder")
        unreadable = pick(machine.lines(), "pull records", "records")
    assert pick(lines, "pull records", "records") == [("ok", f"{folder} has 1 records")]
    assert proposed(lines, "pull records")[-1] == "keyferry records list"
    assert [level for level, _ in broken] == ["problem", "warning"]
    assert all("has 2 records; lint: 1 " in text for _, text in broken)
    assert unreadable == [("unknown", f"{folder} cannot be read: Not a directory")]


@pytest.mark.parametrize(
    ("free", "level", "text"),
    [
        (10 << 20, "ok", "10.0 MiB of 100.0 MiB are free (10 %)"),
        (9 << 20, "warning", "9.0 MiB of 100.0 MiB are free (9 %); below 10 % the kubelet evicts pods"),
        (5, "warning", "5 B of 100.0 MiB are free (0 %)"),
    ],
)
def test_little_space_is_a_warning(
    machine: DoctorNode, monkeypatch: pytest.MonkeyPatch, free: int, level: str, text: str
) -> None:
    disk = SimpleNamespace(f_frsize=1, f_bavail=free, f_blocks=100 << 20)
    monkeypatch.setattr(os, "statvfs", lambda _: disk)
    with machine.running():
        ((found, said),) = pick(machine.lines(), "disk")
    assert (found, text in said) == (level, True)


PROXY = "http://user:pass-word@p:3128"


@pytest.mark.parametrize(
    ("environ", "text"),
    [
        ({}, "no proxy for HTTPS"),
        ({"HTTP_PROXY": PROXY}, "no proxy for HTTPS"),
        ({"HTTPS_PROXY": "user:pass-word@p:1"}, "proxy p:1 for a.io, docker.io"),
        ({"https_proxy": PROXY, "NO_PROXY": "registry-1.docker.io"}, "proxy p:3128 for a.io, none for docker.io"),
        ({"HTTPS_PROXY": PROXY, "NO_PROXY": ".io"}, "proxy p:3128 for other hosts, none for a.io, docker.io"),
        ({"HTTPS_PROXY": "socks5://p:1080"}, "proxy p:1080 for a.io, docker.io"),
        ({"HTTPS_PROXY": PROXY, "NO_PROXY": "*"}, "no proxy for HTTPS"),
    ],
)  # fmt: skip
def test_it_is_told_which_registries_use_the_proxy(
    tmp_path: Path, environ: dict[str, str], text: str
) -> None:
    machine = DoctorNode(tmp_path)
    machine.node.add("own", ["a.io", "docker.io"])
    with machine.running({"PATH": "/bin", **environ}):
        lines = machine.lines()
    assert pick(lines, "proxies") == [("ok", text)]
    assert "pass-word" not in str(lines)


@pytest.mark.parametrize(
    ("pattern", "exceptions", "service"),
    [
        ("*.dkr.ecr.*.amazonaws.com", "", "169.254.169.254"),
        ("*.dkr.ecr.*.amazonaws.com", "169.254.0.0/16", ""),
        ("gcr.io/project", "", "metadata.google.internal"),
        ("*.azurecr.io", ".internal", "169.254.169.254"),
        ("reg.io", "", ""),
    ],
)
def test_a_metadata_service_behind_a_proxy_is_a_warning(
    tmp_path: Path, pattern: str, exceptions: str, service: str
) -> None:
    machine = DoctorNode(tmp_path)
    machine.node.add("own", [pattern])
    with machine.running({"PATH": "/bin", "HTTP_PROXY": PROXY, "NO_PROXY": exceptions}):
        found = pick(machine.lines(), "proxies", "NO_PROXY")
    advice = f"add {service} to the kubelet's NO_PROXY"
    assert [(level, text.endswith(advice)) for level, text in found] == [("warning", True)] * bool(service)
