"""A provider config is read, checked and hashed as the kubelet does it."""

from __future__ import annotations

import hashlib
import json
import os
import sys
from pathlib import Path

import pytest

from keyferry.errors import ConfigError, Problem
from keyferry.images.config.contents import config_hash, hash_of_files
from keyferry.images.config.read import ReadConfig, decode_file, read_config
from keyferry.images.config.validate import (
    check_bin_dir,
    check_executables,
    kubernetes_validation_text,
    plugin_path,
    qualified_name_problems,
    validate,
)
from support.scripted import CONFIG_V1, config_text, write_printer


def write(folder: Path, **files: str) -> str:
    folder.mkdir(exist_ok=True)
    for name, text in files.items():
        (folder / name.replace("__", ".")).write_text(text)
    return str(folder)


def named(*names: str) -> str:
    return config_text(*({"name": name} for name in names))


def test_one_file_may_have_any_name(tmp_path: Path) -> None:
    """A file given by itself is read whatever its extension."""
    read = read_config(write(tmp_path / "d", config__txt=named("a", "b")) + "/config.txt")
    assert read.problems == ()
    assert [provider.name for provider in read.providers] == ["a", "b"]
    assert [location.index for location in read.locations] == [0, 1]
    read.raise_for_problems()


def test_a_directory_is_read_in_byte_order_of_names(tmp_path: Path) -> None:
    """10 comes before 2; extensions are exact; hidden files count; folders are not entered."""
    folder = write(
        tmp_path / "d",
        **{
            "2__yaml": named("two"),
            "10__json": named("ten"),
            "__hidden__yml": named("hidden"),
            "x__YAML": "junk",
            "y__yaml__bak": "junk",
            "README": "junk",
        },
    )
    write(tmp_path / "d" / "z.yaml", inner__yaml="junk")
    os.symlink(tmp_path / "d" / "10.json", tmp_path / "d" / "zz.txt")
    read = read_config(folder)
    assert read.problems == ()
    assert [provider.name for provider in read.providers] == ["hidden", "ten", "two"]
    assert [os.path.basename(file.path) for file in read.files] == [".hidden.yml", "10.json", "2.yaml"]


def test_a_dangling_link_is_a_file_that_cannot_be_read(tmp_path: Path) -> None:
    """It is named, and the other files are read all the same."""
    folder = write(tmp_path / "d", a__yaml=named("a"))
    os.symlink("/nonexistent", f"{folder}/b.yaml")
    read = read_config(folder)
    (problem,) = read.problems
    assert (problem.code, problem.file) == ("KF101", f"{folder}/b.yaml")
    assert [provider.name for provider in read.providers] == ["a"]
    with pytest.raises(ConfigError, match="cannot be read"):
        read.raise_for_problems()


@pytest.mark.parametrize(
    ("path", "code", "text"),
    [
        ("", "KF101", "credential provider config path is empty"),
        ("missing", "KF101", "unable to access path"),
        ("empty", "KF102", "no configuration files found in directory"),
        ("nul\0byte", "KF101", "invalid argument"),
    ],
)
def test_no_config_is_a_problem_of_its_own(tmp_path: Path, path: str, code: str, text: str) -> None:
    """With a code, and Kubernetes' words beside ours."""
    (tmp_path / "empty").mkdir()
    read = read_config(path and f"{tmp_path}/{path}")
    (problem,) = read.problems
    assert problem.code == code
    assert text in problem.kubernetes_text
    assert read.providers == ()


def test_a_name_taken_twice_is_a_problem_wherever_it_stands(tmp_path: Path) -> None:
    """Within a file and across files, with the place of the first."""
    folder = write(tmp_path / "d", a__json=named("x", "x"), b__json=named("y", "x"))
    read = read_config(folder)
    assert [(problem.code, problem.path) for problem in read.problems] == [
        ("KF111", "providers[1].name"),
        ("KF111", "providers[1].name"),
    ]
    assert f"providers[0] of {folder}/a.json" in read.problems[1].message
    assert read.kubernetes_text == 'duplicate provider name "x" found in configuration file(s)'


def test_every_problem_of_every_file_is_found(tmp_path: Path) -> None:
    """Kubernetes names the first file's; all of them are listed."""
    broken = config_text({"matchImage": []}, version=f"{CONFIG_V1}beta1")
    read = read_config(write(tmp_path / "d", a__json=broken, b__yaml="{"))
    assert [problem.code for problem in read.problems] == ["KF107", "KF103"]
    assert 'unknown field "providers[0].matchImage"' in read.kubernetes_text
    assert read.kind == "strict"
    assert all(problem.file for problem in read.problems)


