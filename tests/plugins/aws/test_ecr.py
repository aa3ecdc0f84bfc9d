"""keyferry-ecr: the hosts of ECR, and runs as a kubelet runs it, against an AWS that checks every signature."""

from __future__ import annotations

import time
from calendar import timegm
from pathlib import Path

import pytest

from keyferry.api.meta import parse_duration
from support.aws_machine import AwsMachine, assert_failed
from support.aws_services import (
    ACCOUNT,
    HOST,
    IDENTITY,
    IMAGE,
    KEY,
    KEYS,
    PASSWORD,
    REGION,
    ROLE,
    SECRET,
    FakeAws,
    FakeInstance,
    json_error,
    login,
    sts_error,
)
from support.fake_cloud import Authority, ConnectProxy, FakeServer, Received, Reply, serving
from support.reference import Answer, image_request, run_plugin

DROP_KEYS = " ".join(KEYS)
FIPS_HOST = f"{ACCOUNT}.dkr.ecr-fips.{REGION}.amazonaws.com"
DUAL_HOST = f"{ACCOUNT}.dkr-ecr.{REGION}.on.aws"


def at(home: Path, url: str) -> AwsMachine:
    """A node whose AWS is at *url*."""
    return AwsMachine(home, AWS_ENDPOINT_URL=url, **KEYS)


@pytest.fixture
def node(tmp_path: Path, server: FakeServer) -> AwsMachine:
    """A node whose AWS is on loopback."""
    return at(tmp_path, server.url)


def seconds(answer: Answer) -> float:
    """The cacheDuration of an answer."""
    return parse_duration(str(answer.document["cacheDuration"])) / 1e9


def test_a_private_registry_is_logged_in_to(node: AwsMachine, aws: FakeAws) -> None:
    """The login of ECR's API, for the registry, for half of its life."""
    answer = node.ask_ecr()
    assert answer.stderr == ""
    assert answer.auth == {HOST: ("AWS", PASSWORD)}
    assert list(answer.document) == ["kind", "apiVersion", "cacheKeyType", "cacheDuration", "auth"]
    assert answer.document["cacheKeyType"] == "Registry"
    assert 21_500 < seconds(answer) <= 21_600
    assert answer.stdout.count("\n") == 1
    assert answer.stdout.endswith("\n")
    assert aws.calls == [("ecr", KEY)]


@pytest.mark.parametrize("host", ["public.ecr.aws", "ecr-public.aws.com"])
def test_public_ecr_is_logged_in_to(node: AwsMachine, aws: FakeAws, host: str) -> None:
    """Public ECR is called in us-east-1, and keyed by the host asked for."""
    assert node.ask_ecr(f"{host}/nginx/nginx").auth == {host: ("AWS", PASSWORD)}
    assert aws.calls == [("ecr-public", KEY)]


@pytest.mark.parametrize(
    ("image", "key"),
    [
        (f"{HOST}/public.ecr.aws/foo:latest", HOST),
        (HOST, HOST),
        (f"https://{HOST}/x", HOST),
        (f"user:pass@{HOST}:443/x", f"{HOST}:443"),
        (f"a@b@{HOST}/x", HOST),
        (f"{HOST}?x/y", HOST),
        (f"{HOST}#x/y", HOST),
        (f"{HOST}:/x", HOST),
    ],
)
def test_the_host_is_that_of_a_url(node: AwsMachine, image: str, key: str) -> None:
    """The first host counts; user info is dropped, and the port kept."""
    assert list(node.ask_ecr(image).auth) == [key]


@pytest.mark.parametrize(
    "host",
    [
        "dkr.ecr.lala-land-1.amazonaws.com",
        "dkr.ecr.lala-land-1.amazonaws.com.cn",
        "dkr.ecr-fips.lala-land-1.amazonaws.com",
        "dkr.ecr-fips.lala-land-1.amazonaws.com.cn",
        "dkr.ecr.eusc-de-east-1.amazonaws.eu",
        "dkr.ecr-fips.eusc-de-east-1.amazonaws.eu",
        "dkr-ecr.lala-land-1.on.aws",
        "dkr-ecr-fips.lala-land-1.on.aws",
        "dkr-ecr.lala-land-1.on.amazonwebservices.com.cn",
        "dkr.ecr.us-iso-east-1.c2s.ic.gov",
        "dkr.ecr.us-isob-east-1.sc2s.sgov.gov",
        "dkr.ecr.eu-isoe-west-1.cloud.adc-e.uk",
        "dkr.ecr.us-isof-east-1.csp.hci.ic.gov",
        "dkr-ecr.under_score.amazonaws.com",
        "dkr-ecr-fips.us-gov-east-1.on.aws",
    ],
)
def test_every_form_of_a_private_host_is_recognised(node: AwsMachine, aws: FakeAws, host: str) -> None:
    """Both spellings of the service, FIPS or not, with every suffix; the call is signed for the host's region."""
    aws.region = host.split(".")[1 if host.startswith("dkr-") else 2]
    assert list(node.ask_ecr(f"{ACCOUNT}.{host}/x").auth) == [f"{ACCOUNT}.{host}"]


