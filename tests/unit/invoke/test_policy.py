"""Who may run: client-go's policy, kubectl's kuberc, and programs pinned by their digest."""

import hashlib
import os
import sys
from pathlib import Path

import pytest

from keyferry.errors import ConfigError, PolicyError
from keyferry.invoke.attached import run_attached
from keyferry.invoke.executable import LookPathResult, clean_path, look_path
from keyferry.invoke.kuberc import find_kuberc, load_kuberc
from keyferry.invoke.policy import AllowlistEntry, Permit, PluginPolicy, open_pinned
from keyferry.invoke.process import Ending
from support.plugins import compile_program, write_executable

DIGEST = "a" * 64


def listing(*entries: str | AllowlistEntry) -> PluginPolicy:
    return PluginPolicy(
        "Allowlist", tuple(AllowlistEntry(each) if isinstance(each, str) else each for each in entries)
    )


def found_in(*paths: str, relative: bool = False) -> "dict[str, LookPathResult]":
    """What a search gives, by the name that is asked for."""
    found = {path: LookPathResult(path) for path in paths}
    problem = "exec: relative" if relative else ""
    return {path.rpartition("/")[2]: LookPathResult(path, problem) for path in reversed(paths)} | found


def decide(policy: PluginPolicy, command: str, programs: "dict[str, LookPathResult]") -> Permit:
    return policy.decide(
        command, lambda name: programs.get(name, LookPathResult("", f'exec: "{name}": missing'))
    )


# Validation: the texts are compared with Kubernetes' recorded answers, here is what is keyferry's own.


@pytest.mark.parametrize("digest", ["x", "a" * 63, "sha256:" + "a" * 64])
def test_a_digest_must_look_like_one(digest: str) -> None:
    with pytest.raises(PolicyError, match="64 hexadecimal digits"):
        listing(AllowlistEntry("foo", digest)).validate()


def test_a_digest_alone_names_no_program() -> None:
    with pytest.raises(PolicyError, match="expected it written as"):
        listing(AllowlistEntry("", DIGEST)).validate()


@pytest.mark.parametrize("digest", ["", DIGEST, DIGEST.upper()])
def test_entries_with_and_without_digest_are_fine(digest: str) -> None:
    listing(AllowlistEntry("foo", digest)).validate()


@pytest.mark.parametrize("kind", ["", "AllowAll", "DenyAll"])
@pytest.mark.parametrize("entries", [(), (AllowlistEntry("foo"),)], ids=["empty", "one entry"])
def test_a_list_beside_another_policy_is_an_error_even_if_it_is_empty(
    kind: str, entries: tuple[AllowlistEntry, ...]
) -> None:
    """Whoever wrote a list meant it to count."""
    with pytest.raises(PolicyError, match="goes with the policy 'Allowlist'") as caught:
        PluginPolicy(kind, entries).validate()
    text = f'plugin policy is "{kind}" but allowlist is non-nil'
    assert caught.value.kubernetes_text == f"misconfigured credential plugin allowlist: {text}"
    PluginPolicy(kind).validate()


@pytest.mark.parametrize("policy", ["", "credentialPluginPolicy: AllowAll\n"], ids=["none", "AllowAll"])
def test_an_empty_list_of_kuberc_beside_another_policy_is_an_error(tmp_path: Path, policy: str) -> None:
    kuberc = tmp_path / "kuberc"
    kuberc.write_text(
        f"apiVersion: kubectl.config.k8s.io/v1beta1\nkind: Preference\n{policy}credentialPluginAllowlist: []\n"
    )
    with pytest.raises(PolicyError, match="goes with the policy 'Allowlist'"):
        load_kuberc(str(kuberc))


# Decisions


def test_any_entry_that_fits_is_enough() -> None:
    """One entry without a digest opens the door; several with one are alternatives."""
    programs = found_in("/bin/foo")
    pinned = AllowlistEntry("foo", DIGEST), AllowlistEntry("/bin/foo", "B" * 64)
    assert decide(listing(*pinned), "foo", programs).digests == {DIGEST, "b" * 64}
    assert decide(listing(*pinned[:1], "/bin/foo"), "foo", programs).digests == frozenset()


def test_a_digest_holds_however_the_entry_was_found() -> None:
    programs = found_in("/bin/foo")
    by_path = listing(AllowlistEntry("/bin/foo", DIGEST))
    by_name = listing(AllowlistEntry("foo", DIGEST))
    for policy, command in ((by_path, "foo"), (by_name, "/bin/foo"), (by_name, "foo"), (by_path, "/bin/foo")):
        assert decide(policy, command, programs) == Permit("/bin/foo", "", frozenset({DIGEST}))


def test_what_a_relative_path_entry_leads_to_is_refused() -> None:
    programs = found_in("bin/foo", relative=True)
    with pytest.raises(PolicyError) as caught:
        decide(listing("bar"), "foo", programs)
    assert (
        "cannot be resolved for credential plugin allowlist check: exec: relative"
        in caught.value.kubernetes_text
    )
    assert decide(listing("foo"), "foo", programs) == Permit("bin/foo", "exec: relative")


def test_an_unknown_policy_allows_nothing() -> None:
    with pytest.raises(PolicyError):
        decide(PluginPolicy("Nonsense"), "foo", found_in("/bin/foo"))


# Finding programs


@pytest.mark.parametrize(
    ("path", "cleaned"),
    [
        ("", "."),
        ("./a", "a"),
        ("a/../b", "b"),
        ("//a", "/a"),
        ("///a/", "/a"),
        ("/", "/"),
        ("//", "/"),
        ("../a", "../a"),
    ],
)
def test_paths_are_cleaned_as_by_go(path: str, cleaned: str) -> None:
    assert clean_path(path) == cleaned