def test_the_hash_is_over_lengths_and_contents() -> None:
    """So moving a byte from one file to the next changes it, as does the order."""
    expected = hashlib.sha256(b"\0" * 7 + b"\2ab" + b"\0" * 7 + b"\1c").hexdigest()
    assert config_hash([b"ab", b"c"]) == f"sha256:{expected}"
    assert len({config_hash(files) for files in ([b"ab", b"c"], [b"a", b"bc"], [b"c", b"ab"], [b"abc"])}) == 4


def test_the_hash_of_files_is_that_of_the_config(tmp_path: Path) -> None:
    """Of a file, and of a folder: the same files in the same order; what is no config is left out."""
    for name, text in (("b.yaml", "{}"), ("a.json", "[]"), ("10.yml", "x"), ("notes.txt", "no")):
        (tmp_path / name).write_text(text)
    assert (
        hash_of_files(str(tmp_path)) == config_hash([b"x", b"[]", b"{}"]) == read_config(str(tmp_path)).hash
    )
    assert hash_of_files(str(tmp_path / "a.json")) == config_hash([b"[]"])


@pytest.mark.parametrize("path", ["", "missing", "nul\0byte", "folder"])
def test_what_cannot_be_read_has_no_hash(tmp_path: Path, path: str) -> None:
    (tmp_path / "folder").mkdir()
    assert hash_of_files(f"{tmp_path}/{path}" if path else "") == ""


@pytest.mark.skipif(sys.platform == "win32", reason="needs named pipes")
def test_a_pipe_is_left_to_those_who_need_its_content(tmp_path: Path) -> None:
    """It can be read only once."""
    os.mkfifo(tmp_path / "pipe.json")
    assert hash_of_files(str(tmp_path / "pipe.json")) == ""


GOOD = json.loads(config_text({}))


def problems(document: object, suffix: str = "json") -> list[tuple[str, str, str]]:
    text = document if isinstance(document, str) else json.dumps(document)
    file = decode_file(f"config.{suffix}", text.encode())
    return [(problem.code, problem.path, problem.kind) for problem in file.problems]


def test_a_good_file_has_no_problem() -> None:
    """It gives its config and no words of Kubernetes."""
    file = decode_file("config.json", json.dumps(GOOD).encode())
    assert (file.problems, file.kubernetes_text, file.kind) == ((), "", None)
    assert file.config.providers[0].name == "plugin"


@pytest.mark.parametrize("version", ["v1", "v1beta1", "v1alpha1"])
def test_every_version_is_read(version: str) -> None:
    """Three versions of one kind."""
    assert problems(GOOD | {"apiVersion": f"kubelet.config.k8s.io/{version}"}) == []


@pytest.mark.parametrize(
    ("document", "expected"),
    [
        ({}, ("KF104", "", "missing-kind")),
        ({"kind": "CredentialProviderConfig"}, ("KF104", "", "missing-apiversion")),
        ({"apiVersion": "a/b/c", "kind": "x"}, ("KF105", "apiVersion", "group-version")),
        (GOOD | {"apiVersion": "v1"}, ("KF105", "apiVersion", "unknown-type")),
        (GOOD | {"kind": "Pod"}, ("KF105", "kind", "unknown-type")),
        ({"apiVersion": "v1", "kind": "Status"}, ("KF106", "kind", "other")),
        ({"apiVersion": "v1", "kind": "Status", "x": 1}, ("KF106", "kind", "strict")),
        (GOOD | {"kind": 1}, ("KF109", "kind", "wrong-type")),
        ("[1]", ("KF109", "", "wrong-type")),
        (GOOD | {"providers": 1}, ("KF109", "providers", "wrong-type")),
        (GOOD | {"Providers": []}, ("KF107", "Providers", "strict")),
        (json.dumps(GOOD)[:-1], ("KF103", "", "json-syntax")),
        ("a: [", ("KF103", "", "yaml-syntax")),
        ("", ("KF104", "", "missing-kind")),
    ],
)
def test_what_is_wrong_has_a_code_a_path_and_a_class(
    document: object, expected: tuple[str, str, str]
) -> None:
    """One problem each, of the kind that Kubernetes would report."""
    assert problems(document) == [expected]


def test_a_bad_duration_has_its_own_code() -> None:
    """It is no wrong type."""
    broken = json.loads(config_text({"defaultCacheDuration": "1d"}))
    assert problems(broken) == [("KF110", "providers[0].defaultCacheDuration", "duration")]