@pytest.mark.parametrize("args", [(), ("--compat",)], ids=["ours", "compat"])
@pytest.mark.parametrize(
    "host",
    [
        "registry.k8s.io",
        f"{HOST}.evil.test",
        f"{HOST}.",
        f"{HOST.upper()}",
        f"x{HOST}",
        f"evil.{HOST}",
        "12345678901.dkr.ecr.lala-land-1.amazonaws.com",
        "1234567890123.dkr.ecr.lala-land-1.amazonaws.com",
        "12345678901a.dkr.ecr.lala-land-1.amazonaws.com",
        "\u0661\u0662\u0663\u0664\u0665\u0666\u0667\u0668\u0669\u0660\u0661\u0662.dkr.ecr.lala-land-1.amazonaws.com",
        f"{ACCOUNT}.dkr.ecr.lala!-land-1.amazonaws.com",
        f"{ACCOUNT}.dkr.ecr.-lala.amazonaws.com",
        f"{ACCOUNT}.dkr.ecr..amazonaws.com",
        f"{ACCOUNT}.dkr.ecr.lala-land-1.amazonaws.hacker.com",
        f"{ACCOUNT}.dkr.ecr.lala-land-1.hacker.com",
        f"{ACCOUNT}.dkr.ecr.lala-land-1.amazonaws.gov",
        f"{ACCOUNT}.dog.ecr.lala-land-1.amazonaws.com",
        f"{ACCOUNT}.dkr.cat.lala-land-1.amazonaws.com",
        f"{ACCOUNT}.dkr.lala-land-1.amazonaws.com",
        f"{ACCOUNT}.lala-land-1.amazonaws.com",
        f"{ACCOUNT}.dkr.ecr-fipslala.amazonaws.com",
        f"{ACCOUNT}.dkr.ecrlala-land-1.amazonaws.com",
        f"{ACCOUNT}.DKR.ecr.us-west-2.amazonaws.com",
        f"{ACCOUNT}.dkr.ecr.#lala-land-1.amazonaws.com",
    ],
)
def test_other_registries_are_refused(
    node: AwsMachine, aws: FakeAws, host: str, args: tuple[str, ...]
) -> None:
    """A login for ECR goes to no other host, account, label, region or suffix, whatever upstream does."""
    said = assert_failed(node.ask_ecr(f"{host}/x", *args, AWS_REGION=REGION))
    assert "is not an Amazon ECR registry" in said
    is_case = host == HOST.upper() or ".DKR." in host
    assert ("lower case" in said) is is_case
    assert aws.calls == []


def test_the_key_keeps_the_port_unless_compat(node: AwsMachine) -> None:
    """The kubelet matches an image with a port by a key with that port only."""
    assert list(node.ask_ecr(f"{HOST}:443/x").auth) == [f"{HOST}:443"]
    assert list(node.ask_ecr(f"{HOST}:443/x", "--compat").auth) == [HOST]


@pytest.mark.parametrize(
    "image",
    ["", "nginx:latest", f"{HOST}/x  ", f"{HOST}  ", f" {HOST}", f"{HOST}\n/a", f"{HOST}:x/a", "/a", "://a",
     f"1a://{HOST}", "r.te^st/a", "[::1/a", f"us er@{HOST}/a", f'a"b@{HOST}/a', "[::1]x/a"],
)  # fmt: skip
def test_an_image_that_is_none_is_an_error(node: AwsMachine, aws: FakeAws, image: str) -> None:
    """Empty, with blanks, with a port that is none: what Go's parser refuses."""
    assert "image" in assert_failed(node.ask_ecr(image))
    assert aws.calls == []


