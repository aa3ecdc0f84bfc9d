"""keyferry-ecr: the hosts of ECR, and runs as a kubelet runs it, against an AWS that checks every signature."""

from __future__ import annotations

import base64
import time
from calendar import timegm
from pathlib import Path

import pytest

from keyferry.api.meta import parse_duration
from keyferry.sdk import Deadline, ProvideError
from keyferry_plugins.aws.endpoints import Endpoint
from keyferry_plugins.aws.environment import Environment
from keyferry_plugins.aws.registry import (
    EcrHost,
    ImageHost,
    RegistryLogin,
    get_login,
    parse_ecr_host,
    parse_image,
)
from keyferry_plugins.ecr import cache_seconds
from keyferry_plugins.signing.sigv4 import Credentials
from support.aws_machine import AwsMachine
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


def assert_clean(answer: Answer) -> None:
    """Nothing but an error, and no secret in it."""
    assert answer.status == 1
    assert answer.stdout == ""
    for secret in (SECRET, PASSWORD, "marked-", IDENTITY):
        assert secret not in answer.stderr
    assert "Traceback" not in answer.stderr


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


def test_the_first_host_counts(node: AwsMachine) -> None:
    """A public host in the path is a path; a bare host and a URL are images too."""
    assert list(node.ask_ecr(f"{HOST}/public.ecr.aws/foo:latest").auth) == [HOST]
    assert list(node.ask_ecr(HOST).auth) == [HOST]
    assert list(node.ask_ecr(f"https://{HOST}/x").auth) == [HOST]


@pytest.mark.parametrize("args", [(), ("--compat",)], ids=["ours", "compat"])
@pytest.mark.parametrize(
    "image", ["registry.k8s.io/foo", "http://foobar", f"{HOST}.evil.test/x", f"{HOST.upper()}/x"]
)
def test_other_registries_are_refused(
    node: AwsMachine, aws: FakeAws, image: str, args: tuple[str, ...]
) -> None:
    """A login for ECR goes to no other host, whatever upstream does."""
    answer = node.ask_ecr(image, *args, AWS_REGION=REGION)
    assert_clean(answer)
    assert "is not an Amazon ECR registry" in answer.stderr
    assert ("lower case" in answer.stderr) is (image == f"{HOST.upper()}/x")
    assert aws.calls == []


def test_the_key_keeps_the_port_unless_compat(node: AwsMachine) -> None:
    """The kubelet matches an image with a port by a key with that port only."""
    assert list(node.ask_ecr(f"{HOST}:443/x").auth) == [f"{HOST}:443"]
    assert list(node.ask_ecr(f"{HOST}:443/x", "--compat").auth) == [HOST]


@pytest.mark.parametrize("image", ["", "nginx:latest", f"{HOST}/x  ", f"{HOST}  "])
def test_an_image_that_is_none_is_an_error(node: AwsMachine, image: str) -> None:
    """Empty, with blanks, with a port that is none."""
    assert_clean(node.ask_ecr(image))


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
    assert_clean(answer)
    assert words in answer.stderr


@pytest.mark.parametrize(
    ("expires_in", "duration", "compat"), [(None, "0s", "0s"), (-1000, "0s", None), (1, "0s", None)]
)
def test_a_dead_login_is_never_cached(
    node: AwsMachine, aws: FakeAws, expires_in: float | None, duration: str, compat: str | None
) -> None:
    """Upstream leaves it to the config, whose default is often 12 hours."""
    aws.login = login(expires_in)
    assert node.ask_ecr().document["cacheDuration"] == duration
    assert node.ask_ecr(IMAGE, "--compat").document.get("cacheDuration") == compat


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
        assert_clean(answer)
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
    assert_clean(answer)
    assert f"grant sts:AssumeRoleWithWebIdentity on {ROLE}" in answer.stderr
    assert [action for action, _ in aws.calls] == ["AssumeRoleWithWebIdentity"]


def test_public_ecr_with_a_token_needs_no_region_unless_compat(node: AwsMachine, aws: FakeAws) -> None:
    """STS is then asked where public ECR is."""
    aws.region = "us-east-1"
    assert node.ask_ecr("public.ecr.aws/x", token=IDENTITY, role=ROLE).auth
    answer = node.ask_ecr("public.ecr.aws/x", "--compat", token=IDENTITY, role=ROLE)
    assert_clean(answer)
    assert "no region is set" in answer.stderr


