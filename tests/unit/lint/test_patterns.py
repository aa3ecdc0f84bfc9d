"""Patterns that cover other images than people mean are named, with what to write instead."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from keyferry.lint.kinds.providers import lint
from support.lint import SECRET, config, lint_provider, only, write

PATTERNS = [
    pytest.param("https://reg.io/team", "KF150", "use 'reg.io/team'", id="scheme"),
    pytest.param("oci://u:p@reg.io", "KF150", "use 'reg.io'", id="scheme and user info"),
    pytest.param("reg.io/*", "KF151", "use 'reg.io'", id="everything of a host"),
    pytest.param(
        "reg.io/team/*", "KF151", "begin with the characters '/team/*'", id="everything of a folder"
    ),
    pytest.param("reg.io/team*", "KF151", "use 'reg.io/team'", id="a wildcard at the end"),
    pytest.param("reg.io/Team", "KF152", "use 'reg.io/team'", id="upper case"),
    pytest.param("reg.io/app:v1", "KF153", "use 'reg.io/app'", id="tag"),
    pytest.param("reg.io/app@sha256:00", "KF153", "without their digest", id="digest"),
    pytest.param("", "KF154", "the pattern is empty", id="empty"),
    pytest.param("/team", "KF154", "no host", id="path alone"),
    pytest.param("reg?.io", "KF155", "means 'reg'", id="query"),
    pytest.param("reg.io#x", "KF155", "means 'reg.io'", id="fragment"),
    pytest.param(f"user:{SECRET}@reg.io", "KF156", "use 'reg.io'", id="user info"),
    pytest.param("[2001:db8::1]", "KF157", "'[2001:db8::1]:5000'", id="IPv6 without port"),
    pytest.param("reg.io.", "KF158", "use 'reg.io'", id="trailing dot"),
    pytest.param("reg..io", "KF158", "has an empty label", id="empty label"),
    pytest.param("reg-.io", "KF158", "the host 'reg-.io'", id="dash at the end"),
    pytest.param("reg!.io", "KF158", "'!'", id="strange character"),
    pytest.param("registry", "KF159", "means 'docker.io/registry/app'", id="host without a dot"),
    pytest.param("index.docker.io", "KF160", "use 'docker.io'", id="old name of the hub"),
    pytest.param("registry-1.docker.io/x/", "KF160", "use 'docker.io/x/'", id="the hub's server"),
    pytest.param("docker.io/nginx", "KF161", "'docker.io/library/nginx'", id="official image"),
    pytest.param("reg.io/team", "KF162", "also matches 'reg.io/team-other/app'", id="boundary"),
    pytest.param("*.amazonaws.com", "KF163", "use '*.dkr.ecr.*.amazonaws.com'", id="ECR"),
    pytest.param("*.dkr.ecr.amazonaws.com.cn", "KF163", "have 7", id="ECR in China"),
    pytest.param("*gcr.io", "KF163", "use '*.gcr.io'", id="a star glued to the domain"),
    pytest.param("*.io", "KF163", "not 'registry.quay.io'", id="whole top level"),
    pytest.param("reg.io:443", "KF164", "use 'reg.io'", id="default port"),
    pytest.param("*.*.*", "KF165", "3 labels", id="everything"),
    pytest.param("*:5000", "KF165", "1 label on port 5000", id="everything on a port"),
    pytest.param("reg.io//x", "KF168", "no repository begins with '/x'", id="impossible path"),
]


@pytest.mark.parametrize(("pattern", "code", "part"), PATTERNS)
def test_a_pattern_that_is_hardly_meant_is_named_with_what_towrite(
    tmp_path: Path, pattern: str, code: str, part: str
) -> None:
    report = lint_provider(tmp_path, matchImages=[pattern])
    finding = only(report)
    assert (finding.code, finding.path) == (code, "providers[0].matchImages[0]")
    assert part in finding.message
    assert SECRET not in finding.message
    assert report.accepted


@pytest.mark.parametrize(
    "pattern",
    [
        "reg.io",
        "*.dkr.ecr.*.amazonaws.com",
        "*.gcr.io",
        "gcr.io",
        "*.azurecr.io",
        "*-docker.pkg.dev",
        "*.pkg.dev",
        "public.ecr.aws",
        "docker.io",
        "docker.io/library/",
        "docker.io/team/",
        "localhost",
        "localhost:5000",
        "registry:5000",
        "10.0.0.1:5000/team/",
        "reg.io/team_a/b-c.d/",
        "[2001:db8::1]:5000",
        "registry.local",
        "*.registry.local",
    ],
)
def test_usual_patterns_are_clean(tmp_path: Path, pattern: str) -> None:
    assert lint_provider(tmp_path, matchImages=[pattern]).findings == ()


@pytest.mark.parametrize(
    ("patterns", "index"),
    [
        pytest.param(["reg.io", "reg.io"], 1, id="repeated"),
        pytest.param(["*.reg.io", "a.reg.io"], 1, id="covered by an earlier one"),
        pytest.param(["a.reg.io", "*.reg.io"], 0, id="covered by a later one"),
        pytest.param(["reg.io", "reg.io/team/"], 1, id="a folder of it"),
    ],
)
def test_a_pattern_that_adds_nothing_is_named_once(tmp_path: Path, patterns: list[str], index: int) -> None:
    finding = only(lint_provider(tmp_path, matchImages=patterns))
    assert (finding.code, finding.path) == ("KF166", f"providers[0].matchImages[{index}]")


def test_a_pattern_of_two_providers_is_named_at_the_second(tmp_path: Path) -> None:
    first = json.loads(config())["providers"][0]
    report = lint(write(tmp_path, config(providers=[first, first | {"name": "other"}])))
    finding = only(report)
    assert (finding.code, finding.severity) == ("KF167", "info")
    assert finding.path == "providers[1].matchImages[0]"
