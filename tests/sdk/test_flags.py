"""Flags as Go's programs take them."""

from __future__ import annotations

import sys

import pytest

from keyferry import __version__
from keyferry.errors import ProvideError
from keyferry.sdk.flags import LOG_FLAGS, Flag, parse_flags, read_flags, read_seconds

FLAGS = (
    Flag(name="region", about="where", default="eu", short="r"),
    Flag(name="role-arn", about="whom to be", aliases=("role", "x")),
    Flag(name="scope", about="what for", is_repeated=True, default="one"),
    Flag(name="mode", about="how", choices=("a", "b")),
    Flag(name="compat", about="quirks", is_switch=True),
    Flag(name="cache", about="keep", is_switch=True, default="true", short="c"),
    *LOG_FLAGS,
)

FORMS = {
    "nothing": ([], "region", ("eu",)),
    "two-words": (["--region", "us"], "region", ("us",)),
    "equals": (["--region=us"], "region", ("us",)),
    "one-dash": (["-region", "us"], "region", ("us",)),
    "one-dash-equals": (["-region=us"], "region", ("us",)),
    "short": (["-r", "us"], "region", ("us",)),
    "short-equals": (["-r=us"], "region", ("us",)),
    "equals-inside": (["--region=a=b"], "region", ("a=b",)),
    "empty": (["--region="], "region", ("",)),
    "empty-word": (["--region", ""], "region", ("",)),
    "dash-as-value": (["--region", "-"], "region", ("-",)),
    "flag-as-value": (["--region", "--compat"], "region", ("--compat",)),
    "last-wins": (["--region=a", "--region=b"], "region", ("a", "b")),
    "underscores": (["--role_arn=x"], "role-arn", ("x",)),
    "alias": (["--role=x"], "role-arn", ("x",)),
    "one-letter-alias": (["--x=y"], "role-arn", ("y",)),
    "no-default": ([], "role-arn", ()),
    "repeated": (["--scope=a", "--scope", "b"], "scope", ("a", "b")),
    "repeated-default": ([], "scope", ("one",)),
    "choice": (["--mode=b"], "mode", ("b",)),
    "switch": (["--compat"], "compat", ("true",)),
    "switch-off": (["--compat=false"], "compat", ("false",)),
    "switch-takes-no-word": (["--compat", "false"], "compat", ("true",)),
    "log-level": (["-v", "4"], "v", ("4",)),
    "log-level-equals": (["-v=4"], "v", ("4",)),
    "log-level-long": (["--v=4"], "v", ("4",)),
    "log-switch": (["--logtostderr"], "logtostderr", ("true",)),
    "log-underscores": (["--alsologtostderr=false", "--log_dir=/x"], "log-dir", ("/x",)),
}


@pytest.mark.parametrize("case", FORMS.values(), ids=FORMS)
def test_every_form_of_a_flag_is_understood(case: tuple[list[str], str, tuple[str, ...]]) -> None:
    """One dash or two, one word or two, dashes or underscores."""
    argv, name, values = case
    flags = parse_flags(FLAGS, argv)
    assert flags.texts(name) == values
    assert flags.text(name) == (values[-1] if values else "")


SWITCHES = [
    ([], False),
    (["--compat"], True),
    *(([f"--compat={word}"], True) for word in ("1", "t", "T", "true", "TRUE", "True")),
    *(([f"--compat={word}"], False) for word in ("0", "f", "F", "false", "FALSE", "False")),
]


@pytest.mark.parametrize(("argv", "is_on"), SWITCHES)
def test_switches_take_gos_words(argv: list[str], is_on: bool) -> None:
    """And no others."""
    assert parse_flags(FLAGS, argv).is_on("compat") is is_on
    assert parse_flags(FLAGS, argv).is_on("cache")
    assert not parse_flags(FLAGS, ["-c=false"]).is_on("cache")


def test_words_and_flags_may_be_mixed() -> None:
    """After two dashes all are words."""
    flags = parse_flags(FLAGS, ["get", "--region=us", "-", "--", "--compat", "--"])
    assert flags.words == ("get", "-", "--compat", "--")
    assert flags.given == {"region"}
    assert not flags.is_on("compat")