@pytest.mark.parametrize(
    "first",
    [
        json_error("ThrottlingException", "Rate exceeded"),
        Reply(500),
        Reply(503, body=b"busy"),
        Reply(is_closed=True),
        Reply(raw=b"garbage\r\n\r\n"),
    ],
    ids=["throttled", "500", "503", "closed", "garbage"],
)
def test_what_may_pass_is_tried_again(node: AwsMachine, aws: FakeAws, first: Reply) -> None:
    """One bad answer does not fail a pull."""
    aws.script["ecr"] = [first]
    assert node.ask_ecr().auth == {HOST: ("AWS", PASSWORD)}
    assert len(aws.calls) == 2


def test_attempts_are_counted(node: AwsMachine, aws: FakeAws) -> None:
    """AWS_MAX_ATTEMPTS bounds them, and the last refusal is what is said."""
    aws.script["ecr"] = [json_error("ThrottlingException", "Rate exceeded")] * 9
    answer = node.ask_ecr(AWS_MAX_ATTEMPTS="2")
    assert_clean(answer)
    assert "ThrottlingException: Rate exceeded" in answer.stderr
    assert len(aws.calls) == 2


ENDLESS = Reply(is_endless=True)


@pytest.mark.parametrize(
    ("reply", "words"),
    [
        (
            json_error("AccessDeniedException", f"User is not authorized, {SECRET}"),
            "grant ecr:GetAuthorizationToken",
        ),
        (json_error("UnrecognizedClientException", "The security token is invalid"), "AWS does not accept"),
        (json_error("ExpiredTokenException"), "have expired: renew them"),
        (Reply(400, body=b"\xff marked-body"), "status 400, without a reason"),
        (Reply(200, body=b"marked-body"), "not a JSON object"),
        (Reply(200, document=["marked-body"]), "not a JSON object"),
        (Reply(200, document={}), "has no authorizationData"),
        (Reply(200, document={"authorizationData": []}), "has no authorizationData"),
        (Reply(200, document={"authorizationData": ["marked-body"]}), "has no authorizationData"),
        (Reply(200, document={"authorizationData": [{}]}), "has no authorizationToken"),
        (Reply(200, document={"authorizationData": [login(token="marked-foo")]}), "is not 'user:password'"),
        (Reply(200, document={"authorizationData": [{"authorizationToken": "marked-%%"}]}), "is not base64"),
        (Reply(200, document={"authorizationData": [login(token="AWS:a\r\nmarked-b")]}), "line break"),
        (Reply(200, document={"authorizationData": [{**login(), "expiresAt": "marked-x"}]}), "expiresAt"),
        (Reply(307, headers={"Location": "http://169.254.169.254/marked-x"}), "status 307"),
        (Reply(403, body=b'<!DOCTYPE a [<!ENTITY b "marked-c">]><Error>&b;</Error>'), "declaration"),
    ],
)
def test_an_answer_that_is_none_is_an_error_that_shows_no_secret(
    node: AwsMachine, aws: FakeAws, reply: Reply, words: str
) -> None:
    """Refusals, garbage and missing fields: what is wrong and what to do, and nothing of what came."""
    aws.script["ecr"] = [reply]
    answer = node.ask_ecr(AWS_MAX_ATTEMPTS="1")
    assert_clean(answer)
    assert words in answer.stderr


def test_an_answer_without_end_is_cut_off(node: AwsMachine, aws: FakeAws) -> None:
    """Neither memory nor time is used up."""
    aws.script["ecr"] = [ENDLESS]
    answer = node.ask_ecr(AWS_MAX_ATTEMPTS="1")
    assert_clean(answer)
    assert "longer than" in answer.stderr


def test_all_of_it_ends_in_time(node: AwsMachine, aws: FakeAws) -> None:
    """A server that never answers costs what --timeout says, retries included."""
    aws.script["ecr"] = [Reply(after=30)] * 5
    answer = node.ask_ecr(IMAGE, "--timeout", "1s")
    assert_clean(answer)
    assert "no response in time" in answer.stderr


def test_a_wait_that_does_not_fit_is_not_begun(node: AwsMachine, aws: FakeAws) -> None:
    """A Retry-After beyond the deadline ends the attempts at once."""
    aws.script["ecr"] = [Reply(503, headers={"Retry-After": "3600"})] * 5
    answer = node.ask_ecr()
    assert_clean(answer)
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
        assert_clean(answer)
        assert "this machine's clock is off by" in answer.stderr
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
        assert_clean(answer)
        assert proxy.asked == []


