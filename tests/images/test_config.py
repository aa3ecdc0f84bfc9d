"""What is wrong with a provider config, by code and place; Kubernetes' own answers are in tests/conformance."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

import pytest

from keyferry import load_providers
from keyferry.errors import ConfigError, Problem
from keyferry.images.config.contents import hash_of_files
from keyferry.images.config.validate import qualified_name_problems
from support.scripted import CONFIG_V1, config_text, write_printer

GOOD = json.loads(config_text({}))


def problems_of(folder: Path, config: str, *, gate: bool = True) -> tuple[Problem, ...]:
    """The problems of a config below a folder, whose bin dir has one plugin."""
    (folder / "bin").mkdir(exist_ok=True)
    write_printer(folder / "bin", "plugin")
    try:
        load_providers(folder / config, folder / "bin", service_account_tokens=gate)
    except ConfigError as error:
        return error.problems
    return ()


def problems_in(
    folder: Path, text: str, name: str = "config.json", *, gate: bool = True
) -> tuple[Problem, ...]:
    """The problems of a config of one file."""
    (folder / name).write_text(text)
    return problems_of(folder, name, gate=gate)


def found(folder: Path, provider: dict[str, object], *, gate: bool = True) -> list[tuple[str, str]]:
    """Codes and places of the problems of a provider, but for its executable."""
    problems = problems_in(folder, config_text(provider), gate=gate)
    return [
        (problem.code, problem.path.removeprefix("providers[0]."))
        for problem in problems
        if problem.code not in ("KF141", "KF142")
    ]


# Files


@pytest.mark.parametrize(
    ("path", "code", "text"),
    [
        ("missing", "KF101", "unable to access path"),
        ("empty", "KF102", "no configuration files found in directory"),
        ("nul\0byte", "KF101", "invalid argument"),
    ],
)
def test_no_config_is_a_problem_of_its_own(tmp_path: Path, path: str, code: str, text: str) -> None:
    """With a code, and Kubernetes' words beside ours."""
    (tmp_path / "empty").mkdir()
    (problem,) = problems_of(tmp_path, path)
    assert problem.code == code
    assert text in problem.kubernetes_text


def test_a_dangling_link_is_a_file_that_cannot_be_read(tmp_path: Path) -> None:
    """It is named, and the other files are read all the same."""
    (tmp_path / "d").mkdir()
    (tmp_path / "d" / "a.yaml").write_text(config_text({"name": "a b/c"}))
    (tmp_path / "d" / "b.yaml").symlink_to("/nonexistent")
    problems = problems_of(tmp_path, "d")
    assert sorted((each.code, each.file) for each in problems if each.code != "KF121") == [
        ("KF101", f"{tmp_path}/d/b.yaml")
    ]
    assert "KF121" in [each.code for each in problems]


def test_a_name_taken_twice_is_a_problem_wherever_it_stands(tmp_path: Path) -> None:
    """Within a file and across files, with the place of the first."""
    (tmp_path / "d").mkdir()
    for name, providers in (("a.json", ("plugin", "plugin")), ("b.json", ("y", "plugin"))):
        (tmp_path / "d" / name).write_text(config_text(*({"name": each} for each in providers)))
    twice = [each for each in problems_of(tmp_path, "d") if each.code == "KF111"]
    assert [problem.path for problem in twice] == ["providers[1].name"] * 2
    assert f"providers[0] of {tmp_path}/d/a.json" in twice[1].message


def test_the_hash_of_files_is_that_of_the_config(tmp_path: Path) -> None:
    """Of a file, and of a folder; what is no config is left out."""
    (tmp_path / "d").mkdir()
    (tmp_path / "bin").mkdir()
    for name in ("one", "two"):
        write_printer(tmp_path / "bin", name)
        (tmp_path / "d" / f"{name}.json").write_text(config_text({"name": name}))
    (tmp_path / "d" / "notes.txt").write_text("no")
    for path in (tmp_path / "d", tmp_path / "d" / "one.json"):
        assert hash_of_files(str(path)) == load_providers(path, tmp_path / "bin").config_hash


@pytest.mark.parametrize(
    "path",
    [
        "",
        "missing",
        "nul\0byte",
        "empty",
        pytest.param(
            "pipe.json", marks=pytest.mark.skipif(sys.platform == "win32", reason="needs named pipes")
        ),
    ],
)
def test_what_cannot_be_read_has_no_hash(tmp_path: Path, path: str) -> None:
    """A pipe can be read only once: it is left to those who need its content."""
    (tmp_path / "empty").mkdir()
    if path == "pipe.json":
        os.mkfifo(tmp_path / path)
    assert hash_of_files(f"{tmp_path}/{path}" if path else "") == ""


