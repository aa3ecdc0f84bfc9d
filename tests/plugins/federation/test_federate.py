"""keyferry-federate run as a kubelet runs it, against servers that check what they are sent."""

from __future__ import annotations

import json
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from keyferry.api.federation.presets import PRESETS
from keyferry.api.meta import parse_duration
from support.fake_cloud import Reply
from support.federation import (
    AUDIENCE,
    EXAMPLES,
    HOUR,
    ISSUER,
    account_token,
    example_federation,
    federation,
    issued,
    rule_of,
)
from support.reference import Answer, launcher, run_plugin

JFROG = "team.jfrog.io"
IMAGE = f"{JFROG}/docker/app"
LOGIN = {"access_token": "opaque-1", "expires_in": HOUR, "username": "u"}


def cache_seconds(answer: Answer) -> float:
    """The cacheDuration of a response."""
    return parse_duration(str(answer.document["cacheDuration"])) / 1e9


def test_every_preset_has_an_example() -> None:
    assert set(EXAMPLES) == set(PRESETS)


@pytest.mark.parametrize("name", EXAMPLES)
def test_a_preset_gives_a_login(name: str, tmp_path: Path) -> None:
    """The servers see exactly what their vendors document; the login is for the image's own host, for its lifetime."""
    example = EXAMPLES[name]
    with example_federation(tmp_path, name) as world:
        answer = world.ask(f"{example.registry}/team/app", rule_of(name))
        assert world.server.problems == []
        ((key, (username, password)),) = answer.auth.items()
    assert (key, username) == (example.registry, example.username)
    assert password
    assert len(world.server.received) == example.calls
    assert answer.document["cacheKeyType"] == "Registry"
    assert example.lifetime - 15 <= cache_seconds(answer) <= example.lifetime
    assert answer.stderr == ""


@pytest.mark.parametrize("name", EXAMPLES)
def test_flags_alone_do_the_same(name: str, tmp_path: Path) -> None:
    """A provider's args are enough for one registry."""
    example = EXAMPLES[name]
    args = [f"--registry={example.registry}", f"--preset={name}"]
    args += [f"--{key}={value}" for key, value in example.subject.items()]
    for key, value in example.params.items():
        args.append(
            f"--param={key}={value}" if isinstance(value, str) else f"--param-env={key}=CLIENT_SECRET"
        )
    with example_federation(tmp_path, name) as world:
        answer = world.ask(f"{example.registry}/team/app", args=args)
        assert [user for user, _ in answer.auth.values()] == [example.username]


def test_variables_alone_do_the_same(tmp_path: Path) -> None:
    """As env of the provider's entry."""
    variables = {
        "REGISTRY": JFROG, "PRESET": "jfrog", "AUDIENCE": AUDIENCE, "ISSUER": ISSUER, "PARAM_PROVIDER_NAME": "k8s",
    }  # fmt: skip
    env = {f"KEYFERRY_FEDERATE_{name}": value for name, value in variables.items()}
    with example_federation(tmp_path, "jfrog") as world:
        assert world.ask(IMAGE, env=env).auth[JFROG][0] == "k8s-puller"
        config = world.write(rule_of("jfrog"))
        assert world.ask(IMAGE, env={"KEYFERRY_FEDERATE_CONFIG": str(config)}).auth


def test_passed_through_the_token_itself_is_the_password(tmp_path: Path) -> None:
    token = account_token()
    with example_federation(tmp_path, "passthrough") as world:
        answer = world.ask("zot.example.com:5000/app", rule_of("passthrough"), token=token)
    assert answer.auth == {"zot.example.com:5000": ("jwt", token)}


@pytest.mark.parametrize("source", ["file", "env"])
def test_a_subject_comes_from_a_file_or_a_variable(source: str, tmp_path: Path) -> None:
    """As GitLab's jobs have it, and projected volumes."""
    token = account_token()
    (tmp_path / "token").write_text(f"{token}\n")
    places = {"file": {"file": str(tmp_path / "token")}, "env": {"variable": "ID_TOKEN"}}
    subject = {"from": source, "audience": AUDIENCE, "issuer": ISSUER, **places[source]}
    with example_federation(tmp_path, "jfrog") as world:
        answer = world.ask(IMAGE, rule_of("jfrog", subject=subject), token="", env={"ID_TOKEN": token})
        assert answer.auth