@pytest.mark.parametrize(
    ("stdin", "words"),
    [
        (image_request(IMAGE).replace("ProviderRequest", "ProviderFoo"), "kind"),
        (image_request(IMAGE).replace("credentialprovider.kubelet.k8s.io", "foo.k8s.io"), "apiVersion"),
        ("", "standard input is empty"),
        ("{", "cannot be read"),
    ],
)
def test_a_request_that_is_none_is_an_error(node: AwsMachine, stdin: str, words: str) -> None:
    """Kind and version are checked."""
    answer = run_plugin("ecr", stdin, (), node.env)
    assert words in assert_failed(answer)


@pytest.mark.parametrize(
    ("expires_in", "longest", "compat"),
    [(None, 0, 0), (-1000, 0, None), (1, 0, None), (3600, 1800, 1800), (1e6, 21_600, 500_000)],
)
def test_a_login_is_kept_for_half_its_life(
    node: AwsMachine, aws: FakeAws, expires_in: float | None, longest: int, compat: int | None
) -> None:
    """And for six hours at most. A dead login is never to be cached; upstream leaves that to the config's default."""
    aws.login = login(expires_in)
    assert max(longest - 100, 0) <= seconds(node.ask_ecr()) <= longest
    theirs = node.ask_ecr(IMAGE, "--compat")
    if compat is None:
        assert "cacheDuration" not in theirs.document
    else:
        assert max(compat - 100, 0) <= seconds(theirs) <= compat


def test_a_password_begins_after_the_first_colon(node: AwsMachine, aws: FakeAws) -> None:
    aws.login = login(token="AWS:pass:word")
    assert node.ask_ecr().auth == {HOST: ("AWS", "pass:word")}


@pytest.mark.parametrize(
    ("host", "endpoint", "upstream"),
    [
        (FIPS_HOST, f"api.ecr-fips.{REGION}.amazonaws.com", f"api.ecr.{REGION}.amazonaws.com"),
        (DUAL_HOST, f"ecr.{REGION}.api.aws", f"api.ecr.{REGION}.amazonaws.com"),
        (
            f"{ACCOUNT}.dkr-ecr-fips.{REGION}.on.aws",
            f"ecr-fips.{REGION}.api.aws",
            f"api.ecr.{REGION}.amazonaws.com",
        ),
        (HOST, f"api.ecr.{REGION}.amazonaws.com", f"api.ecr.{REGION}.amazonaws.com"),
        (
            "public.ecr.aws",
            "api.ecr-public.us-east-1.amazonaws.com",
            "api.ecr-public.us-east-1.amazonaws.com",
        ),
    ],
)
def test_the_hosts_kind_chooses_the_endpoint(
    node: AwsMachine, aws: FakeAws, tmp_path: Path, host: str, endpoint: str, upstream: str
) -> None:
    """Over TLS, through a proxy that knows only the right name; AWS_CA_BUNDLE is trusted."""
    authority = Authority(tmp_path)
    for args, name in (((), endpoint), (("--compat",), upstream)):
        with (
            serving(aws, authority.context(name)) as secure,
            ConnectProxy({f"{name}:443": secure.port}) as proxy,
        ):
            told = {"HTTPS_PROXY": proxy.url, "AWS_CA_BUNDLE": str(authority.bundle)}
            answer = node.ask_ecr(f"{host}/x", *args, drop="AWS_ENDPOINT_URL", **told)
            assert answer.auth == {host: ("AWS", PASSWORD)}, answer.stderr
            assert proxy.asked == [f"{name}:443"]


def test_a_server_that_is_not_trusted_gets_nothing(node: AwsMachine, aws: FakeAws, tmp_path: Path) -> None:
    """A proxy with a certificate of its own sees no request, and is said to be in the way."""
    name = f"api.ecr.{REGION}.amazonaws.com"
    with (
        serving(aws, Authority(tmp_path).context(name)) as secure,
        ConnectProxy({name: secure.port}) as proxy,
    ):
        answer = node.ask_ecr(drop="AWS_ENDPOINT_URL", HTTPS_PROXY=proxy.url)
        assert_failed(answer)
        assert "certificate is not trusted" in answer.stderr
        assert secure.received == []