# Documents


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
        (config_text({"defaultCacheDuration": "1d"}), ("KF110", "providers[0].defaultCacheDuration", "duration")),
        (json.dumps(GOOD)[:-1], ("KF103", "", "json-syntax")),
        ("a: [", ("KF103", "", "yaml-syntax")),
        ("", ("KF104", "", "missing-kind")),
    ],
)  # fmt: skip
def test_what_is_wrong_has_a_code_a_path_and_a_class(
    tmp_path: Path, document: object, expected: tuple[str, str, str]
) -> None:
    """One problem each, of the kind that Kubernetes would report."""
    text = document if isinstance(document, str) else json.dumps(document)
    problems = problems_in(tmp_path, text)
    assert [(problem.code, problem.path, problem.kind) for problem in problems] == [expected]


@pytest.mark.parametrize("suffix", ["json", "yaml"])
def test_a_repeated_key_is_one_problem(tmp_path: Path, suffix: str) -> None:
    """Placed where it is repeated, naming the line of the first."""
    lines = [f'"apiVersion": "{CONFIG_V1}",', '"kind": "CredentialProviderConfig",', '"providers": [],']
    text = "{\n" + "\n".join([*lines, '"providers": []']) + "\n}"
    text = text if suffix == "json" else "\n".join(line.strip(",") for line in text.splitlines()[1:-1])
    (problem,) = problems_in(tmp_path, text, f"config.{suffix}")
    assert (problem.code, problem.path) == ("KF108", "providers")
    offset = 1 if suffix == "json" else 0
    assert (problem.line, problem.message[-1]) == (4 + offset, str(3 + offset))
    words = problem.kubernetes_text
    assert "duplicate field" in words or "already set in map" in words


def test_problems_are_placed(tmp_path: Path) -> None:
    """File, line and column of the key at fault, or of its nearest ancestor."""
    text = f"apiVersion: {CONFIG_V1}\nkind: CredentialProviderConfig\nproviders:\n- name: 7\n"
    problem, *_ = problems_in(tmp_path, text, "c.yaml")
    file = f"{tmp_path}/c.yaml"
    assert (problem.file, problem.line, problem.column) == (file, 4, 3)
    assert (
        str(problem) == f"{file}:4:3: providers[0].name: found a number, expected a string; put it in quotes"
    )


# Rules

TOKENS = {"serviceAccountTokenAudience": "a", "cacheType": "Token", "requireServiceAccount": True}
REQUIRED, OPTIONAL = "requiredServiceAccountAnnotationKeys", "optionalServiceAccountAnnotationKeys"


@pytest.mark.parametrize(
    "provider",
    [
        {},
        {"name": ""},
        {"name": "a\tb", "matchImages": [""], "env": [{"name": "", "value": ""}]},
        {"tokenAttributes": TOKENS | {REQUIRED: ["a/b"], OPTIONAL: ["C.d"]}},
        {"tokenAttributes": TOKENS | {"requireServiceAccount": False, OPTIONAL: ["a"]}},
        {"defaultCacheDuration": "0s"},
        {"defaultCacheDuration": "-0s"},
    ],
)
def test_a_good_config_passes(tmp_path: Path, provider: dict[str, object]) -> None:
    """Also with what Kubernetes lets pass: empty names, tabs, empty patterns, a duration of 0."""
    assert found(tmp_path, provider) == []


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
    old: dict[str, object] = {
        "tokenAttributes": TOKENS,
        "apiVersion": "credentialprovider.kubelet.k8s.io/v1beta1",
    }
    assert found(tmp_path, old) == [("KF133", "tokenAttributes")]


def test_no_provider_is_a_problem(tmp_path: Path) -> None:
    (problem,) = problems_in(tmp_path, config_text())
    assert (problem.code, problem.path, problem.file) == ("KF120", "providers", f"{tmp_path}/config.json")
    assert problem.kubernetes_text == "providers: Required value: at least 1 item in plugins is required"


