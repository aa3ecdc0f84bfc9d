"""A kubeconfig is followed only if nobody else could have written it."""

from __future__ import annotations

import base64
import contextlib
import grp
import json
import os
import pwd
import shlex
import shutil
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from keyferry.clusters.kubeconfig.trust import is_private, why_untrusted
from support.api_server import ApiServer, running_proxy
from support.certificates import Authority
from support.commands import run_in_process
from support.kube import TOKEN, Kube
from support.kube_commands import keyferry_kube
from support.parts import need, root

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="POSIX permissions")
NOBODY = 65534
NO_GROUP = 54_321


@pytest.fixture
def config(tmp_path: Path) -> Path:
    """A kubeconfig of our own in a folder of our own."""
    folder = tmp_path / "kube"
    folder.mkdir(mode=0o700)
    path = folder / "config"
    path.touch(mode=0o600)
    return path


@pytest.fixture
def shared() -> Iterator[Path]:
    """A sticky folder that every user can reach and write, as /tmp is."""
    folder = Path(tempfile.mkdtemp())
    folder.chmod(0o1777)
    yield folder
    shutil.rmtree(folder)


def judge(path: Path | str) -> str:
    """The verdict on a path that is read now."""
    with open(os.open(path, os.O_RDONLY | os.O_NONBLOCK), "rb") as stream:
        return why_untrusted(str(path), os.fstat(stream.fileno()))


@contextlib.contextmanager
def acting_as(uid: int) -> Iterator[None]:
    os.seteuid(uid)
    try:
        yield
    finally:
        os.seteuid(0)


@contextlib.contextmanager
def pipe(uid: int | None = None) -> Iterator[Path]:
    """The path of a pipe without a name, made by a user."""
    with acting_as(uid) if uid is not None else contextlib.nullcontext():
        ends = os.pipe()
    try:
        yield Path(f"/dev/fd/{ends[0]}")
    finally:
        for end in ends:
            os.close(end)


# The file itself


@pytest.mark.parametrize(
    ("mode", "verdict"),
    [
        *((mode, "") for mode in (0o600, 0o644, 0o400, 0o755)),
        *((mode, "everybody can write it") for mode in (0o602, 0o666, 0o777)),
    ],
    ids=lambda value: f"{value:o}" if isinstance(value, int) else "",
)
def test_a_file_that_only_its_owner_writes_is_trusted(config: Path, mode: int, verdict: str) -> None:
    config.chmod(mode)
    assert judge(config) == verdict


@root
def test_a_file_of_root_is_trusted_by_everybody_and_that_of_another_by_its_owner(shared: Path) -> None:
    path = shared / "config"
    path.touch(mode=0o644)
    with acting_as(NOBODY):
        assert judge(path) == ""
    os.chown(path, 12_345, -1)
    assert judge(path) == "it belongs to user 12345"
    with acting_as(NOBODY):
        assert judge(path) == "it belongs to user 12345"


# What is no file


@pytest.mark.parametrize(
    ("path", "verdict"),
    [("pipe", "a named pipe"), ("/dev/null", "a device"), ("socket", "a socket"), ("", "not a file")],
)
def test_what_is_no_file_is_not_trusted_even_if_it_is_ours(config: Path, path: str, verdict: str) -> None:
    os.mkfifo(config.parent / "pipe", 0o600)
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(config.parent / "socket"))
        found = config.parent / path
        assert why_untrusted(str(found), found.stat()) == f"it is {verdict}, expected a regular file"


def test_a_named_pipe_that_has_lost_its_name_is_still_none_of_a_shells(config: Path) -> None:
    config.unlink()
    os.mkfifo(config, 0o600)
    with open(os.open(config, os.O_RDONLY | os.O_NONBLOCK), "rb") as stream:
        config.unlink()
        read = os.fstat(stream.fileno())
        found = why_untrusted(f"/dev/fd/{stream.fileno()}", read)
    assert found == "it is a named pipe, expected a regular file"


def test_an_unnamed_pipe_of_our_own_is_trusted() -> None:
    """As a shell makes one for ``<(...)``, and for what stands before ``|``."""
    with pipe() as path:
        assert judge(path) == ""


