"""One marked secret through every error path: no text, repr, log record or traceback may show it.

``kubernetes_text`` is the documented exception: it says what Kubernetes says, which may quote a plugin.
"""

from __future__ import annotations

import base64
import json
import logging
import traceback
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from keyferry.api.clientauthentication.v1 import API_VERSION as EXEC_V1
from keyferry.api.clientauthentication.v1 import ClusterInfo, ExecCredentialStatus
from keyferry.api.credentialprovider.v1 import AuthConfig, CredentialProviderRequest
from keyferry.api.kubeconfig.v1 import AuthInfo, Cluster, ExecConfig, ExecEnvVar
from keyferry.clusters.access import Grant
from keyferry.clusters.auth.credential import ClusterCredential
from keyferry.clusters.kubeconfig.files import read_kubeconfigs
from keyferry.clusters.kubeconfig.resolve import ClientConfig
from keyferry.clusters.options import Overrides
from keyferry.clusters.session import ClusterSession, load_cluster
from keyferry.errors import ClusterAuthError, ConfigError, KeyferryError
from keyferry.images.answer import Answer
from keyferry.images.config.read import read_config
from keyferry.images.dockerconfig import DockerEntry, PullSecret, load_docker_config
from keyferry.images.keyring import Credential, Source, SourceKind
from keyferry.images.load import load_providers
from keyferry.images.lookup import Providers
from keyferry.images.provider.accounts import Identity, Pod, ServiceAccount, StaticAccount
from keyferry.images.provider.plugin import decode_response
from keyferry.invoke.policy import PluginPolicy
from keyferry.invoke.run import Ending, ProcessOutcome
from support.errors import chain
from support.scripted import V1, config_text, document, write_printer, write_script

# Mixed case, digits and a sign: nothing else in any text can look like it.
SECRET = "Zq7marked-S3cret9vX"
JWT = "eyJhbGciOiJSUzI1NiJ9.eyJzdWIiOiJacTdtYXJrZWQifQ.Zq7marked-S3cret9vX_sig"
POD = Pod(namespace="ns", name="pod", uid="uid", service_account_name="builder")


class _Records(logging.Handler):
    def __init__(self) -> None:
        super().__init__(logging.DEBUG)
        self.texts: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.texts.append(f"{record.getMessage()} {record.args!r} {vars(record)!r}")


@pytest.fixture(autouse=True)
def records() -> Iterator[_Records]:
    """Every log record at every level is searched when the test ends."""
    root, handler = logging.getLogger(), _Records()
    level = root.level
    root.addHandler(handler)
    root.setLevel(logging.DEBUG)
    yield handler
    root.removeHandler(handler)
    root.setLevel(level)
    assert not [text for text in handler.texts if SECRET in text]


def shown_of(error: BaseException) -> str:
    """Everything a program could print of an error, locals of its frames included."""
    texts = []
    for each in chain(error):
        frames = traceback.TracebackException.from_exception(each, capture_locals=True)
        texts += [str(each), repr(each), *frames.format()]
        facts = {name: value for name, value in vars(each).items() if name != "kubernetes_text"}
        texts.append(repr(facts))
    return "\n".join(texts)


def shown_when(act: Callable[[], object]) -> str:
    """What is shown of the error that *act* raises."""
    try:
        act()
    except KeyferryError as error:
        return shown_of(error)
    raise AssertionError("nothing was raised")


def shown_of_answer(answer: Answer) -> str:
    """Everything a program could print of an answer and of its failures, raised or listed."""
    texts = [
        repr(answer),
        str(answer),
        *(f"{each} {each!r}" for each in (*answer.failures, *answer.provisions)),
    ]
    texts += [f"{vars(answer)!r}", *(shown_of(failure.error) for failure in answer.failures)]
    if answer.failures:
        texts.append(shown_when(answer.raise_for_failures))
    return "\n".join(texts)