def test_a_negative_duration_is_refused_in_kubernetes_words(tmp_path: Path) -> None:
    """The detail does not name the field once more; one nanosecond less than nothing is enough."""
    (problem,) = problems_in(tmp_path, config_text({"defaultCacheDuration": "-1ns"}))
    assert problem.kubernetes_text == (
        'providers.defaultCacheDuration: Invalid value: "-1ns": must be greater than or equal to 0'
    )
    assert problem.message == "found the negative duration '-1ns', expected '0s' or more"


def test_an_endless_domain_is_refused_in_no_time() -> None:
    """The form of an annotation's domain is checked in proportion to its length."""
    assert qualified_name_problems("a" * 5_000 + "./b")
    assert qualified_name_problems("a-" * 5_000 + "/b")


# Executables


def test_an_executable_may_be_a_link_and_a_bad_one_does_not_hide_the_next(tmp_path: Path) -> None:
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "link").symlink_to("plugin")
    names = ("bad", "plugin", "worse", "link")
    problems = problems_in(tmp_path, config_text(*({"name": name} for name in names)))
    assert [(each.code, each.path) for each in problems] == [
        ("KF141", "providers[0].name"),
        ("KF141", "providers[2].name"),
    ]


# A message of ours, and Kubernetes' reason after the words around it: that of findExecutable in Go's os/exec, in which
# errors of stat name their call and the path, and others do not.
NOT_RUN = {
    "missing": ("is missing", None),
    "dangling": ("is missing", None),
    "plain": ("is not executable; chmod +x", '"$BIN/plain": permission denied'),
    "folder": ("is a directory", '"$BIN/folder": is a directory'),
    "": ("is a directory", '"$BIN": is a directory'),
    "loop": (
        "cannot be read: too many levels",
        '"$BIN/loop": stat $BIN/loop: too many levels of symbolic links',
    ),
    "nul\0byte": ("cannot be read: invalid argument", r'"$BIN/nul\x00byte": stat $BIN/nul'),
    "x" * 300: (
        "cannot be read: file name too long",
        f'"$BIN/{"x" * 300}": stat $BIN/{"x" * 300}: file name too long',
    ),
}


@pytest.mark.parametrize("name", NOT_RUN)
def test_what_cannot_be_run_is_a_problem(tmp_path: Path, name: str) -> None:
    """Missing, a directory, not executable, or not even a name the system takes."""
    message, reason = NOT_RUN[name]
    bin_dir = tmp_path / "bin"
    bin_dir.mkdir()
    (bin_dir / "plain").write_text("")
    (bin_dir / "folder").mkdir()
    os.symlink("loop", bin_dir / "loop")
    os.symlink("nowhere", bin_dir / "dangling")
    (problem,) = problems_in(tmp_path, config_text({"name": name}))
    assert (problem.code, problem.path) == ("KF142" if reason else "KF141", "providers[0].name")
    assert message in problem.message
    text = problem.kubernetes_text.replace(str(bin_dir), "$BIN")
    expected = (
        f"error inspecting binary executable : exec: {reason}"
        if reason
        else "plugin binary executable  did not"
    )
    assert text.startswith(expected)


def test_a_bin_dir_that_is_a_file_is_found_at_the_first_provider(tmp_path: Path) -> None:
    """The kubelet only looks whether there is something; ENOTDIR is no "did not exist" to Go."""
    (tmp_path / "config.json").write_text(config_text({"name": "one"}))
    bin_dir = tmp_path / "bin"
    bin_dir.write_text("")
    with pytest.raises(ConfigError) as caught:
        load_providers(tmp_path / "config.json", bin_dir)
    assert [each.code for each in caught.value.problems] == ["KF142"]
    assert caught.value.kubernetes_text.endswith(
        f'error inspecting binary executable : exec: "{bin_dir}/one": stat {bin_dir}/one: not a directory'
    )


@pytest.mark.parametrize(
    ("name", "text"),
    [("missing", "did not exist"), ("file/below", "not a directory"), ("nul\0byte", "invalid argument")],
)
def test_a_bin_dir_that_cannot_be_had_is_a_problem(tmp_path: Path, name: str, text: str) -> None:
    """It comes before everything else."""
    (tmp_path / "file").write_text("")
    (tmp_path / "config.json").write_text(config_text({}))
    with pytest.raises(ConfigError) as caught:
        load_providers(tmp_path / "config.json", f"{tmp_path}/{name}")
    assert [each.code for each in caught.value.problems] == ["KF140"]
    assert text in caught.value.kubernetes_text
