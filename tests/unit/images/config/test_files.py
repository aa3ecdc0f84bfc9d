"""One file or a directory of them is read, merged and hashed as the kubelet does."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from keyferry.errors import ConfigError
from keyferry.images.config.read import read_config
from support.scripted import CONFIG_V1, config_text


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


def test_the_hash_is_of_the_raw_bytes(tmp_path: Path) -> None:
    """Formatting changes it, the name of the file does not."""
    text = named("a")
    hashes = [
        read_config(write(tmp_path / f"d{number}", **{name: content})).hash
        for number, (name, content) in enumerate(
            [("a__json", text), ("b__json", text), ("a__json", text + "\n")]
        )
    ]
    assert hashes[0] == hashes[1] != hashes[2]
