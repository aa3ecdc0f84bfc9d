"""Where secrets could leak besides errors: processes, files, streams, metrics, half-cut and endless texts."""

from __future__ import annotations

import gc
import json
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest
from prometheus_client import CollectorRegistry, generate_latest

import keyferry
from keyferry._core.secrets import redact, stderr_tail
from keyferry.api.credentialprovider.v1 import CredentialProviderRequest
from keyferry.errors import PluginError, PluginExitError
from keyferry.images.load import load_providers
from keyferry.images.lookup import Providers
from keyferry.images.provider.accounts import Pod, ServiceAccount, StaticAccount
from keyferry.invoke.run import Limits
from support.scripted import config_text, document, exec_plugin, write_printer, write_script

SECRET = "Zq7marked-S3cret9vX"
POD = Pod(namespace="ns", name="pod", uid="uid", service_account_name="builder")
GOOD = document({"reg.io": {"username": "user", "password": f"{SECRET}-of-the-registry"}})


def loaded(folder: Path, provider: dict[str, object] | None = None, **settings: object) -> Providers:
    attributes = {
        "serviceAccountTokenAudience": "registry",
        "cacheType": "ServiceAccount",
        "requireServiceAccount": False,
    }
    (folder / "config.json").write_text(config_text({"tokenAttributes": attributes} | (provider or {})))
    accounts = StaticAccount(account=ServiceAccount(uid="uid"), token_text=SECRET)
    return load_providers(folder / "config.json", folder, service_accounts=accounts, **settings)  # type: ignore[arg-type] # one name


def test_a_token_reaches_the_plugin_by_standard_input_alone(tmp_path: Path) -> None:
    """Neither the command line nor the environment of a plugin, which others can read, holds the token."""
    copy = 'cat > "$0.stdin"; cat /proc/$$/cmdline /proc/$$/environ > "$0.public"'
    write_script(tmp_path, "plugin", f"{copy}; echo '{GOOD}'")
    assert loaded(tmp_path, {"args": ["get"]}).lookup("reg.io/app", pod=POD).credentials
    assert SECRET.encode() in (tmp_path / "plugin.stdin").read_bytes()
    public = (tmp_path / "plugin.public").read_bytes()
    assert b"plugin\0get" in public
    assert SECRET.encode() not in public


def test_withheld_variables_do_not_reach_the_plugin(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Variables on the denylist are gone, also from what the config would inherit; the rest passes."""
    monkeypatch.setenv("OUR_VAULT_TOKEN", SECRET)
    monkeypatch.setenv("HARMLESS", "yes")
    write_script(tmp_path, "plugin", f"env > \"$0.env\"; echo '{GOOD}'")
    loaded(tmp_path, withhold_env=["OUR_VAULT_TOKEN"]).lookup("reg.io/app")
    seen = (tmp_path / "plugin.env").read_text()
    assert SECRET not in seen
    assert "HARMLESS=yes" in seen


def test_a_withheld_variable_may_still_be_configured(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What the provider config sets is set: the denylist is for what leaks in from this process."""
    monkeypatch.setenv("ROLE", SECRET)
    write_script(tmp_path, "plugin", f"env > \"$0.env\"; echo '{GOOD}'")
    env = [{"name": "ROLE", "value": "reader"}]
    loaded(tmp_path, {"env": env}, withhold_env=["ROLE"]).lookup("reg.io/app")
    seen = (tmp_path / "plugin.env").read_text().splitlines()
    assert [line for line in seen if line.startswith("ROLE=")] == ["ROLE=reader"]


PROGRAM = """
import sys
sys.path[:0] = {paths!r}
from keyferry.images.load import load_providers
providers = load_providers({config!r}, {folder!r})
for _ in range(3):
    assert providers.lookup("reg.io/app").credentials or providers.lookup("reg.io/app").failures
"""


@pytest.mark.parametrize("status", [0, 1])
def test_a_lookup_writes_nothing_anywhere(tmp_path: Path, status: int) -> None:
    """No temp file, cache file or crash report is left in the home, temp or working directory."""
    plugins, empty = tmp_path / "plugins", tmp_path / "empty"
    plugins.mkdir()
    empty.mkdir()
    write_printer(plugins, "plugin", GOOD.encode(), stderr=SECRET.encode(), status=status)
    (plugins / "config.json").write_text(config_text({}))
    before = sorted(os.listdir(plugins))
    source = os.path.dirname(os.path.dirname(keyferry.__file__))
    program = PROGRAM.format(paths=[source], config=str(plugins / "config.json"), folder=str(plugins))
    environ = {"HOME": str(empty), "TMPDIR": str(empty), "PATH": os.environ["PATH"]}
    run = [sys.executable, "-I", "-B", "-c", program]
    done = subprocess.run(run, cwd=empty, env=environ, capture_output=True, text=True, check=True)
    assert os.listdir(empty) == []
    assert sorted(os.listdir(plugins)) == before
    assert (done.stdout, done.stderr) == ("", "")


@pytest.mark.parametrize("status", [0, 1])
def test_what_a_plugin_prints_does_not_reach_our_own_streams(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], status: int
) -> None:
    """Standard error of a plugin is collected, never passed through."""
    write_printer(tmp_path, "plugin", GOOD.encode(), stderr=f"debug {SECRET}".encode(), status=status)
    loaded(tmp_path).lookup("reg.io/app", pod=POD)
    assert capfd.readouterr() == ("", "")


