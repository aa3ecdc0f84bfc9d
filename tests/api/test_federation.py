"""Rules of a FederationConfig, the recipes of its calls, the presets, and texts with values in them."""

from __future__ import annotations

import pytest

from keyferry.api.federation.presets import PRESETS, load_preset
from keyferry.api.federation.recipes import Provenance, find_problems
from keyferry.api.federation.rules import check_config, complete_rule, has_form, is_cluster_audience
from keyferry.api.federation.templates import TemplateError, build_url
from keyferry.api.federation.v1alpha1 import API_VERSION, KIND, FederationPreset, SubjectSource, read_config
from keyferry.api.wire import Reader

SUBJECT = {"audience": "a", "issuer": "i"}


CALL: dict[str, object] = {
    "url": "https://sts.io/x", "fields": {"t": "${subject}"}, "out": {"token": "/t"},
}  # fmt: skip


CREDENTIALS = {"username": "u", "password": "${token}"}


OWN: dict[str, object] = {
    "registries": ["r.io"], "subject": SUBJECT, "calls": [CALL], "credentials": CREDENTIALS,
}  # fmt: skip


CONNECTION = "00000000-0000-4000-8000-00000000000a"


NO_URL = "the URL of a call cannot be made"


NO_HOST = f"{NO_URL}: its host is not"


PRESET: dict[str, object] = {
    "registries": ["r.io"], "subject": SUBJECT, "preset": "quay", "params": {"robot": "o+r"},
}  # fmt: skip


def problems(*rules: object) -> list[str]:
    """Every problem of a config with these rules."""
    reader = Reader()
    config = read_config({"apiVersion": API_VERSION, "kind": KIND, "rules": list(rules)}, reader)
    check_config(config, reader)
    return [str(problem) for _, problem in reader.problems]


def test_good_rules_have_no_problems() -> None:
    assert problems(OWN, {**PRESET, "registries": ["q.io", "q.io:5000"]}) == []


def call(**changes: object) -> dict[str, object]:
    """The rule with a call of its own that is changed."""
    return {**OWN, "calls": [{**CALL, **changes}]}


@pytest.mark.parametrize(("source", "is_fine"), [("sts.io", True), ({"env": "HOST"}, False)])
def test_only_a_text_of_the_config_says_where_the_token_goes(source: object, is_fine: bool) -> None:
    """What is in a variable or a file is a secret, and has no place in a URL."""
    found = problems({**call(url="https://${host}/x"), "params": {"host": source}})
    assert found == [] if is_fine else "rules[0].calls[0].url" in found[0]


