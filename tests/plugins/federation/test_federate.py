"""keyferry-federate run as a kubelet runs it, against servers that check what they are sent."""

from __future__ import annotations

import base64
import json
import re
import subprocess
import textwrap
import time
from base64 import b64encode, urlsafe_b64encode
from pathlib import Path

import jwt
import pytest
import yaml

from keyferry.api.federation.presets import PRESETS, load_preset
from keyferry.api.federation.rules import CompleteRule
from keyferry.api.federation.v1alpha1 import (
    CacheLifetime,
    CredentialTemplates,
    ExchangeCall,
    Margin,
    Recipe,
    SubjectSettings,
)
from keyferry.sdk import AuthConfig, ProvideError, Request, Response
from keyferry_plugins.federation.answer import kept_seconds, make_response
from keyferry_plugins.federation.config import read_federation
from keyferry_plugins.federation.subject import SubjectToken, check_subject
from keyferry_plugins.signing.jose import read_claims
from support.commands import run_keyferry
from support.fake_cloud import Reply
from support.federation import (
    AUDIENCE,
    EXAMPLES,
    HOUR,
    ISSUER,
    account_claims,
    account_token,
    example_federation,
    federation,
    issued,
    issuer_key,
    rule_of,
    sign,
)
from support.google_world import World
from support.jose_tokens import forge
from support.reference import Answer, ask_image, launcher, run_plugin, write_launcher

JFROG = "team.jfrog.io"
IMAGE = f"{JFROG}/docker/app"
LOGIN = {"access_token": "opaque-1", "expires_in": HOUR, "username": "u"}


def cache_seconds(answer: Answer) -> float:
    """The cacheDuration of a response."""
    from keyferry.api.meta import parse_duration

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


def test_throttling_is_waited_for(tmp_path: Path) -> None:
    """A 429 with Retry-After, and a 503, are tried again; the answer after them counts."""
    replies = [
        Reply(429, {"error": "slow_down"}, headers={"Retry-After": "1"}),
        Reply(503),
        Reply(document={"access_token": issued(), "expires_in": HOUR, "username": "u"}),
    ]
    with federation(tmp_path, lambda _: replies.pop(0), JFROG) as world:
        assert world.ask(IMAGE, rule_of("jfrog")).auth[JFROG][0] == "u"
        assert len(world.server.received) == 3


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
    "redirect": (Reply(307, headers={"Location": "https://marked.example.com/"}), "which is never followed"),
    "moved": (Reply(302, headers={"Location": f"https://{JFROG}/marked"}), "which is never followed"),
    "no-json": (Reply(body=b"<html>marked</html>"), "not a JSON object"),
    "a-list": (Reply(document=["marked"]), "not a JSON object"),
    "empty": (Reply(document={}), "without a text at /access_token"),
    "no-user": (Reply(document={"access_token": "t", "expires_in": 60}), "without a text at /username"),
    "a-line-break": (
        Reply(document={"access_token": "marked\r\nX: y", "username": "u"}),
        "at /access_token is too long or has a control character",
    ),
    "a-user-with-a-colon": (Reply(document={"access_token": "t", "username": "a:b"}), "has a colon"),
    "expired": (Reply(document={"access_token": issued(-5), "username": "u"}), "has expired already"),
    "not-yet-valid": (
        Reply(document={"access_token": issued(nbf=int(time.time()) + HOUR), "username": "u"}),
        "of the response is not valid yet",
    ),
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
        answer = world.ask(IMAGE, rule_of("jfrog"), token=token, args=["--timeout=8s"])
    assert (answer.status, answer.stdout) == (1, "")
    assert words in answer.stderr, answer.stderr
    assert "marked" not in answer.stderr
    assert token not in answer.stderr
    assert "Traceback" not in answer.stderr


def test_a_slow_server_ends_in_time_with_a_message(tmp_path: Path) -> None:
    """The time is for all calls together, however many attempts there are."""
    with federation(tmp_path, lambda _: Reply(after=5), JFROG) as world:
        answer = world.ask(IMAGE, rule_of("jfrog"), args=["--timeout=1s"])
    assert (answer.status, answer.stdout) == (1, "")
    assert f"https://{JFROG}/access/api/v1/oidc/token: no response in time" in answer.stderr


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


def test_google_gets_the_same_request_from_both_plugins(world: World) -> None:
    """keyferry-gcr and the preset, for a GKE workload identity pool: one server, one request, one login."""
    sts = "POST sts.googleapis.com/v1/token"
    token = account_token(aud=["proj.svc.id.goog"])
    world.on(
        sts, Reply(document={"access_token": "ya29.d.federated", "expires_in": HOUR, "token_type": "Bearer"})
    )
    image = "europe-docker.pkg.dev/proj/repo/app"
    theirs = ask_image(
        "gcr", image, args=["--identity-provider=idp", "--project-id=proj"], env=world.node_env(), token=token,
        annotations={"iam.gke.io/enable-wi-image-pull": "true"},
    )  # fmt: skip
    args = [
        "--registry=europe-docker.pkg.dev", "--preset=gcp", "--audience=proj.svc.id.goog", f"--issuer={ISSUER}",
        "--param=pool=identitynamespace:proj.svc.id.goog:idp",
    ]  # fmt: skip
    ours = ask_image("federate", image, args=args, env=world.node_env(), token=token)
    first, second = world.api.received
    assert (first.target, first.json) == (second.target, second.json)
    assert theirs.auth["europe-docker.pkg.dev"] == ours.auth["europe-docker.pkg.dev"]


