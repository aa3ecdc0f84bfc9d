"""The usage of every command: its help, wrong usage, words that are nearly right, and exit codes."""

from __future__ import annotations

import re

import pytest

from keyferry import errors
from keyferry.cli.exits import EXITS, Exit, exit_code, most_severe
from keyferry.errors import Kind, KubeletReason
from support.commands import all_commands, run_in_process


@pytest.mark.parametrize("words", all_commands(), ids=" ".join)
def test_help_begins_with_examples_and_ends_with_what_is_rarely_used(words: tuple[str, ...]) -> None:
    """One line of usage, the examples, the description, common options, advanced ones, and those of all commands."""
    done = run_in_process(*words, "--help")
    assert done.returncode == 0
    usage, examples, *rest = done.stdout.split("\n\n")
    assert usage.startswith(f"usage: keyferry {' '.join(words)} ")
    assert usage.endswith("[OPTIONS]")
    assert examples.startswith("examples:\n")
    heads = [part.partition("\n")[0] for part in rest]
    at = heads.index("options of every command:")
    groups = [head for head in heads[:at] if head.endswith(":")]
    assert groups == sorted(groups, key=lambda head: head.startswith("advanced"))
    assert "--verbose" in done.stdout
    assert "--color" in rest[at]


@pytest.mark.parametrize(
    ("words", "meant"),
    [
        (["expain", "x"], "explain"),
        (["plugin", "trce"], "trace"),
        (["kube", "whami"], "whoami"),
        (["records", "lst"], "list"),
        (["get", "x", "--confg", "y"], "--config"),
        (["get", "x", "--confg=y"], "--config"),
        (["plugin", "test", "x", "--imge", "y"], "--image"),
        (["get", "x", "-o", "jsn"], "json"),
        (["get", "x", "-o", "JSON"], "json"),
        (["get", "x", "--output=jsn"], "json"),
        (["records", "who", "x", "--policy", "AlwaysVerfy"], "AlwaysVerify"),
        (["plugin", "new", "x", "--kind", "clster"], "cluster"),
        (["plugin", "install", "erc", "--bin-dir", "."], "ecr"),
        (["completion", "bsh"], "bash"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_near_misses_are_suggested_everywhere(words: list[str], meant: str) -> None:
    """Commands, subcommands, options and the values of options."""
    done = run_in_process(*words)
    assert (done.returncode, done.stdout) == (2, "")
    assert f"did you mean {meant!r}?" in done.stderr


@pytest.mark.parametrize(
    "words",
    [
        ["explain", "pod/web", "--max-requests", "3"],
        ["can-pull", "-A", "--interval", "2"],
        ["get", "x", "-o", "xyzzy"],
        ["frobnicate"],
    ],
    ids=" ".join,
)
def test_what_is_hardly_alike_is_not_suggested(words: list[str]) -> None:
    done = run_in_process(*words)
    assert (done.returncode, done.stdout) == (2, "")
    assert re.search("unrecognized arguments|invalid choice|unknown command 'frobnicate'", done.stderr)
    assert "did you mean" not in done.stderr


@pytest.mark.parametrize("group", ["kube", "records", "plugin"])
def test_a_group_alone_prints_its_help(group: str) -> None:
    """As ``keyferry`` alone does: on standard output, with exit code 0."""
    alone, asked = run_in_process(group), run_in_process(group, "--help")
    assert (alone.returncode, alone.stderr) == (0, "")
    assert alone.stdout == asked.stdout
    assert alone.stdout.startswith(f"usage: keyferry {group} ")


ON_NODE = ["pod/web", "--on-node"]
LIST = ["--policy", "AlwaysVerify", "--allow", "reg.example"]


@pytest.mark.parametrize(
    ("command", "words", "problem"),
    [
        ("get", [], "the following arguments are required: IMAGE"),
        ("get", ["x", "--output", "xml"], "invalid choice: 'xml'"),
        ("get", ["x", "--color", "purple"], "--color"),
        ("get", ["x", "--timeout", "soon"], "'soon' is not a number of seconds"),
        ("get", ["x", "--timeout", "-1"], "is not a number of seconds"),
        ("get", ["x", "--frob"], "unrecognized arguments: --frob"),
        ("doctor", ["--host-root", ""], "--host-root: expected a value that is not empty"),
        ("doctor", ["--node", ""], "--node: expected the name of a node, found ''"),
        ("explain", ["--node", "Not_A_Node"], "--node: expected the name of a node, found 'Not_A_Node'"),
        ("explain", ["-l", ""], "--selector: expected a value that is not empty"),
        ("explain", [*ON_NODE, "--host-root", "/tmp"], "leave out --host-root"),
        ("explain", [*ON_NODE, "--cri", "auto"], "--withhold-env and --cri"),
        ("explain", [*ON_NODE, "--env-from", "self"], "--env-from, --withhold-env and --cri"),
        ("can-pull", [*ON_NODE, "--hosts-dir", "/etc"], "--hosts-dir, --registries-conf"),
        ("can-pull", [*ON_NODE, "--ca-file", "/etc/ca.pem"], "--ca-file"),
        ("explain", ["--on-node", "-A"], "--on-node asks one node"),
        ("explain", [*ON_NODE, "--privileged"], "add --debug-image IMAGE"),
        ("explain", [*ON_NODE, "--debug-namespace", "ops"], "add --debug-image IMAGE"),
        ("explain", [*ON_NODE, "--agent", "/run/x.sock"], "it is auto or off"),
        ("explain", [*ON_NODE, "--debug-image", "REGISTRY/keyferry:1"], "replace REGISTRY"),
        ("explain", [*ON_NODE, "--debug-image", "a:b:c"], "'a:b:c' is not an image name"),
        ("explain", ["pod/web", "--node", "node1"], "with --on-node, --node names the node to ask"),
        ("can-pull", ["reg.example/a", "--node", "node1"], "with --on-node, --node names the node to ask"),
        ("explain", ["pod/web", "--privileged"], "--privileged: only for a node that is asked from afar"),
        ("explain", ["pod/web", "--agent-namespace", "a"], "add --on-node"),
        ("doctor", ["--debug-namespace", "a"], "or --node to doctor"),
        ("doctor", ["--context", "prod"], "are for --node NAME: add it"),
        ("doctor", ["--as", "bob"], "are for --node NAME: add it"),
        ("doctor", ["--timeout", "3"], "are for --node NAME: add it"),
        ("explain", ["-A", "--interval", "3"], "add --watch"),
        ("explain", ["pod/web", "--interval", "3"], "add --watch"),
        ("explain", ["pod/web", "--watch"], "--watch is for many pods"),
        ("lint", ["--list", "KF999"], "'KF999' is not a code; 'keyferry lint --list' shows all"),
        (
            "pull",
            ["reg.example/a", "--policy", "AlwaysVerify"],
            "--policy and --allow require --root DIR, the folder of the records",
        ),
        ("pull", ["reg.example/a", "--platform", "linux/arm64"], "pulls for its own platform"),
        ("pull", ["reg.example/a", "--root", "/nowhere", *LIST], "'AlwaysVerify' takes no allowlist"),
        ("records who", ["reg.example/a", "--root", "/nowhere", *LIST], "'AlwaysVerify' takes no allowlist"),
        ("records plan", ["--root", "/nowhere", *LIST], "'AlwaysVerify' takes no allowlist"),
        ("records prune", [], "give --cri, --images or --image-id"),
        ("records recover", [], "give --cri or --images"),
        ("plugin new", ["a/b"], "'a/b' is not a valid name of a plugin"),
        ("plugin install", ["ecr"], "no folder is given; set it with --bin-dir DIR"),
        ("plugin test", [], "no plugin is given; give the path of its executable"),
        (
            "plugin trace",
            ["x", "--replay", "y"],
            "--replay replaces the plugin and cannot be combined with BINARY",
        ),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_wrong_usage_is_said_in_one_way(command: str, words: list[str], problem: str) -> None:
    """One line that names the problem and what to type next, nothing on standard output, exit code 2."""
    done = run_in_process(*command.split(), *words)
    assert (done.returncode, done.stdout) == (2, "")
    assert problem in done.stderr
    assert done.stderr.splitlines()[-1].endswith(f"; try 'keyferry {command} --help'")
    assert done.stderr.count("\n") == 1


def test_every_kind_has_an_exit_code() -> None:
    assert set(EXITS) == set(Kind)


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (errors.PluginTimeoutError("p", 1.0), Exit.TIMEOUT),
        (errors.PluginExitError("p", 1), Exit.PLUGIN),
        (errors.PluginNotFoundError("p", "m"), Exit.PLUGIN),
        (errors.PluginProtocolError("p", "m"), Exit.PLUGIN),
        (errors.ServiceAccountError("m"), Exit.PLUGIN),
        (errors.ImageNameError("m"), Exit.USAGE),
        (errors.ConfigError(()), Exit.ENVIRONMENT),
        (errors.PolicyError("m"), Exit.ENVIRONMENT),
        (errors.EnvironmentProblem("m"), Exit.ENVIRONMENT),
        (errors.PullSecretError("m"), Exit.ENVIRONMENT),
        (errors.DocumentError("m"), Exit.ENVIRONMENT),
        *(
            (errors.RecordError("p", "m", "", Kind(kind)), Exit.ENVIRONMENT)
            for kind in ("syntax", "type", "content", "trust", "foreign", "locked", "system")
        ),
        (errors.MatchError("m"), Exit.NO),
        (errors.ProvideError("m"), Exit.NO),
        (errors.RegistryError("r", 401, "m"), Exit.REFUSED),
        (errors.RegistryError("r", 404, "m"), Exit.NO),
        (errors.RegistryError("r", 429, "m"), Exit.UNKNOWN),
        (errors.RegistryError("r", 0, "m", Kind.UNREACHABLE), Exit.UNKNOWN),
        (errors.RegistryError("r", 0, "m", Kind.TIMEOUT), Exit.TIMEOUT),
        (errors.RegistryError("r", 0, "m", Kind.CONTENT), Exit.NO),
        (errors.ContainerRuntimeError("s", "NOT_FOUND", "m", Kind.NOT_FOUND), Exit.NO),
        (errors.ContainerRuntimeError("s", "UNKNOWN", "m", Kind.REFUSED), Exit.REFUSED),
        (errors.ImagePullError("i", KubeletReason.INVALID_IMAGE_NAME, "m", "", Kind.NAME), Exit.USAGE),
        (errors.ImagePullError("i", KubeletReason.ERR_IMAGE_NEVER_PULL, "m", "", Kind.ABSENT), Exit.NO),
        (
            errors.ImagePullError(
                "i", KubeletReason.IMAGE_INSPECT_ERROR, "m", failures=(errors.EnvironmentProblem("f"),)
            ),
            Exit.ENVIRONMENT,
        ),
        (errors.ClusterAuthError("s", "m"), Exit.REFUSED),
        (errors.ClusterAuthError("s", "m", kind=Kind.TIMEOUT), Exit.TIMEOUT),
        (errors.ClusterAuthError("s", "m", "", errors.PolicyError("m")), Exit.ENVIRONMENT),
        (errors.ClusterAuthError("s", "m", "", errors.PluginNotFoundError("p", "m")), Exit.PLUGIN),
        (OSError(), Exit.NO),
    ],
)
def test_an_error_leads_to_the_exit_code_of_its_kind(error: Exception, code: Exit) -> None:
    assert exit_code(error) is code


@pytest.mark.parametrize(
    ("codes", "expected"),
    [
        ((), 0),
        ((0, 0), 0),
        ((0, 6), 6),
        ((6, 4), 4),
        ((6, 124, 5), 124),
        ((3, 6), 3),
        ((0, 5, 6, 1), 1),
        ((124, 1), 1),
    ],
)
def test_of_several_a_sure_no_goes_first_and_unknown_before_yes(
    codes: tuple[int, ...], expected: int
) -> None:
    assert most_severe(map(Exit, codes)) == expected


def test_every_code_that_a_command_ends_with_is_in_the_help() -> None:
    """All but the two that shells know."""
    shown = run_in_process("--help").stdout.partition("Exit codes:")[2]
    for code in set(Exit) - {Exit.INTERRUPTED, Exit.PIPE}:
        assert f"{int(code)} " in shown
