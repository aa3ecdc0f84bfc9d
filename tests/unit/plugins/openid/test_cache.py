"""Where a token of keyferry-oidc is kept."""

from __future__ import annotations

import pytest

from keyferry_plugins.openid.options import cache_path
from support.oidc_options import options_of


@pytest.mark.parametrize(
    "args",
    [
        ["--oidc-client-secret=x"],
        ["--oidc-extra-scope=x"],
        ["--oidc-use-access-token"],
        ["--oidc-request-header=a=b"],
        ["--oidc-auth-request-extra-params=a=b"],
        ["--grant-type=password"],
        ["--username=x"],
        ["--password=x"],
        ["--insecure-skip-tls-verify"],
        ["--oidc-redirect-url=https://x"],
        ["--oidc-issuer-url=https://j"],
        ["--oidc-client-id=d"],
        ["--compat", "--token-cache-dir=/c"],
    ],
    ids=str,
)
def test_whatever_changes_the_token_changes_its_file(args: list[str]) -> None:
    """Two users, clients, scopes or servers never share a token."""
    folder = "--token-cache-dir=/c"
    assert cache_path(options_of(folder, *args)) != cache_path(options_of(folder))
    assert cache_path(options_of(folder, *args)) == cache_path(options_of(folder, *args))
