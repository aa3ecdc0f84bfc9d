"""Kubeconfigs that somebody else wrote: what they make run, read and send, and what they cannot."""

from __future__ import annotations

import base64
import contextlib
import hashlib
import json
import os
import re
import shlex
import shutil
import socket
import subprocess
import sys
import tempfile
import threading
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any, Self

import pytest

from keyferry.clusters.kubeconfig.files import load_kubeconfig
from keyferry.clusters.kubeconfig.resolve import check_transport, resolve
from keyferry.clusters.session import ClusterSession, load_cluster
from keyferry.errors import ClusterAuthError, ConfigError, KeyferryError, PluginNotFoundError, PolicyError
from keyferry.invoke.policy import AllowlistEntry, PluginPolicy
from support.adapters_under_test import DRIVERS
from support.certificates import key_pem, make_certificate, make_key
from support.parts import need, root
from support.plugins import wait_until, write_executable
from support.terminal import PROMPT, run_on_terminal

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="runs shell scripts")
linux = pytest.mark.skipif(sys.platform != "linux", reason="Linux alone has these")

Json = dict[str, Any]
V1 = "client.authentication.k8s.io/v1"
SECRET = "Zq7marked-S3cret9vX"
ALLOW = PluginPolicy()
# A user and a group that nobody here is, or is in.
STRANGER, STRANGERS = 65_534, 54_321


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

    def exec(self, command: str, **fields: object) -> Kube:
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
        policy_type="Allowlist",
        allowlist=tuple(
            each if isinstance(each, AllowlistEntry) else AllowlistEntry(command=each) for each in entries
        ),
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


def make_shared(kube: Kube) -> None:
    """A group of others can write it."""
    os.chown(kube.path, -1, STRANGERS)
    kube.path.chmod(0o660)


def make_folder_shared(kube: Kube) -> None:
    os.chown(kube.folder, -1, STRANGERS)
    kube.folder.chmod(0o770)


def make_replaceable_from_above(kube: Kube) -> None:
    kube.folder.parent.chmod(0o777)


def make_foreign_above(kube: Kube) -> None:
    """The folder above the folder is somebody else's, who can replace all that is below."""
    os.chown(kube.folder.parent, STRANGER, -1)


def make_foreign_link(kube: Kube) -> None:
    """In a sticky folder, as /tmp is, the owner of a link can lead it elsewhere."""
    kube.folder.chmod(0o1777)
    kube.path.rename(kube.folder / "real")
    kube.path.symlink_to("real")
    os.chown(kube.path, STRANGER, -1, follow_symlinks=False)


@pytest.mark.parametrize(
    "spoil",
    [
        make_writable,
        make_replaceable,
        make_linked,
        make_replaceable_from_above,
        pytest.param(make_shared, marks=root),
        pytest.param(make_folder_shared, marks=root),
        pytest.param(make_foreign_above, marks=root),
        pytest.param(make_foreign_link, marks=root),
    ],
)
def test_a_plugin_of_an_untrusted_file_is_refused_before_it_is_run(
    kube: Kube, spoil: Callable[[Kube], None]
) -> None:
    kube.exec(kube.program("plugin")).write()
    spoil(kube)
    with pytest.raises(PolicyError, match="which is not trusted"):
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


def feed(path: Path | int, data: bytes, *, unlink: bool = False) -> threading.Thread:
    """Write *data* to a pipe as soon as somebody reads it; *unlink* its name before the first byte."""

    def write() -> None:
        with open(path, "wb") as stream:
            if unlink:
                os.unlink(str(path))
            stream.write(data)

    thread = threading.Thread(target=write, daemon=True)
    thread.start()
    return thread


