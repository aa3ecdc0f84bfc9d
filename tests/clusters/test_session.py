"""What a request carries for each kind of user, when it is renewed, and what is never sent."""

from __future__ import annotations

import asyncio
import base64
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from keyferry import PluginPolicy
from keyferry.api.clientauthentication.v1 import API_VERSION
from keyferry.api.kubeconfig.v1 import ExecConfig
from keyferry.clusters.access import Grant
from keyferry.clusters.auth.authenticator import Authenticator
from keyferry.clusters.auth.credential import ClusterCredential
from keyferry.clusters.kubeconfig.resolve import ClientConfig
from keyferry.clusters.session import ClusterSession, PluginSettings, make_session
from keyferry.errors import ClusterAuthError, ConfigError, Kind, PluginExitError, PolicyError
from support.api_server import ApiServer
from support.certificates import make_certificate, make_key
from support.kube import TOKEN, Kube
from support.plugins import SteppedClock

SERVER = "https://k"
PLUGIN = ExecConfig(command="plugin", api_version=API_VERSION, interactive_mode="Never")


def answering(*answers: ClusterCredential | Exception) -> Authenticator:
    """An authenticator whose plugin gives these in turn, the last one for ever."""
    left = list(answers)

    def run() -> ClusterCredential:
        answer = left.pop(0) if len(left) > 1 else left[0]
        if isinstance(answer, Exception):
            raise answer
        return answer

    return Authenticator(run, server=SERVER)


def session(*answers: ClusterCredential | Exception, retries: bool = True) -> ClusterSession:
    return ClusterSession(ClientConfig(server=SERVER, exec=PLUGIN), answering(*answers), retries=retries)


def headers(config: ClientConfig) -> list[tuple[str, str]]:
    return list(ClusterSession(config).grant().headers)


# What is sent


@pytest.mark.parametrize(
    ("config", "value"),
    [
        pytest.param(ClientConfig(server=SERVER), "", id="anonymous"),
        pytest.param(ClientConfig(server=SERVER, bearer_token="t"), "Bearer t", id="token"),
        pytest.param(
            ClientConfig(server=SERVER, username="u", password="p:w"),
            "Basic " + base64.b64encode(b"u:p:w").decode(),
            id="basic",
        ),
        pytest.param(
            ClientConfig(server=SERVER, username="ü"),
            "Basic " + base64.b64encode("ü:".encode()).decode(),
            id="name",
        ),
        pytest.param(
            ClientConfig(server=SERVER, bearer_token="t", username="u"), "Bearer t", id="a token goes first"
        ),
        pytest.param(
            ClientConfig(server=SERVER, bearer_token="a\tb"), "Bearer a\tb", id="a tab may stand there"
        ),
    ],
)
def test_what_is_configured_is_sent(config: ClientConfig, value: str) -> None:
    assert dict(headers(config)).get("Authorization", "") == value


@given(
    before=st.text(max_size=8),
    bad=st.sampled_from([chr(code) for code in (*range(32), 127) if code != 9]),
    after=st.text(max_size=8),
)
def test_no_token_begins_another_header(before: str, bad: str, after: str) -> None:
    """A token with a line break would be the start of whatever an attacker likes."""
    token = f"S3cret{before}{bad}{after}"
    for attempt in (
        lambda: headers(ClientConfig(server=SERVER, bearer_token=token)),
        lambda: session(ClusterCredential(token=token)).grant(),
    ):
        with pytest.raises(ClusterAuthError, match="control character") as caught:
            attempt()
        assert "S3cret" not in f"{caught.value} {caught.value.kubernetes_text} {caught.value!r}"


def test_a_password_cannot_break_out_of_its_header() -> None:
    (value,) = (
        value for _, value in headers(ClientConfig(server=SERVER, username="u", password="p\r\nX: y"))
    )
    assert "\n" not in value
    assert "\r" not in value


# Acting as somebody else


def test_impersonation_has_a_header_for_each_part() -> None:
    config = ClientConfig(
        server=SERVER,
        bearer_token="t",
        impersonate="jane",
        impersonate_uid="42",
        impersonate_groups=("a", "b"),
        impersonate_user_extra={"scopes": ("x", "y"), "example.com/Team%": ("z",)},
    )
    assert headers(config) == [
        ("Authorization", "Bearer t"),
        ("Impersonate-User", "jane"),
        ("Impersonate-Uid", "42"),
        ("Impersonate-Group", "a"),
        ("Impersonate-Group", "b"),
        ("Impersonate-Extra-scopes", "x"),
        ("Impersonate-Extra-scopes", "y"),
        # client-go escapes what may not stand in the name of a header, and '%' itself.
        ("Impersonate-Extra-example.com%2FTeam%25", "z"),
    ]


