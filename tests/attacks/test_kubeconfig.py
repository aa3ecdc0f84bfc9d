"""Kubeconfigs that somebody else wrote: what they make run, read and send, and what they cannot."""

import base64
import hashlib
import json
import os
import shlex
import subprocess
import sys
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from keyferry.clusters.load import load_cluster
from keyferry.clusters.session import ClusterSession
from keyferry.errors import ClusterAuthError, ConfigError, KeyferryError, PluginNotFoundError, PolicyError
from keyferry.invoke.policy import AllowlistEntry, PluginPolicy
from support.parts import need, root
from support.plugins import wait_until, write_executable

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="runs shell scripts")
linux = pytest.mark.skipif(sys.platform != "linux", reason="Linux alone has these")

Json = dict[str, Any]
V1 = "client.authentication.k8s.io/v1"
SECRET = "Zq7marked-S3cret9vX"
ALLOW = PluginPolicy()


def answer(token: str = "t") -> str:
    return json.dumps({"apiVersion": V1, "kind": "ExecCredential", "status": {"token": token}})


class Kube:
    """A folder with a kubeconfig and the programs it may name; each leaves a mark when it is run."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.path = folder / "config"
        self.cluster: Json = {"server": "https://k"}
        self.user: Json = {}

    def program(self, name: str, token: str = "t", before: str = "") -> str:
        """A plugin that answers *token*, and writes its name down."""
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        note = f"echo {shlex.quote(token)} >>{self.folder}/ran"
        write_executable(path, f"#!/bin/sh\n{note}\n{before}\nprintf %s {shlex.quote(answer(token))}\n")
        return str(path)

    def exec(self, command: str, **fields: object) -> "Kube":
        """Let the user have a plugin."""
        self.user["exec"] = {"command": command, "apiVersion": V1, "interactiveMode": "Never"} | fields
        return self

    def write(self, mode: int = 0o600) -> Path:
        """Write the kubeconfig."""
        document = {
            "current-context": "c",
            "clusters": [{"name": "k", "cluster": self.cluster}],
            "contexts": [{"name": "c", "context": {"cluster": "k", "user": "u"}}],
            "users": [{"name": "u", "user": self.user}],
        }
        self.path.write_text(json.dumps(document))
        self.path.chmod(mode)
        return self.path

    def load(self, policy: PluginPolicy = ALLOW, *, trust: bool = False, mode: int = 0o600) -> ClusterSession:
        """Write the kubeconfig and make a session of it."""
        return load_cluster(kubeconfig=self.write(mode), policy=policy, trust=trust)

    def token(self, policy: PluginPolicy = ALLOW) -> str:
        """The token that a request carries."""
        return dict(self.load(policy).grant().headers)["Authorization"].removeprefix("Bearer ")

    @property
    def ran(self) -> list[str]:
        """The marks of the plugins that were run."""
        path = self.folder / "ran"
        return path.read_text().split() if path.exists() else []


@pytest.fixture
def kube(tmp_path: Path) -> Kube:
    folder = tmp_path / "kube"
    folder.mkdir(mode=0o700)
    return Kube(folder)


def listing(*entries: str | AllowlistEntry) -> PluginPolicy:
    return PluginPolicy(
        "Allowlist",
        tuple(each if isinstance(each, AllowlistEntry) else AllowlistEntry(each) for each in entries),
    )


def shown_when(act: Callable[[], object]) -> str:
    """Everything a program could print of what *act* raises."""
    with pytest.raises(KeyferryError) as caught:
        act()
    texts, error = [], caught.value
    each: BaseException | None = error
    while each is not None:
        frames = traceback.TracebackException.from_exception(each, capture_locals=True)
        texts += [str(each), repr(each), *frames.format()]
        each = each.__cause__ or each.__context__
    return "\n".join(texts)


# A file that somebody else could have written


def make_writable(kube: Kube) -> None:
    kube.path.chmod(0o666)


def make_replaceable(kube: Kube) -> None:
    kube.folder.chmod(0o777)


def make_linked(kube: Kube) -> None:
    """A link of our own that leads where everybody can put another file."""
    shared = kube.folder / "shared"
    shared.mkdir()
    shared.chmod(0o777)
    kube.path.rename(shared / "config")
    kube.path.symlink_to(shared / "config")


@pytest.mark.parametrize("spoil", [make_writable, make_replaceable, make_linked])
def test_a_plugin_of_an_untrusted_file_is_refused_before_it_is_run(
    kube: Kube, spoil: Callable[[Kube], None]
) -> None:
    kube.exec(kube.program("plugin")).write()
    spoil(kube)
    with pytest.raises(PolicyError, match="not to be trusted"):
        load_cluster(kubeconfig=kube.path, policy=ALLOW)
    assert kube.ran == []
    load_cluster(kubeconfig=kube.path, policy=ALLOW, trust=True).grant()
    assert kube.ran == ["t"]


@root
def test_a_plugin_of_somebody_elses_file_is_refused(kube: Kube) -> None:
    kube.exec(kube.program("plugin")).write()
    os.chown(kube.path, 65534, -1)
    with pytest.raises(PolicyError, match="belongs to user 65534"):
        load_cluster(kubeconfig=kube.path, policy=ALLOW)
    assert kube.ran == []


def test_a_refused_file_is_not_opened_by_a_static_token_that_is_empty(kube: Kube) -> None:
    """What stands beside exec in vain does not take it out of the check."""
    kube.user = {"token": "", "username": "", "as": "jane"}
    kube.exec(kube.program("plugin"))
    with pytest.raises(PolicyError):
        kube.load(mode=0o666)


# Files that a kubeconfig has read


def test_a_token_file_that_holds_no_token_is_echoed_nowhere(kube: Kube) -> None:
    """As /etc/shadow would be: it is not sent, for it is no header, and no error shows any of it."""
    shadow = kube.folder / "shadow"
    shadow.write_text(f"root:{SECRET}:19000:0:99999:7:::\ndaemon:*:19000:0:99999:7:::\n")
    shadow.chmod(0o600)
    kube.user = {"tokenFile": str(shadow)}
    session = kube.load()
    shown = shown_when(session.grant)
    assert "control character" in shown
    assert SECRET not in shown + repr(session) + repr(session.config) + repr(vars(session))


@linux
def test_a_token_file_that_never_ends_is_refused(kube: Kube) -> None:
    kube.user = {"tokenFile": "/dev/zero"}
    with pytest.raises(ConfigError, match="larger than"):
        kube.load()
    kube.user = {}
    kube.cluster = {"server": "https://k", "certificate-authority": "/dev/zero"}
    with pytest.raises(ConfigError, match="larger than"):
        kube.load()


@pytest.mark.parametrize("name", ["tokenFile", "client-certificate", "certificate-authority"])
def test_a_file_that_is_not_there_is_an_error_at_its_place(kube: Kube, name: str) -> None:
    target = kube.cluster if name == "certificate-authority" else kube.user
    target[name] = "nope"
    if name == "client-certificate":
        target["client-key"] = "nope"
    with pytest.raises(ConfigError, match=name) as caught:
        kube.load()
    assert str(kube.folder / "nope") in str(caught.value)


# Where what is secret goes


@pytest.mark.parametrize(
    "proxy",
    [
        f"http://user:{SECRET}@proxy:3128",
        f"https://user:{SECRET}@proxy",
        f"socks5://{SECRET}@proxy",
        f"ftp://user:{SECRET}@proxy",
        f"http://user:{SECRET}/more@proxy",
        f"user:{SECRET}@proxy:80",
        f"http://user:{SECRET}@pro xy",
    ],
)
def test_the_password_of_a_proxy_is_shown_nowhere(kube: Kube, proxy: str) -> None:
    kube.cluster["proxy-url"] = proxy
    kube.exec(kube.program("plugin", before="exit 1"), provideClusterInfo=True)
    shown = shown_when(lambda: kube.load().grant())
    assert SECRET not in shown
    try:
        session = kube.load()
    except ConfigError:
        return
    assert SECRET in session.config.proxy_url
    assert SECRET not in f"{session!r} {session.config!r} {vars(session)!r} {session.config.exec_cluster!r}"


@pytest.mark.parametrize("server", ["http://k", "k", "k:443", "//k", "HTTPS:k"])
def test_no_credential_goes_to_a_server_without_https(kube: Kube, server: str) -> None:
    """And nothing is run for it."""
    kube.cluster["server"] = server
    kube.user = {"username": "u", "password": SECRET}
    kube.exec(kube.program("plugin"))
    session = kube.load()
    assert session.grant().headers == ()
    assert SECRET not in repr(session.config) + session.config.password
    assert kube.ran == []


def test_an_authority_does_not_make_an_insecure_cluster_secure(kube: Kube) -> None:
    ca = base64.b64encode(b"x").decode()
    kube.cluster |= {"insecure-skip-tls-verify": True, "certificate-authority-data": ca}
    with pytest.raises(ClusterAuthError, match="exclude each other"):
        kube.load().ssl_context()


# What a plugin is told


@linux
@pytest.mark.parametrize("size", [131_072, 1 << 20])
def test_a_cluster_too_large_for_a_variable_is_a_clear_error_before_anything_is_run(
    kube: Kube, size: int
) -> None:
    kube.cluster["certificate-authority-data"] = base64.b64encode(b"x" * size).decode()
    kube.exec(kube.program("plugin"), provideClusterInfo=True)
    with pytest.raises(ClusterAuthError) as caught:
        kube.load().grant()
    assert "KUBERNETES_EXEC_INFO would be" in str(caught.value)
    assert "provideClusterInfo" in str(caught.value)
    assert caught.value.kubernetes_text.endswith("argument list too long")
    assert kube.ran == []


@linux
def test_the_largest_cluster_that_fits_is_told(kube: Kube) -> None:
    """To the byte: the kernel takes 32 pages, name, '=' and the NUL at the end included."""
    note = f'printf %s "KUBERNETES_EXEC_INFO=$KUBERNETES_EXEC_INFO" >{kube.folder}/told'
    kube.exec(kube.program("plugin", before=note), provideClusterInfo=True)
    limit = 32 * os.sysconf("SC_PAGE_SIZE")

    def attempt(padding: int) -> bool:
        extension = {"name": "client.authentication.k8s.io/exec", "extension": {"p": "x" * padding}}
        kube.cluster["extensions"] = [extension]
        said = ""
        try:
            kube.load().grant()
        except ClusterAuthError as error:
            said = str(error)
        assert not said or "KUBERNETES_EXEC_INFO would be" in said
        return not said

    lowest, highest = limit - 1000, limit
    while highest - lowest > 1:
        middle = (lowest + highest) // 2
        lowest, highest = (middle, highest) if attempt(middle) else (lowest, middle)
    assert attempt(lowest)
    assert (kube.folder / "told").stat().st_size == limit - 1
    assert not attempt(highest)


def test_what_is_told_cannot_be_replaced_by_the_kubeconfig_or_the_environment(
    kube: Kube, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KUBERNETES_EXEC_INFO", "outer")
    before = f'printf %s "$KUBERNETES_EXEC_INFO" >{kube.folder}/info'
    env = [{"name": "KUBERNETES_EXEC_INFO", "value": "inner"}] * 2
    kube.exec(kube.program("plugin", before=before), env=env)
    kube.load().grant()
    assert json.loads((kube.folder / "info").read_text())["kind"] == "ExecCredential"


# Which program it is


def test_path_of_the_kubeconfig_does_not_choose_the_plugin(
    kube: Kube, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is the caller's PATH that counts; the configured one is for what the plugin itself runs."""
    kube.program("good/tool", "good")
    kube.program("evil/tool", "evil")
    monkeypatch.setenv("PATH", f"{kube.folder}/good:{os.environ['PATH']}")
    kube.exec("tool", env=[{"name": "PATH", "value": f"{kube.folder}/evil"}])
    assert kube.token() == "good"
    assert kube.ran == ["good"]