def test_a_program_is_looked_for_in_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The first that can be executed counts; folders and plain files are passed over."""
    for folder in ("a", "b", "c"):
        (tmp_path / folder).mkdir()
    (tmp_path / "a" / "tool").mkdir()
    write_executable(tmp_path / "b" / "tool", "", mode=0o644)
    write_executable(tmp_path / "c" / "tool", "")
    monkeypatch.setenv("PATH", os.pathsep.join(str(tmp_path / folder) for folder in "abc"))
    assert look_path("tool") == LookPathResult(str(tmp_path / "c" / "tool"))
    assert look_path("other").problem == 'exec: "other": executable file not found in $PATH'
    assert look_path("..").problem == 'exec: "..": executable file not found in $PATH'


@pytest.mark.parametrize("path", ["", ".", "sub"])
def test_a_relative_folder_in_path_gives_a_path_and_a_problem(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, path: str
) -> None:
    (tmp_path / "sub").mkdir()
    monkeypatch.chdir(tmp_path)
    write_executable(tmp_path / path / "tool", "")
    monkeypatch.setenv("PATH", f"/nonexistent:{path}")
    found = look_path("tool")
    assert found.path == os.path.join("" if path == "." else path, "tool")
    assert "cannot run executable found relative to current directory" in found.problem


@pytest.mark.parametrize(
    ("name", "problem"),
    [
        ("/nonexistent/x", "stat /nonexistent/x: no such file or directory"),
        ("/dev", "is a directory"),
        ("/etc/passwd", "permission denied"),
        ("/a\0b", "stat /a\0b: invalid argument"),
    ],
)
def test_why_a_path_is_no_program(name: str, problem: str) -> None:
    assert look_path(name).problem.endswith(f": {problem}")


# Digests


linux = pytest.mark.skipif(sys.platform != "linux", reason="runs an open file through /proc")


def digest_of(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def run_pinned(path: Path, digest: str, *args: str) -> bytes:
    fd = open_pinned(str(path), [digest])
    try:
        # Whatever happens to the path now is of no consequence.
        write_executable(path, "#!/bin/sh\necho another\n")
        outcome = run_attached((str(path), *args), program=fd, environ=os.environb)
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
PINNED = f"""{KUBERC}
credentialPluginPolicy: Allowlist
credentialPluginAllowlist: [{{command: a, sha256: {DIGEST}}}]
"""


def kuberc(tmp_path: Path, text: str) -> str:
    path = tmp_path / "kuberc"
    path.write_text(text)
    return str(path)


@pytest.mark.parametrize(
    ("text", "policy"),
    [
        (KUBERC, PluginPolicy()),
        (KUBERC + "credentialPluginPolicy: DenyAll\n", PluginPolicy("DenyAll")),
        (
            KUBERC.replace("v1beta1", "v1alpha1") + "credentialPluginPolicy: AllowAll\n",
            PluginPolicy("AllowAll"),
        ),
        (
            KUBERC
            + "credentialPluginPolicy: Allowlist\ncredentialPluginAllowlist: [{command: a}, {name: /b}]\n",
            listing("a", "/b"),
        ),
        (
            PINNED,
            listing(AllowlistEntry("a", DIGEST)),
        ),
        (
            "kind: Other\napiVersion: v1\n---\n" + KUBERC + "credentialPluginPolicy: DenyAll\n",
            PluginPolicy("DenyAll"),
        ),
        ('{"apiVersion":"kubectl.config.k8s.io/v1beta1","kind":"Preference"}', PluginPolicy()),
        ("\n---\n\n", PluginPolicy()),
    ],
)
def test_the_policy_is_read_from_a_kuberc(tmp_path: Path, text: str, policy: PluginPolicy) -> None:
    assert load_kuberc(kuberc(tmp_path, text), {}).policy == policy


def test_unknown_fields_are_warnings(tmp_path: Path) -> None:
    """As in kubectl; a misspelt allowlist is then missing, and the policy is refused."""
    assert load_kuberc(kuberc(tmp_path, KUBERC + "extra: 1\n"), {}).warnings == ("extra: unknown field",)
    text = KUBERC + "credentialPluginPolicy: Allowlist\ncredentialPluginAllowList: [{command: a}]\n"
    with pytest.raises(PolicyError) as caught:
        load_kuberc(kuberc(tmp_path, text), {})
    assert caught.value.kubernetes_text == (
        'credential plugin policy set to "Allowlist", but allowlist is unspecified'
    )


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


def test_which_kuberc_applies(tmp_path: Path) -> None:
    home = {"HOME": "/h"}
    assert find_kuberc("", home) == ("/h/.kube/kuberc", False)
    assert find_kuberc("", home | {"KUBERC": "/k"}) == ("/k", True)
    assert find_kuberc("/p", home | {"KUBERC": "/k"}) == ("/p", True)
    assert find_kuberc("", home | {"KUBERC": "off"}) == ("", False)
    assert find_kuberc("", home | {"KUBECTL_KUBERC": "false"}) == ("", False)
    with pytest.raises(ConfigError, match="exclude each other"):
        find_kuberc("/p", {"KUBERC": "off"})
    assert load_kuberc("", {"HOME": str(tmp_path)}).policy == PluginPolicy()
    assert load_kuberc("", {"KUBERC": "off"}).path == ""
    with pytest.raises(ConfigError, match="no such file") as caught:
        load_kuberc(str(tmp_path / "missing"), {})
    assert caught.value.kubernetes_text == f"kuberc: open {tmp_path}/missing: no such file or directory"
