"""The flags of keyferry-oidc."""

from __future__ import annotations

from support.fake_issuer import SECRET
from support.oidc_options import options_of


def test_lists_in_flags_are_split_at_commas_and_quotes() -> None:
    """As upstream's flags are."""
    options = options_of(
        "--oidc-extra-scope=a,b", "--oidc-extra-scope", '"c,d",e', '--oidc-request-header="X=1,2",Y=3'
    )
    assert options.scopes == ("a", "b", "c,d", "e")
    assert options.headers == {"X": "1,2", "Y": "3"}


def test_options_show_no_secret() -> None:
    """Not in their repr, whatever holds one."""
    options = options_of(
        f"--oidc-client-secret={SECRET}", f"--password={SECRET}", f"--oidc-request-header=K={SECRET}"
    )
    assert SECRET not in repr(options)
    assert options.secrets == (SECRET, SECRET, SECRET)