def test_the_kubelets_token_is_signed_by_the_cluster() -> None:
    """So that what the servers verify is what a real API server writes."""
    token = account_token()
    assert jwt.get_unverified_header(token) == {"alg": "RS256", "kid": "key-1"}
    assert read_claims(token)["aud"] == [AUDIENCE]
    assert jwt.decode(token, issuer_key().public_key(), ["RS256"], audience=AUDIENCE)["iss"] == ISSUER


PAGE = Path(__file__).resolve().parents[3] / "docs" / "plugins" / "federation.md"


def blocks(kind: str) -> list[str]:
    """The blocks of one language on the plugin's page."""
    found = re.findall(
        rf"^( *)```{kind}\n(.*?)^\1```", PAGE.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL
    )
    return [textwrap.dedent(text) for _, text in found]


def test_the_configs_on_the_page_are_good() -> None:
    configs = blocks("json")
    assert len(configs) == 2
    assert all(read_federation(text.encode(), "page").rules for text in configs)


def test_the_arguments_on_the_page_give_a_login(tmp_path: Path) -> None:
    """With the registry's name and the token that the page asks for."""
    (entry,) = yaml.safe_load(next(text for text in blocks("yaml") if "tokenAttributes:" in text))[
        "providers"
    ]
    with federation(tmp_path, EXAMPLES["jfrog"].handler, AUDIENCE) as world:
        answer = world.ask(
            f"{entry['matchImages'][0]}/app",
            args=entry["args"],
            token=account_token(aud=[entry["tokenAttributes"]["serviceAccountTokenAudience"]]),
        )
        assert answer.auth[AUDIENCE][0] == "k8s-puller"


@pytest.mark.parametrize("name", PRESETS)
def test_the_page_names_every_parameter_of_a_preset(name: str) -> None:
    text = PAGE.read_text(encoding="utf-8")
    part = re.split(r"\n###? ", text.partition(f"\n### `{name}`")[2])[0]
    preset = load_preset(name)
    assert preset is not None
    assert [each for each in preset.parameters if f"`{each}`" not in part] == []


def test_a_job_gets_a_docker_config_as_on_the_page(tmp_path: Path) -> None:
    """By a provider config and a token in a variable, without a kubelet."""
    text = next(text for text in blocks("yaml") if "--subject-from=env" in text)
    (tmp_path / "ci.yaml").write_text(text)
    (tmp_path / "bin").mkdir()
    token = sign({**account_claims(), "iss": "https://gitlab.example.com", "aud": JFROG})
    with federation(tmp_path, lambda _: Reply(document=LOGIN), JFROG) as world:
        write_launcher(tmp_path / "bin", "federate", env={**world.env, "REGISTRY_ID_TOKEN": token})
        done = run_keyferry(
            "get", IMAGE, "--config", str(tmp_path / "ci.yaml"), "--bin-dir", str(tmp_path / "bin"),
            "-o", "dockerconfig", "--reveal",
        )  # fmt: skip
    auth = base64.b64encode(b"u:opaque-1").decode()
    assert json.loads(done.stdout)["auths"][JFROG]["auth"] == auth, done.stderr


NOW = 1_000_000.0
LEEWAY = 60
SETTINGS = SubjectSettings(audience="registry", issuer="https://issuer")
CLAIMS: dict[str, object] = {"iss": "https://issuer", "sub": "s", "aud": "registry", "exp": int(NOW) + 600}


def token(**changes: object) -> str:
    """A token with changed claims."""
    return forge({"alg": "none"}, claims={**CLAIMS, **changes})


@pytest.mark.parametrize("start", [NOW - 1000, NOW, NOW + LEEWAY])
def test_clocks_may_differ_a_little(start: int) -> None:
    found = check_subject(token(nbf=start), SETTINGS, NOW)
    assert (found.issuer, found.audience, found.expires_at) == ("https://issuer", "registry", NOW + 600)


@pytest.mark.parametrize("start", [NOW + LEEWAY + 1, NOW + 3600])
def test_a_token_of_later_is_not_valid_yet(start: int) -> None:
    with pytest.raises(ProvideError, match="the subject token is not valid yet"):
        check_subject(token(nbf=start), SETTINGS, NOW)


@pytest.mark.parametrize("end", [NOW, NOW - 1, None, "soon"])
def test_a_token_has_an_end_that_is_to_come(end: object) -> None:
    """Without a leeway: a token that the receiver may refuse is not worth sending."""
    with pytest.raises(ProvideError, match="has expired or has no expiry"):
        check_subject(token(exp=end), SETTINGS, NOW)
    assert check_subject(token(exp=NOW + 1), SETTINGS, NOW).expires_at == NOW + 1


MINUTE = 60_000_000_000
SUBJECT = "head.~~claims??.signature"