def test_the_mask_of_this_process_is_left_alone(tmp_path: Path) -> None:
    """Running a plugin changes neither our umask nor the one it inherits."""
    mask = os.umask(0o027)
    try:
        write_script(tmp_path, "plugin", f"umask > \"$0.mask\"; echo '{GOOD}'")
        loaded(tmp_path).lookup("reg.io/app")
        assert (tmp_path / "plugin.mask").read_text().strip() == "0027"
        assert os.umask(0o027) == 0o027
    finally:
        os.umask(mask)


@pytest.mark.parametrize("status", [0, 1])
def test_metrics_hold_no_secret(tmp_path: Path, status: int) -> None:
    """Labels are names from the config and causes from a fixed list, never what a plugin said."""
    write_printer(tmp_path, "plugin", GOOD.encode(), stderr=SECRET.encode(), status=status)
    env = [{"name": "A", "value": SECRET}]
    providers = loaded(tmp_path, {"env": env, "args": [SECRET]})
    providers.lookup("reg.io/app", pod=POD)
    registry = CollectorRegistry()
    registry.register(keyferry.metrics_collector(providers))
    assert SECRET.encode() not in generate_latest(registry)


def test_a_failure_does_not_keep_what_the_plugin_printed(tmp_path: Path) -> None:
    """Nothing that an error refers to, frames included, holds a refused answer in memory."""
    write_printer(tmp_path, "plugin", f'{{"x": "{SECRET}-{"y" * 1000}"}}'.encode())
    answer = loaded(tmp_path).lookup("reg.io/app")
    error = answer.failures[0].error
    assert error.__traceback__ is None
    held = [thing for thing in reachable(error) if isinstance(thing, bytes | str)]
    assert held
    assert not [
        thing for thing in held if SECRET in (thing if isinstance(thing, str) else thing.decode("latin-1"))
    ]


def reachable(root: object) -> list[object]:
    seen: dict[int, object] = {}
    waiting = [root]
    while waiting and len(seen) < 10_000:
        thing = waiting.pop()
        if id(thing) not in seen and not isinstance(thing, type):
            seen[id(thing)] = thing
            waiting.extend(gc.get_referents(thing))
    return list(seen.values())


HOSTILE = {
    "letters": "a" * 65_536,
    "dashes": "a-" * 32_768,
    "keywords": "auth" * 16_384,
    "passwords": "password" * 8_192,
    "keyword-and-blank": ("token" + " " * 50) * 1_200,
    "flags": " --token-" * 7_000,
    "quotes": 'token="' * 9_000,
    "schemes": "://" * 21_000,
    "tokens": "eyJ-" * 16_000,
    "bearers": "bearer " * 9_000,
    "backslashes": "token" + "\\" * 65_000,
    "equals": "=" * 65_536,
    "sentences": "token: a " * 7_000,
    "chains": "token: a: " * 6_500,
    "open-quotes": "token='a\n" * 8_000,
    "names": "a:" * 32_768,
    "keys": "-----BEGIN PRIVATE KEY-----" * 2_400,
    "elements": "<token>" * 9_000,
    "netrc": "login a password " * 3_800,
    "camels": "aB" * 32_768,
    "arns": "arn:aws:secret:a " * 3_800,
    "users": "://a:" * 13_000,
}


@pytest.mark.parametrize("text", HOSTILE.values(), ids=HOSTILE)
def test_redacting_takes_no_longer_than_reading(text: str) -> None:
    """A plugin cannot choose its last words so that looking for secrets in them takes forever."""
    started = time.thread_time()
    redact(text)
    assert time.thread_time() - started < 2


MEGABYTE = 1 << 20
WORST = (
    "a",
    "a-",
    "a:",
    "://a:",
    "token: a ",
    "token: a: ",
    "token='",
    'token="a\n',
    "bearer ",
    " -u a:b",
    "aB",
    "a/",
)
# Many times what it takes, and far less than one pattern that tries every pair of places: that takes hours.
PATIENCE_SECONDS = 100