CASES: dict[str, tuple[dict[str, object], str]] = {
    "no registries": ({**OWN, "registries": []}, "rules[0].registries: there are no registries"),
    "a path": ({**OWN, "registries": ["r.io/team"]}, "rules[0].registries[0]: expected a host"),
    "neither": ({"registries": ["r.io"], "subject": SUBJECT}, "rules[0]: expected either preset"),
    "both": ({**OWN, "preset": "quay"}, "rules[0]: expected either preset"),
    "unknown preset": ({**PRESET, "preset": "nexus"}, "rules[0].preset: there is no preset 'nexus'"),
    "no audience": ({**OWN, "subject": {"issuer": "i"}}, "rules[0].subject.audience: expected the audience"),
    "no issuer": ({**OWN, "subject": {"audience": "i"}}, "rules[0].subject.issuer: expected the issuer"),
    "no subject": ({**OWN, "subject": None}, "rules[0].subject.audience: expected the audience"),
    "source": ({**OWN, "subject": {**SUBJECT, "from": "x"}}, "rules[0].subject.from: found 'x', expected one of k"),
    "file": ({**OWN, "subject": {**SUBJECT, "from": "file"}}, "rules[0].subject.file: is needed with 'from: file'"),
    "other file": ({**OWN, "subject": {**SUBJECT, "file": "/x"}}, "rules[0].subject.file: is needed with"),
    "variable": ({**OWN, "subject": {**SUBJECT, "from": "env"}}, "rules[0].subject.variable: is needed with"),
    "fixed subject": (
        {**PRESET, "preset": "dockerhub", "params": {"org": "o", "connection_id": CONNECTION}},
        "rules[0].subject: the preset takes only tokens from github of",
    ),
    "missing parameter": ({**PRESET, "params": {}}, "rules[0].params: the preset needs 'robot'"),
    "other parameter": (
        {**PRESET, "params": {"robot": "r", "url": "x"}}, "rules[0].params.url: the preset has no such parameter"
    ),
    "no UUID": (
        {"registries": ["docker.io"], "preset": "dockerhub", "params": {"org": "o", "connection_id": "my-connection"}},
        "rules[0].params.connection_id: expected a UUID",
    ),
    "no provider of a pool": (
        {**PRESET, "preset": "gcp", "params": {"pool": "projects/my-project/x"}},
        "rules[0].params.pool: expected //iam.googleapis.com/projects/NUMBER/",
    ),
    "one of": ({**PRESET, "preset": "ibm", "params": {}}, "rules[0].params: the preset needs one of profile_id"),
    "host parameter": ({**PRESET, "params": {"robot": "r", "host": "a/b"}}, f"rules[0].params.host: {NO_HOST}"),
    "host of a later registry": (
        {**PRESET, "registries": ["r.io", "r.io:5000"], "params": {"robot": "r", "host": "quay.${registry}.example"}},
        f"rules[0].params.host: {NO_HOST}",
    ),
    "user info": ({**PRESET, "params": {"robot": "r", "host": "u@b"}}, f"rules[0].params.host: {NO_HOST}"),
    "empty parameter": ({**PRESET, "params": {"robot": ""}}, "rules[0].params.robot: expected a text, or an object"),
    "two sources": (
        {**PRESET, "params": {"robot": {"file": "/x", "env": "X"}}}, "rules[0].params.robot: expected a text, or"
    ),
    "no pattern": ({**PRESET, "params": {"robot": {"annotation": "a"}}}, "rules[0].params.robot: an annotation needs"),
    "bad pattern": (
        {**PRESET, "params": {"robot": {"annotation": "a", "pattern": "("}}},
        "rules[0].params.robot: the pattern is not a regular expression",
    ),
    "host by annotation": (
        {**PRESET, "params": {"robot": "r", "host": {"annotation": "a", "pattern": "[a-z.]+"}}},
        "rules[0].params.host: the value 'host' is an annotation",
    ),
    "secret in a url": (
        {**PRESET, "params": {"robot": "r", "host": {"env": "X"}}},
        "rules[0].params.host: the value 'host' is a secret, which cannot be used in a host",
    ),
    "literal secret": (
        {**PRESET, "preset": "rfc8693", "params": {"host": "x.io", "client_secret": "s"}},
        "rules[0].params.client_secret: a secret is read from a file or a variable",
    ),
    "parameter named subject": ({**OWN, "params": {"subject": "x"}}, "rules[0].params.subject: the name is invalid"),
    "parameter with a value": ({**OWN, "params": {"x": "${subject}"}}, "rules[0].params.x: the text has a control"),
    "many calls": ({**OWN, "calls": [{**CALL, "out": {f"t{n}": "/t"}} for n in range(4)], "credentials": {
        "username": "u", "password": "${t0}"}}, "rules[0].calls: found 4 calls, expected at most 3"),
    "query in url": (call(url="https://sts.io/x?y=z"), f"rules[0].calls[0].url: {NO_URL}: its path has a character"),
    "answer as host": (
        {**OWN, "calls": [CALL, {"url": "https://${token}/x", "out": {"y": "/y"}}]},
        "rules[0].calls[1].url: the value 'token' is the response of a server, which cannot be used in a host",
    ),
    "answer as path": (
        {**OWN, "calls": [CALL, {"url": "https://x/${token}", "out": {"y": "/y"}}]},
        "rules[0].calls[1].url: the value 'token' is the response of a server, which cannot be used in a path",
    ),
    "subject in url": (call(url="https://x/${subject}"), "the value 'subject' is the subject token, which cannot be"),
    "image as host": (call(url="https://${repository}/"), "the value 'repository' is the image's name, which cannot"),
    "subject in query": (call(method="GET", encode="query"), "which cannot be used in a query"),
    "body of get": (call(method="GET"), "rules[0].calls[0].encode: a GET has no body: expected query"),
    "method": (call(method="DELETE"), "rules[0].calls[0].method: expected one of GET, POST, PUT"),
    "encoding": (call(encode="xml"), "rules[0].calls[0].encode: found 'xml', expected one of form, json, query"),
    "later value": (call(fields={"t": "${token}"}), "rules[0].calls[0].fields.t: the value 'token' is not known here"),
    "path outside": (call(fields={"t": "${+subject}"}), "rules[0].calls[0].fields.t: '${+' is for paths only"),
    "line break": (call(headers={"X": "a\r\nb"}), "rules[0].calls[0].headers.X: the text has a control character"),
    "two logins": (call(bearer="${subject}", basic={"username": "u"}), "a call has either bearer or basic"),
    "pointer": (call(out={"token": "access_token"}), "rules[0].calls[0].out.token: expected a JSON pointer"),
    "name of out": (call(out={"token": "/t", "subject": "/x"}), "rules[0].calls[0].out.subject: the name is invalid"),
    "exp of out": (call(out={"token": "/t", "exp": "/x"}), "rules[0].calls[0].out.exp: the name is invalid"),
    "no credentials": ({**OWN, "credentials": None}, "rules[0].credentials: expected a username and a password"),
    "subject as password": (
        {**OWN, "credentials": {"username": "u", "password": "x${subject}"}},
        "rules[0].credentials.password: the subject token is a password only in a recipe without calls",
    ),
    "subject as user": (
        {**OWN, "credentials": {"username": "${subject}", "password": "${token}"}},
        "which cannot be used in the user name",
    ),
    "no calls": (
        {**OWN, "calls": [], "credentials": {"username": "u", "password": "p"}},
        "rules[0].credentials.password: without calls the password is the token",
    ),
    "embedded subject": (
        {**OWN, "calls": [], "credentials": {"username": "u", "password": "x${subject}"}},
        "rules[0].credentials.password: without calls the password is the token",
    ),
    "lifetime": ({**OWN, "lifetime": {"from": ["ttl"]}}, "rules[0].lifetime.from[0]: expected exp, or the name"),
    "margin": ({**OWN, "lifetime": {"margin": "100%"}}, "rules[0].lifetime.margin: expected a percentage"),
    "negative": ({**OWN, "lifetime": {"max": "-1h"}}, "rules[0].lifetime.max: a duration cannot be negative"),
    "duration": ({**OWN, "lifetime": {"unknown": "soon"}}, "rules[0].lifetime.unknown: "),
    "lifetime of a preset": ({**PRESET, "lifetime": {"from": ["x"]}}, "rules[0].lifetime.from[0]: expected exp"),
    "global": ({**OWN, "cacheKeyType": "Global"}, "rules[0].cacheKeyType: expected one of Registry, Image"),
    "image in a field": (call(fields={"s": "${repository}"}), "rules[0].cacheKeyType: the calls use repository"),
    "relative subject": (
        {**OWN, "subject": {**SUBJECT, "from": "file", "file": "token"}},
        "rules[0].subject.file: expected an absolute path",
    ),
    "relative parameter": (
        {**OWN, "params": {"x": {"file": "./secret"}}}, "rules[0].params.x: expected an absolute path",
    ),
    "IPv6": ({**OWN, "registries": ["[::1]:5000"]}, "rules[0].registries[0]: an IPv6 address is not supported"),
    "bare IPv6": ({**OWN, "registries": ["fd00::1"]}, "rules[0].registries[0]: an IPv6 address is not supported"),
    "issuer with a slash": (
        {**OWN, "subject": {"audience": "https://i/", "issuer": "https://i"}},
        "rules[0].subject.audience: a token for this audience is one for the API server",
    ),
    "authorities": ({**OWN, "caFile": "ca.pem"}, "rules[0].caFile: expected an absolute path"),
    "unknown field": ({**OWN, "insecure": True}, "rules[0].insecure: unknown field"),
}  # fmt: skip