@pytest.mark.parametrize(
    "config",
    [
        ClientConfig(server=SERVER, impersonate="jane\r\nX-Evil: 1"),
        ClientConfig(server=SERVER, impersonate="jane", impersonate_uid="1\n"),
        ClientConfig(server=SERVER, impersonate="jane", impersonate_groups=("ok", "a\nb")),
        ClientConfig(server=SERVER, impersonate="jane", impersonate_user_extra={"k": ("a\0b",)}),
    ],
    ids=["user", "uid", "group", "extra"],
)
def test_no_impersonation_begins_another_header(config: ClientConfig) -> None:
    with pytest.raises(ClusterAuthError, match="control character"):
        headers(config)


@given(name=st.text(min_size=1, max_size=20))
def test_the_name_of_an_extra_is_always_the_name_of_a_header(name: str) -> None:
    config = ClientConfig(server=SERVER, impersonate="jane", impersonate_user_extra={name: ("v",)})
    sent = headers(config)[1][0].removeprefix("Impersonate-Extra-")
    allowed = set("!#$%&'*+-.^_`|~0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ")
    assert set(sent) <= allowed


# A token in a file


def test_a_token_file_is_read_at_first_use_and_again_after_a_minute(tmp_path: Path) -> None:
    """The file goes before a token that stands beside it, as in client-go."""
    clock = SteppedClock(0)
    path = tmp_path / "token"
    path.write_text("first\n")
    config = ClientConfig(server=SERVER, bearer_token="inline\n", token_file=str(path))
    user = ClusterSession(config, monotonic=clock)

    def sent() -> str:
        return dict(user.grant().headers)["Authorization"]

    assert sent() == "Bearer first"
    path.write_text("second\n")
    clock.step(60)
    assert sent() == "Bearer first"
    clock.now_ns += 1
    assert sent() == "Bearer second"
    path.write_text("")
    clock.step(61)
    assert sent() == "Bearer second"
    path.unlink()
    clock.step(61)
    assert sent() == "Bearer second"
    path.write_bytes(b"\xff\xfe")
    clock.step(61)
    assert sent() == "Bearer second"
    path.write_text("newest")
    clock.step(61)
    assert sent() == "Bearer newest"


# Refusals


class Server:
    """Refuses the tokens it does not know."""

    def __init__(self, *known: str) -> None:
        self.known = known
        self.seen: list[str] = []

    def __call__(self, grant: Grant) -> int:
        """Answer a request."""
        token = dict(grant.headers).get("Authorization", "")
        self.seen.append(token.removeprefix("Bearer "))
        return 200 if self.seen[-1] in self.known else 401


def refused(status: int) -> bool:
    return status == 401


OLD, NEW = ClusterCredential(token="old"), ClusterCredential(token="new")
FAILED = PluginExitError("plugin", 1)


@pytest.mark.parametrize(
    ("user", "replayable", "status", "seen"),
    [
        pytest.param(lambda: session(OLD, NEW), True, 200, ["old", "new"], id="renewed and sent again"),
        pytest.param(lambda: session(OLD, OLD), True, 401, ["old", "old"], id="once only"),
        pytest.param(lambda: session(OLD, NEW, retries=False), True, 401, ["old"], id="as client-go"),
        pytest.param(lambda: session(OLD, NEW), False, 401, ["old"], id="a body that is gone"),
        pytest.param(
            lambda: session(OLD, FAILED), True, 401, ["old"], id="the answer stands if renewal fails"
        ),
        pytest.param(
            lambda: ClusterSession(ClientConfig(server=SERVER, bearer_token="old")),
            True,
            401,
            ["old"],
            id="no plugin",
        ),
    ],
)
def test_a_refusal_renews_the_credential(
    user: Callable[[], ClusterSession],
    replayable: bool,
    status: int,
    seen: list[str],
) -> None:
    server = Server("new")
    assert user().perform(server, refused, is_replayable=replayable) == status
    assert server.seen == seen