@pytest.mark.parametrize("suffix", ["json", "yaml"])
def test_a_repeated_key_is_one_problem(suffix: str) -> None:
    """Placed where it is repeated, naming the line of the first."""
    lines = [f'"apiVersion": "{CONFIG_V1}",', '"kind": "CredentialProviderConfig",', '"providers": [],']
    text = "{\n" + "\n".join([*lines, '"providers": []']) + "\n}"
    text = text if suffix == "json" else "\n".join(line.strip(",") for line in text.splitlines()[1:-1])
    file = decode_file(f"config.{suffix}", text.encode())
    (problem,) = file.problems
    assert (problem.code, problem.path) == ("KF108", "providers")
    offset = 1 if suffix == "json" else 0
    assert (problem.line, problem.message[-1]) == (4 + offset, str(3 + offset))
    assert "duplicate field" in file.kubernetes_text or "already set in map" in file.kubernetes_text


def test_problems_are_placed() -> None:
    """File, line and column of the key at fault, or of its nearest ancestor."""
    text = f"apiVersion: {CONFIG_V1}\nkind: CredentialProviderConfig\nproviders:\n- name: 7\n"
    (problem,) = decode_file("c.yaml", text.encode()).problems
    assert (problem.file, problem.line, problem.column) == ("c.yaml", 4, 3)
    assert str(problem) == "c.yaml:4:3: providers[0].name: found a number, expected a string"


TOKENS = {"serviceAccountTokenAudience": "a", "cacheType": "Token", "requireServiceAccount": True}
REQUIRED, OPTIONAL = "requiredServiceAccountAnnotationKeys", "optionalServiceAccountAnnotationKeys"


def read(folder: Path, *providers: dict[str, object]) -> ReadConfig:
    path = folder / "config.json"
    path.write_text(config_text(*providers))
    config = read_config(str(path))
    assert config.problems == ()
    return config


def found(folder: Path, provider: dict[str, object], *, gate: bool = True) -> list[tuple[str, str]]:
    problems = validate(read(folder, provider), service_account_tokens=gate)
    return [(problem.code, problem.path.removeprefix("providers[0].")) for problem in problems]


def test_a_good_config_passes(tmp_path: Path) -> None:
    """Also with what Kubernetes lets pass: empty names, tabs, empty patterns, a duration of 0."""
    assert found(tmp_path, {}) == []
    assert found(tmp_path, {"name": ""}) == []
    assert found(tmp_path, {"name": "a\tb", "matchImages": [""], "env": [{"name": "", "value": ""}]}) == []
    assert found(tmp_path, {"tokenAttributes": TOKENS | {REQUIRED: ["a/b"], OPTIONAL: ["C.d"]}}) == []


@pytest.mark.parametrize(
    ("provider", "expected"),
    [
        ({"name": "a/b"}, [("KF121", "name")]),
        ({"name": "a b/c"}, [("KF121", "name")] * 2),
        ({"name": "."}, [("KF121", "name")]),
        ({"name": ".."}, [("KF121", "name")]),
        ({"apiVersion": ""}, [("KF122", "apiVersion")]),
        ({"apiVersion": "v1"}, [("KF122", "apiVersion")]),
        ({"matchImages": []}, [("KF123", "matchImages")]),
        (
            {"matchImages": ["ok", "bad host", "reg.io:x"]},
            [("KF124", "matchImages[1]"), ("KF124", "matchImages[2]")],
        ),
        ({"defaultCacheDuration": None}, [("KF125", "defaultCacheDuration")]),
        ({"defaultCacheDuration": "-1s"}, [("KF126", "defaultCacheDuration")]),
        ({"defaultCacheDuration": "-1ns"}, [("KF126", "defaultCacheDuration")]),
        ({"defaultCacheDuration": "0s"}, []),
    ],
)
def test_each_rule_has_its_code(
    tmp_path: Path, provider: dict[str, object], expected: list[tuple[str, str]]
) -> None:
    """The problem stands at the field, or at the item of a list."""
    assert found(tmp_path, provider) == expected


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"serviceAccountTokenAudience": ""}, [("KF131", "serviceAccountTokenAudience")]),
        ({"requireServiceAccount": None}, [("KF132", "requireServiceAccount")]),
        ({"requireServiceAccount": False, REQUIRED: ["a"]}, [("KF134", REQUIRED)]),
        ({"requireServiceAccount": False, OPTIONAL: ["a"]}, []),
        ({REQUIRED: ["a", "b", "a"]}, [("KF135", f"{REQUIRED}[2]")]),
        ({OPTIONAL: ["a", "-"]}, [("KF135", f"{OPTIONAL}[1]")]),
        ({REQUIRED: ["a"], OPTIONAL: ["a"]}, [("KF136", "")]),
        ({"cacheType": ""}, [("KF137", "cacheType")]),
        ({"cacheType": "token"}, [("KF137", "cacheType")]),
    ],
)
def test_token_attributes_have_rules_of_their_own(
    tmp_path: Path, changes: dict[str, object], expected: list[tuple[str, str]]
) -> None:
    """Audience, flag, annotations and cache type are each checked."""
    result = found(tmp_path, {"tokenAttributes": TOKENS | changes})
    prefix = "tokenAttributes"
    assert result == [(code, f"{prefix}.{path}" if path else prefix) for code, path in expected]


