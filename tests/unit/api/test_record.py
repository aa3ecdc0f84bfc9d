"""Records are frozen values that hide their secrets."""

import pickle

import pytest

from keyferry._secret import MASK
from keyferry.api.credentialprovider.v1 import (
    AuthConfig,
    CredentialProviderRequest,
    CredentialProviderResponse,
)


def test_a_record_cannot_be_changed() -> None:
    """Setting and deleting fields is refused, as is adding one."""
    auth = AuthConfig("user", "pw")
    with pytest.raises(AttributeError, match="AuthConfig is frozen: cannot set 'password'"):
        auth.password = "x"
    with pytest.raises(AttributeError, match="AuthConfig is frozen: cannot set 'other'"):
        auth.other = "x"
    with pytest.raises(AttributeError, match="AuthConfig is frozen: cannot delete 'username'"):
        del auth.username
    assert auth == AuthConfig("user", "pw")


def test_records_are_equal_by_value_and_type() -> None:
    """Equal fields make equal records, with equal hashes, of one type alone."""
    one, same = AuthConfig("user", "pw"), AuthConfig("user", "pw")
    assert one == same
    assert hash(one) == hash(same)
    assert one != AuthConfig("user", "other")
    assert one != ("user", "pw")
    assert CredentialProviderRequest("user", "pw") != one
    assert hash(CredentialProviderResponse("Image", 1, {"reg.io": one}))


def test_a_record_survives_pickling() -> None:
    """What goes to another process is the same there."""
    response = CredentialProviderResponse("Image", 5, {"reg.io": AuthConfig("user", "pw")})
    assert pickle.loads(pickle.dumps(response)) == response  # noqa: S301 - our own bytes


def test_a_secret_field_is_masked_in_the_repr() -> None:
    """The repr names every field and shows all but the secret ones."""
    assert repr(AuthConfig("user", "pw")) == f"AuthConfig(username='user', password={MASK!r})"
    shown = repr(CredentialProviderRequest("reg.io/app", "tok3n", {"a": "b"}))
    assert "tok3n" not in shown
    assert "image='reg.io/app'" in shown
    assert "{'a': 'b'}" in shown