def test_asyncio_has_the_same_grants() -> None:
    async def main() -> None:
        user = session(OLD, NEW)
        grant = await user.grant_async()
        renewed = await user.renew_async(grant)
        assert renewed is not None
        assert [dict(each.headers)["Authorization"] for each in (grant, renewed)] == [
            "Bearer old",
            "Bearer new",
        ]
        plain = ClusterSession(ClientConfig(server=SERVER, bearer_token="t"))
        assert await plain.renew_async(await plain.grant_async()) is None
        failing = session(OLD, FAILED)
        assert await failing.renew_async(await failing.grant_async()) is None

    asyncio.run(main())


# The plugin, or not


@pytest.mark.parametrize(
    ("config", "used"),
    [
        (ClientConfig(server=SERVER, exec=PLUGIN), True),
        (ClientConfig(server=SERVER), False),
        (ClientConfig(server=SERVER, exec=PLUGIN, bearer_token="t"), False),
        (ClientConfig(server=SERVER, exec=PLUGIN, token_file="/t"), False),
        (ClientConfig(server=SERVER, exec=PLUGIN, username="u"), False),
        (
            ClientConfig(server=SERVER, exec=PLUGIN, password="p"),
            True,
        ),  # HasBasicAuth of client-go asks for a name
        (ClientConfig(server=SERVER, exec=PLUGIN, client_certificate_data=b"c"), False),
        (ClientConfig(server=SERVER, exec=PLUGIN, impersonate="jane"), True),
    ],
)
def test_anything_static_goes_before_the_plugin(config: ClientConfig, used: bool) -> None:
    assert config.uses_plugin is used
    assert (make_session(config).authenticator is not None) is used


def test_what_client_go_refuses_outright_is_refused_when_the_session_is_made() -> None:
    with pytest.raises(ConfigError):
        make_session(ClientConfig(server=SERVER, exec=ExecConfig(command="p", api_version="v9")))
    with pytest.raises(ConfigError, match="gke-gcloud-auth-plugin"):
        make_session(ClientConfig(server=SERVER, auth_provider="gcp"))
    with pytest.raises(PolicyError):
        make_session(
            ClientConfig(server=SERVER, exec=PLUGIN),
            PluginSettings(policy=PluginPolicy(policy_type="Nonsense")),
        )


# TLS


@pytest.mark.parametrize("data", [b"\xff\xfe not text", b"not PEM", b""], ids=["bytes", "text", "empty"])
def test_a_key_that_is_none_is_an_error_that_does_not_hold_it(data: bytes) -> None:
    """Python's own decoding error would keep the whole key."""
    certificate = make_certificate(make_key()).encode()
    user = ClusterSession(
        ClientConfig(server=SERVER, client_certificate_data=certificate, client_key_data=data + b"S3cret")
    )
    with pytest.raises(ClusterAuthError, match="cannot be used") as caught:
        user.ssl_context()
    error: BaseException | None = caught.value
    while error is not None:
        assert "S3cret" not in f"{error} {error!r} {error.args!r}"
        error = error.__cause__ or error.__context__


def test_contradicting_trust_is_an_error_of_the_cluster() -> None:
    config = ClientConfig(server=SERVER, insecure=True, ca_data=b"an authority")
    with pytest.raises(ClusterAuthError, match="insecure-skip-tls-verify are both set") as caught:
        ClusterSession(config).ssl_context()
    text = "specifying a root certificates file with the insecure flag is not allowed"
    assert caught.value.kubernetes_text == text


def test_nothing_that_is_held_is_shown() -> None:
    user = session(ClusterCredential(token="S3cret", certificate_pem="S3cret", key_pem="S3cret"))
    grant = user.grant()
    assert "S3cret" in dict(grant.headers)["Authorization"]
    assert "S3cret" not in f"{grant!r} {user!r} {user.config!r} {user.authenticator!r} {vars(user)!r}"


def test_a_session_says_as_whom_the_server_knows_it(kube: Kube, server: ApiServer) -> None:
    found = kube.load().whoami()
    assert (found.username, found.groups) == (f"token-{len(TOKEN)}", ("system:authenticated",))
    assert [seen.method for seen in server.seen] == ["POST"]


@pytest.mark.parametrize("status", [401, 403, 404, 500])
def test_a_server_that_does_not_say_who_it_is_is_an_error(kube: Kube, server: ApiServer, status: int) -> None:
    server.always = status
    with pytest.raises(ClusterAuthError, match=f"the server responded {status}") as caught:
        kube.load().whoami()
    assert caught.value.server == server.url
    assert caught.value.kind is Kind.REFUSED