@root
def test_an_unnamed_pipe_of_somebody_else_is_not_trusted() -> None:
    with pipe(NOBODY) as path:
        assert judge(path) == f"it belongs to user {NOBODY}"


@root
def test_somebody_elses_link_to_a_pipe_of_ours_is_not_trusted(shared: Path) -> None:
    """They would choose which of our descriptors is read as a kubeconfig."""
    link = shared / "config"
    with pipe() as path:
        link.symlink_to(path)
        os.chown(link, NOBODY, -1, follow_symlinks=False)
        assert judge(link) == f"the link {link} belongs to user {NOBODY}"


@pytest.mark.skipif(sys.platform != "linux", reason="opens the file of a descriptor again")
def test_a_file_without_a_name_that_a_shell_hands_on_is_trusted(config: Path) -> None:
    """A here-document of some shells."""
    with config.open("rb") as stream:
        config.unlink()
        assert judge(f"/dev/fd/{stream.fileno()}") == ""


# Groups


@root
@pytest.mark.parametrize("mode", [0o620, 0o660, 0o664])
def test_a_file_that_a_group_can_write_is_not_trusted(config: Path, mode: int) -> None:
    os.chown(config, -1, NO_GROUP)
    config.chmod(mode)
    assert judge(config) == f"group {NO_GROUP} can write it"


def members(group: grp.struct_group) -> set[str]:
    return {*group.gr_mem, *(user.pw_name for user in pwd.getpwall() if user.pw_gid == group.gr_gid)}


def give(folder: Path, user: pwd.struct_passwd, gid: int) -> Path:
    """A file of a user that a group can write."""
    path = folder / "config"
    path.touch()
    path.chmod(0o664)
    os.chown(path, user.pw_uid, gid)
    return path


@root
def test_a_private_group_lets_nobody_else_in(shared: Path) -> None:
    """What a umask of 002 leaves behind where every user has a group."""
    user = next(
        user
        for user in pwd.getpwall()
        if user.pw_uid and members(grp.getgrgid(user.pw_gid)) == {user.pw_name}
    )
    path = give(shared, user, user.pw_gid)
    with acting_as(user.pw_uid):
        assert judge(path) == ""
    with acting_as(NOBODY):
        assert judge(path) == f"it belongs to user {user.pw_uid}"
    os.chown(path, 0, -1)
    with acting_as(NOBODY):
        assert judge(path) == f"group {user.pw_gid} can write it"


USERS = tuple(
    pwd.struct_passwd((name, "x", uid, gid, "", "/", "/bin/sh"))
    for name, uid, gid in (("root", 0, 0), ("jane", 1000, 1000), ("joe", 1001, 1001), ("ann", 1002, 1001))
)


@pytest.mark.parametrize(
    ("gid", "listed", "private"),
    [
        pytest.param(1000, [], True, id="her own"),
        pytest.param(1000, ["jane"], True, id="her own, and listed"),
        pytest.param(1000, ["jane", "root"], True, id="root beside her"),
        pytest.param(1000, ["joe"], False, id="another is listed"),
        pytest.param(1000, ["who"], False, id="somebody unknown is listed"),
        pytest.param(50, ["jane"], True, id="she is listed alone"),
        pytest.param(50, [], False, id="no member"),
        pytest.param(0, [], True, id="root's"),
        pytest.param(1001, [], False, id="others have it for their own"),
        pytest.param(1001, ["jane"], False, id="she is listed beside them"),
    ],
)
def test_a_group_is_private_if_its_members_are_the_user_and_root(
    gid: int,
    listed: list[str],
    private: bool,
) -> None:
    assert is_private(gid, listed, USERS, 1000) is private


# The folders above, and links


def test_every_folder_above_counts(config: Path) -> None:
    """Who can replace a folder can replace all that is in it."""
    for folder in (config.parent, config.parent.parent):
        folder.chmod(0o777)
        assert judge(config) == f"everybody can write its folder {folder}"
        folder.chmod(0o700)