def test_token_attributes_need_the_gate_and_the_version(tmp_path: Path) -> None:
    """The feature gate off, or an older plugin protocol, forbids them."""
    assert found(tmp_path, {"tokenAttributes": TOKENS}, gate=False) == [("KF130", "tokenAttributes")]
    older: dict[str, object] = {
        "tokenAttributes": TOKENS,
        "apiVersion": "credentialprovider.kubelet.k8s.io/v1beta1",
    }
    assert found(tmp_path, older) == [("KF133", "tokenAttributes")]


def test_no_provider_is_a_problem(tmp_path: Path) -> None:
    """Of a config read from a file, and of one made by hand."""
    (problem,) = validate(read(tmp_path))
    assert (problem.code, problem.path) == ("KF120", "providers")
    assert problem.file
    (bare,) = validate(ReadConfig(path=""))
    assert bare.kubernetes_text == "providers: Required value: at least 1 item in plugins is required"


def test_all_problems_of_all_providers_are_found_in_order(tmp_path: Path) -> None:
    """Each with the index and line of its provider."""
    broken: dict[str, object] = {"name": "a/b", "matchImages": []}
    problems = validate(read(tmp_path, {"name": "x/y"}, {"name": "fine"}, broken))
    assert [problem.path for problem in problems] == [
        "providers[0].name",
        "providers[2].name",
        "providers[2].matchImages",
    ]
    assert all(problem.line and problem.file for problem in problems)


def test_kubernetes_joins_its_errors() -> None:
    """One stands alone, several in brackets, equal ones once."""
    one, two = Problem("", "a", kubernetes_text="A"), Problem("", "b", kubernetes_text="B")
    start = "failed to validate credential provider config: "
    assert kubernetes_validation_text((one, one)) == start + "A"
    assert kubernetes_validation_text((one, two)) == start + "[A, B]"


@pytest.mark.parametrize("name", ["a", "a/b", "a.b.c/D_e-f.9", "x" * 63, f"{'a.' * 126}a/b"])
def test_qualified_names_pass(name: str) -> None:
    """A name with an optional domain in front."""
    assert qualified_name_problems(name) == []


@pytest.mark.parametrize(
    ("name", "problems"),
    [
        ("", 2),
        ("/", 3),
        ("/a", 1),
        ("a/", 2),
        ("a/b/c", 1),
        ("-a", 1),
        ("a-", 1),
        ("x" * 64, 1),
        ("A/b", 1),
        ("a..b/c", 1),
    ],
)
def test_what_is_no_qualified_name_has_its_reasons(name: str, problems: int) -> None:
    """Both halves are checked, each for form and length."""
    assert len(qualified_name_problems(name)) == problems


def test_an_endless_domain_is_refused_in_no_time() -> None:
    """The form of a domain is checked in proportion to its length."""
    assert qualified_name_problems("a" * 5_000 + "./b")
    assert qualified_name_problems("a-" * 5_000 + "/b")


def test_a_negative_duration_is_refused_in_kubernetes_words(tmp_path: Path) -> None:
    """The detail does not name the field once more; one nanosecond less than nothing is enough, nothing is not."""
    (problem,) = validate(read(tmp_path, {"defaultCacheDuration": "-1ns"}))
    assert problem.kubernetes_text == (
        'providers.defaultCacheDuration: Invalid value: "-1ns": must be greater than or equal to 0'
    )
    assert problem.message == "found the negative duration '-1ns', expected '0s' or more"
    assert validate(read(tmp_path, {"defaultCacheDuration": "-0s"})) == ()


def checked(folder: Path, *names: str) -> tuple[Problem | None, ...]:
    config = folder / "config.json"
    config.write_text(config_text(*({"name": name} for name in names)))
    return check_executables(read_config(str(config)), str(folder))