@pytest.mark.parametrize(
    "data", [{"username": "u", "password": "p"}, {"data": {"username": "u", "password": "p"}}]
)
def test_vault_reads_static_and_dynamic_secrets(data: dict[str, object], tmp_path: Path) -> None:
    """KV of both versions, and secrets with a lease, which is their lifetime."""

    def handle(received: object) -> Reply:
        if getattr(received, "method", "") == "POST":
            return Reply(document={"auth": {"client_token": "hvs.vault-token"}})
        return Reply(document={"lease_duration": 1000, "data": data})

    with federation(tmp_path, handle, "vault.example.com") as world:
        answer = world.ask("registry.example.com/app", rule_of("vault"))
    assert answer.auth == {"registry.example.com": ("u", "p")}
    assert cache_seconds(answer) == 900


def recipe_rule(**changes: object) -> dict[str, object]:
    """A rule with calls of its own: the next vendor."""
    call = {
        "method": "GET",
        "url": "https://sts.example.com/sts/${kind}/exchange",
        "bearer": "${subject}",
        "encode": "query",
        "fields": {"scope": "${repository}", "identity": "puller"},
        "out": {"token": "/result/0/token", "ttl": "/result/0/seconds"},
    }
    rule: dict[str, object] = {
        "registries": ["registry.example.com"],
        "subject": {"audience": AUDIENCE, "issuer": ISSUER},
        "params": {"kind": "a/b"},
        "calls": [call],
        "credentials": {"username": "user-of-${kind}", "password": "${token}"},
        "lifetime": {"from": ["ttl"], "margin": "1m", "max": "30m"},
        "cacheKeyType": "Image",
    }
    return {**rule, **changes}


@pytest.mark.parametrize("end", ["", ":v1", f"@sha256:{'0' * 64}", f":v1@sha256:{'0' * 64}"])
def test_a_recipe_of_ones_own_serves_the_next_vendor(end: str, tmp_path: Path) -> None:
    """Query, bearer, values of the image without its tag and digest, pointers into arrays, margins and limits."""
    token = account_token()

    def handle(received: object) -> Reply:
        assert getattr(received, "target", "") == "/sts/a%2Fb/exchange?scope=team%2Fapp&identity=puller"
        assert getattr(received, "headers", {})["authorization"] == f"Bearer {token}"
        return Reply(document={"result": [{"token": "opaque-1", "seconds": "600"}]})

    with federation(tmp_path, handle, "sts.example.com") as world:
        answer = world.ask(f"registry.example.com/team/app{end}", recipe_rule(), token=token)
    assert answer.auth == {"registry.example.com": ("user-of-a/b", "opaque-1")}
    assert (answer.document["cacheKeyType"], cache_seconds(answer)) == ("Image", 540)


@pytest.mark.parametrize(("username", "password"), [("${ttl}", "p"), ("u", "${ttl}")])
def test_half_a_login_is_none(username: str, password: str, tmp_path: Path) -> None:
    """The kubelet would try it, and the registry's refusal would hide what is wrong."""
    rule = recipe_rule(credentials={"username": username, "password": password})
    document = {"result": [{"token": "opaque-1"}]}  # a response need not say how long
    with federation(tmp_path, lambda _: Reply(document=document), "sts.example.com") as world:
        answer = world.ask("registry.example.com/app", rule)
    assert (answer.status, answer.stdout) == (1, "")
    assert "no user name or no password" in answer.stderr


@pytest.mark.parametrize(
    ("lifetime", "ttl", "make", "kept"),
    [
        ({"from": ["ttl"]}, 1000, None, 900),
        ({"from": ["ttl", "exp"]}, 0, lambda: issued(1000), 900),
        ({"from": ["ttl", "exp"]}, 5000, lambda: issued(1000), 900),
        ({"from": ["ttl", "exp"]}, 100, lambda: issued(1000), 90),
        ({"from": ["ttl"], "margin": "1m"}, 1000, None, 940),
        ({"from": ["ttl"], "margin": "1m"}, 30, None, 0),
        ({"from": ["ttl"], "max": "1m"}, 1000, None, 60),
        ({"from": ["ttl"], "unknown": "1m"}, 0, None, 60),
        ({"from": ["ttl"], "unknown": "10m"}, 0, lambda: issued(300), 270),
    ],
)
def test_a_login_is_kept_for_its_lifetime_less_a_margin(
    lifetime: dict[str, object], ttl: int, make: Callable[[], str] | None, kept: int, tmp_path: Path
) -> None:
    """That of the response, or the token's own, whichever ends first."""
    document = {"result": [{"token": make() if make else "opaque-1", "seconds": ttl}]}
    with federation(tmp_path, lambda _: Reply(document=document), "sts.example.com") as world:
        answer = world.ask("registry.example.com/app", recipe_rule(lifetime=lifetime))
    assert kept - (60 if make else 0) <= cache_seconds(answer) <= kept


