"""The words, variables and files that keyferry-eks is told by."""

from __future__ import annotations

from pathlib import Path

import pytest

from keyferry.sdk import ProvideError
from keyferry.sdk.flags import parse_flags
from keyferry_plugins.aws.eks_options import AUTHENTICATOR, CLI, FLAGS, Options, read_options


def options(*argv: str, **variables: str) -> Options:
    """What keyferry-eks makes of its words and variables."""
    return read_options(parse_flags(FLAGS, argv), variables)


def test_the_entry_that_the_cli_writes_is_understood() -> None:
    """The arguments of ``aws eks update-kubeconfig``, in their order."""
    argv = [
        "--region",
        "eu-west-1",
        "eks",
        "get-token",
        "--cluster-name",
        "c",
        "--output",
        "json",
        "--role",
        "arn:x",
    ]
    assert options(*argv) == Options("c", CLI, "arn:x", region="eu-west-1")


def test_the_words_of_the_authenticator_are_understood() -> None:
    """Short flags, and everything that its token command takes."""
    argv = [
        "token",
        "-i",
        "c",
        "-r",
        "arn:x",
        "-e",
        "ext",
        "-s",
        "me",
        "--cache",
        "--token-only",
        "-v",
        "4",
        "-l",
        "json",
    ]
    expected = Options(
        "c", AUTHENTICATOR, "arn:x", "ext", "me", is_token_only=True, is_cached=True
    )  # fmt: skip
    assert options(*argv) == expected


def test_variables_of_the_authenticator_are_read_by_it_alone() -> None:
    """DEFAULT_ROLE does not change what the command line's words do."""
    variables = {"KUBERNETES_AWS_AUTHENTICATOR_CLUSTER_ID": "c", "DEFAULT_ROLE": "arn:x"}
    assert options("token", **variables) == Options("c", role_arn="arn:x")
    assert options("get-token", "--cluster-name", "d", **variables) == Options("d", CLI)
    assert options("token", "-i", "flag", **variables).cluster == "flag"


@pytest.mark.parametrize(
    ("name", "text"),
    [
        (
            "c.yaml",
            "clusterID: 'c'  # mine\nrole: arn:x\nserver:\n  clusterID: other\ntokenOnly: true\nregion: &a b\n",
        ),
        ("c.json", '{"clusterID": "c", "role": "arn:x", "tokenOnly": true, "server": {"region": "z"}}'),
    ],
)
def test_a_config_file_gives_the_same_settings(tmp_path: Path, name: str, text: str) -> None:
    """YAML or JSON at the top level; flags win."""
    path = tmp_path / name
    path.write_text(text)
    assert options("-c", str(path)) == Options("c", role_arn="arn:x", is_token_only=True)
    assert options("-c", str(path), "--role", "arn:y", "--token-only=false") == Options("c", role_arn="arn:y")


def test_a_config_file_that_is_none_is_refused(tmp_path: Path) -> None:
    """What begins as JSON has to be JSON."""
    path = tmp_path / "c.json"
    path.write_text("{marked-broken")
    with pytest.raises(ProvideError, match="is not a JSON object") as caught:
        options("-c", str(path))
    assert "marked-broken" not in str(caught.value)


@pytest.mark.parametrize(
    ("argv", "words"),
    [
        (["token"], "no cluster is given"),
        (["--cluster-name", "a", "--cluster-id", "b"], "both given"),
        (["-i", "a", "-s", "b", "--forward-session-name"], "both given"),
        (["-i", "a b"], "characters that are not valid in a header"),
        (["-i", "a\nx: y"], "characters that are not valid in a header"),
        (["s3", "ls"], "found the words 's3 ls'"),
        (["-i", "a", "--config", "/nowhere/x"], "cannot be read"),
        (["-i", "a", "--output", "text"], "expected one of json"),
    ],
)
def test_wrong_options_are_refused(argv: list[str], words: str) -> None:
    """What cannot be meant is said."""
    with pytest.raises(ProvideError, match=words):
        options(*argv)