class Flood:
    """A named pipe at *path*, into which bytes come for whoever reads, up to *most*; so many were *taken*."""

    def __init__(self, path: Path, most: int) -> None:
        self.most, self.taken = most, 0
        self._path, self._is_over = path, False
        os.mkfifo(path, 0o600)
        self._thread = threading.Thread(target=self._write, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._is_over = True
        while self._thread.is_alive():
            # The writer may wait for a reader, then or a moment later.
            os.close(os.open(self._path, os.O_RDONLY | os.O_NONBLOCK))
            self._thread.join(0.01)

    def _write(self) -> None:
        while not self._is_over and self.taken < self.most:
            # A reader may come only to see whether the file can be opened, and another after it.
            with contextlib.suppress(BrokenPipeError), open(self._path, "wb", buffering=0) as stream:
                while not self._is_over and self.taken < self.most:
                    self.taken += stream.write(b"a" * (1 << 16)) or 0


@pytest.mark.parametrize("unlink", [False, True])
def test_a_plugin_of_a_named_pipe_is_refused_whether_or_not_it_is_still_there(
    kube: Kube,
    unlink: bool,
) -> None:
    """Whose pipe it is says nothing of who writes into it; and what is gone cannot be looked at any more."""
    kube.exec(kube.program("plugin"))
    data = kube.write().read_bytes()
    kube.path.unlink()
    os.mkfifo(kube.path, 0o600)
    writer = feed(kube.path, data, unlink=unlink)
    with pytest.raises(PolicyError, match="it is a named pipe, expected a regular file"):
        load_cluster(kubeconfig=kube.path, policy=ALLOW)
    writer.join()
    assert kube.path.exists() is not unlink
    assert kube.ran == []


@root
def test_a_plugin_of_somebody_elses_pipe_is_refused_though_it_is_unlinked_while_it_is_read(
    kube: Kube,
) -> None:
    """A stranger's process in a sticky folder, as on any machine with a /tmp."""
    shared = Path(tempfile.mkdtemp())
    shared.chmod(0o1777)
    kube.exec(kube.program("plugin"))
    document = kube.write().read_text()
    script = (
        f"mkfifo -m 644 config && touch ready && {{ rm config; printf %s {shlex.quote(document)}; }} >config"
    )
    stranger = subprocess.Popen(["/bin/sh", "-c", script], cwd=shared, user=STRANGER)
    try:
        wait_until((shared / "ready").exists, "the stranger's pipe")
        assert (shared / "config").stat().st_uid == STRANGER
        with pytest.raises(PolicyError, match="which is not trusted"):
            load_cluster(kubeconfig=shared / "config", policy=ALLOW)
        assert not (shared / "config").exists()
    finally:
        stranger.kill()
        stranger.wait()
        shutil.rmtree(shared)
    assert kube.ran == []


def test_a_plugin_of_a_file_that_is_replaced_while_it_is_read_is_run_only_from_a_trusted_place(
    kube: Kube,
) -> None:
    """The verdict is on what was read, not on what stands there afterwards."""
    kube.exec(kube.program("plugin")).write()
    good, evil = kube.path.read_bytes(), kube.path.read_bytes().replace(b"Never", b"IfAvailable")
    shared = kube.folder / "shared"
    shared.mkdir()
    (shared / "evil").write_bytes(evil)
    (shared / "evil").chmod(0o666)
    kube.path.unlink()
    pid = os.fork()
    if not pid:
        try:
            while True:
                os.symlink(shared / "evil", kube.folder / "next")
                os.replace(kube.folder / "next", kube.path)
                (kube.folder / "next").write_bytes(good)
                (kube.folder / "next").chmod(0o600)
                os.replace(kube.folder / "next", kube.path)
        finally:
            os._exit(0)
    modes: list[str] = []
    refused: list[str] = []

    def attempt() -> bool:
        try:
            plugin = load_cluster(kubeconfig=kube.path, policy=ALLOW).config.exec
            modes.append(plugin.interactive_mode if plugin is not None else "")
        except PolicyError as error:
            refused.append(str(error))
        except ConfigError:
            pass  # not there yet
        return len(modes) > 20 and len(refused) > 20

    try:
        wait_until(attempt, "both outcomes")
    finally:
        os.kill(pid, 9)
        os.waitpid(pid, 0)
    assert set(modes) == {"Never"}


def test_a_plugin_of_a_shells_pipe_is_run(kube: Kube) -> None:
    """``--kubeconfig <(...)``: a pipe without a name, made by ourselves."""
    kube.exec(kube.program("plugin"))
    data = kube.write().read_bytes()
    kube.path.unlink()
    reading, writing = os.pipe()
    try:
        feed(writing, data).join()
        assert load_cluster(kubeconfig=f"/dev/fd/{reading}", policy=ALLOW).grant().headers
    finally:
        os.close(reading)
    assert kube.ran == ["t"]


@root
def test_a_plugin_of_a_pipe_that_somebody_else_made_is_refused(kube: Kube) -> None:
    kube.exec(kube.program("plugin"))
    data = kube.write().read_bytes()
    os.seteuid(STRANGER)
    try:
        reading, writing = os.pipe()
    finally:
        os.seteuid(0)
    try:
        feed(writing, data).join()
        with pytest.raises(PolicyError, match=f"it belongs to user {STRANGER}"):
            load_cluster(kubeconfig=f"/dev/fd/{reading}", policy=ALLOW)
    finally:
        os.close(reading)
    assert kube.ran == []


def test_a_kubeconfig_that_never_ends_is_refused(kube: Kube) -> None:
    """Before it has filled the memory: what comes after the limit is not read."""
    with (
        Flood(kube.path, 128 << 20) as flood,
        pytest.raises(ConfigError, match="the file is larger than 67108864 bytes"),
    ):
        load_cluster(kubeconfig=kube.path)
    assert 0 < flood.taken < flood.most


def test_a_refused_file_is_not_opened_by_a_static_token_that_is_empty(kube: Kube) -> None:
    """What stands beside exec in vain does not take it out of the check."""
    kube.user = {"token": "", "username": "", "as": "jane"}
    kube.exec(kube.program("plugin"))
    with pytest.raises(PolicyError):
        kube.load(mode=0o666)


# Files that a kubeconfig has read


@pytest.mark.parametrize("name", ["tokenFile", "client-key"])
def test_an_untrusted_file_does_not_have_our_files_read_for_its_server(kube: Kube, name: str) -> None:
    """A secret of one line is a token like any other, and would be sent to whomever the file names."""
    secret = kube.folder / "secret"
    secret.write_text(SECRET)
    secret.chmod(0o600)
    kube.user = {"tokenFile": str(secret)}
    if name == "client-key":
        kube.user = {"client-certificate": str(secret), "client-key": str(secret)}
    shown = shown_when(lambda: kube.load(mode=0o666))
    assert f"credential file {str(secret)!r}" in shown
    assert SECRET not in shown
    kube.load(mode=0o600)


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
def test_a_file_that_does_not_end_is_read_no_further_than_the_limit(kube: Kube, name: str) -> None:
    pipe = kube.folder / "pipe"
    target = kube.cluster if name == "certificate-authority" else kube.user
    target[name] = str(pipe)
    if name == "client-certificate":
        (kube.folder / "key").touch()
        target["client-key"] = "key"
    kube.write()
    loaded = load_kubeconfig(str(kube.path))
    with Flood(pipe, 64 << 20) as flood, pytest.raises(ConfigError, match="larger than 16777216 bytes"):
        check_transport(resolve(loaded))
    assert 0 < flood.taken < flood.most


def test_a_token_file_that_does_not_end_any_more_is_read_no_further_than_the_limit(kube: Kube) -> None:
    """The last token that was one goes on to be used."""
    path = kube.folder / "token"
    path.write_text(SECRET)
    kube.user = {"tokenFile": str(path)}
    session = kube.load()
    path.unlink()
    with Flood(path, 16 << 20) as flood:
        headers = session.grant().headers
    assert 0 < flood.taken < flood.most
    assert headers == (("Authorization", f"Bearer {SECRET}"),)


@pytest.mark.parametrize("name", ["tokenFile", "client-certificate", "certificate-authority"])
def test_a_file_that_is_not_there_is_an_error_at_its_place(kube: Kube, name: str) -> None:
    target = kube.cluster if name == "certificate-authority" else kube.user
    target[name] = "nope"
    if name == "client-certificate":
        target["client-key"] = "nope"
    with pytest.raises(ConfigError, match=name) as caught:
        kube.load()
    assert str(kube.folder / "nope") in str(caught.value)


# A terminal that somebody sits at


ALL_DOORS = """
import sys
sys.path[:0] = sys.argv[2:]
from keyferry.clusters.session import load_cluster
from keyferry.errors import ClusterAuthError
from keyferry.invoke.policy import PluginPolicy
from support.adapters_under_test import DRIVERS
for driver in DRIVERS:
    made = None
    try:
        made = driver(load_cluster(kubeconfig=sys.argv[1], policy=PluginPolicy()))
        made.get("/version")
    except ClusterAuthError as error:
        print(driver.name, error)
    if made is not None:
        made.close()
print("end")
"""
SUPPORT = str(Path(__file__).parents[1])


def encrypted_pair(form: str) -> tuple[str, str]:
    """A client certificate, and its key with a pass phrase."""
    key = make_key()
    return make_certificate(key), key_pem(key, form, "pass")


def as_data(text: str) -> str:
    return base64.b64encode(text.encode()).decode()


def claim_encrypted(pem: str) -> str:
    """A PEM block that says it is encrypted, so that OpenSSL asks for its pass phrase."""
    begin, _, rest = pem.partition("\n")
    return f"{begin}\nProc-Type: 4,ENCRYPTED\nDEK-Info: AES-256-CBC,{'0' * 32}\n\n{rest}"


def spoil_key(kube: Kube, form: str) -> None:
    certificate, key = encrypted_pair(form)
    kube.user = {"client-certificate-data": as_data(certificate), "client-key-data": as_data(key)}


def spoil_key_file(kube: Kube) -> None:
    certificate, key = encrypted_pair("pkcs8")
    (kube.folder / "key").write_text(key)
    kube.user = {"client-certificate-data": as_data(certificate), "client-key": "key"}


def spoil_plugin(kube: Kube) -> None:
    certificate, key = encrypted_pair("traditional")
    status = {"clientCertificateData": certificate, "clientKeyData": key}
    (kube.folder / "answer").write_text(
        json.dumps({"apiVersion": V1, "kind": "ExecCredential", "status": status})
    )
    kube.exec(str(write_executable(kube.folder / "plugin", f"#!/bin/sh\ncat {kube.folder}/answer\n")))


def spoil_certificate(kube: Kube) -> None:
    key = make_key()
    certificate = claim_encrypted(make_certificate(key))
    kube.user = {"client-certificate-data": as_data(certificate), "client-key-data": as_data(key_pem(key))}


def spoil_authority(kube: Kube) -> None:
    kube.user = {"token": "t"}
    kube.cluster["certificate-authority-data"] = as_data(claim_encrypted(make_certificate(make_key())))


CLIENT_KEY = "the client key or its certificate is encrypted"
ENCRYPTED: dict[str, tuple[Callable[[Kube], None], int, str]] = {
    "key": (lambda kube: spoil_key(kube, "pkcs8"), 3, CLIENT_KEY),
    "old form of key": (lambda kube: spoil_key(kube, "traditional"), 3, CLIENT_KEY),
    "key file": (spoil_key_file, 3, CLIENT_KEY),
    "plugin": (spoil_plugin, 4, "the key is encrypted"),
    "certificate": (spoil_certificate, 3, CLIENT_KEY),
    "authority": (spoil_authority, 3, "certificate-authority contains no valid PEM certificate"),
}


@linux
@pytest.mark.parametrize(("spoil", "code", "words"), ENCRYPTED.values(), ids=ENCRYPTED)
def test_nothing_that_is_encrypted_makes_anybody_ask_for_a_pass_phrase(
    kube: Kube, spoil: Callable[[Kube], None], code: int, words: str
) -> None:
    """On a real terminal, through every door: the one who sits there would type it to whoever wrote the file."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        kube.cluster["server"] = f"https://127.0.0.1:{listener.getsockname()[1]}"
        spoil(kube)
        path = str(kube.write())
        raw = (sys.executable, "-m", "keyferry", "kube", "raw", "/version", "--kubeconfig", path)
        status, shown = run_on_terminal(*raw, KUBERC="off", COLUMNS="1000")
        assert (status, PROMPT in shown) == (code, False), shown
        assert words in shown
        status, shown = run_on_terminal(sys.executable, "-c", ALL_DOORS, path, SUPPORT, COLUMNS="1000")
    assert (status, PROMPT in shown) == (0, False), shown
    assert shown.count(words) == len(DRIVERS), shown
    assert shown.rstrip().endswith("end")


@pytest.mark.parametrize("password", ["", "pass"], ids=["another's", "encrypted"])
def test_a_key_that_cannot_be_used_is_in_no_frame(kube: Kube, password: str) -> None:
    """Tracebacks with the locals of their frames are what crash reports are made of."""
    key = key_pem(make_key(), "pkcs8", password)
    certificate = make_certificate(make_key())
    kube.user = {"client-certificate-data": as_data(certificate), "client-key-data": as_data(key)}
    session = kube.load()
    secrets = key.splitlines()[1:-1]
    del key
    shown = shown_when(session.ssl_context)
    assert "cannot be used" in shown or "is encrypted" in shown
    assert not any(line in shown for line in secrets)


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
    with pytest.raises(ClusterAuthError, match="insecure-skip-tls-verify are both set"):
        kube.load().ssl_context()


class Listed:
    """KUBECONFIG with two files: a user of our own, and clusters that somebody else wrote."""

    def __init__(self, kube: Kube, monkeypatch: pytest.MonkeyPatch) -> None:
        self.kube = kube
        self.own, self.foreign = kube.folder / "own", kube.folder / "foreign"
        monkeypatch.setenv("KUBECONFIG", f"{self.foreign}{os.pathsep}{self.own}")

    def write(self, cluster: Json, user: Json) -> None:
        """The context and its cluster are in the file of the others, and come first."""
        own = {"users": [{"name": "u", "user": user}], "clusters": [{"name": "k", "cluster": {}}]}
        foreign = {
            "current-context": "c",
            "clusters": [{"name": "k", "cluster": cluster}],
            "contexts": [{"name": "c", "context": {"cluster": "k", "user": "u"}}],
        }
        self.own.write_text(json.dumps(own))
        self.foreign.write_text(json.dumps(foreign))
        self.own.chmod(0o600)
        self.foreign.chmod(0o666)


@pytest.fixture
def listed(kube: Kube, monkeypatch: pytest.MonkeyPatch) -> Listed:
    return Listed(kube, monkeypatch)


@pytest.mark.parametrize(
    "cluster",
    [
        {"server": "https://evil"},
        {"server": "https://k", "proxy-url": "http://evil:3128"},
        {"server": "https://k", "certificate-authority-data": base64.b64encode(b"evil").decode()},
        {"server": "https://k", "insecure-skip-tls-verify": True},
        {"server": "https://k", "tls-server-name": "evil"},
    ],
    ids=lambda cluster: list(cluster)[-1],
)
@pytest.mark.parametrize("means", ["exec", "token", "tokenFile", "basic", "certificate"])
def test_a_credential_of_ours_does_not_go_where_a_file_of_others_leads(
    listed: Listed, cluster: Json, means: str
) -> None:
    """Server, proxy and authority all come with the cluster's entry, and so from the file that has it."""
    (listed.kube.folder / "t").write_text(SECRET)
    data = base64.b64encode(SECRET.encode()).decode()
    plugin = {"command": listed.kube.program("plugin", SECRET), "apiVersion": V1, "interactiveMode": "Never"}
    users: dict[str, Json] = {
        "exec": {"exec": plugin},
        "token": {"token": SECRET},
        "tokenFile": {"tokenFile": "t"},
        "basic": {"username": "u", "password": SECRET},
        "certificate": {"client-certificate-data": data, "client-key-data": data},
    }
    listed.write(cluster, users[means])
    shown = shown_when(lambda: load_cluster(policy=ALLOW))
    assert f"is named by {listed.foreign}, which is not trusted: everybody can write it" in shown
    assert SECRET not in shown
    assert listed.kube.ran == []
    load_cluster(policy=ALLOW, trust=True)
    listed.foreign.chmod(0o600)
    load_cluster(policy=ALLOW)


@root
def test_a_credential_of_ours_does_not_go_to_the_server_of_somebody_elses_file(listed: Listed) -> None:
    listed.write({"server": "https://evil"}, {"token": SECRET})
    listed.foreign.chmod(0o644)
    os.chown(listed.foreign, STRANGER, -1)
    with pytest.raises(PolicyError, match=f"it belongs to user {STRANGER}"):
        load_cluster(policy=ALLOW)


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
    assert re.search(r"KUBERNETES_EXEC_INFO is \d+ bytes long, the system allows \d+ ", str(caught.value))
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
        assert not said or re.search(r"KUBERNETES_EXEC_INFO is \d+ bytes long, the system allows \d+ ", said)
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
    %s
}
"""


def compile_library(path: Path, statements: str) -> Path:
    """A library that does something as soon as it is loaded."""
    command = [need("cc"), "-shared", "-fPIC", "-w", "-x", "c", "-", "-o", str(path)]
    subprocess.run(command, input=(LIBRARY % statements).encode(), check=True)
    return path


@linux
def test_a_preloaded_library_reaches_the_plugin_alone_and_only_from_a_trusted_file(kube: Kube) -> None:
    """LD_PRELOAD of a kubeconfig is code that runs, so it takes the same trust as the command."""
    statements = 'char *mark = getenv("MARK"); if (mark) close(open(mark, O_CREAT | O_WRONLY, 0600));'
    library, mark = compile_library(kube.folder / "evil.so", statements), kube.folder / "loaded"
    env = [{"name": "LD_PRELOAD", "value": str(library)}, {"name": "MARK", "value": str(mark)}]
    kube.exec(kube.program("plugin"), env=env)
    with pytest.raises(PolicyError):
        kube.load(mode=0o666)
    assert not mark.exists()
    assert kube.token() == "t"
    assert mark.exists()
    assert "LD_PRELOAD" not in os.environ
    assert str(library) not in Path("/proc/self/maps").read_text()


@linux
@pytest.mark.parametrize("variable", ["PYTHONPATH", "LD_PRELOAD", "BASH_ENV", "PATH"])
@pytest.mark.parametrize("pinned", [True, False])
def test_an_allowlisted_program_is_not_run_with_the_variables_of_an_untrusted_file(
    kube: Kube,
    variable: str,
    pinned: bool,
) -> None:
    """Which program it is says nothing of what it does: each of these brings in code of whoever wrote the file."""
    command, value = intrusion(kube, variable)
    policy = listing(AllowlistEntry(command=command, sha256=digest(command) if pinned else ""))
    kube.exec(command, env=[{"name": variable, "value": value}])
    with pytest.raises(PolicyError, match="which is not trusted"):
        kube.load(policy, mode=0o666)
    assert not (kube.folder / "intruded").exists()
    # From a file of our own the variable is ours, and does what it says: nothing is left out.
    kube.load(policy).grant()
    assert (kube.folder / "intruded").exists()


def intrusion(kube: Kube, variable: str) -> tuple[str, str]:
    """A good program, and a value of *variable* with which it leaves a mark that is not its own."""
    evil, mark = kube.folder / "evil", kube.folder / "intruded"
    evil.mkdir()
    if variable == "PYTHONPATH":
        (evil / "json.py").write_text(f"open({str(mark)!r}, 'w')\ndef dumps(value): return {answer()!r}\n")
        text = f"#!{sys.executable}\nimport json\nprint(json.dumps(None))\n"
        return str(write_executable(kube.folder / "plugin", text)), str(evil)
    if variable == "PATH":
        write_executable(evil / "cat", f"#!/bin/sh\n: >{mark}\nexec /bin/cat\n")
        text = f"#!/bin/sh\ncat <<'X'\n{answer()}\nX\n"
        return str(write_executable(kube.folder / "plugin", text)), str(evil)
    if variable == "BASH_ENV":
        bash = need("bash")
        (evil / "rc").write_text(f": >{mark}\n")
        text = f"#!{bash}\nprintf %s {shlex.quote(answer())}\n"
        return str(write_executable(kube.folder / "plugin", text)), str(evil / "rc")
    library = compile_library(evil / "evil.so", f'close(open("{mark}", O_CREAT | O_WRONLY, 0600));')
    return kube.program("plugin"), str(library)


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
    assert isinstance(caught.value.underlying, PluginNotFoundError)
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
    allowed: bool,
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
    assert isinstance(caught.value.underlying, PolicyError)
    assert kube.ran == []


@pytest.mark.parametrize(
    "policy",
    [
        PluginPolicy(policy_type="Allowlist", allowlist=()),
        PluginPolicy(policy_type="Allowlist"),
        PluginPolicy(policy_type="Allowlist", allowlist=(AllowlistEntry(command=""),)),
        PluginPolicy(policy_type="AllowAll", allowlist=()),
        PluginPolicy(policy_type="", allowlist=()),
    ],
    ids=["empty", "missing", "empty entry", "empty beside AllowAll", "empty beside no policy"],
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
    allowed: bool | None,
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
        load_cluster(kubeconfig=kube.path, policy=PluginPolicy(policy_type="DenyAll")).grant()
    assert kube.ran == []


# Pinned programs


def digest(path: str) -> str:
    return hashlib.sha256(Path(path).read_bytes()).hexdigest()


@linux
def test_a_pinned_program_that_was_changed_is_not_run(kube: Kube) -> None:
    plugin = kube.program("plugin", "good")
    policy = listing(AllowlistEntry(command=plugin, sha256=digest(plugin)))
    kube.exec(plugin)
    assert kube.token(policy) == "good"
    kube.program("plugin", "evil")
    with pytest.raises(ClusterAuthError, match="which is not in the allowlist for it"):
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
    policy = listing(AllowlistEntry(command=str(link), sha256=digest(good)))
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
            cause = error.underlying
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
    with pytest.raises(ClusterAuthError, match="which is not in the allowlist for it"):
        kube.token(listing(AllowlistEntry(command=plugin, sha256="0" * 64)))
    assert kube.ran == []