def test_an_executable_is_fine(tmp_path: Path) -> None:
    """Also through a link."""
    write_printer(tmp_path, "plugin")
    os.symlink("plugin", tmp_path / "link")
    assert checked(tmp_path, "plugin", "link") == (None, None)


@pytest.mark.parametrize(
    ("name", "code", "message"),
    [
        ("missing", "KF141", "is missing"),
        ("dangling", "KF141", "is missing"),
        ("file.under", "KF142", "is not executable; chmod +x"),
        ("folder", "KF142", "is a directory"),
        ("", "KF142", "is a directory"),
        ("loop", "KF142", "cannot be read: too many levels"),
        ("nul\0byte", "KF142", "cannot be read: invalid argument"),
        ("x" * 300, "KF142", "cannot be read: file name too long"),
    ],
)
def test_what_cannot_be_run_is_a_problem(tmp_path: Path, name: str, code: str, message: str) -> None:
    """Missing, a directory, not executable, or not even a name the system takes."""
    (tmp_path / "file.under").write_text("")
    (tmp_path / "file.under").chmod(0o644)
    (tmp_path / "folder").mkdir()
    os.symlink("loop", tmp_path / "loop")
    os.symlink("nowhere", tmp_path / "dangling")
    (problem,) = checked(tmp_path, name)
    assert problem is not None
    assert (problem.code, problem.path) == (code, "providers[0].name")
    assert message in problem.message
    assert problem.kubernetes_text.startswith(
        "plugin binary executable  did not exist"
        if code == "KF141"
        else "error inspecting binary executable : exec: "
    )


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("folder", "is a directory"),
        ("plain", "permission denied"),
        ("loop", "stat $DIR/loop: too many levels of symbolic links"),
        ("x" * 300, f"stat $DIR/{'x' * 300}: file name too long"),
    ],
)
def test_the_text_for_what_is_there_and_cannot_be_run_is_that_of_look_path(
    tmp_path: Path, name: str, reason: str
) -> None:
    """``findExecutable`` in Go's os/exec: errors of stat name their call and the path, the others do not."""
    (tmp_path / "folder").mkdir()
    (tmp_path / "plain").write_text("")
    os.symlink("loop", tmp_path / "loop")
    (problem,) = checked(tmp_path, name)
    assert problem is not None
    text = problem.kubernetes_text.replace(str(tmp_path), "$DIR")
    assert text == f'error inspecting binary executable : exec: "$DIR/{name}": {reason}'


def test_a_bin_dir_that_is_a_file_is_found_at_the_first_provider(tmp_path: Path) -> None:
    """The kubelet only looks whether there is something; ENOTDIR is no "did not exist" to Go."""
    (tmp_path / "config.json").write_text(config_text({"name": "one"}))
    bin_dir = tmp_path / "bin"
    bin_dir.write_text("")
    assert check_bin_dir(str(bin_dir)) is None
    (problem,) = check_executables(read_config(str(tmp_path / "config.json")), str(bin_dir))
    assert problem is not None
    assert problem.code == "KF142"
    assert problem.kubernetes_text == (
        f'error inspecting binary executable : exec: "{bin_dir}/one": stat {bin_dir}/one: not a directory'
    )


def test_every_provider_is_checked_in_order(tmp_path: Path) -> None:
    """A bad one does not hide the next."""
    write_printer(tmp_path, "good")
    first, second, third = checked(tmp_path, "bad", "good", "worse")
    assert first is not None
    assert second is None
    assert third is not None
    assert (first.path, third.path) == ("providers[0].name", "providers[2].name")


def test_a_path_is_joined_and_cleaned_as_in_go() -> None:
    """An empty name is the bin dir itself; names cannot leave it once they are validated."""
    assert plugin_path("/bin/", "x") == "/bin/x"
    assert plugin_path("/bin", "") == "/bin"
    assert plugin_path("/a/../b", "x") == "/b/x"


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("missing", "did not exist"),
        ("file/below", "not a directory"),
        ("nul\0byte", "invalid argument"),
    ],
)
def test_a_bin_dir_that_cannot_be_had_is_a_problem(tmp_path: Path, name: str, text: str) -> None:
    """It comes before everything else."""
    (tmp_path / "file").write_text("")
    problem = check_bin_dir(f"{tmp_path}/{name}")
    assert problem is not None
    assert problem.code == "KF140"
    assert text in problem.kubernetes_text
    assert check_bin_dir(str(tmp_path)) is None