LIBRARY = """
#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>
__attribute__((constructor)) static void load(void) {
    const char *mark = getenv("MARK");
    if (mark) close(open(mark, O_CREAT | O_WRONLY, 0600));
}
"""


@linux
def test_a_preloaded_library_reaches_the_plugin_alone_and_only_from_a_trusted_file(kube: Kube) -> None:
    """LD_PRELOAD of a kubeconfig is code that runs, so it takes the same trust as the command."""
    library, mark = kube.folder / "evil.so", kube.folder / "loaded"
    command = [need("cc"), "-shared", "-fPIC", "-w", "-x", "c", "-", "-o", str(library)]
    subprocess.run(command, input=LIBRARY.encode(), check=True)
    env = [{"name": "LD_PRELOAD", "value": str(library)}, {"name": "MARK", "value": str(mark)}]
    kube.exec(kube.program("plugin"), env=env)
    with pytest.raises(PolicyError):
        kube.load(mode=0o666)
    assert not mark.exists()
    assert kube.token() == "t"
    assert mark.exists()
    assert "LD_PRELOAD" not in os.environ
    assert str(library) not in Path("/proc/self/maps").read_text()


@pytest.mark.parametrize("command", ["./tool", "bin/../tool", "../kube/tool"])
def test_a_relative_command_counts_from_the_file_and_not_from_here(
    kube: Kube, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, command: str
) -> None:
    """Whoever lures us into their folder does not choose the program."""
    kube.program("tool", "good")
    here = tmp_path / "here" / "kube"
    here.mkdir(parents=True)
    Kube(here).program("tool", "evil")
    monkeypatch.chdir(here)
    monkeypatch.setenv("PATH", f".:{here}")
    assert kube.exec(command).token() == "good"
    assert not (here / "ran").exists()


