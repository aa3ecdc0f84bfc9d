"""A hostile ClusterProfile: whoever writes it decides about no program of this machine, and about no terminal."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

import keyferry
from keyferry.invoke.policy import PluginPolicy
from support.commands import run_in_process
from support.plugins import write_executable

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="owners and modes")

EXEC = "clusterprofiles.multicluster.x-k8s.io/exec"


@pytest.fixture
def providers(tmp_path: Path) -> Path:
    """A provider file that lets profiles add everything."""
    path = tmp_path / "providers.json"
    plugin = {"apiVersion": "client.authentication.k8s.io/v1", "command": "/bin/false", "env": []}
    provider = {
        "name": "cloud",
        "execConfig": plugin,
        "profileSourcedCLIArgsPolicy": "Append",
        "profileSourcedEnvVarsPolicy": "Replace",
    }
    path.write_text(json.dumps({"providers": [provider]}))
    return path


def profile(name: str, value: object) -> dict[str, object]:
    cluster = {
        "server": "https://api.example",
        "extensions": [{"name": f"{EXEC}/{name}", "extension": value}],
    }
    return {
        "apiVersion": "multicluster.x-k8s.io/v1alpha1",
        "kind": "ClusterProfile",
        "metadata": {"name": "hostile"},
        "status": {"accessProviders": [{"name": "cloud", "cluster": cluster}]},
    }


def load(
    given: dict[str, object], providers: Path, *, allow_loader_variables: bool = False, trust: bool = False
) -> keyferry.ClusterSession:
    return keyferry.load_cluster_profile(
        given,
        providers=providers,
        policy=PluginPolicy(),
        allow_loader_variables=allow_loader_variables,
        trust=trust,
    )


@pytest.mark.parametrize(
    "name",
    [
        "PATH",
        "LD_PRELOAD",
        "LD_LIBRARY_PATH",
        "DYLD_INSERT_LIBRARIES",
        "PYTHONPATH",
        "PYTHONSTARTUP",
        "BASH_ENV",
        "ENV",
        "IFS",
        "NODE_OPTIONS",
        "PERL5LIB",
        "RUBYOPT",
        "JAVA_TOOL_OPTIONS",
        "GIT_SSH_COMMAND",
        "GCONV_PATH",
        "BASH_FUNC_cat%%",
        "OPENSSL_CONF",
        "CLOUDSDK_PYTHON",
        "CORECLR_PROFILER_PATH",
    ],
)
def test_a_variable_that_loads_code_is_refused_unless_allowed(name: str, providers: Path) -> None:
    given = profile("additional-envs", {"ZONE": "z", name: "/tmp/evil"})
    with pytest.raises(keyferry.PolicyError) as caught:
        load(given, providers)
    assert name in str(caught.value)
    assert "/tmp/evil" not in str(caught.value)
    config = load(given, providers, allow_loader_variables=True).config
    assert config.exec is not None
    assert {each.name for each in config.exec.env} == {"ZONE", name}


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("additional-args", "--one-word"),
        ("additional-args", [["nested"]]),
        ("additional-args", [7]),
        ("additional-envs", ["A=B"]),
        ("additional-envs", {"A": {"valueFrom": "x"}}),
    ],
    ids=["text", "nested", "number", "list", "object"],
)
def test_another_shape_is_refused(name: str, value: object, providers: Path) -> None:
    with pytest.raises(keyferry.ConfigError, match=name):
        load(profile(name, value), providers)


@pytest.mark.parametrize(
    "name",
    ["LD_PRELOAD=/tmp/evil.so:", "", "=LD_PRELOAD", "A\0LD_PRELOAD=/tmp/evil.so"],
    ids=["another name inside", "empty", "leading sign", "NUL"],
)
def test_a_name_that_sets_another_variable_is_refused_even_if_loaders_are_allowed(
    name: str, providers: Path
) -> None:
    with pytest.raises(keyferry.ConfigError, match="whose name is empty or has a '='") as caught:
        load(profile("additional-envs", {name: "x"}), providers, allow_loader_variables=True)
    assert "evil" not in str(caught.value)


@pytest.mark.parametrize(
    ("name", "value"),
    [("additional-args", ["a\0b"]), ("additional-envs", {"ZONE": "a\0b"})],
    ids=["argument", "variable"],
)
def test_a_nul_is_refused_before_the_plugin_is_started(name: str, value: object, providers: Path) -> None:
    with pytest.raises(keyferry.ConfigError, match="a NUL"):
        load(profile(name, value), providers)


def test_arguments_reach_the_program_as_they_are_and_no_shell(tmp_path: Path, providers: Path) -> None:
    plugin = write_executable(
        tmp_path / "plugin",
        f'#!/bin/sh\nfor word; do printf "%s|" "$word" >> {tmp_path}/args; done\nexit 3\n',
    )
    written = json.loads(providers.read_text())
    written["providers"][0]["execConfig"]["command"] = str(plugin)
    providers.write_text(json.dumps(written))
    words = ["; touch evil", "$(touch evil)", "`touch evil`", "--x=$IFS"]
    with pytest.raises(keyferry.ClusterAuthError):
        load(profile("additional-args", words), providers).grant()
    assert (tmp_path / "args").read_text() == "".join(f"{word}|" for word in words)
    assert not (tmp_path / "evil").exists()


ESCAPE = "\x1b]0;owned\x07\u202e"


def test_escapes_of_a_profile_do_not_reach_the_terminal(tmp_path: Path, providers: Path) -> None:
    """In its name, the names of variables, arguments, and the server, by every command that shows them."""
    given = profile("additional-envs", {f"A{ESCAPE}": "x"})
    given["metadata"] = {"name": f"fleet{ESCAPE}"}
    status = given["status"]["accessProviders"][0]["cluster"]  # type: ignore[index]  # made above
    status["extensions"].append({"name": f"{EXEC}/additional-args", "extension": [f"--x{ESCAPE}"]})
    status["tls-server-name"] = ESCAPE
    path = tmp_path / "profile.json"
    path.write_text(json.dumps(given))
    options = ("--cluster-profile", str(path), "--provider-file", str(providers))
    for command in (["explain", "-o", "wide"], ["explain"], ["exec-info"], ["whoami"]):
        done = run_in_process("kube", *command, *options, HOME=str(tmp_path), KUBERC="")
        assert done.returncode in (0, 4)
        shown = done.stdout + done.stderr
        assert shown
        assert not any(each in shown for each in "\x1b\x07\u202e"), (command, shown)


@pytest.mark.parametrize(
    ("cluster", "hidden"),
    [
        ({"server": "http://plain.example"}, ""),
        ({"server": "https://"}, ""),
        ({"server": "https://jane:s-word@api.example\n"}, "s-word"),
        ({"proxy-url": "ftp://jane:s-word@proxy.example"}, "s-word"),
        ({"proxy-url": "http://jane:s-word@[proxy"}, "s-word"),
    ],
    ids=["plain", "no host", "line break", "another proxy", "broken proxy"],
)
def test_a_server_or_proxy_that_a_credential_must_not_be_sent_to_is_refused(
    cluster: dict[str, object], hidden: str, providers: Path
) -> None:
    given = profile("additional-args", [])
    given["status"]["accessProviders"][0]["cluster"].update(cluster)  # type: ignore[index]  # made above
    with pytest.raises(keyferry.ConfigError) as caught:
        load(given, providers)
    assert not hidden or hidden not in str(caught.value)


def test_the_password_of_a_proxy_is_not_shown(tmp_path: Path, providers: Path) -> None:
    given = profile("additional-args", [])
    given["status"]["accessProviders"][0]["cluster"]["proxy-url"] = "http://jane:s-word@proxy.example:1"  # type: ignore[index]  # made above
    path = tmp_path / "profile.json"
    path.write_text(json.dumps(given))
    providers.write_text(providers.read_text().replace('"env"', '"provideClusterInfo": true, "env"'))
    assert "s-word" not in repr(load(given, providers).config)
    options = ("--cluster-profile", str(path), "--provider-file", str(providers))
    for command in (["explain", "--no-run", "-o", "wide"], ["exec-info", "-o", "json"]):
        done = run_in_process("kube", *command, *options, HOME=str(tmp_path), KUBERC="")
        assert done.returncode == 0
        assert "proxy.example" in done.stdout
        assert "s-word" not in done.stdout + done.stderr


@pytest.mark.parametrize(
    "text",
    [
        '{"apiVersion": "multicluster.x-k8s.io/v1alpha1", "kind": "ClusterProfile", "status": {}, "status": {}}',
        '{"apiVersion": "multicluster.x-k8s.io/v1alpha1", "kind": "ClusterProfile", "status": {"accessProviders": ['
        '{"name": "cloud", "cluster": {"extensions": [{"name": "a", "extension": 1}, {"name": "a", "extension": 2}]}}'
        "]}}",
    ],
    ids=["key", "extension"],
)
def test_what_two_readers_could_read_differently_is_refused(
    text: str, tmp_path: Path, providers: Path
) -> None:
    path = tmp_path / "profile.json"
    path.write_text(text)
    with pytest.raises(keyferry.ConfigError, match=r"more than once|given twice"):
        keyferry.load_cluster_profile(path, providers=providers, policy=PluginPolicy())


def test_a_giant_config_for_the_plugin_is_refused_before_the_plugin_is_started(
    tmp_path: Path, providers: Path
) -> None:
    """It is a variable of the plugin, and the kernel would refuse the start without saying which one."""
    plugin = write_executable(tmp_path / "plugin", f"#!/bin/sh\ntouch {tmp_path}/ran\n")
    written = json.loads(providers.read_text())
    written["providers"][0]["execConfig"] |= {"command": str(plugin), "provideClusterInfo": True}
    providers.write_text(json.dumps(written))
    given = profile("additional-args", [])
    extension = {"name": "client.authentication.k8s.io/exec", "extension": {"a": "x" * 200_000}}
    given["status"]["accessProviders"][0]["cluster"]["extensions"].append(extension)  # type: ignore[index]  # made above
    with pytest.raises(keyferry.ClusterAuthError, match="KUBERNETES_EXEC_INFO is") as caught:
        load(given, providers).grant()
    assert len(str(caught.value)) < 1000
    assert not (tmp_path / "ran").exists()


def test_a_profile_names_no_program(providers: Path) -> None:
    given = profile("additional-args", ["--x"])
    given["execConfig"] = {"command": "/tmp/evil"}
    given["status"]["accessProviders"][0]["execConfig"] = {"command": "/tmp/evil"}  # type: ignore[index]  # made above
    config = load(given, providers).config
    assert config.exec is not None
    assert (config.exec.command, config.exec.args) == ("/bin/false", ("--x",))


def test_a_provider_file_that_others_may_write_is_refused(providers: Path) -> None:
    providers.chmod(0o666)
    given = profile("additional-args", [])
    with pytest.raises(keyferry.PolicyError, match="not trusted"):
        load(given, providers)
    assert load(given, providers, trust=True).server == "https://api.example"


def test_a_giant_profile_is_refused(tmp_path: Path, providers: Path) -> None:
    path = tmp_path / "profile.json"
    with path.open("wb") as stream:
        stream.truncate(17 << 20)
    with pytest.raises(keyferry.ConfigError, match="larger than 16 MiB"):
        keyferry.load_cluster_profile(path, providers=providers, policy=PluginPolicy())