@pytest.mark.parametrize("case", CASES)
def test_a_problem_is_named_with_its_place(case: str) -> None:
    rule, words = CASES[case]
    found = problems(rule)
    assert any(words in each for each in found), found


def test_a_registry_has_one_rule() -> None:
    assert problems(OWN, PRESET) == ["rules[1].registries[0]: the registry has a rule already: rules[0]"]


def test_a_preset_that_fixes_its_subject_needs_none_and_takes_the_same() -> None:
    rule = {
        "registries": ["docker.io"],
        "preset": "dockerhub",
        "params": {"org": "o", "connection_id": CONNECTION},
    }
    assert problems(rule) == []
    assert problems({**rule, "subject": {"from": "github"}}) == []


def test_a_config_has_rules() -> None:
    assert problems() == ["rules: there are no rules"]


def test_a_rule_is_completed_by_its_preset() -> None:
    """With the preset's defaults, its fixed subject, and a lifetime of the rule's own."""
    document = {"registries": ["docker.io"], "preset": "dockerhub", "lifetime": {"max": "1m"}}
    reader = Reader()
    (rule,) = read_config({"apiVersion": API_VERSION, "kind": KIND, "rules": [document]}, reader).rules
    complete = complete_rule(rule)
    assert complete.subject.source is SubjectSource.GITHUB
    assert complete.parameters["expires_in"].text == "300"
    assert complete.recipe.lifetime.most_ns == 60_000_000_000
    assert len(complete.recipe.calls) == 1


