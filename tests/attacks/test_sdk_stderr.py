"""Standard error of a plugin on the SDK, which ends up in logs and events: whatever happens, it shows no secret."""

from __future__ import annotations

import pytest

from support.sdk_plugins import SECRET, cluster_plugin, exec_info, image_plugin, request_bytes, run_source

JWT = "eyJhbGciOiJSUzI1NiJ9.eyJzdWIiOiJacTdtYXJrZWQifQ.Zq7marked-S3cret9vX_sig"

LEAKY = {
    "its-own-words": 'raise ProvideError(f"cannot use {request.service_account_token}", "no")',
    "hint": 'raise ProvideError("no", f"try {request.service_account_token}")',
    "exit": "sys.exit(f'bad {request.service_account_token}')",
    "key": "{}[request.service_account_token]",
    "value": "int(request.service_account_token)",
    "unquoted": "raise ValueError('no ' + request.service_account_token)",
    "chained": "try:\n    int(request.service_account_token)\nexcept ValueError as e:\n    raise KeyError from e",
    "file": "open(request.service_account_token)",
    "attribute": "getattr(request, request.service_account_token)",
    "unicode": "(request.service_account_token + chr(0xd800)).encode()",
    "json": "import json; json.loads(request.service_account_token)",
    "warning": "import warnings; warnings.warn('x'); raise ProvideError('no')",
}


@pytest.mark.parametrize("body", LEAKY.values(), ids=LEAKY)
def test_the_token_of_a_request_never_comes_back_on_standard_error(body: str) -> None:
    """Whatever the plugin's function does with it, the kubelet's log does not get it."""
    ran = run_source(image_plugin(body), request_bytes(serviceAccountToken=SECRET))
    ran.failed_with()
    assert SECRET not in ran.stderr


def test_secrets_that_look_like_some_are_masked_in_a_bug() -> None:
    """A token, a password in a URL, an Authorization header: also where nobody told us of them."""
    bug = f"raise ValueError('jwt {JWT} url http://jo:hunter2@h header Bearer abcdef0123')"
    ran = run_source(cluster_plugin(bug), env=exec_info())
    ran.failed_with("ValueError in the plugin itself")
    for secret in (JWT, "hunter2", "abcdef0123"):
        assert secret not in ran.stderr


def test_a_bug_with_a_long_text_is_cut() -> None:
    """Nobody's megabyte, and no line break of a stranger, gets into a log."""
    ran = run_source(image_plugin("raise ValueError('a b\\n' * 1000000)"), request_bytes())
    ran.failed_with()
    assert len(ran.stderr) < 1000
    assert ran.stderr.count("\n") == 1


def test_control_characters_do_not_reach_a_terminal() -> None:
    """Neither from a message nor from the program's own name."""
    source = image_plugin("raise ProvideError('a\\x1b]0;x\\x07b')", before="sys.argv[0] = '/x/\\x1b[2Jname'")
    ran = run_source(source, request_bytes())
    ran.failed_with()
    assert "\x1b" not in ran.stderr
    assert "\x07" not in ran.stderr