WRONG = {
    "unknown": (["--regio=s3cret"], "unknown flag '--regio'"),
    "unknown-short": (["-z"], "unknown flag '-z'"),
    "three-dashes": (["---region=us"], "unknown flag '---region'"),
    "number": (["-5"], "unknown flag '-5'"),
    "one-dash-one-letter-alias": (["-x=y"], "unknown flag '-x'"),
    "no-value": (["--region"], "flag --region needs a value"),
    "no-value-short": (["-r"], "flag -r needs a value"),
    "switch-word": (["--compat=yes"], "flag --compat: found 'yes', expected true or false"),
    "switch-empty": (["--compat="], "flag --compat: found '', expected true or false"),
    "choice": (["--mode=c"], "flag --mode: found 'c', expected one of a, b"),
}


@pytest.mark.parametrize("case", WRONG.values(), ids=WRONG)
def test_what_is_no_flag_is_said(case: tuple[list[str], str]) -> None:
    """What was found and what was expected; an unknown flag's value is not quoted."""
    argv, words = case
    with pytest.raises(ProvideError) as caught:
        parse_flags(FLAGS, argv)
    assert caught.value.message == words
    assert "s3cret" not in str(caught.value)


def test_a_wrong_flag_ends_the_program_with_status_2(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The message begins with the program's name, and says how to get help."""
    monkeypatch.setattr(sys, "argv", ["/usr/bin/acme", "--nope"])
    with pytest.raises(SystemExit) as caught:
        read_flags(FLAGS, "About.")
    assert caught.value.code == 2
    assert capsys.readouterr() == ("", "acme: unknown flag '--nope'; 'acme --help' lists all flags\n")


@pytest.mark.parametrize("word", ["--help", "-h", "-help"])
def test_help_is_on_standard_output(
    word: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every flag that has an effect, its default, and none that has not."""
    monkeypatch.setattr(sys, "argv", ["acme", "--region=us", word])
    with pytest.raises(SystemExit) as caught:
        read_flags(FLAGS, "What it is.", words="COMMAND")
    assert caught.value.code == 0
    out, err = capsys.readouterr()
    assert err == ""
    assert out.startswith(
        "usage: acme [FLAGS] COMMAND\n\nWhat it is.\n\nflags:\n  -r, --region VALUE  where (default eu)\n"
    )
    assert "  --compat            quirks\n" in out
    assert "vmodule" not in out
    assert out.endswith("  --help              print this help and exit\n")


def test_the_version_is_keyferrys(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """And after two dashes it is a word like any other."""
    monkeypatch.setattr(sys, "argv", ["acme"])
    with pytest.raises(SystemExit) as caught:
        read_flags(FLAGS, "", argv=["--version"])
    assert caught.value.code == 0
    assert capsys.readouterr().out == f"acme (keyferry {__version__})\n"
    assert read_flags(FLAGS, "", argv=["--", "--version", "--help"]).words == ("--version", "--help")


@pytest.mark.parametrize("argv", [["--help"], ["--nope"]])
def test_a_program_without_streams_still_ends(argv: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """Help that nobody can read is no traceback."""
    monkeypatch.setattr(sys, "stdout", None)
    monkeypatch.setattr(sys, "stderr", None)
    with pytest.raises(SystemExit) as caught:
        read_flags(FLAGS, "", argv=argv)
    assert caught.value.code == (0 if argv == ["--help"] else 2)


def test_a_duration_has_a_unit_and_limits() -> None:
    """Go's durations are taken, nothing below or at zero unless it is allowed, and nothing above the limit."""
    assert read_seconds("--timeout", "1m30s") == 90
    assert read_seconds("--cache-duration", "0s", is_zero_allowed=True) == 0
    for wrong in ("", "5", "0s", "-1s", "soon", "61s"):
        with pytest.raises(ProvideError, match=r"^--timeout: found .*expected a duration such as 50s$"):
            read_seconds("--timeout", wrong, max_seconds=60)