def test_a_service_account_is_logged_in_by_its_role(node: AwsMachine, aws: FakeAws) -> None:
    """The annotation's role, else that of AWS_ECR_ROLE_ARN; the node's own credentials are not used."""
    other = f"{ROLE}-other"
    answer = node.ask_ecr(token=IDENTITY, role=ROLE, AWS_ECR_ROLE_ARN=other)
    assert answer.auth == {HOST: ("AWS", PASSWORD)}
    assert aws.forms[-1] == {"RoleArn": ROLE, "RoleSessionName": "ecr-credential-provider"}
    assert [action for action, _ in aws.calls] == ["AssumeRoleWithWebIdentity", "ecr"]
    assert aws.calls[1][1].startswith("ASIAROLE")
    node.ask_ecr(token=IDENTITY, AWS_ECR_ROLE_ARN=other)
    assert aws.forms[-1]["RoleArn"] == other


def test_an_empty_annotation_is_none_unless_compat(node: AwsMachine, aws: FakeAws) -> None:
    """Upstream then forgets AWS_ECR_ROLE_ARN and takes the node's credentials."""
    told: dict[str, str] = {"AWS_ECR_ROLE_ARN": ROLE}
    node.ask_ecr(token=IDENTITY, role="", **told)
    assert aws.forms[-1]["RoleArn"] == ROLE
    aws.calls.clear()
    node.ask_ecr(IMAGE, "--compat", token=IDENTITY, role="", **told)
    assert aws.calls == [("ecr", KEY)]


def test_a_token_without_a_role_means_the_nodes_credentials(node: AwsMachine, aws: FakeAws) -> None:
    """Neither annotation nor variable: the chain."""
    assert node.ask_ecr(token=IDENTITY).auth
    assert aws.calls == [("ecr", KEY)]


def test_a_role_that_is_denied_is_no_reason_to_use_another(node: AwsMachine, aws: FakeAws) -> None:
    """The node's credentials do not stand in for a role that the pod may not have."""
    aws.script["AssumeRoleWithWebIdentity"] = [sts_error("AccessDenied", f"no {IDENTITY}", 403)]
    answer = node.ask_ecr(token=IDENTITY, role=ROLE)
    assert f"grant sts:AssumeRoleWithWebIdentity on {ROLE}" in assert_failed(answer)
    assert [action for action, _ in aws.calls] == ["AssumeRoleWithWebIdentity"]


def test_public_ecr_with_a_token_needs_no_region_unless_compat(node: AwsMachine, aws: FakeAws) -> None:
    """STS is then asked where public ECR is."""
    aws.region = "us-east-1"
    assert node.ask_ecr("public.ecr.aws/x", token=IDENTITY, role=ROLE).auth
    answer = node.ask_ecr("public.ecr.aws/x", "--compat", token=IDENTITY, role=ROLE)
    assert "no region is set" in assert_failed(answer)


@pytest.mark.parametrize(
    "first",
    [
        json_error("ThrottlingException", "Rate exceeded"),
        json_error("RequestLimitExceeded"),
        Reply(500),
        Reply(502),
        Reply(503, body=b"busy"),
        Reply(504),
        Reply(is_closed=True),
        Reply(raw=b"garbage\r\n\r\n"),
    ],
    ids=["throttled", "limited", "500", "502", "503", "504", "closed", "garbage"],
)
def test_what_may_pass_is_tried_again(node: AwsMachine, aws: FakeAws, first: Reply) -> None:
    """One bad answer does not fail a pull."""
    aws.script["ecr"] = [first]
    assert node.ask_ecr().auth == {HOST: ("AWS", PASSWORD)}
    assert len(aws.calls) == 2


def test_attempts_are_counted(node: AwsMachine, aws: FakeAws) -> None:
    """Three, or as many as AWS_MAX_ATTEMPTS says; 0 is no bound but the time. The last refusal is what is said."""
    throttled = json_error("ThrottlingException", "Rate exceeded")
    for told, calls in ((dict[str, str](), 3), ({"AWS_MAX_ATTEMPTS": "2"}, 2)):
        aws.calls.clear()
        aws.script["ecr"] = [throttled] * 9
        said = assert_failed(node.ask_ecr(**told))
        assert "ThrottlingException: Rate exceeded" in said
        assert "AWS throttles the requests" in said
        assert len(aws.calls) == calls
    aws.script["ecr"] = [throttled] * 5
    assert node.ask_ecr(AWS_MAX_ATTEMPTS="0").auth
    assert "found 'many', expected a number" in assert_failed(node.ask_ecr(AWS_MAX_ATTEMPTS="many"))


def with_data(**data: object) -> Reply:
    """An answer of ECR's API."""
    return Reply(document={"authorizationData": [data]})