def test_clocks_may_differ_a_little(tmp_path: Path) -> None:
    """By a minute, for the subject token and for the one that comes back."""
    soon, later = ({"nbf": int(time.time()) + seconds} for seconds in (30, 120))
    reply = Reply(document=LOGIN)
    with federation(tmp_path, lambda _: reply, JFROG) as world:
        assert world.ask(IMAGE, rule_of("jfrog"), token=account_token(**soon)).auth
        answer = world.ask(IMAGE, rule_of("jfrog"), token=account_token(**later))
        assert "the subject token is not valid yet" in answer.stderr
        reply = Reply(document={**LOGIN, "access_token": issued(**soon)})
        assert world.ask(IMAGE, rule_of("jfrog")).auth
        reply = Reply(document={**LOGIN, "access_token": issued(**later)})
        assert "the token of the response is not valid yet" in world.ask(IMAGE, rule_of("jfrog")).stderr


def test_a_wait_that_exceeds_the_time_is_not_begun(tmp_path: Path) -> None:
    """Retry-After is obeyed, or ends the attempts."""
    with federation(tmp_path, lambda _: Reply(429, headers={"Retry-After": "44"}), JFROG) as world:
        answer = world.ask(IMAGE, rule_of("jfrog"), args=["--timeout=40s"])
        assert "refused with status 429" in answer.stderr
        assert len(world.server.received) == 1