@root
def test_a_folder_that_a_group_can_write_lets_the_group_replace_the_file(config: Path) -> None:
    os.chown(config.parent, -1, NO_GROUP)
    config.parent.chmod(0o770)
    assert judge(config) == f"group {NO_GROUP} can write its folder {config.parent}"


@root
def test_a_file_below_somebody_elses_folder_is_not_trusted(config: Path) -> None:
    """They can put another one in its place, sticky or not."""
    for folder in (config.parent, config.parent.parent):
        os.chown(folder, NOBODY, -1)
        folder.chmod(0o1755)
        assert judge(config) == f"its folder {folder} belongs to user {NOBODY}"
        os.chown(folder, 0, -1)


def test_a_sticky_folder_such_as_tmp_protects_what_is_in_it(config: Path) -> None:
    config.parent.chmod(0o1777)
    assert judge(config) == ""


@root
def test_somebody_elses_link_in_a_sticky_folder_is_not_trusted(config: Path, shared: Path) -> None:
    """They choose the folder that the relative paths of our own file count from."""
    link = shared / "config"
    link.symlink_to(config)
    assert judge(link) == ""
    os.chown(link, NOBODY, -1, follow_symlinks=False)
    assert judge(link) == f"the link {link} belongs to user {NOBODY}"


def test_a_link_is_as_good_as_what_it_leads_to(config: Path, tmp_path: Path) -> None:
    """Whoever can replace the file behind the link decides, and whoever can replace the link."""
    home = tmp_path / "home"
    home.mkdir(mode=0o700)
    link = home / "config"
    link.symlink_to(config)
    assert judge(link) == ""
    home.chmod(0o777)
    assert judge(link) == f"everybody can write its folder {home}"
    home.chmod(0o700)
    config.parent.chmod(0o777)
    assert judge(link) == f"everybody can write its folder {config.parent}"
    config.parent.chmod(0o700)
    config.chmod(0o666)
    assert judge(link) == "everybody can write it"


@pytest.mark.parametrize("absolute", [True, False])
def test_of_links_that_lead_to_links_every_folder_counts(
    config: Path,
    tmp_path: Path,
    absolute: bool,
) -> None:
    """Also one in the middle, which neither the first name nor the last one shows."""
    for name in ("first", "middle"):
        (tmp_path / name).mkdir(mode=0o700)
    (tmp_path / "middle" / "kube").symlink_to(config.parent if absolute else "../kube")
    link = tmp_path / "first" / "config"
    link.symlink_to(tmp_path / "middle/kube/config" if absolute else "../middle/./kube//config")
    assert judge(link) == ""
    (tmp_path / "middle").chmod(0o777)
    assert judge(link) == f"everybody can write its folder {tmp_path}/middle"


def test_two_dots_lead_out_of_where_a_link_leads(config: Path, tmp_path: Path) -> None:
    """And not back to where the link stands, which the name alone would suggest."""
    inside = tmp_path / "deep" / "inside"
    inside.mkdir(parents=True, mode=0o700)
    (tmp_path / "deep" / "config").touch(mode=0o600)
    (config.parent / "link").symlink_to(inside)
    path = f"{config.parent}/link/../config"
    assert judge(path) == ""
    (tmp_path / "deep").chmod(0o777)
    assert judge(path) == f"everybody can write its folder {tmp_path}/deep"