@pytest.mark.parametrize(
    ("reply", "words"),
    [
        (
            json_error("AccessDeniedException", f"User is not authorized, {SECRET}"),
            "grant ecr:GetAuthorizationToken",
        ),
        (json_error("UnrecognizedClientException", "The security token is invalid"), "AWS does not accept"),
        (json_error("ExpiredTokenException"), "have expired: renew them"),
        (Reply(400, {"__type": "OddException", "Message": "no"}), "OddException: no"),
        (Reply(400, {"code": "Odd", "message": "no"}), "Odd: no"),
        (Reply(400, {"__type": "marked secret with blanks"}), "status 400, without a reason"),
        (Reply(400, ["marked-body"]), "status 400, without a reason"),
        (Reply(400, body=b"\xff marked-body"), "status 400, without a reason"),
        (Reply(body=b"marked-body"), "not a JSON object"),
        (Reply(document=["marked-body"]), "not a JSON object"),
        (Reply(document={}), "has no authorizationData"),
        (Reply(document={"authorizationData": []}), "has no authorizationData"),
        (Reply(document={"authorizationData": ["marked-body"]}), "has no authorizationData"),
        (with_data(), "has no authorizationToken"),
        (with_data(authorizationToken=5), "has no authorizationToken"),
        (with_data(authorizationToken=""), "has no authorizationToken"),
        (with_data(authorizationToken="marked-%%"), "authorizationToken is not base64"),
        (with_data(authorizationToken="QVdTOng"), "authorizationToken is not base64"),
        (with_data(authorizationToken="\u00e9"), "authorizationToken is not base64"),
        (with_data(**login(token="marked-foo")), "is not 'user:password'"),
        (with_data(**login(token="AWS:a\r\nmarked-b")), "line break"),
        (with_data(**login() | {"expiresAt": "marked-x"}), "expiresAt is not a time"),
        (with_data(**login() | {"expiresAt": True}), "expiresAt is not a time"),
        (with_data(**login() | {"expiresAt": -1}), "expiresAt is not a time"),
        (with_data(**login() | {"expiresAt": 1e30}), "expiresAt is not a time"),
        (with_data(**login() | {"expiresAt": []}), "expiresAt is not a time"),
        (Reply(307, headers={"Location": "http://169.254.169.254/marked-x"}), "status 307"),
        (Reply(403, body=b'<!DOCTYPE a [<!ENTITY b "marked-c">]><Error>&b;</Error>'), "declaration"),
    ],
)
def test_an_answer_that_is_none_is_an_error_that_shows_no_secret(
    node: AwsMachine, aws: FakeAws, reply: Reply, words: str
) -> None:
    """Refusals, garbage and missing fields: what is wrong and what to do, and nothing of what came. No second try."""
    aws.script["ecr"] = [reply]
    assert words in assert_failed(node.ask_ecr())
    assert len(aws.calls) == 1


def test_an_answer_without_end_is_cut_off(node: AwsMachine, aws: FakeAws) -> None:
    """Neither memory nor time is used up."""
    aws.script["ecr"] = [Reply(is_endless=True)]
    answer = node.ask_ecr(AWS_MAX_ATTEMPTS="1")
    assert "longer than" in assert_failed(answer)


def test_all_of_it_ends_in_time(node: AwsMachine, aws: FakeAws) -> None:
    """A server that never answers costs what --timeout says, retries included."""
    aws.script["ecr"] = [Reply(after=30)] * 5
    answer = node.ask_ecr(IMAGE, "--timeout", "3s")
    assert "no response in time" in assert_failed(answer)


def test_a_wait_that_does_not_fit_is_not_begun(node: AwsMachine, aws: FakeAws) -> None:
    """A Retry-After beyond the deadline ends the attempts at once."""
    aws.script["ecr"] = [Reply(503, headers={"Retry-After": "3600"})] * 5
    answer = node.ask_ecr()
    assert_failed(answer)
    assert answer.stderr.endswith("keyferry-ecr: retry after 3600 s\n")
    assert len(aws.calls) == 1