@pytest.mark.parametrize("entry", [".", "", "bin", "./bin", "bin/../bin"])
def test_a_relative_entry_of_path_does_not_run_what_lies_around(
    kube: Kube, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, entry: str
) -> None:
    """Reported as not found, even though a good one would come later: as in Go, the first one decides."""
    here = tmp_path / "here"
    here.mkdir()
    evil = Kube(here)
    evil.program(os.path.join(entry, "tool"), "evil")
    kube.program("good/tool", "good")
    monkeypatch.chdir(here)
    monkeypatch.setenv("PATH", f"{entry}:{kube.folder}/good")
    with pytest.raises(ClusterAuthError) as caught:
        kube.exec("tool").token()
    assert isinstance(caught.value.cause, PluginNotFoundError)
    assert (evil.ran, kube.ran) == ([], [])


# Which programs may run

# The table of the enhancement proposal: an entry, a command, and whether the one allows the other, where
# "tool" is first found in A and A comes before B in PATH.
ALLOWED = [
    pytest.param("tool", "tool", True, id="name, name"),
    pytest.param("{A}/tool", "tool", True, id="path, name that leads there"),
    pytest.param("{B}/tool", "tool", False, id="path, name that leads elsewhere"),
    pytest.param("tool", "{A}/tool", True, id="name, path it leads to"),
    pytest.param("tool", "{B}/tool", False, id="name, path it does not lead to"),
    pytest.param("{A}/tool", "{A}/tool", True, id="path, same path"),
    pytest.param("{A}/tool", "{B}/tool", False, id="path, other path"),
    pytest.param("{A}/tool", "{A}/other", False, id="path, other name"),
    pytest.param("other", "tool", False, id="name, other name"),
    pytest.param("{A}/tool", "{A}/../{a}/tool", True, id="path, same path in another spelling"),
    pytest.param("{A}/tool", "{A}/link", False, id="path, link to it"),
    pytest.param("{A}/link", "{A}/link", True, id="link, same link"),
    pytest.param("TOOL", "tool", False, id="other case"),
    pytest.param("{A}", "{A}/tool", False, id="folder, program in it"),
]