def log_in(username: str, password: str, *, has_calls: bool = True) -> Response:
    """Return the response for a login that a server returned, or that is made of the expiring itself."""
    calls = (ExchangeCall(),) if has_calls else ()
    recipe = Recipe(
        calls=calls,
        credentials=CredentialTemplates(username="${name}", password="${word}"),
        lifetime=CacheLifetime(sources=(), unknown_ns=MINUTE),
    )
    rule = CompleteRule(
        registries=("r.example",),
        subject=SubjectSettings(),
        parameters={},
        recipe=recipe,
        cache_key_type="Image",
        ca_file="",
    )
    subject = SubjectToken(text=SUBJECT, issuer="i", subject="s", audience="a", expires_at=NOW + 1000)
    return make_response(
        rule, {"name": username, "word": password}, subject, Request(image="r.example/a"), NOW
    )


def test_a_login_is_for_the_registry_of_the_image_alone() -> None:
    expected = Response(
        auth={"r.example": AuthConfig(username="u", password="opaque")},
        cache_key_type="Image",
        cache_seconds=60.0,
    )
    assert log_in("u", "opaque") == expected


@pytest.mark.parametrize(("username", "password"), [("", "p"), ("u", ""), ("", "")])
def test_half_a_login_is_none(username: str, password: str) -> None:
    """The kubelet would try it, and the registry's refusal would hide what is wrong."""
    with pytest.raises(ProvideError, match="no user name or no password"):
        log_in(username, password)


@pytest.mark.parametrize(
    "echo",
    [
        SUBJECT,
        f"a{SUBJECT}b",
        SUBJECT.encode().hex().upper(),
        b64encode(SUBJECT.encode()).decode(),
        urlsafe_b64encode(f"u:{SUBJECT}:p".encode()).decode(),
        SUBJECT.replace("e", "%65"),
    ],
)
def test_the_subject_token_is_a_login_only_without_calls(echo: str) -> None:
    for login in ((echo, "p"), ("u", echo)):
        with pytest.raises(ProvideError, match="returned the subject token itself"):
            log_in(*login)
        assert log_in(*login, has_calls=False).auth == {
            "r.example": AuthConfig(username=login[0], password=login[1])
        }


def expiring(seconds: int) -> str:
    """A token that expires so many seconds from now."""
    return forge({"alg": "none"}, claims={"exp": int(NOW) + seconds})


@pytest.mark.parametrize(
    ("lifetime", "values", "password", "kept"),
    [
        (CacheLifetime(sources=("ttl",)), {"ttl": "1000"}, "opaque", 900),
        (CacheLifetime(sources=("ttl", "exp")), {"ttl": ""}, expiring(1000), 900),
        (CacheLifetime(sources=("ttl", "exp")), {"ttl": "5000"}, expiring(1000), 900),
        (CacheLifetime(sources=("ttl", "exp")), {"ttl": "100"}, expiring(1000), 90),
        (CacheLifetime(sources=("ttl",), margin=Margin(ns=MINUTE)), {"ttl": "1000"}, "opaque", 940),
        (CacheLifetime(sources=("ttl",), margin=Margin(ns=MINUTE)), {"ttl": "30"}, "opaque", 0),
        (CacheLifetime(sources=("ttl",), most_ns=MINUTE), {"ttl": "1000"}, "opaque", 60),
        (CacheLifetime(sources=("ttl",), unknown_ns=MINUTE), {"ttl": "0"}, "opaque", 60),
        (CacheLifetime(sources=("ttl",), unknown_ns=MINUTE), {}, expiring(10), 9),
        (CacheLifetime(sources=("ttl",), unknown_ns=MINUTE), {"ttl": "9" * 5000}, "opaque", 60),
        (CacheLifetime(sources=()), {}, "opaque", 0),
        (CacheLifetime(sources=("exp",)), {}, forge({"alg": "none"}, claims={"exp": "soon"}), 0),
    ],
)
def test_a_login_is_kept_for_its_lifetime_less_a_margin(
    lifetime: CacheLifetime, values: dict[str, str], password: str, kept: float
) -> None:
    assert kept_seconds(lifetime, values, password, NOW) == kept


@pytest.mark.parametrize(
    ("claims", "problem"),
    [
        ({"nbf": NOW + LEEWAY + 1}, "not valid yet"),
        ({"exp": NOW}, "expired already"),
        ({"exp": NOW - 1000}, "expired already"),
    ],
)
def test_a_token_that_does_not_hold_now_is_refused(claims: dict[str, object], problem: str) -> None:
    with pytest.raises(ProvideError, match=problem):
        kept_seconds(CacheLifetime(sources=("exp",)), {}, forge({"alg": "none"}, claims=claims), NOW)


@pytest.mark.parametrize("start", [NOW - 1000, NOW + LEEWAY, True, "soon"])
def test_an_answer_may_be_of_a_clock_that_differs_a_little(start: object) -> None:
    password = forge({"alg": "none"}, claims={"nbf": start, "exp": NOW + 1000})
    assert kept_seconds(CacheLifetime(sources=("exp",)), {}, password, NOW) == 900