def test_a_wrong_clock_is_put_right_by_the_servers(tmp_path: Path) -> None:
    """Signed by this machine's clock the request is refused, signed by the server's it is not."""
    ahead = 3600
    dates: list[str] = []

    def answer(received: Received) -> Reply:
        dates.append(received.headers["x-amz-date"])
        now = time.time() + ahead
        shown = time.strftime("%a, %d %b %Y %H:%M:%S GMT", time.gmtime(now))
        if abs(timegm(time.strptime(dates[-1], "%Y%m%dT%H%M%SZ")) - now) > 300:
            body = '{"__type": "InvalidSignatureException", "message": "Signature expired"}'
            head = f"HTTP/1.1 400 Bad Request\r\nDate: {shown}\r\nContent-Length: {len(body)}\r\n\r\n"
            return Reply(raw=f"{head}{body}".encode())
        return Reply(document={"authorizationData": [login()]})

    with serving(answer) as server:
        assert at(tmp_path, server.url).ask_ecr().auth == {HOST: ("AWS", PASSWORD)}
        assert len(dates) == 2
        ahead = -90_000
        found = at(tmp_path, server.url).ask_ecr()
        assert found.auth, found.stderr


def test_a_clock_that_cannot_be_put_right_is_named(tmp_path: Path) -> None:
    """If AWS refuses the second signature too, the clock is what is said."""
    body = '{"__type": "RequestExpired", "message": "too old"}'
    head = "HTTP/1.1 400 Bad Request\r\nDate: Mon, 01 Jan 2001 00:00:00 GMT\r\nContent-Length: "
    with serving(lambda _: Reply(raw=f"{head}{len(body)}\r\n\r\n{body}".encode())) as server:
        answer = at(tmp_path, server.url).ask_ecr()
        assert "this machine's clock is off by" in assert_failed(answer)
        assert len(server.received) == 2


def test_an_instances_role_is_used(node: AwsMachine, aws: FakeAws) -> None:
    """On a node without keys the metadata service is asked, by version 2."""
    instance = FakeInstance(key="ASIANODE00000000", secret="marked-node-secret", token="marked-node-token")
    aws.secrets[instance.key], aws.tokens[instance.key] = instance.secret, instance.token
    with serving(instance) as metadata:
        told = {"AWS_EC2_METADATA_DISABLED": "false", "AWS_EC2_METADATA_SERVICE_ENDPOINT": metadata.url}
        assert node.ask_ecr(drop=DROP_KEYS, **told).auth == {HOST: ("AWS", PASSWORD)}
    assert aws.calls == [("ecr", instance.key)]


@pytest.mark.parametrize(
    "told",
    [
        {
            "AWS_EC2_METADATA_DISABLED": "",
            "AWS_METADATA_SERVICE_TIMEOUT": "0.3",
            "AWS_METADATA_SERVICE_NUM_ATTEMPTS": "1",
        },
        {"AWS_CONTAINER_CREDENTIALS_RELATIVE_URI": "/v2/x", "AWS_MAX_ATTEMPTS": "1"},
        {
            "AWS_CONTAINER_CREDENTIALS_FULL_URI": "http://169.254.170.23/v1/credentials",
            "AWS_MAX_ATTEMPTS": "1",
        },
    ],
    ids=["instance", "task", "pod"],
)
def test_metadata_never_goes_through_a_proxy(node: AwsMachine, told: dict[str, str]) -> None:
    """A proxy would be given credentials, or be asked for its own machine's."""
    with ConnectProxy({}) as proxy:
        proxies = {"HTTP_PROXY": proxy.url, "http_proxy": proxy.url}
        answer = node.ask_ecr(IMAGE, "--timeout", "1s", drop=DROP_KEYS, **proxies, **told)
        assert_failed(answer)
        assert proxy.asked == []


def test_a_role_that_wants_a_code_is_an_error(node: AwsMachine, aws: FakeAws) -> None:
    """A kubelet has nobody to ask."""
    node.write(f"[profile a]\nrole_arn = {ROLE}\nsource_profile = b\nmfa_serial = arn:mfa\n",
               f"[b]\naws_access_key_id = {KEY}\naws_secret_access_key = {SECRET}\n")  # fmt: skip
    answer = node.ask_ecr(drop=DROP_KEYS, AWS_PROFILE="a")
    assert "code of the MFA device 'arn:mfa'" in assert_failed(answer)
    assert aws.calls == []


def test_help_version_and_klog_flags(node: AwsMachine) -> None:
    """What configs in the wild pass is taken; what is no flag is refused."""
    told = run_plugin("ecr", "", ("--help",), {})
    assert told.status == 0
    assert "--compat" in told.stdout
    assert run_plugin("ecr", "", ("--version",), {}).stdout.startswith("keyferry-ecr (keyferry ")
    assert node.ask_ecr(IMAGE, "--v=3", "--logtostderr", "-v", "2").auth
    assert run_plugin("ecr", "", ("--nonsense",), {}).status == 2