def test_a_relative_path_counts_from_here(config: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(config.parent)
    assert judge("config") == ""
    config.parent.chmod(0o777)
    assert judge("config") == f"everybody can write its folder {config.parent}"


# What cannot be judged


def test_a_file_that_is_gone_is_not_trusted(config: Path) -> None:
    read = config.stat()
    config.unlink()
    assert why_untrusted(str(config), read) == "it was removed while it was read"


def test_a_file_that_is_another_by_now_is_not_trusted(config: Path) -> None:
    """The folders that were looked at need not be those that it was read from."""
    with open(config, "rb") as stream:
        other = config.parent / "other"
        other.touch(mode=0o600)
        other.replace(config)
        found = why_untrusted(str(config), os.fstat(stream.fileno()))
    assert found == "it was replaced while it was read"


def test_links_without_an_end_are_not_trusted(config: Path) -> None:
    read = config.stat()
    config.unlink()
    config.symlink_to(config)
    assert why_untrusted(str(config), read).startswith("its owner and mode cannot be read: ")


@pytest.mark.parametrize(("links", "is_trusted"), [(40, True), (41, False)])
def test_as_many_links_are_followed_as_the_kernel_follows(config: Path, links: int, is_trusted: bool) -> None:
    for number in range(links):
        (config.parent / f"link{number}").symlink_to(f"link{number - 1}" if number else config.name)
    found = why_untrusted(str(config.parent / f"link{links - 1}"), config.stat())
    assert (not found) is is_trusted, found


@pytest.mark.parametrize("target", ["", "absent/config"], ids=["no link", "link"])
def test_a_path_into_nothing_is_not_trusted_even_for_a_pipe(config: Path, target: str) -> None:
    """A pipe has no name, but the link to it is there, and so are the folders of it."""
    path = config.parent / "path"
    if target:
        path.symlink_to(target)
    with pipe() as own:
        assert why_untrusted(str(path), own.stat()) == "it was removed while it was read"


@root
def test_a_path_that_cannot_be_followed_is_not_trusted(config: Path) -> None:
    read = config.stat()
    with acting_as(NOBODY):
        found = why_untrusted(str(config), read)
    assert found == "its owner and mode cannot be read: permission denied"


def keyferry(*words: str) -> str:
    return shlex.join([sys.executable, "-m", "keyferry", "kube", *words])


@pytest.mark.parametrize(
    "line",
    [
        "{keyferry} --kubeconfig <(cat {config})",
        "cat {config} | {keyferry} --kubeconfig /dev/stdin",
        "{keyferry} --kubeconfig /dev/stdin <{config}",
        '{keyferry} --kubeconfig /dev/stdin <<<"$(cat {config})"',
    ],
)
def test_what_a_shell_hands_on_is_ones_own(kube: Kube, server: ApiServer, line: str) -> None:
    bash = need("bash")
    words = {"keyferry": keyferry("raw", "/version"), "config": kube.path}
    done = subprocess.run(
        [bash, "-c", line.format(**words)],
        env={**os.environ, "HOME": str(kube.folder), "KUBERC": "off"},
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert (kube.runs(), server.seen[0].token) == (1, TOKEN)


def test_an_allowlist_does_not_let_a_file_of_others_run_what_it_names(kube: Kube) -> None:
    kuberc = kube.folder / "kuberc"
    kuberc.write_text(
        "apiVersion: kubectl.config.k8s.io/v1beta1\nkind: Preference\ncredentialPluginPolicy: Allowlist\n"
        f"credentialPluginAllowlist: [{{command: {kube.folder}/plugin}}]\n"
    )
    assert keyferry_kube(kube, "raw", "/version", KUBERC=str(kuberc)).returncode == 0
    kube.path.chmod(0o666)
    done = keyferry_kube(kube, "raw", "/version", KUBERC=str(kuberc))
    assert (done.returncode, kube.runs()) == (3, 1)
    assert f"is named by {kube.path}, which is not trusted: everybody can write it" in done.stderr
    assert keyferry_kube(kube, "raw", "/version", "--trust", KUBERC=str(kuberc)).returncode == 0


class Foreign:
    """A kubeconfig that everybody can write, with a context for our user and a cluster of its own."""

    def __init__(self, kube: Kube, cluster: dict[str, object]) -> None:
        self.kube, self.path = kube, kube.folder / "foreign"
        document = {
            "current-context": "theirs",
            "contexts": [{"name": "theirs", "context": {"cluster": "theirs", "user": "test"}}],
            "clusters": [{"name": "theirs", "cluster": cluster}],
        }
        self.path.write_text(json.dumps(document))
        self.path.chmod(0o666)

    def run(self, *words: str) -> subprocess.CompletedProcess[str]:
        """A subcommand with the file of the others before our own."""
        listed = f"{self.path}{os.pathsep}{self.kube.path}"
        return run_in_process("kube", *words, KUBECONFIG=listed, HOME=str(self.kube.folder), KUBERC="off")


@pytest.fixture
def evil(authority: Authority) -> dict[str, object]:
    """The authority as a field of a cluster."""
    return {"certificate-authority-data": base64.b64encode(authority.pem.encode()).decode()}


def test_a_server_that_a_file_of_others_names_gets_no_token(
    kube: Kube, server: ApiServer, evil: dict[str, object]
) -> None:
    foreign = Foreign(kube, {"server": server.url, **evil})
    done = foreign.run("raw", "/version")
    assert (done.returncode, kube.runs(), server.seen) == (3, 0, [])
    assert (
        f"server {server.url!r}, which would get the credential of user 'test' of {kube.path}" in done.stderr
    )
    assert f"is named by {foreign.path}, which is not trusted: everybody can write it" in done.stderr
    assert "--trust" in done.stderr
    assert foreign.run("raw", "/version", "--trust").returncode == 0
    assert server.seen[0].token == TOKEN


def test_a_server_that_a_file_of_others_names_gets_no_token_that_is_given(
    kube: Kube, server: ApiServer, authority: Authority
) -> None:
    """The file names cluster and user, so that nothing of another file is sent; but the token is the caller's."""
    kube.write(server.url, ca=authority.pem, user={"token": "known to the writer"})
    kube.path.chmod(0o666)
    done = keyferry_kube(kube, "raw", "/version", "--token", TOKEN)
    assert (done.returncode, server.seen) == (3, [])
    assert f"server {server.url!r}, which would get the token that is given" in done.stderr
    assert TOKEN not in done.stderr
    assert keyferry_kube(kube, "raw", "/version", "--token", TOKEN, "--trust").returncode == 0


def test_a_proxy_that_a_file_of_others_names_is_not_asked(
    kube: Kube, server: ApiServer, evil: dict[str, object]
) -> None:
    with running_proxy() as proxy:
        foreign = Foreign(kube, {"server": server.url, "proxy-url": f"http://{proxy.address}", **evil})
        assert foreign.run("raw", "/version").returncode == 3
        assert (proxy.told, server.seen) == ([], [])
        assert foreign.run("raw", "/version", "--trust").returncode == 0
        assert len(proxy.told) == 1


def explain(done: subprocess.CompletedProcess[str]) -> tuple[int, dict[str, str], dict[str, str]]:
    """The exit code, the traps, and what is said of each file."""
    document = json.loads(done.stdout)
    traps = {trap["outcome"]: trap["text"] for trap in document["traps"]}
    files = {each["subject"]: each["text"] for each in document["reasons"] if each["stage"] == "file"}
    return done.returncode, traps, files


def test_explain_tells_which_file_is_not_followed_and_why(
    kube: Kube, server: ApiServer, evil: dict[str, object]
) -> None:
    foreign = Foreign(kube, {"server": server.url, **evil})
    for words, code in ((("--no-run",), 3), (("--trust",), 0)):
        found, traps, files = explain(foreign.run("explain", "-o", "json", *words))
        assert found == code
        assert files == {
            str(foreign.path): "read; another user could have written it: everybody can write it",
            str(kube.path): "read",
        }
        assert "kubectl sends it there nevertheless, keyferry only with --trust" in traps["untrusted-file"]
    text = foreign.run("explain", "-o", "wide").stdout
    assert "✗ refused: server" in text
    assert "✓ file" in text


def test_explain_of_a_token_file_that_a_file_of_others_names(kube: Kube, server: ApiServer) -> None:
    (kube.folder / "token").write_text(TOKEN)
    kube.write(server.url, user={"tokenFile": "token"})
    code, traps, _ = explain(keyferry_kube(kube, "explain", "-o", "json", "--no-run"))
    assert (code, "untrusted-file" in traps) == (0, False)
    kube.path.chmod(0o666)
    code, traps, _ = explain(keyferry_kube(kube, "explain", "-o", "json"))
    assert (code, server.seen) == (3, [])
    assert f"credential file '{kube.folder}/token' is named by {kube.path}" in traps["untrusted-file"]
    assert "kubectl reads it nevertheless" in traps["untrusted-file"]
