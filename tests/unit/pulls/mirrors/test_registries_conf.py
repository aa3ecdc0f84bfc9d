"""Where CRI-O goes for an image: the entry with the longest prefix, its mirrors, and its own place."""

from __future__ import annotations

from pathlib import Path

import pytest

from keyferry.pulls.mirrors.endpoints import CredentialOffer, MirrorPlaces, Mirrors, RuntimeKind
from keyferry.pulls.mirrors.find import find_mirrors
from support.mirrors import REGISTRIES, write

DIGEST = f"@sha256:{'a' * 64}"
TWO = """\
[[registry]]
prefix = "reg.io/team"
location = "reg.io/real"
mirror-by-digest-only = {digest_only}
[[registry.mirror]]
location = "a.example/x"
insecure = true
[[registry.mirror]]
location = "b.example"
pull-from-mirror = "{pull_from}"
"""


def find(root: Path, image: str) -> Mirrors | None:
    return find_mirrors(image, MirrorPlaces(root=str(root), runtime=RuntimeKind.CRIO))


def places(root: Path, image: str) -> list[str]:
    found = find(root, image)
    assert found is not None
    assert found.problem == ""
    return [f"{each.host}/{each.repository}" for each in found.endpoints]


def test_no_file_names_no_mirror(tmp_path: Path) -> None:
    assert find(tmp_path, "reg.io/app") is None


@pytest.mark.parametrize(
    ("image", "digest_only", "pull_from", "expected"),
    [
        ("reg.io/team/app:v1", "false", "all", ["a.example/x/app", "b.example/app", "reg.io/real/app"]),
        ("reg.io/team/app:v1", "true", "", ["reg.io/real/app"]),
        (f"reg.io/team/app{DIGEST}", "true", "", ["a.example/x/app", "b.example/app", "reg.io/real/app"]),
        ("reg.io/team/app", "false", "digest-only", ["a.example/x/app", "reg.io/real/app"]),
        (f"reg.io/team/app{DIGEST}", "false", "tag-only", ["a.example/x/app", "reg.io/real/app"]),
        ("reg.io/teams/app", "false", "all", None),
        ("reg.io/other", "false", "all", None),
    ],
)
def test_the_mirrors_of_a_prefix_come_before_its_own_place(
    tmp_path: Path, image: str, digest_only: str, pull_from: str, expected: list[str] | None
) -> None:
    write(tmp_path, REGISTRIES, TWO.format(digest_only=digest_only, pull_from=pull_from))
    if expected is None:
        assert find(tmp_path, image) is None
    else:
        assert places(tmp_path, image) == expected


def test_another_host_does_not_get_the_kubelets_credential(tmp_path: Path) -> None:
    write(tmp_path, REGISTRIES, TWO.format(digest_only="false", pull_from="all"))
    found = find(tmp_path, "reg.io/team/app")
    assert found is not None
    withheld, offered = CredentialOffer.WITHHELD, CredentialOffer.OFFERED
    assert [each.offer for each in found.endpoints] == [withheld, withheld, offered]
    assert [each.is_insecure for each in found.endpoints] == [True, False, False]


@pytest.mark.parametrize(
    ("image", "expected"),
    [
        ("a.corp.example/app", ["proxy.example/app"]),
        ("a.b.corp.example:5000/app", ["proxy.example:5000/app"]),
        ("corp.example/app", None),
        ("evil/corp.example/app", None),
        ("a.corp.example.org/app", None),
    ],
)
def test_a_wildcard_covers_subdomains(tmp_path: Path, image: str, expected: list[str] | None) -> None:
    text = '[[registry]]\nprefix = "*.corp.example"\nlocation = "proxy.example"\n'
    write(tmp_path, REGISTRIES, text)
    if expected is None:
        assert find(tmp_path, image) is None
    else:
        assert places(tmp_path, image) == expected


def test_a_wildcard_without_a_location_keeps_the_name(tmp_path: Path) -> None:
    text = '[[registry]]\nprefix = "*.corp.example"\n[[registry.mirror]]\nlocation = "m.example"\n'
    write(tmp_path, REGISTRIES, text)
    assert places(tmp_path, "a.corp.example/app") == ["m.example/app", "a.corp.example/app"]


def test_the_longest_prefix_wins_and_later_files_replace(tmp_path: Path) -> None:
    entry = '[[registry]]\nprefix = "{}"\nlocation = "{}"\n'
    write(tmp_path, REGISTRIES, entry.format("reg.io", "one.example"))
    write(tmp_path, f"{REGISTRIES}.d/10.conf", entry.format("reg.io/team", "two.example"))
    write(tmp_path, f"{REGISTRIES}.d/20.conf", entry.format("reg.io", "three.example"))
    write(tmp_path, f"{REGISTRIES}.d/30.txt", "[")
    assert places(tmp_path, "reg.io/app") == ["three.example/app"]
    assert places(tmp_path, "reg.io/team/app") == ["two.example/app"]


def test_a_blocked_image_is_not_pulled(tmp_path: Path) -> None:
    file = write(tmp_path, REGISTRIES, '[[registry]]\nlocation = "reg.io"\nblocked = true\n')
    found = find(tmp_path, "reg.io/app")
    assert found is not None
    assert found.is_blocked
    assert str(found) == f"CRI-O does not pull it: {file} blocks it"


def test_a_short_name_goes_where_its_alias_leads_or_to_the_searched_registries(tmp_path: Path) -> None:
    """The kubelet looks it up at Docker Hub; a full name is not affected."""
    text = 'unqualified-search-registries = ["quay.example", "docker.io"]\n'
    write(tmp_path, REGISTRIES, text)
    write(tmp_path, f"{REGISTRIES}.d/a.conf", '[aliases]\n"team/app" = "alias.example/app"\n')
    assert places(tmp_path, "busybox:v1") == ["quay.example/busybox", "docker.io/busybox"]
    assert places(tmp_path, f"team/app{DIGEST}") == ["alias.example/app"]
    assert find(tmp_path, "docker.io/library/busybox") is None
    found = find(tmp_path, "busybox")
    assert found is not None
    assert {each.offer for each in found.endpoints} == {CredentialOffer.UNKNOWN}


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("[[registry]\n", "it is not TOML"),
        ("registry = 5\n", "registry is not a list of tables"),
        ("[[registry]]\nblocked = true\n", "registry[0] has no location"),
        ("[[registry]]\nlocation = 5\n", "registry[0].location is not a string"),
        (
            '[[registry]]\nlocation = "u:secret@reg.io"\n',
            "registry[0].location has an '@', which is not allowed",
        ),
        ('[[registry]]\nlocation = "https://reg.io"\n', "registry[0].location has a scheme"),
        ('[[registry]]\nlocation = "reg.io"\n[[registry.mirror]]\n', "registry[0].mirror[0] has no location"),
        (
            '[[registry]]\nlocation = "r"\n[[registry.mirror]]\nlocation = "m"\npull-from-mirror = "never"\n',
            "registry[0].mirror[0] has the unknown pull-from-mirror 'never'",
        ),
        ("[registries.search]\nregistries = []\n", "it has the section [registries] of version 1"),
    ],
)
def test_a_file_that_is_wrong_is_named(tmp_path: Path, text: str, problem: str) -> None:
    file = write(tmp_path, REGISTRIES, text)
    found = find(tmp_path, "reg.io/app")
    assert found is not None
    assert found.file == file
    assert found.problem.startswith(problem)