@pytest.mark.parametrize(
    ("audience", "is_cluster"),
    [
        ("https://issuer", True),
        ("https://issuer/", True),
        ("https://issuer/x", False),
        ("kubernetes.default", True),
        ("kubernetes.default.svc", True),
        ("https://kubernetes.default.svc.cluster.local", True),
        ("https://Kubernetes.Default.svc:443/x", True),
        ("kubernetes", False),
        ("kubernetes.default-registry.example.com", False),
        ("registry.example.com", False),
    ],
)
def test_the_api_servers_audience_is_known(audience: str, is_cluster: bool) -> None:
    assert is_cluster_audience(audience, "https://issuer") is is_cluster


@pytest.mark.parametrize(
    ("seconds", "is_fine"),
    [
        ("299", False), ("300", True), ("999", True), ("1000", True), ("3599", True), ("3600", True),
        ("3601", False), ("4000", False), ("300s", False), ("0300", False), ("300\n", False), ("36000", False),
        ("-300", False),
    ],
)  # fmt: skip
def test_a_lifetime_is_within_the_servers_bounds(seconds: str, is_fine: bool) -> None:
    params = {"org": "o", "connection_id": CONNECTION, "expires_in": seconds}
    found = problems({"registries": ["docker.io"], "preset": "dockerhub", "params": params})
    expected = "rules[0].params.expires_in: expected a number of seconds from 300 to 3600"
    assert (expected in found) is not is_fine
    assert is_fine is (found == [])


# Written out: a name that is removed from the source's own table must be missed here.
PURPOSES = (
    "aud", "audience", "client_assertion_type", "grant_type", "iss", "issuer", "requested_token_type", "resource",
    "scope", "subject_issuer", "subject_token_type",
)  # fmt: skip


OWN_HEADERS = (
    "accept", "authorization", "connection", "content-length", "content-type", "cookie", "expect", "host",
    "keep-alive", "proxy-authorization", "te", "trailer", "transfer-encoding", "upgrade", "user-agent",
)  # fmt: skip


@pytest.mark.parametrize("name", [*PURPOSES, "SCOPE", "Scope", "scope ", "\tscope"])
def test_no_annotation_says_what_a_token_is_for(name: str) -> None:
    """However the field's name is written: a server may be lenient with case and blanks."""
    rule = call(fields={name: "x-${who}"})
    (found,) = problems({**rule, "params": {"who": {"annotation": "a", "pattern": ".*"}}})
    assert found.endswith("is an annotation, which cannot be used in a field that says what a token is for")
    assert problems({**rule, "params": {"who": "me"}}) == []


@pytest.mark.parametrize(
    "name", [*OWN_HEADERS, "HOST", "Content-Length", "", "X Y", "X:", "X\n", "Ä", " Host"]
)
def test_no_recipe_sets_a_header_of_the_client_or_one_with_an_odd_name(name: str) -> None:
    (found,) = problems(call(headers={name: "x"}))
    assert found.endswith(f".headers.{name}: this header cannot be set")


def test_other_headers_are_the_recipes() -> None:
    assert problems(call(headers={"X-Vault-Namespace": "x", "X_Y": "${registry}"})) == []


@pytest.mark.parametrize("name", PRESETS)
def test_a_preset_is_a_recipe_like_any_other(name: str) -> None:
    """Every parameter is used and said in words, and a default has the form that is asked for."""
    reader = Reader()
    preset = FederationPreset.from_document(PRESETS[name], reader)
    assert reader.problems == []
    classes = dict.fromkeys(preset.parameters, Provenance.FILE)
    assert list(find_problems(preset, classes)) == []
    assert preset.about
    used = str([PRESETS[name]["calls"], PRESETS[name]["credentials"]])
    for key, parameter in preset.parameters.items():
        assert parameter.about
        assert f"{key}}}" in used
        assert bool(parameter.pattern) == bool(parameter.expected)
        assert not parameter.default or has_form(parameter, parameter.default)


def test_an_unknown_preset_is_none() -> None:
    assert load_preset("nexus") is None