def loaded(folder: Path, **settings: object) -> Providers:
    """Providers of the one executable ``plugin`` in *folder*, with the secret among its variables."""
    config = folder / "config.json"
    env = [{"name": "REGISTRY_LOGIN", "value": SECRET}, {"name": "SECOND", "value": f"{SECRET}-2"}]
    attributes = {
        "serviceAccountTokenAudience": "registry",
        "cacheType": "ServiceAccount",
        "requireServiceAccount": False,
    }
    config.write_text(config_text({"env": env, "tokenAttributes": attributes}))
    account = StaticAccount(account=ServiceAccount(uid="uid"), token_text=SECRET)
    return load_providers(config, folder, service_accounts=account, **settings)  # type: ignore[arg-type] # a timeout


STDERR = {
    "bare": SECRET,
    "assignment": f"TOKEN={SECRET}",
    "json": json.dumps({"error": "denied", "password": SECRET}),
    "json-in-a-log-line": 'level=error body="{\\"access_token\\":\\"' + SECRET + '\\"}"',
    "yaml": f"password: {SECRET}",
    "url": f"GET https://user:{SECRET}@reg.io/v2/ 401",
    "bearer": f"Authorization: Bearer {SECRET}",
    "basic": "Authorization: Basic " + base64.b64encode(f"user:{SECRET}".encode()).decode(),
    "query": f"GET /token?scope=x&access_token={SECRET}&y=z",
    "shell-trace": f"+ curl -u user:{SECRET} https://reg.io",
    "flag": f"usage: login --password {SECRET} --registry reg.io",
    "flag-equals": f"login --registry-token={SECRET}",
    "go-struct": f'&{{Username:user Password:"{SECRET}"}}',
    "python-repr": f"{{'secret_key': '{SECRET}'}}",
    "many-lines": "\n".join([f"token: {SECRET}"] * 50),
    "one-long-line": "x" * 390 + f" token={SECRET}",
    "across-colours": f"\x1b[31mpassword\x1b[0m={SECRET}",
}


@pytest.mark.parametrize("stderr", STDERR.values(), ids=STDERR)
def test_what_a_failing_plugin_says_is_redacted(tmp_path: Path, stderr: str) -> None:
    """A token that keyferry knows, in whatever shape it is printed, is masked in the error."""
    write_printer(tmp_path, "plugin", SECRET.encode(), stderr=stderr.encode(), status=1)
    shown = shown_of_answer(loaded(tmp_path).lookup("reg.io/app", pod=POD))
    assert "exited with status 1" in shown
    assert SECRET not in shown


UNKNOWN = {name: text for name, text in STDERR.items() if name not in ("bare", "across-colours")} | {
    "jwt": f"got {JWT} from server",
    "long": "got " + base64.b64encode(SECRET.encode() * 3).decode(),
}


@pytest.mark.parametrize("stderr", UNKNOWN.values(), ids=UNKNOWN)
def test_what_looks_like_a_secret_is_masked_though_nobody_knows_it(tmp_path: Path, stderr: str) -> None:
    """A credential that a plugin fetched itself is known by its shape alone."""
    write_printer(tmp_path, "plugin", stderr=stderr.encode(), status=1)
    (tmp_path / "config.json").write_text(config_text({}))
    shown = shown_of_answer(load_providers(tmp_path / "config.json", tmp_path).lookup("reg.io/app"))
    assert "********" in shown
    assert SECRET not in shown
    assert base64.b64encode(SECRET.encode() * 3).decode() not in shown
    assert JWT[:20] not in shown


