"""Docker configs in the metadata of an instance."""

from __future__ import annotations

from base64 import b64encode

import pytest
from hypothesis import given
from hypothesis import strategies as st

from keyferry.sdk import AuthConfig, ProvideError
from keyferry_plugins.google.metadata import read_dockercfg


@pytest.mark.parametrize(
    "packed", [b64encode(b"u:p:q").decode(), b64encode(b"u:p:q").decode().rstrip("="), " dTpwOnE=\n"]
)
def test_packed_logins_have_padding_or_not(packed: str) -> None:
    """The password may have colons; a packed login wins over separate fields."""
    data = f'{{"r.io": {{"auth": "{packed.strip()}", "username": "x", "password": "y"}}}}'.encode()
    assert read_dockercfg(data, "here") == {"r.io": AuthConfig(username="u", password="p:q")}


@given(st.binary(max_size=200))
def test_no_docker_config_breaks_the_reader(data: bytes) -> None:
    """Logins or an error of ours."""
    try:
        read_dockercfg(data, "here")
    except ProvideError:
        pass
