"""Who may run: client-go's policy, kubectl's kuberc, and programs pinned by their digest."""

from __future__ import annotations

import hashlib
import os
import sys
from pathlib import Path

import pytest

from keyferry import AllowlistEntry, ConfigError, PluginPolicy, PolicyError
from keyferry.invoke.executable import LookPathResult
from keyferry.invoke.kuberc import find_kuberc, load_kuberc
from keyferry.invoke.policy import Permit, open_pinned
from keyferry.invoke.run import Ending, run
from support.plugins import compile_program, write_executable

DIGEST = "a" * 64


def listing(*entries: str | AllowlistEntry) -> PluginPolicy:
    return PluginPolicy(
        policy_type="Allowlist",
        allowlist=tuple(AllowlistEntry(command=each) if isinstance(each, str) else each for each in entries),
    )


def decide(policy: PluginPolicy, command: str) -> Permit:
    """Decide about a command where every name leads to ``/bin/foo``."""
    return policy.decide(command, lambda _: LookPathResult(path="/bin/foo"))


# Validation: the texts are compared with Kubernetes' recorded answers, here is what is keyferry's own.
@pytest.mark.parametrize("digest", ["x", "a" * 63, "sha256:" + "a" * 64])
def test_a_digest_must_look_like_one(digest: str) -> None:
    with pytest.raises(PolicyError, match="64 hexadecimal digits"):
        listing(AllowlistEntry(command="foo", sha256=digest)).validate()


def test_a_digest_alone_names_no_program() -> None:
    with pytest.raises(PolicyError, match=r"entry 1 of the allowlist is '', expected '\.'"):
        listing(AllowlistEntry(command="", sha256=DIGEST)).validate()


def test_a_pinned_program_that_cannot_be_read_does_not_run(tmp_path: Path) -> None:
    (tmp_path / "loop").symlink_to("loop")
    with pytest.raises(PolicyError, match="cannot be read to check its digest: too many levels"):
        open_pinned(str(tmp_path / "loop"), {DIGEST})


def test_any_entry_that_fits_is_enough() -> None:
    """One entry without a digest opens the door; several with one are alternatives."""
    pinned = AllowlistEntry(command="foo", sha256=DIGEST), AllowlistEntry(command="/bin/foo", sha256="B" * 64)
    assert decide(listing(*pinned), "foo").digests == {DIGEST, "b" * 64}
    assert decide(listing(*pinned[:1], "/bin/foo"), "foo").digests == frozenset()


def test_a_digest_holds_however_the_entry_was_found() -> None:
    by_path = listing(AllowlistEntry(command="/bin/foo", sha256=DIGEST))
    by_name = listing(AllowlistEntry(command="foo", sha256=DIGEST))
    for policy, command in ((by_path, "foo"), (by_name, "/bin/foo"), (by_name, "foo"), (by_path, "/bin/foo")):
        assert decide(policy, command) == Permit(path="/bin/foo", problem="", digests=frozenset({DIGEST}))


def test_an_unknown_policy_allows_nothing() -> None:
    with pytest.raises(PolicyError):
        decide(PluginPolicy(policy_type="Nonsense"), "foo")


# Digests
linux = pytest.mark.skipif(sys.platform != "linux", reason="runs an open file through /proc")