GOOD = document({"reg.io": {"username": "user", "password": SECRET}})
STDOUT = {
    "bare": SECRET,
    "quoted": json.dumps(SECRET),
    "list": json.dumps([SECRET]),
    "cut-short": GOOD[:-3],
    "trailing": GOOD + SECRET,
    "twice": GOOD + GOOD,
    "yaml": f"password: {SECRET}",
    "unterminated": '{"password": "' + SECRET,
    "control-character": '{"password": "' + SECRET + '\n"}',
    "nan": '{"x": NaN, "password": "' + SECRET + '"}',
    "deep": '{"' + SECRET + '": ' + "[" * 3000,
    "wrong-version": GOOD.replace("/v1", "/v1beta1"),
    "version-is-the-secret": document(version=SECRET),
    "version-holds-the-secret": document(version=f"{SECRET.lower()}/v1"),
    "version-has-slashes": document(version=f"a/{SECRET}/v1"),
    "version-is-a-list": document(version=[SECRET]),
    "wrong-kind": document(kind=SECRET),
    "kind-is-an-object": document(kind={"a": SECRET}),
    "foreign-kind": document(kind="Status", message=SECRET),
    "unknown-field": document(token=SECRET),
    "unknown-field-named-so": document(**{SECRET: 1}),
    "unknown-field-in-auth": document({"reg.io": {SECRET: "x"}}),
    "auth-key-and-unknown-field": document({SECRET: {"x": 1}}),
    "auth-key-and-wrong-type": document({SECRET: 1}),
    "auth-is-text": document(SECRET),
    "password-is-a-list": document({"reg.io": {"password": [SECRET]}}),
    "duplicate-key": '{"' + SECRET + '": 1, "' + SECRET + '": 2}',
    "duplicate-password": GOOD.replace('"password"', '"password": "x", "password"'),
    "duration": document(cacheDuration=SECRET),
    "duration-is-an-object": document(cacheDuration={SECRET: 1}),
    "cache-type": document(cacheKeyType=SECRET),
    "echoed-token": document({"reg.io": {"username": "user", "password": SECRET}}),
    "unparsable-auth-key": document({f"u:{SECRET}@bad host": {}, f"https://u:{SECRET}@bad host": {}}),
    "auth-key": document({SECRET: {"username": "user", "password": "x"}}),
    "auth-key-with-user-info": document({f"u:{SECRET}@reg.io": {"username": "user", "password": "x"}}),
    "not-utf8": "\udcff" + SECRET,
    "utf-16": "".join(f"\0{letter}" for letter in GOOD),
}


@pytest.mark.parametrize("stdout", STDOUT.values(), ids=STDOUT)
def test_no_byte_of_standard_output_is_shown(tmp_path: Path, stdout: str) -> None:
    """However an answer is broken, neither the error nor the frames behind it show any of it."""
    write_printer(tmp_path, "plugin", stdout.encode("utf-8", "surrogateescape"))
    answer = loaded(tmp_path).lookup("reg.io/app", pod=POD)
    assert answer.provisions
    assert SECRET.lower() not in shown_of_answer(answer).lower()


def test_the_secret_of_a_good_answer_is_there_and_not_shown(tmp_path: Path) -> None:
    """A password is in its attribute and in no repr on the way."""
    write_printer(tmp_path, "plugin", GOOD.encode())
    providers = loaded(tmp_path)
    for _ in range(3):
        answer = providers.lookup("reg.io/app")
        assert [credential.password for credential in answer.credentials] == [SECRET]
        assert SECRET not in shown_of_answer(answer)
    assert SECRET not in repr(providers.providers) + repr(vars(providers)) + repr(
        vars(providers.providers[0])
    )


def test_a_timeout_shows_no_secret(tmp_path: Path) -> None:
    """What a plugin said before it was killed is redacted too."""
    write_script(tmp_path, "plugin", f"echo {SECRET}; echo token {SECRET} >&2; cat >&2; sleep 20")
    shown = shown_of_answer(loaded(tmp_path, timeout_seconds=0.5).lookup("reg.io/app", pod=POD))
    assert "did not finish within 0.5 s" in shown
    assert SECRET not in shown


