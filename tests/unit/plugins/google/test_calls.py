"""What calls to Google are made with shows no secret."""

from keyferry.sdk import Deadline
from keyferry_plugins.google.calls import Calls, Token
from keyferry_plugins.google.credential_file import CredentialFile
from support.google_world import user


def test_values_that_hold_secrets_do_not_show_them() -> None:
    """A repr ends up in logs."""
    values = (Token("secret-mark"), CredentialFile("x", user()), Calls(Deadline(1), {"A": "secret-mark"}))
    assert "mark" not in repr(values)