@pytest.mark.parametrize(("entry", "command", "allowed"), ALLOWED)
def test_an_allowlist_allows_what_it_names_and_nothing_else(
    kube: Kube,
    monkeypatch: pytest.MonkeyPatch,
    entry: str,
    command: str,
    allowed: bool,  # noqa: FBT001 - of the table
) -> None:
    names = {"A": str(kube.folder / "first"), "B": str(kube.folder / "second"), "a": "first"}
    for folder in ("first", "second"):
        kube.program(f"{folder}/tool", folder)
        kube.program(f"{folder}/other", folder)
    (kube.folder / "first" / "link").symlink_to("tool")
    monkeypatch.setenv("PATH", f"{names['A']}:{names['B']}:{os.environ['PATH']}")
    kube.exec(command.format(**names))
    policy = listing(entry.format(**names))
    if allowed:
        assert kube.token(policy) in ("first", "second")
        return
    with pytest.raises(ClusterAuthError, match="allowlist") as caught:
        kube.token(policy)
    assert isinstance(caught.value.cause, PolicyError)
    assert kube.ran == []


@pytest.mark.parametrize(
    "policy",
    [
        PluginPolicy("Allowlist", ()),
        PluginPolicy("Allowlist"),
        PluginPolicy("Allowlist", (AllowlistEntry(""),)),
    ],
    ids=["empty", "missing", "empty entry"],
)
def test_an_allowlist_that_names_nothing_is_refused_and_opens_nothing(
    kube: Kube, policy: PluginPolicy
) -> None:
    with pytest.raises(PolicyError):
        kube.exec(kube.program("plugin")).load(policy)
    assert kube.ran == []