@pytest.mark.parametrize("text", ["", "plain", "$", "$x", "{x}", "a}b", "é ~"])
def test_a_text_without_a_value_is_text(text: str) -> None:
    assert problems(call(fields={"t": text})) == []


@pytest.mark.parametrize(
    "text",
    [
        *("${", "${}", "${x", "${X}", "${1}", "${a-b}", "${a b}", "${++a}", "${${a}}", "${+}", "${é}"),
        *("a\nb", "\x00", "\x7f", "\x85", "\ud800"),
    ],
)
def test_an_unfinished_value_and_a_control_character_are_problems(text: str) -> None:
    (found,) = problems(call(fields={"t": text}))
    reasons = ("'${' is not followed by a name", "the text has a control character")
    assert found.startswith(tuple(f"rules[0].calls[0].fields.t: {each}" for each in reasons))


@pytest.mark.parametrize(("name", "is_good"), [("a", True), ("a_1", True), ("é", False), ("a" * 64, False)])
def test_names_of_values_are_short_and_plain(name: str, is_good: bool) -> None:
    found = problems({**OWN, "params": {name: "x"}})
    assert found == [] if is_good else "the name is invalid" in found[0]


GOOD = ["r.io", "registry.example.com:5000", "127.0.0.1:443", "localhost", "a-b.c", "x:1", "x:65535"]


BAD = [
    "", ":", ":5000", "r.io:", "r.io:0", "r.io:65536", "r.io:5000000", "R.io", "r.io.", ".r.io", "r..io", "-r.io",
    "r-.io", "r.io/x", "r.io?x", "r.io#x", "u@r.io", "r.io:5000@x", "r.io:x", "*.io", "r_.io", "r.io ", "r.i\u043e",
    "[::1]", "https://r.io", "r.io\\x", "r.io\n", "a" * 64, ".".join(["a" * 60] * 5), "r.io:\u0663",
]  # fmt: skip


@pytest.mark.parametrize("host", GOOD)
def test_a_registry_may_have_a_port(host: str) -> None:
    assert problems({**OWN, "registries": [host]}) == []


@pytest.mark.parametrize("host", BAD)
def test_nothing_else_is_a_registry(host: str) -> None:
    (found,) = problems({**OWN, "registries": [host]})
    assert found.startswith("rules[0].registries[0]: ")


@pytest.mark.parametrize("url", ["http://r.io/x", "r.io", "HTTPS://r.io", ""])
def test_a_call_goes_to_a_url_of_https(url: str) -> None:
    assert "rules[0].calls[0].url: expected an https:// URL" in problems(call(url=url))


@pytest.mark.parametrize(
    ("url", "values", "expected"),
    [
        ("https://r.io", {}, "https://r.io"),
        ("https://${host}/a", {"host": "r.io:5000"}, "https://r.io:5000/a"),
        ("https://${org}.r.io/a", {"org": "team"}, "https://team.r.io/a"),
        ("https://r.io/${a}/x", {"a": "b/c d?e#f"}, "https://r.io/b%2Fc%20d%3Fe%23f/x"),
        ("https://r.io/${+a}", {"a": "b/c d"}, "https://r.io/b/c%20d"),
    ],
)
def test_values_are_escaped_where_they_stand(url: str, values: dict[str, str], expected: str) -> None:
    assert build_url(url, values) == expected


@pytest.mark.parametrize(
    ("url", "value"),
    [
        *(("https://${x}/token", value) for value in ("", "u@r.io", "r.io/x", "r.io#x", "r.io\n", "[::1]")),
        ("https://r.io${x}/token", ".evil.com:1/"),
        ("https://r.io/${x}", ""),
        ("https://r.io/${x}", ".."),
        ("https://r.io/${+x}", "a/../b"),
        ("https://r.io/${+x}", "/a"),
        ("https://r.io/${+x}", "a//b"),
        ("https://r.io/${x}", "a\nb"),
        ("https://r.io/a?x=${x}", "y"),
        ("https://r.io/a#${x}", "y"),
        ("https://r.io/../${x}", "y"),
        ("https://r.io/%2e%2e/${x}", "y"),
        ("https://r.io?${x}", "y"),
        ("https://user@r.io/${x}", "y"),
        ("http://r.io/${x}", "y"),
        ("HTTPS://r.io/${x}", "y"),
        ("//r.io/${x}", "y"),
        ("", "y"),
    ],
)
def test_a_value_cannot_leave_its_place(url: str, value: str) -> None:
    with pytest.raises(TemplateError):
        build_url(url, {"x": value})