def test_a_plugin_that_echoes_its_request_shows_no_token(tmp_path: Path) -> None:
    """The request, with the account's token in it, may come back on both streams."""
    write_script(tmp_path, "plugin", "tee /dev/stderr; exit 1")
    shown = shown_of_answer(loaded(tmp_path).lookup("reg.io/app", pod=POD))
    assert "stderr:" in shown
    assert SECRET not in shown


def test_a_plugin_that_cannot_start_shows_no_variable(tmp_path: Path) -> None:
    """A variable with a NUL keeps the plugin from starting; its value is not named."""
    write_printer(tmp_path, "plugin", b"")
    (tmp_path / "config.json").write_text(config_text({"env": [{"name": "A", "value": f"{SECRET}\0"}]}))
    shown = shown_of_answer(load_providers(tmp_path / "config.json", tmp_path).lookup("reg.io/app"))
    assert "an environment variable for the plugin contains a NUL" in shown
    assert SECRET not in shown


DOCKER = {
    "bare": SECRET,
    "cut-short": json.dumps({"auths": {"reg.io": {"password": SECRET}}})[:-2],
    "auth-not-base64": json.dumps({"auths": {"reg.io": {"auth": SECRET + "!"}}}),
    "auth-without-colon": json.dumps(
        {"auths": {"reg.io": {"auth": base64.b64encode(SECRET.encode()).decode()}}}
    ),
    "password-is-a-list": json.dumps({"auths": {"reg.io": {"password": [SECRET]}}}),
    "entry-is-text": json.dumps({"auths": {"reg.io": SECRET}}),
    "header": json.dumps({"HttpHeaders": {"X": [SECRET]}}),
}


@pytest.mark.parametrize("content", DOCKER.values(), ids=DOCKER)
def test_a_broken_docker_config_shows_nothing_of_itself(tmp_path: Path, content: str) -> None:
    """As a pull secret and as the node's file, with the locals of every frame."""
    file = tmp_path / "config.json"
    file.write_text(content)
    secret = PullSecret(
        namespace="ns",
        name="s",
        type="kubernetes.io/dockerconfigjson",
        data={".dockerconfigjson": content.encode()},
    )
    node = Providers([], docker_config=str(file))
    calls: tuple[Callable[[], object], ...] = (
        lambda: Providers([]).lookup("reg.io/app", pull_secrets=[secret]),
        lambda: node.lookup("reg.io/app"),
        lambda: load_docker_config(str(file)),
    )
    for call in calls:
        shown = shown_when(call)
        assert SECRET not in shown
        assert base64.b64encode(SECRET.encode()).decode() not in shown


CONFIGS = {
    "no-kind": {"apiVersion": "kubelet.config.k8s.io/v1", "env": SECRET},
    "no-version": {"kind": "CredentialProviderConfig", "env": SECRET},
    "foreign": {"apiVersion": "v1", "kind": "Secret", "data": {"a": SECRET}},
    "value-is-a-list": {"providers": [{"env": [{"name": "A", "value": [SECRET]}]}]},
    "value-is-an-object": {"providers": [{"env": [{"name": "A", "value": {"x": SECRET}}]}]},
    "value-is-misspelt": {"providers": [{"env": [{"name": "A", "valeu": SECRET}]}]},
    "env-is-text": {"providers": [{"env": SECRET}]},
    "env-entry-is-text": {"providers": [{"env": [f"A={SECRET}"]}]},
    "invalid": {"providers": [{"name": "a b", "env": [{"name": "A", "value": SECRET}]}]},
    "missing-executable": {
        "providers": [
            {
                "name": "missing",
                "env": [{"name": "A", "value": SECRET}],
                "matchImages": ["reg.io"],
                "defaultCacheDuration": "0s",
                "apiVersion": V1,
            }
        ]
    },
}