KUBERC = "apiVersion: kubectl.config.k8s.io/v1beta1\nkind: Preference\ncredentialPluginPolicy: Allowlist\n"


@pytest.mark.parametrize(
    ("entry", "allowed"),
    [
        ("{{name: {good}}}", True),
        ("{{command: {good}, name: {good}}}", True),
        ("{{command: {good}, name: /bin/sh}}", None),
        ("{{command: /bin/sh, name: {good}}}", None),
    ],
    ids=["name", "both the same", "both, differing", "both, differing the other way"],
)
def test_an_entry_with_two_names_allows_neither_unless_they_agree(
    kube: Kube,
    monkeypatch: pytest.MonkeyPatch,
    entry: str,
    allowed: bool | None,  # noqa: FBT001 - of the table
) -> None:
    kuberc = kube.folder / "kuberc"
    good = kube.program("plugin")
    kuberc.write_text(KUBERC + "credentialPluginAllowlist: [" + entry.format(good=good) + "]\n")
    monkeypatch.setenv("KUBERC", str(kuberc))
    path = kube.exec(good).write()
    if allowed:
        load_cluster(kubeconfig=path).grant()
        return
    with pytest.raises(ConfigError, match="differ"):
        load_cluster(kubeconfig=path)
    assert kube.ran == []


def test_a_kubeconfig_cannot_bring_its_own_policy(kube: Kube) -> None:
    kube.exec(kube.program("plugin"))
    document = json.loads(kube.write().read_text())
    document |= {"credentialPluginPolicy": "AllowAll", "kind": "Config"}
    document["users"][0]["user"]["exec"] |= {"policy": "AllowAll", "PluginPolicy": {"PolicyType": "AllowAll"}}
    kube.path.write_text(json.dumps(document))
    with pytest.raises(ClusterAuthError, match="DenyAll"):
        load_cluster(kubeconfig=kube.path, policy=PluginPolicy("DenyAll")).grant()
    assert kube.ran == []


# Pinned programs


def digest(path: str) -> str:
    return hashlib.sha256(Path(path).read_bytes()).hexdigest()


@linux
def test_a_pinned_program_that_was_changed_is_not_run(kube: Kube) -> None:
    plugin = kube.program("plugin", "good")
    policy = listing(AllowlistEntry(plugin, digest(plugin)))
    kube.exec(plugin)
    assert kube.token(policy) == "good"
    kube.program("plugin", "evil")
    with pytest.raises(ClusterAuthError, match="which the allowlist does not name"):
        kube.exec(plugin, args=["new"]).token(policy)
    assert kube.ran == ["good"]


@linux
def test_the_program_that_was_checked_is_the_one_that_runs_however_often_the_path_is_switched(
    kube: Kube,
) -> None:
    """A link that goes to and fro between a good and an evil program never makes the evil one run."""
    good, evil = kube.program("good", "good"), kube.program("evil", "evil")
    link = kube.folder / "plugin"
    link.symlink_to(good)
    policy = listing(AllowlistEntry(str(link), digest(good)))
    pid = os.fork()
    if not pid:
        try:
            while True:
                for target in (evil, good):
                    os.symlink(target, kube.folder / "next")
                    os.replace(kube.folder / "next", link)
        finally:
            os._exit(0)
    outcomes = {"run": 0, "refused": 0}

    def attempt(number: int) -> None:
        kube.exec(str(link), args=[str(number)])
        token, cause = "", None
        try:
            token = kube.token(policy)
        except ClusterAuthError as error:
            cause = error.cause
        assert token == "good" or isinstance(cause, PolicyError)
        outcomes["run" if token else "refused"] += 1

    try:
        numbers = iter(range(10_000))
        wait_until(lambda: attempt(next(numbers)) or (min(outcomes.values()) > 10), "both outcomes")  # type: ignore[func-returns-value] # called for its effect
    finally:
        os.kill(pid, 9)
        os.waitpid(pid, 0)
    assert set(kube.ran) == {"good"}


@linux
def test_a_pin_cannot_be_given_by_the_kubeconfig(kube: Kube) -> None:
    plugin = kube.program("plugin")
    kube.exec(plugin, sha256=digest(plugin))
    with pytest.raises(ClusterAuthError, match="which the allowlist does not name"):
        kube.token(listing(AllowlistEntry(plugin, "0" * 64)))
    assert kube.ran == []