def digest_of(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def run_pinned(path: Path, digest: str, *args: str) -> bytes:
    fd = open_pinned(str(path), [digest])
    try:
        # Whatever happens to the path now is of no consequence.
        write_executable(path, "#!/bin/sh\necho another\n")
        outcome = run((str(path), *args), program=fd, environ=os.environb)
    finally:
        os.close(fd)
    assert (outcome.ending, outcome.status) == (Ending.EXITED, 0)
    return outcome.stdout


@linux
def test_the_file_that_was_checked_is_the_one_that_runs(tmp_path: Path) -> None:
    """A script, whose interpreter opens it once more, although the path leads elsewhere by then."""
    script = write_executable(tmp_path / "plugin", '#!/bin/sh\necho "this one $1"\n')
    assert run_pinned(script, digest_of(script), "x") == b"this one x\n"


@linux
def test_a_compiled_program_runs_from_its_open_file(tmp_path: Path) -> None:
    source = '#include <stdio.h>\nint main(int n, char **v) { printf("%d %s", n, v[1]); return 0; }'
    program = compile_program(tmp_path / "plugin", source)
    assert run_pinned(program, digest_of(program), "x") == b"2 x"


@linux
def test_another_digest_is_refused(tmp_path: Path) -> None:
    script = write_executable(tmp_path / "plugin", "#!/bin/sh\n")
    before = len(os.listdir("/proc/self/fd"))
    with pytest.raises(PolicyError, match=f"has the SHA-256 {digest_of(script)}"):
        open_pinned(str(script), [DIGEST])
    assert len(os.listdir("/proc/self/fd")) == before


@linux
def test_what_is_no_regular_file_has_no_digest(tmp_path: Path) -> None:
    """A pipe in the program's place does not hold us up, and a folder is no program."""
    os.mkfifo(tmp_path / "pipe")
    for path in (tmp_path / "pipe", tmp_path):
        with pytest.raises(PolicyError, match="not a regular file"):
            open_pinned(str(path), [DIGEST])


@linux
def test_a_missing_file_is_no_matter_of_policy(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        open_pinned(str(tmp_path / "missing"), [DIGEST])


# kuberc


KUBERC = "apiVersion: kubectl.config.k8s.io/v1beta1\nkind: Preference\n"
LISTED = "credentialPluginPolicy: Allowlist\ncredentialPluginAllowlist: "


def kuberc(folder: Path, text: str) -> str:
    """Write a kuberc into a folder; return its path."""
    path = folder / "kuberc"
    path.write_text(text)
    return str(path)


@pytest.mark.parametrize(
    ("text", "policy"),
    [
        (KUBERC, PluginPolicy()),
        (KUBERC + "credentialPluginPolicy: DenyAll\n", PluginPolicy(policy_type="DenyAll")),
        (
            KUBERC.replace("v1beta1", "v1alpha1") + "credentialPluginPolicy: AllowAll\n",
            PluginPolicy(policy_type="AllowAll"),
        ),
        (KUBERC + LISTED + "[{command: a}, {name: /b}]\n", listing("a", "/b")),
        (
            KUBERC + LISTED + f"[{{command: a, sha256: {DIGEST}}}]\n",
            listing(AllowlistEntry(command="a", sha256=DIGEST)),
        ),
        (
            "kind: Other\napiVersion: v1\n---\n" + KUBERC + "credentialPluginPolicy: DenyAll\n",
            PluginPolicy(policy_type="DenyAll"),
        ),
        ('{"apiVersion":"kubectl.config.k8s.io/v1beta1","kind":"Preference"}', PluginPolicy()),
        ("\n---\n\n", PluginPolicy()),
    ],
)
def test_the_policy_is_read_from_a_kuberc(tmp_path: Path, text: str, policy: PluginPolicy) -> None:
    assert load_kuberc(kuberc(tmp_path, text), {}).policy == policy


def test_which_kuberc_applies(tmp_path: Path) -> None:
    home = {"HOME": "/h"}
    assert find_kuberc("", home) == ("/h/.kube/kuberc", False)
    assert find_kuberc("", home | {"KUBERC": "/k"}) == ("/k", True)
    assert find_kuberc("/p", home | {"KUBERC": "/k"}) == ("/p", True)
    assert find_kuberc("", home | {"KUBERC": "off"}) == ("", False)
    assert find_kuberc("", home | {"KUBECTL_KUBERC": "false"}) == ("", False)
    with pytest.raises(ConfigError, match="KUBERC=off cannot be combined with a kuberc file"):
        find_kuberc("/p", {"KUBERC": "off"})
    assert load_kuberc("", {"HOME": str(tmp_path)}).policy == PluginPolicy()
    assert load_kuberc("", {"KUBERC": "off"}).path == ""
    with pytest.raises(ConfigError, match="no such file") as caught:
        load_kuberc(str(tmp_path / "missing"), {})
    assert caught.value.kubernetes_text == f"kuberc: open {tmp_path}/missing: no such file or directory"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("credentialPluginAllowlist: []\n", "an allowlist requires the policy 'Allowlist'"),
        (
            "credentialPluginPolicy: AllowAll\ncredentialPluginAllowlist: []\n",
            "an allowlist requires the policy 'Allowlist'",
        ),
        # A misspelt allowlist is missing.
        (
            "credentialPluginPolicy: Allowlist\ncredentialPluginAllowList: [{command: a}]\n",
            "requires an allowlist",
        ),
    ],
    ids=["an empty list", "a list beside AllowAll", "no list"],
)
def test_a_policy_that_contradicts_itself_is_refused(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(PolicyError, match=message):
        load_kuberc(kuberc(tmp_path, KUBERC + text), {})


def test_unknown_fields_are_warnings(tmp_path: Path) -> None:
    """As in kubectl."""
    assert load_kuberc(kuberc(tmp_path, KUBERC + "extra: 1\n"), {}).warnings == ("extra: unknown field",)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a: [", "not valid YAML"),
        ("[]", "found an array"),
        (KUBERC.replace("v1beta1", "v9"), "kubectl.config.k8s.io/v9"),
        (KUBERC + "credentialPluginPolicy: 5", "credentialPluginPolicy: found a number"),
        (KUBERC + "credentialPluginAllowlist: [{command: a, name: b}]", "differ"),
    ],
)
def test_a_kuberc_that_cannot_be_used_is_an_error(tmp_path: Path, text: str, message: str) -> None:
    """The default file too: one that may hold a policy is not passed over."""
    home = tmp_path / ".kube"
    home.mkdir()
    kuberc(home, text)
    for path in ("", str(home / "kuberc")):
        with pytest.raises(ConfigError, match=message):
            load_kuberc(path, {"HOME": str(tmp_path)})