@pytest.mark.parametrize("config", CONFIGS.values(), ids=CONFIGS)
@pytest.mark.parametrize("suffix", ["json", "yaml"])
def test_a_refused_config_shows_no_value_of_a_variable(tmp_path: Path, config: object, suffix: str) -> None:
    """Every problem of a config names its place; what variables hold stays out of it, and out of reprs."""
    assert isinstance(config, dict)
    whole = config if "providers" not in config else json.loads(config_text()) | config
    text = json.dumps(whole)
    path = tmp_path / f"config.{suffix}"
    path.write_text(text if suffix == "json" else f"---\n{text}")
    shown = shown_when(lambda: load_providers(path, tmp_path))
    assert SECRET not in shown
    read = read_config(str(path))
    assert SECRET not in repr(read) + repr(read.files)


def exec_answer(**status: object) -> str:
    return json.dumps({"apiVersion": EXEC_V1, "kind": "ExecCredential", "status": status})


def kubeconfig(folder: Path, user: dict[str, object], **cluster: object) -> Path:
    document = {
        "current-context": "c",
        "clusters": [{"name": "k", "cluster": {"server": "https://k"} | cluster}],
        "contexts": [{"name": "c", "context": {"cluster": "k", "user": "u"}}],
        "users": [{"name": "u", "user": user}],
    }
    path = folder / "kubeconfig"
    path.write_text(json.dumps(document))
    path.chmod(0o600)
    return path


def cluster_session(folder: Path) -> ClusterSession:
    """A session whose plugin is the executable ``plugin`` of *folder*, with secrets wherever one may stand."""
    command = {"command": str(folder / "plugin"), "apiVersion": EXEC_V1, "interactiveMode": "Never"}
    told = {"args": [SECRET], "env": [{"name": "LOGIN", "value": SECRET}], "provideClusterInfo": True}
    path = kubeconfig(folder, {"exec": command | told}, **{"proxy-url": f"http://u:{SECRET}@proxy"})
    return load_cluster(kubeconfig=path, policy=PluginPolicy())


EXEC_GOOD = exec_answer(token=SECRET)
EXEC_STDOUT = {
    "bare": SECRET,
    "quoted": json.dumps(SECRET),
    "list": json.dumps([SECRET]),
    "cut-short": EXEC_GOOD[:-3],
    "trailing": EXEC_GOOD + SECRET,
    "twice": EXEC_GOOD + EXEC_GOOD,
    "unterminated": '{"token": "' + SECRET,
    "control-character": '{"token": "' + SECRET + '\n"}',
    "deep": '{"' + SECRET + '": ' + "[" * 3000,
    "alias": f"token: *{SECRET}",
    "tag": f"token: !{SECRET} x",
    "tab": f"\ttoken: {SECRET}",
    "wrong-version": EXEC_GOOD.replace("/v1", "/v1beta1"),
    "version-is-the-secret": EXEC_GOOD.replace(EXEC_V1, SECRET),
    "version-holds-the-secret": EXEC_GOOD.replace(EXEC_V1, f"{SECRET.lower()}/v1"),
    "version-has-slashes": EXEC_GOOD.replace(EXEC_V1, f"a/{SECRET}/v1"),
    "wrong-kind": EXEC_GOOD.replace("ExecCredential", SECRET),
    "foreign-kind": json.dumps({"apiVersion": "v1", "kind": "Status", "message": SECRET}),
    "no-status": json.dumps({"apiVersion": EXEC_V1, "kind": "ExecCredential", "token": SECRET}),
    "status-is-text": exec_answer().replace("{}", json.dumps(SECRET)),
    "token-is-a-list": exec_answer(token=[SECRET]),
    "token-is-an-object": exec_answer(token={SECRET: 1}),
    "time": exec_answer(token=SECRET, expirationTimestamp=SECRET),
    "time-is-a-list": exec_answer(token=SECRET, expirationTimestamp=[SECRET]),
    "certificate-alone": exec_answer(token=SECRET, clientCertificateData=SECRET),
    "key-alone": exec_answer(token=SECRET, clientKeyData=SECRET),
    "no-pem": exec_answer(clientCertificateData=SECRET, clientKeyData=SECRET),
    "other-pem": exec_answer(
        clientCertificateData=f"-----BEGIN {SECRET}-----\nQQ==\n-----END {SECRET}-----\n",
        clientKeyData=SECRET,
    ),
    "line-break": exec_answer(token=f"{SECRET}\r\nX-Evil: {SECRET}"),
    "not-utf8": "\udcff" + SECRET,
    "utf-16": "".join(f"\0{letter}" for letter in EXEC_GOOD),
}