def test_help_version_and_klog_flags(node: AwsMachine) -> None:
    """What configs in the wild pass is taken; what is no flag is refused."""
    told = run_plugin("ecr", "", ("--help",), {})
    assert told.status == 0
    assert "--compat" in told.stdout
    assert run_plugin("ecr", "", ("--version",), {}).stdout.startswith("keyferry-ecr (keyferry ")
    assert node.ask_ecr(IMAGE, "--v=3", "--logtostderr", "-v", "2").auth
    assert run_plugin("ecr", "", ("--nonsense",), {}).status == 2


ACCOUNT = "123456789012"


RECOGNISED = [
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
]


@pytest.mark.parametrize("rest", RECOGNISED)
def test_every_form_of_a_private_host_is_recognised(rest: str) -> None:
    """Both spellings of the service, FIPS or not, with every suffix."""
    service, _, region_and_suffix = rest.rpartition("ecr-fips." if "-fips" in rest else "ecr.")
    region = region_and_suffix.partition(".")[0]
    expected = EcrHost(account=ACCOUNT, region=region, is_fips="-fips" in rest, is_dual_stack=".on." in rest)
    assert service in {"dkr.", "dkr-"}
    assert parse_ecr_host(f"{ACCOUNT}.{rest}") == expected


@pytest.mark.parametrize(
    "host",
    [
        "12345678901.dkr.ecr.lala-land-1.amazonaws.com",
        "1234567890123.dkr.ecr.lala-land-1.amazonaws.com",
        "12345678901a.dkr.ecr.lala-land-1.amazonaws.com",
        "\u0661\u0662\u0663\u0664\u0665\u0666\u0667\u0668\u0669\u0660\u0661\u0662.dkr.ecr.lala-land-1.amazonaws.com",
        f"{ACCOUNT}.dkr.ecr.lala!-land-1.amazonaws.com",
        f"{ACCOUNT}.dkr.ecr.#lala-land-1.amazonaws.com",
        f"{ACCOUNT}.dkr.ecr.-lala.amazonaws.com",
        f"{ACCOUNT}.dkr.ecr..amazonaws.com",
        f"{ACCOUNT}.dkr.ecr.lala-land-1.amazonaws.hacker.com",
        f"{ACCOUNT}.dkr.ecr.lala-land-1.hacker.com",
        f"{ACCOUNT}.dkr.ecr.lala-land-1.amazonaws.lol",
        f"{ACCOUNT}.dkr.ecr.lala-land-1.amazonaws.gov",
        f"{ACCOUNT}.dkr.ecr.lala-land-1.amazonaws.com.",
        f"{ACCOUNT}.dkr.ecr.lala-land-1.amazonaws.com.hacker.com",
        f"{ACCOUNT}.dog.ecr.lala-land-1.amazonaws.com",
        f"{ACCOUNT}.dkr.cat.lala-land-1.amazonaws.com",
        f"{ACCOUNT}.dkr.lala-land-1.amazonaws.com",
        f"{ACCOUNT}.lala-land-1.amazonaws.com",
        f"{ACCOUNT}.dkr.ecr-fipslala.amazonaws.com",
        f"{ACCOUNT}.dkr.ecrlala-land-1.amazonaws.com",
        f"{ACCOUNT}.DKR.ecr.us-west-2.amazonaws.com",
        f"x{ACCOUNT}.dkr.ecr.us-west-2.amazonaws.com",
        f"evil.{ACCOUNT}.dkr.ecr.us-west-2.amazonaws.com",
        "public.ecr.aws",
        "",
    ],
)
def test_what_only_looks_like_ecr_is_not(host: str) -> None:
    """No other account, label, region or suffix passes, and nothing may follow."""
    assert parse_ecr_host(host) is None