FAILURES = {
    "refused": (
        Reply(401, {"error": "invalid_grant", "error_description": "marked-description"}),
        "'invalid_grant'",
    ),
    "refused-by-vault": (Reply(403, {"errors": ["permission denied"]}), "and the error 'permission denied'"),
    "refused-by-vault-at-length": (
        Reply(400, {"errors": ["error validating claims: audience does not match any bound audience"]}),
        "'error validating claims: audience does not match any bound audience'",
    ),
    "refused-with-what-may-be-a-secret": (
        Reply(403, {"errors": ["bad token hvs.CAESIJmarked"]}),
        "refused with status 403\n",
    ),
    "refused-with-a-number": (Reply(403, {"errors": [1]}), "refused with status 403\n"),
    "refused-without-a-code": (Reply(403, body=b"marked-body"), "refused with status 403"),
    "a-code-that-is-a-sentence": (Reply(400, {"error": "marked sentence\n"}), "refused with status 400\n"),
    "throttled-for-too-long": (Reply(429, headers={"Retry-After": "3600"}), "refused with status 429"),
    "throttled-until-a-date": (
        Reply(429, headers={"Retry-After": "Fri, 31 Dec 9999 23:59:59 GMT"}),
        "retry after 999999999 s",
    ),
    "down": (Reply(500), "the server is busy or out of order"),
    "empty": (Reply(document={}), "without a text at /access_token"),
    "no-user": (Reply(document={"access_token": "t", "expires_in": 60}), "without a text at /username"),
    "a-line-break": (
        Reply(document={"access_token": "marked\r\nX: y", "username": "u"}),
        "at /access_token is too long or has a control character",
    ),
    "a-user-with-a-colon": (Reply(document={"access_token": "t", "username": "a:b"}), "has a colon"),
    "endless": (Reply(is_endless=True), "is longer than"),
    "closed": (Reply(is_closed=True), JFROG),
    "no-http": (Reply(raw=b"marked\r\n\r\n"), JFROG),
    "cut": (Reply(raw=b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n{"), JFROG),
}


@pytest.mark.parametrize("case", FAILURES)
def test_a_server_that_fails_is_named_and_not_quoted(case: str, tmp_path: Path) -> None:
    """Nothing on standard output; the message has the URL and what is wrong, and no byte of a body."""
    reply, words = FAILURES[case]
    token = account_token()
    with federation(tmp_path, lambda _: reply, JFROG) as world:
        answer = world.ask(IMAGE, rule_of("jfrog"), token=token)
    assert (answer.status, answer.stdout) == (1, "")
    assert words in answer.stderr, answer.stderr
    assert "marked" not in answer.stderr
    assert token not in answer.stderr
    assert "Traceback" not in answer.stderr


def test_the_time_cannot_exceed_the_kubelets_minute(tmp_path: Path) -> None:
    with federation(tmp_path, lambda _: Reply(), JFROG) as world:
        answer = world.ask(IMAGE, rule_of("jfrog"), args=["--timeout=60s"])
    assert "expected a duration up to 50s" in answer.stderr


def test_a_refusal_says_what_the_token_says_of_itself(tmp_path: Path) -> None:
    """Issuer, subject, audience and expiry: what the other side compares."""
    with federation(tmp_path, lambda _: Reply(401), JFROG) as world:
        answer = world.ask(IMAGE, rule_of("jfrog"))
    assert (
        f"iss {ISSUER!r}, sub 'system:serviceaccount:default:puller', aud {AUDIENCE!r}, exp " in answer.stderr
    )


def test_steps_are_told_on_request(tmp_path: Path) -> None:
    """With hosts, status and lifetime, and without secrets."""
    token = account_token()
    with example_federation(tmp_path, "acr") as world:
        answer = world.ask("team.azurecr.io/app", rule_of("acr"), token=token, args=["--verbose"])
        password = answer.auth["team.azurecr.io"][1]
    lines = answer.stderr.splitlines()
    assert [line.partition(" after ")[0].partition(" with ")[0] for line in lines] == [
        "keyferry-federate: token from kubelet",
        "keyferry-federate: POST https://login.microsoftonline.com/tenant-1/oauth2/v2.0/token: status 200",
        "keyferry-federate: POST https://team.azurecr.io/oauth2/exchange: status 200",
        "keyferry-federate: login for team.azurecr.io to keep for 3600.0 s by Registry",
    ]
    for secret in (token, password, "entra-token-1"):
        assert secret not in answer.stderr


@pytest.mark.parametrize("name", PRESETS)
def test_a_preset_is_shown_in_the_language_of_a_rule(name: str, tmp_path: Path) -> None:
    """Its calls, credentials and lifetime, put into a rule, do what the preset does."""
    shown = run_plugin("federate", "", ["--show-preset", name], {})
    preset = json.loads(shown.stdout)
    assert (shown.status, shown.stderr, preset) == (0, "", PRESETS[name])
    defaults = {key: each.get("default") for key, each in preset["params"].items()}
    params = {**{key: value for key, value in defaults.items() if value}, **EXAMPLES[name].params}
    own = rule_of(name, params=params, subject=preset.get("subject") or dict(EXAMPLES[name].subject))
    del own["preset"]
    # A rule has no optional parameters: what is not set is left out of its calls.
    text = json.dumps(
        {
            part: preset[part]
            for part in ("calls", "credentials", "lifetime", "fromAnnotations")
            if part in preset
        }
    )
    for key in set(defaults) - set(params):
        text = text.replace(f"${{{key}}}", "")
    with example_federation(tmp_path, name) as world:
        answer = world.ask(f"{EXAMPLES[name].registry}/team/app", {**own, **json.loads(text)})
        assert [user for user, _ in answer.auth.values()] == [EXAMPLES[name].username]


def test_an_unknown_preset_is_wrong_usage() -> None:
    answer = run_plugin("federate", "", ["--show-preset", "nexus"], {})
    assert (answer.status, answer.stdout) == (2, "")
    assert "expected one of passthrough, rfc8693, jfrog" in answer.stderr


@pytest.mark.parametrize("name", ["jfrog", "nexus"])
def test_a_preset_is_no_traceback_where_the_streams_are_closed(name: str) -> None:
    for closed in (">&-", "2>&-", ">&- 2>&-"):
        done = subprocess.run(
            ["sh", "-c", f'"$@" {closed}', "sh", *launcher("federate"), "--show-preset", name],
            capture_output=True,
            text=True,
            check=False,
            timeout=60,
        )
        assert done.returncode == (0 if name in PRESETS else 2)
        assert "Traceback" not in done.stderr
