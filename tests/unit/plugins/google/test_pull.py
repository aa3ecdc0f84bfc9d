"""The image plugin's settings, hosts and docker configs, as values."""

from base64 import b64encode

import pytest
from hypothesis import given
from hypothesis import strategies as st

from keyferry.sdk import AuthConfig, ProvideError
from keyferry.sdk.flags import parse_flags
from keyferry_plugins.gcr import FLAGS
from keyferry_plugins.google.dockercfg import read_dockercfg
from keyferry_plugins.google.pull import PullSettings, kept_seconds, read_settings
from keyferry_plugins.google.registries import is_google_host


@pytest.mark.parametrize(
    ("life", "kept"), [(3599, 3299), (601, 301), (600, 300), (400, 200), (1, 0), (0, 0), (-50, 0)]
)
def test_a_token_is_kept_with_a_margin(life: float, kept: float) -> None:
    """Five minutes, or half of what is left where that is little."""
    assert kept_seconds(PullSettings(), 1000.0 + life, 1000.0) == kept


@given(st.floats(0, 1e6), st.none() | st.floats(0, 1e6))
def test_no_token_is_kept_to_its_end(life: float, asked: float | None) -> None:
    """Whatever is asked for, in whole seconds below half a day or in years."""
    kept = kept_seconds(PullSettings(seconds=asked), 1000.0 + life, 1000.0)
    assert 0 <= kept <= life / 2 or kept <= life - 299
    assert asked is None or kept <= asked


def test_a_token_of_unknown_life_is_not_kept() -> None:
    """It may be over any time."""
    assert kept_seconds(PullSettings(seconds=600), None, 1000.0) == 0


@pytest.mark.parametrize(
    "host",
    [
        "gcr.io",
        "us.gcr.io",
        "marketplace.gcr.io",
        "europe-west1-docker.pkg.dev",
        "docker.us-east1.rep.pkg.dev",
    ],
)
def test_googles_hosts_are_known(host: str) -> None:
    """All families of registries."""
    assert is_google_host(host)
    assert is_google_host(host.upper())


@pytest.mark.parametrize(
    "host",
    [
        "",
        "io",
        "pkg.dev",
        ".gcr.io",
        "*.gcr.io",
        "a.b.pkg.dev",
        "evilgcr.io",
        "gcr.io.",
        "gcr\u3002io",
        "x\n.gcr.io",
    ],
)
def test_others_are_not(host: str) -> None:
    """Label by label; a star in an image's name is no label."""
    assert not is_google_host(host)


def test_settings_of_upstream_are_understood() -> None:
    """Flags with one dash or two, klog's among them."""
    flags = parse_flags(
        FLAGS, ["get-credentials", "-a", "dockercfg", "--v=3", "--logtostderr", "--project-id", "p"]
    )
    settings = read_settings(
        flags, {"KUBE_SIDECAR_CACHE_TYPE": "global", "KUBE_SIDECAR_CACHE_DURATION": "1h30m"}
    )
    assert settings == PullSettings("dockercfg", "", "p", "Global", 5400.0)


@pytest.mark.parametrize(
    "packed", [b64encode(b"u:p:q").decode(), b64encode(b"u:p:q").decode().rstrip("="), " dTpwOnE=\n"]
)
def test_packed_logins_have_padding_or_not(packed: str) -> None:
    """The password may have colons; a packed login wins over separate fields."""
    data = f'{{"r.io": {{"auth": "{packed.strip()}", "username": "x", "password": "y"}}}}'.encode()
    assert read_dockercfg(data, "here") == {"r.io": AuthConfig("u", "p:q")}


@given(st.binary(max_size=200))
def test_no_docker_config_breaks_the_reader(data: bytes) -> None:
    """Logins or an error of ours."""
    try:
        read_dockercfg(data, "here")
    except ProvideError:
        pass