@pytest.mark.parametrize("stdout", EXEC_STDOUT.values(), ids=EXEC_STDOUT)
def test_no_byte_of_an_exec_plugins_output_is_shown(tmp_path: Path, stdout: str) -> None:
    """However an ExecCredential is broken, neither the error nor the frames and causes behind it show any of it."""
    write_printer(tmp_path, "plugin", stdout.encode("utf-8", "surrogateescape"))
    session = cluster_session(tmp_path)
    shown = shown_when(session.grant)
    try:
        session.grant()
    except ClusterAuthError as error:
        shown += shown_of(error.underlying) if error.underlying else ""
    assert SECRET.lower() not in shown.lower()


@pytest.mark.parametrize(
    "body",
    [f"echo {SECRET}; exit 3", "env >&2; exit 1", 'echo "$@" >&2; kill -9 $$', f"echo {SECRET}; sleep 20"],
    ids=["exit", "environment", "signal", "timeout"],
)
def test_an_exec_plugin_that_fails_shows_no_secret(tmp_path: Path, body: str) -> None:
    """Its standard error is the caller's own, and no part of any error."""
    write_script(tmp_path, "plugin", body)
    path = tmp_path / "kubeconfig"
    cluster_session(tmp_path)
    session = load_cluster(kubeconfig=path, policy=PluginPolicy(), timeout_seconds=0.5)
    assert SECRET not in shown_when(session.grant)


def test_the_secret_of_a_good_exec_plugin_is_there_and_not_shown(tmp_path: Path) -> None:
    write_printer(tmp_path, "plugin", EXEC_GOOD.encode())
    session = cluster_session(tmp_path)
    grant = session.grant()
    assert dict(grant.headers)["Authorization"] == f"Bearer {SECRET}"
    held = (grant, session, session.config, session.authenticator, session.authenticator.current())  # type: ignore[union-attr] # it has one
    assert SECRET not in repr(held) + repr(vars(session)) + repr(vars(session.authenticator))


KUBECONFIGS = {
    "cut-short": f"users: [{{name: u, user: {{token: {SECRET}",
    "tab": f"users:\n\t- {SECRET}",
    "alias": f"token: *{SECRET}",
    "no-list": f"users: {SECRET}",
    "no-entry": f"users: [{SECRET}]",
    "no-user": f"users: [{{name: u, user: {SECRET}}}]",
    "token-is-a-list": f"users: [{{name: u, user: {{token: [{SECRET}]}}}}]",
    "key-is-no-base64": f"users: [{{name: u, user: {{client-key-data: '{SECRET}!'}}}}]",
    "twice": f"users: [{{name: u, user: {{token: {SECRET}}}}}, {{name: u, user: {{token: {SECRET}}}}}]",
    "no-version": f"apiVersion: v1/\nusers: [{{name: u, user: {{token: {SECRET}}}}}]",
    "wrong-kind": f"kind: Secret\ndata: {{a: {SECRET}}}",
}


@pytest.mark.parametrize("text", KUBECONFIGS.values(), ids=KUBECONFIGS)
def test_a_refused_kubeconfig_shows_nothing_of_itself(tmp_path: Path, text: str) -> None:
    """Every problem names its place; what stands there stays out of it, and out of reprs."""
    path = tmp_path / "kubeconfig"
    path.write_text(text)
    assert SECRET not in shown_when(lambda: load_cluster(kubeconfig=path, policy=PluginPolicy()))
    read = read_kubeconfigs(str(path))
    assert read.problems
    assert SECRET not in repr(read) + repr(read.files) + repr(read.problems)


