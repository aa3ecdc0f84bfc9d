"""The credentials that keyferry-eks keeps in a file."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from keyferry._core.values import replace
from keyferry.sdk import Deadline
from keyferry_plugins.aws.credentials import Credentials
from keyferry_plugins.aws.eks_cache import CredentialCache
from keyferry_plugins.aws.eks_options import Options
from keyferry_plugins.aws.environment import Environment

NOW = 1_704_164_645.0
KEYS = Credentials("AKIDEXAMPLE", "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY")


def cache_in(folder: Path, now: float = NOW, cluster: str = "c", **variables: str) -> CredentialCache:
    """A cache in a home of its own."""
    environment = Environment({"HOME": str(folder), **variables}, Deadline(5), now=lambda: now)
    return CredentialCache(environment, Options(cluster))


def cache_file(folder: Path) -> Path:
    """Where the cache is kept by default."""
    return folder / ".kube" / "cache" / "keyferry-eks" / "credentials.json"


KEPT = Credentials("AKIA", "secret", "token", NOW + 3600, "a role")


def test_credentials_are_kept_until_their_end_is_near(tmp_path: Path) -> None:
    """What expires is kept for the user alone, and not given out shortly before its end."""
    cache_in(tmp_path).write(KEPT)
    assert cache_in(tmp_path).read() == KEPT
    assert cache_in(tmp_path, NOW + 3299).read() == KEPT
    assert cache_in(tmp_path, NOW + 3301).read() is None
    assert cache_file(tmp_path).stat().st_mode & 0o777 == 0o600
    assert cache_file(tmp_path).parent.stat().st_mode & 0o777 == 0o700


def test_credentials_that_do_not_expire_are_not_kept(tmp_path: Path) -> None:
    """Long-lived keys stay where they are."""
    cache_in(tmp_path).write(KEYS)
    assert not cache_file(tmp_path).exists()


def test_another_identity_never_gets_what_is_kept(tmp_path: Path) -> None:
    """Cluster, variables, profile and the files of AWS are all part of the key."""
    cache_in(tmp_path).write(KEPT)
    assert cache_in(tmp_path, cluster="d").read() is None
    assert cache_in(tmp_path, AWS_ACCESS_KEY_ID="AKIAOTHER").read() is None
    assert cache_in(tmp_path, AWS_ROLE_SESSION_NAME="other").read() is None
    (tmp_path / ".aws").mkdir()
    (tmp_path / ".aws" / "config").write_text("[default]\nrole_arn = arn:other\n")
    assert cache_in(tmp_path).read() is None


OPTIONS = Options("c", role_arn="arn:aws:iam::123456789012:role/one", external_id="x", session_name="s")
OTHERS = {
    "cluster": replace(OPTIONS, cluster="d"),
    "tool": replace(OPTIONS, tool="other"),
    "role": replace(OPTIONS, role_arn="arn:aws:iam::123456789012:role/two"),
    "no role": replace(OPTIONS, role_arn=""),
    "external id": replace(OPTIONS, external_id="y"),
    "session name": replace(OPTIONS, session_name="t"),
    "forwards": replace(OPTIONS, forwards_session_name=not OPTIONS.forwards_session_name),
}


@pytest.mark.parametrize("other", OTHERS.values(), ids=OTHERS)
def test_another_role_never_gets_what_is_kept(tmp_path: Path, other: Options) -> None:
    """Every option that decides whose credentials are got is part of the key."""
    environment = Environment({"HOME": str(tmp_path)}, Deadline(5), now=lambda: NOW)
    CredentialCache(environment, OPTIONS).write(KEPT)
    assert CredentialCache(environment, OPTIONS).read() == KEPT
    assert CredentialCache(environment, other).read() is None


def test_another_profile_or_region_never_gets_what_is_kept(tmp_path: Path) -> None:
    """As flags name them; variables are part of the key by themselves."""
    for profile, region in (("one", "eu-west-1"), ("two", "eu-west-1"), ("one", "eu-west-2")):
        told = {"HOME": str(tmp_path)}
        environment = Environment(told, Deadline(5), profile=profile, region=region, now=lambda: NOW)
        cache = CredentialCache(environment, OPTIONS)
        assert cache.read() is None
        cache.write(KEPT)
        assert cache.read() == KEPT


def test_another_home_never_gets_what_is_kept_in_a_shared_file(tmp_path: Path) -> None:
    """Two users may name one file; the home, with the files of AWS in it, tells them apart."""
    shared = str(tmp_path / "shared.json")
    # Outside both homes, so that nothing but the home differs.
    told = {
        "AWS_IAM_AUTHENTICATOR_CACHE_FILE": shared,
        "AWS_CONFIG_FILE": str(tmp_path / "config"),
        "AWS_SHARED_CREDENTIALS_FILE": str(tmp_path / "credentials"),
    }
    caches = [cache_in(tmp_path / home, NOW, "c", **told) for home in ("jo", "mo")]
    caches[0].write(KEPT)
    assert caches[0].read() == KEPT
    assert caches[1].read() is None


def test_a_file_that_others_can_read_is_not_believed(tmp_path: Path) -> None:
    """Nor is it written to."""
    cache_in(tmp_path).write(KEPT)
    cache_file(tmp_path).chmod(0o644)
    assert cache_in(tmp_path).read() is None
    before = cache_file(tmp_path).read_bytes()
    cache_in(tmp_path, cluster="d").write(KEPT)
    assert cache_file(tmp_path).read_bytes() == before


def test_a_link_is_not_followed(tmp_path: Path) -> None:
    """A planted link does not lead to another file."""
    cache_in(tmp_path).write(KEPT)
    os.rename(cache_file(tmp_path), tmp_path / "elsewhere")
    cache_file(tmp_path).symlink_to(tmp_path / "elsewhere")
    assert cache_in(tmp_path).read() is None


@pytest.mark.parametrize(
    "content", ["clusters: {}\n", "", "[]", '{"kind":"keyferry-eks credentials","entries":5}']
)
def test_a_file_of_another_tool_is_left_alone(tmp_path: Path, content: str) -> None:
    """The authenticator's own cache is neither read nor overwritten."""
    path = tmp_path / "credentials.yaml"
    path.write_text(content)
    path.chmod(0o600)
    cache = cache_in(tmp_path, AWS_IAM_AUTHENTICATOR_CACHE_FILE=str(path))
    cache.write(KEPT)
    assert cache.read() is None
    assert path.read_text() == content


def test_a_damaged_entry_is_no_credential(tmp_path: Path) -> None:
    """Members that are missing or of another type are not used."""
    cache_in(tmp_path).write(KEPT)
    text = cache_file(tmp_path).read_text()
    for wrong in (
        text.replace('"secret"', "5"),
        text.replace('"source"', '"sauce"'),
        text.replace('"expires_at":', '"expires_at":"x","y":'),
        text.replace('"expires_at":', f'"expires_at":1{400 * "0"},"y":'),
        *(text.replace(str(int(KEPT.expires_at or 0)), f"{sign}1{400 * '0'}") for sign in ("", "-")),
    ):
        assert wrong != text
        cache_file(tmp_path).write_text(wrong)
        assert cache_in(tmp_path).read() is None


def test_what_has_expired_is_dropped(tmp_path: Path) -> None:
    """The file does not grow for ever."""
    cache_in(tmp_path, cluster="old").write(KEPT)
    later = Credentials("AKIA2", "secret2", "token2", NOW + 9000, "a role")
    cache_in(tmp_path, NOW + 4000).write(later)
    assert "AKIA2" in cache_file(tmp_path).read_text()
    assert '"AKIA"' not in cache_file(tmp_path).read_text()