@pytest.mark.parametrize("unit", WORST)
def test_a_megabyte_of_the_worst_is_redacted(unit: str) -> None:
    """The work grows with the length of the text, and no faster."""
    started = time.process_time()
    redact(unit * (MEGABYTE // len(unit)))
    assert time.process_time() - started < PATIENCE_SECONDS


DIAGNOSES = [
    "failed to get credentials: unauthorized",
    "credentials: /etc/kubernetes/credentials/registry-mirror-europe-production/config: no such file",
    "AccessDenied: arn:aws:sts::123456789012:assumed-role/nodes/i-0a1b2c3d4e5f60718 may not, "
    "request id: 6f9b2c1e-58d3-4a7c-9b0e-2d8f3e1a4c55",
    "no region eu-west-1 in profile production-readonly at level debug",
]


@pytest.mark.parametrize("said", DIAGNOSES)
def test_masking_does_not_hide_the_diagnosis(tmp_path: Path, said: str) -> None:
    """What a plugin says of its failure is in the error, ordinary settings of its config included."""
    path = write_printer(tmp_path, "plugin", stderr=said.encode(), status=1)
    env = (("AWS_REGION", "eu-west-1"), ("AWS_PROFILE", "production-readonly"), ("LEVEL", "debug"))
    with pytest.raises(PluginExitError) as caught:
        exec_plugin(path, env=env)(CredentialProviderRequest(image="reg.io/app"))
    assert str(caught.value).endswith(f"stderr: {said}")


def test_a_plugin_with_hostile_last_words_fails_in_time(tmp_path: Path) -> None:
    """The whole way, from a real plugin to its error, stays short."""
    path = write_printer(tmp_path, "plugin", stderr=b"a" * 65_536 + b"\n" + b"auth" * 16_000, status=1)
    started = time.thread_time()
    with pytest.raises(PluginExitError):
        exec_plugin(path)(CredentialProviderRequest(image="reg.io/app"))
    assert time.thread_time() - started < 5


@pytest.mark.parametrize("cut", range(1, len(SECRET), 3))
def test_a_cap_that_cuts_through_a_secret_shows_no_half_of_it(tmp_path: Path, cut: int) -> None:
    """When only the end of a flood is kept, the line that was cut is not shown at all."""
    rest = f"{SECRET} and more\nlast words"
    path = write_printer(tmp_path, "plugin", stderr=f"token {rest}".encode(), status=1)
    limits = Limits(timeout_seconds=30, stderr_bytes=len(rest) - cut)
    plugin = exec_plugin(path, limits=limits, env=(("TOKEN", SECRET),))
    with pytest.raises(PluginError) as caught:
        plugin(CredentialProviderRequest(image="reg.io/app"))
    assert str(caught.value).endswith("stderr: last words")


def test_a_long_line_is_redacted_before_it_is_cut() -> None:
    """A line is shortened only after the secrets in it are gone."""
    for before in range(380, 401):
        assert SECRET[:8] not in stderr_tail(f"{'x ' * (before // 2)}{SECRET}".encode(), (SECRET,))


@pytest.mark.parametrize(
    "control",
    ["\x1b[2J", "\x1b]0;title\x07", "\r", "\b", "\x9b31m", "\u202e", "\u2066", "\u2028", "\0", "\x7f"],
)
def test_last_words_cannot_drive_a_terminal(tmp_path: Path, control: str) -> None:
    """Escape sequences and characters that reorder text are replaced before anyone prints them."""
    path = write_printer(tmp_path, "plugin", stderr=f"safe{control}words".encode(), status=1)
    with pytest.raises(PluginExitError) as caught:
        exec_plugin(path)(CredentialProviderRequest(image="reg.io/app"))
    assert not set(str(caught.value)) & {
        "\x1b",
        "\r",
        "\b",
        "\x9b",
        "\u202e",
        "\u2066",
        "\u2028",
        "\0",
        "\x7f",
        "\x07",
    }
    assert "safe" in str(caught.value)


def test_last_words_are_bounded(tmp_path: Path) -> None:
    """However much a plugin says, its error stays a few lines."""
    path = write_printer(tmp_path, "plugin", stderr=b"word " * 200_000 + b"\nx y" * 10_000, status=1)
    with pytest.raises(PluginExitError) as caught:
        exec_plugin(path)(CredentialProviderRequest(image="reg.io/app"))
    assert len(str(caught.value)) < 3_000


def test_the_words_of_kubernetes_are_kept_apart(tmp_path: Path) -> None:
    """What Kubernetes would log quotes the plugin; it is an attribute of its own, in no text and no repr."""
    path = write_printer(tmp_path, "plugin", stderr=json.dumps({"password": SECRET}).encode(), status=1)
    with pytest.raises(PluginExitError) as caught:
        exec_plugin(path)(CredentialProviderRequest(image="reg.io/app"))
    assert SECRET in caught.value.kubernetes_text
    assert SECRET not in str(caught.value) + repr(caught.value)