INVALID = {
    "token-and-password": {"token": SECRET, "username": "u", "password": SECRET},
    "certificate-without-key": {"client-certificate-data": base64.b64encode(SECRET.encode()).decode()},
    "exec-and-auth-provider": {
        "exec": {"command": "x", "args": [SECRET], "env": [{"name": "", "value": SECRET}]},
        "auth-provider": {"name": "x", "config": {"id-token": SECRET}},
    },
    "auth-provider": {"auth-provider": {"name": "oidc", "config": {"id-token": SECRET}}},
    "missing-token-file": {"tokenFile": "/nonexistent/token", "password": ""},
}


@pytest.mark.parametrize("user", INVALID.values(), ids=INVALID)
def test_a_user_that_is_refused_shows_no_secret(tmp_path: Path, user: dict[str, object]) -> None:
    path = kubeconfig(tmp_path, user, **{"proxy-url": f"http://u:{SECRET}@proxy"})
    assert SECRET not in shown_when(lambda: load_cluster(kubeconfig=path, policy=PluginPolicy()))


@pytest.mark.parametrize("proxy", [f"ftp://u:{SECRET}@p", f"u:{SECRET}@p:1", f"http://u:{SECRET}/@p"])
def test_a_proxy_that_is_refused_shows_no_password(tmp_path: Path, proxy: str) -> None:
    path = kubeconfig(tmp_path, {}, **{"proxy-url": proxy})
    with pytest.raises(ConfigError, match="proxy-url"):
        load_cluster(kubeconfig=path, policy=PluginPolicy())
    assert SECRET not in shown_when(lambda: load_cluster(kubeconfig=path, policy=PluginPolicy()))


def values() -> list[object]:
    source = Source(kind=SourceKind.PROVIDER, name="plugin")
    return [
        AuthConfig(username="user", password=SECRET),
        CredentialProviderRequest(image="reg.io/app", service_account_token=SECRET),
        decode_response("plugin", V1, GOOD.encode()),
        Credential(username="user", password=SECRET, source=source, key="reg.io"),
        DockerEntry(username="user", password=SECRET),
        PullSecret(namespace="ns", name="name", type="type", data={"key": SECRET.encode()}),
        StaticAccount(account=ServiceAccount(uid="uid"), token_text=SECRET),
        Identity(ref=None, token=SECRET),
        ProcessOutcome(
            ending=Ending.EXITED, status=0, stdout=SECRET.encode(), stderr=SECRET.encode(), seconds=0.1
        ),
        ClusterCredential(token=SECRET, certificate_pem=SECRET, key_pem=SECRET),
        ExecCredentialStatus(token=SECRET, client_key_data=SECRET),
        ClusterInfo(proxy_url=SECRET, config=SECRET),
        ExecEnvVar(name="name", value=SECRET),
        ExecConfig(command="command", args=(SECRET,), env=(ExecEnvVar(name="name", value=SECRET),)),
        AuthInfo(token=SECRET, password=SECRET, client_key_data=SECRET.encode()),
        Cluster(proxy_url=SECRET, extensions={"name": SECRET}),
        Overrides(token=SECRET, password=SECRET, proxy_url=SECRET),
        ClientConfig(
            server="https://k", bearer_token=SECRET, password=SECRET, client_key_data=SECRET.encode()
        ),
        Grant(headers=(("Authorization", SECRET),), credential=ClusterCredential(token=SECRET)),
    ]


@pytest.mark.parametrize("value", values(), ids=lambda value: type(value).__name__)
def test_no_value_shows_the_secret_it_holds(value: object) -> None:
    """Every type with a secret in it leaves that out of its repr and its text."""
    assert SECRET not in repr(value) + str(value) + f"{value}" + repr([value])