@pytest.mark.parametrize(
    ("image", "host"),
    [
        (
            f"{ACCOUNT}.dkr.ecr.us-west-2.amazonaws.com",
            ImageHost(name=f"{ACCOUNT}.dkr.ecr.us-west-2.amazonaws.com"),
        ),
        ("r.test/a/b", ImageHost(name="r.test")),
        ("R.Test/a", ImageHost(name="R.Test")),
        ("r.test:5000/a", ImageHost(name="r.test", port="5000")),
        ("user:pass@r.test:5000/a", ImageHost(name="r.test", port="5000")),
        ("a@b@r.test/a", ImageHost(name="r.test")),
        ("http://foobar", ImageHost(name="foobar")),
        ("r.test/public.ecr.aws/foo:latest", ImageHost(name="r.test")),
        ("r.test?x/y", ImageHost(name="r.test")),
        ("r.test#x/y", ImageHost(name="r.test")),
        ("[::1]:5000/a", ImageHost(name="::1", port="5000")),
        ("r.test:/a", ImageHost(name="r.test")),
    ],
)
def test_the_host_is_that_of_a_url(image: str, host: ImageHost) -> None:
    """Case is kept, user info dropped, the port kept apart."""
    assert parse_image(image) == host


@pytest.mark.parametrize(
    "image",
    ["nginx:latest", "r.test  ", " r.test", "r test/a", "r.test\n/a", "r.test:x/a", "/a", "://a", "1a://r.test",
     "r.te^st/a", "[::1/a", "us er@r.test/a", 'a"b@r.test/a', "[::1]x/a"],
)  # fmt: skip
def test_what_is_no_url_is_refused(image: str) -> None:
    """What Go's parser refuses, or has no host, is an error."""
    with pytest.raises(ProvideError, match="image"):
        parse_image(image)


class Ecr:
    """ECR's API with one answer, on loopback."""

    def __init__(self, **data: object) -> None:
        self.data = data

    def __call__(self, _: Received) -> Reply:
        """Answer a request."""
        return Reply(200, {"authorizationData": [self.data]})


def login_of(**data: object) -> RegistryLogin:
    """What is made of an answer of ECR's API."""
    with serving(Ecr(**data)) as server:
        environment = Environment({"HOME": "/nowhere"}, Deadline(20))
        endpoint = Endpoint(url=server.url, service="ecr", region="us-west-2")
        return get_login(environment, endpoint, Credentials(access_key_id="AKIA", secret_access_key="secret"))


def encoded(text: str) -> str:
    """Base64 of a text."""
    return base64.b64encode(text.encode()).decode()


def test_a_token_is_user_and_password() -> None:
    """The password begins after the first colon."""
    login = login_of(authorizationToken=encoded("AWS:pass:word"))
    assert (login.username, login.password) == ("AWS", "pass:word")


@pytest.mark.parametrize("token", [None, 5, "", "%%%", "QVdTOng", encoded("foo"), "\u00e9"])
def test_what_is_no_token_is_refused(token: object) -> None:
    """Missing, not base64, without a colon: an error that quotes none of it."""
    with pytest.raises(ProvideError, match="authorizationToken") as caught:
        login_of(authorizationToken=token)
    assert not (isinstance(token, str) and token and token in str(caught.value))


@pytest.mark.parametrize("value", ["2024-01-01", True, -1, 1e30, []])
def test_an_expiry_is_a_number_of_seconds(value: object) -> None:
    """Anything else is refused, nothing is guessed."""
    with pytest.raises(ProvideError, match="expiresAt"):
        login_of(authorizationToken=encoded("AWS:x"), expiresAt=value)


def test_an_expiry_may_be_missing_or_fractional() -> None:
    """AWS leaves it out, or gives fractions of seconds."""
    assert login_of(authorizationToken=encoded("AWS:x")).expires_at is None
    assert login_of(authorizationToken=encoded("AWS:x"), expiresAt=1.5).expires_at == 1.5


NOW = 1_700_000_000.0


@pytest.mark.parametrize(
    ("left", "seconds", "compat"),
    [
        (None, 0, 0),
        (43_200, 21_600, 21_600),
        (43_199.9, 21_599, 21_599),
        (2, 1, 1),
        (1.9, 0, None),
        (0, 0, None),
        (-1000, 0, None),
        (1e9, 21_600, 500_000_000),
    ],
)
def test_a_login_is_kept_for_half_its_life(left: float | None, seconds: int, compat: int | None) -> None:
    """A dead login is never to be cached; upstream leaves that to the config's default."""
    login = RegistryLogin(username="AWS", password="x", expires_at=None if left is None else NOW + left)
    assert cache_seconds(login, NOW) == seconds
    assert cache_seconds(login, NOW, is_compat=True) == compat
