"""TLS of plugins' requests: whom they trust, and what is said where they do not."""

from __future__ import annotations

import ssl
import subprocess
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest

from keyferry.sdk import Deadline, HttpError
from keyferry.sdk.http import HttpOptions, Retry, fetch
from support import certificates
from support.certificates import make_certificate, make_key
from support.fake_cloud import Authority, FakeServer, Reply, serving
from support.parts import need

LATE = 60.0
QUICK = Retry(attempts=3, first_seconds=0.01, most_seconds=0.02)
ADVICE = "set SSL_CERT_FILE to a bundle with that authority"


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    """An authority that only these tests know."""
    return Authority(tmp_path_factory.mktemp("authority"))


@pytest.fixture
def server(authority: Authority) -> Iterator[FakeServer]:
    """A server with a certificate of that authority."""
    with serving(lambda _: Reply(body=b"ok"), authority.context("127.0.0.1", "localhost")) as running:
        yield running


def get(server: FakeServer, options: HttpOptions, host: str = "127.0.0.1") -> bytes:
    """Fetch from a server by one of its names."""
    url = f"https://{host}:{server.port}/"
    return fetch("GET", url, deadline=Deadline(LATE), retry=QUICK, options=options).body


def hashed(folder: Path, bundle: Path) -> Path:
    """A folder of authorities as OpenSSL looks them up: by a hash of their names."""
    done = subprocess.run(
        [need("openssl"), "x509", "-noout", "-hash", "-in", bundle],
        capture_output=True,
        text=True,
        check=True,
    )
    (folder / f"{done.stdout.strip()}.0").write_bytes(bundle.read_bytes())
    return folder


def test_a_folder_in_the_environment_is_trusted(
    server: FakeServer, authority: Authority, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """SSL_CERT_DIR says whom to trust, too; neither it nor SSL_CERT_FILE hides what is in the other."""
    known, unknown = tmp_path / "known", tmp_path / "unknown"
    for folder in (known, unknown):
        folder.mkdir()
    stranger = tmp_path / "stranger.pem"
    stranger.write_text(make_certificate(make_key()))
    monkeypatch.setenv("SSL_CERT_DIR", str(hashed(known, authority.bundle)))
    assert get(server, HttpOptions()) == b"ok"
    monkeypatch.setenv("SSL_CERT_FILE", str(stranger))
    assert get(server, HttpOptions()) == b"ok"
    monkeypatch.setenv("SSL_CERT_DIR", str(hashed(unknown, stranger)))
    with pytest.raises(HttpError, match="its certificate is not trusted"):
        get(server, HttpOptions())
    monkeypatch.setenv("SSL_CERT_FILE", str(authority.bundle))
    assert get(server, HttpOptions()) == b"ok"


@pytest.mark.parametrize("form", ["path", "text"])
def test_a_bundle_of_the_route_is_trusted_alone(
    form: str, server: FakeServer, authority: Authority, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By its path, or as text; another one in its place leaves out the environment's."""

    def options(bundle: Path) -> HttpOptions:
        return HttpOptions(ca_file=str(bundle)) if form == "path" else HttpOptions(ca_data=bundle.read_text())

    assert get(server, options(authority.bundle)) == b"ok"
    monkeypatch.setenv("SSL_CERT_FILE", str(authority.bundle))
    with pytest.raises(HttpError, match="not trusted"):
        get(server, options(Authority(tmp_path).bundle))


def test_an_unknown_authority_is_final(server: FakeServer) -> None:
    """Nothing is sent, nothing is tried again, and the message says what can be done."""
    with pytest.raises(HttpError) as caught:
        get(server, HttpOptions())
    assert caught.value.problem.startswith("its certificate is not trusted: ")
    assert ADVICE in caught.value.hint
    assert server.received == []


@pytest.mark.parametrize(
    ("url", "options", "headers"),
    [
        pytest.param("https://127.0.0.1:{}/", HttpOptions(), {}, id="an unknown authority"),
        pytest.param("https://127.0.0.1:{}/", HttpOptions(ca_file="/nowhere"), {}, id="no bundle"),
        pytest.param("https://elsewhere.invalid/", HttpOptions(), {}, id="no proxy of a known kind"),
        pytest.param("https://127.0.0.1:{}/", HttpOptions(), {"X": "a\r\nb"}, id="no header"),
    ],
)
def test_what_stays_wrong_is_not_tried_again(
    server: FakeServer,
    monkeypatch: pytest.MonkeyPatch,
    url: str,
    options: HttpOptions,
    headers: dict[str, str],
) -> None:
    """A certificate, a setting or a request, where a network has bad moments."""
    monkeypatch.setenv("HTTPS_PROXY", "socks5://proxy.invalid")  # which is not for this machine
    monkeypatch.setattr("keyferry.sdk.http.sleep", lambda _: pytest.fail("it was to be tried again"))
    with pytest.raises(HttpError):
        fetch(
            "GET",
            url.format(server.port),
            deadline=Deadline(LATE),
            headers=headers,
            retry=QUICK,
            options=options,
        )


def test_a_common_name_is_no_name(
    authority: Authority, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As in Go, whichever way the authority is known; the message says what to do about it."""
    monkeypatch.setenv("SSL_CERT_DIR", str(hashed(tmp_path, authority.bundle)))
    path, text = str(authority.bundle), authority.bundle.read_text()
    with serving(lambda _: Reply(), authority.context(common_name="localhost")) as server:
        for options in (HttpOptions(ca_file=path), HttpOptions(ca_data=text), HttpOptions()):
            with pytest.raises(HttpError) as caught:
                get(server, options, "localhost")
            assert "only its subject alternative names count, a common name does not" in caught.value.problem
            assert caught.value.hint == "have it issued with this name among its subject alternative names"
        assert server.received == []


def test_the_name_of_the_url_is_checked_at_another_address(authority: Authority) -> None:
    """Dialling elsewhere does not change whom the plugin wants to talk to."""
    options = HttpOptions(ca_file=str(authority.bundle), address="127.0.0.1")
    with serving(lambda _: Reply(body=b"ok"), authority.context("real.example")) as server:
        assert get(server, options, "real.example") == b"ok"
        with pytest.raises(HttpError, match="Hostname mismatch"):
            get(server, options, "fake.example")


def test_a_certificate_that_has_expired_is_refused(tmp_path: Path) -> None:
    """Also one of a trusted authority."""
    authority = certificates.Authority()
    pair = authority.server("localhost", until=datetime(2025, 6, 1, tzinfo=UTC))
    (tmp_path / "old.pem").write_text(pair.key + pair.certificate)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(tmp_path / "old.pem")
    with serving(lambda _: Reply(), context) as server:
        with pytest.raises(HttpError, match="certificate has expired"):
            get(server, HttpOptions(ca_data=authority.pem), "localhost")
        assert server.received == []


def test_any_certificate_is_taken_only_where_the_user_says_so(server: FakeServer) -> None:
    """An explicit choice, and no default."""
    assert not HttpOptions().is_insecure
    assert get(server, HttpOptions(is_insecure=True)) == b"ok"


BUNDLES = {
    "missing": (HttpOptions(ca_file="/no/such/bundle"), "the CA bundle '/no/such/bundle': does not exist"),
    "a-folder": (HttpOptions(ca_file="/"), "the CA bundle '/': cannot be read as a bundle of certificates"),
    "no-pem": (HttpOptions(ca_data="x"), "the given CA bundle: cannot be read as a bundle of certificates"),
    "no-text": (HttpOptions(ca_data="é"), "the given CA bundle: cannot be read as a bundle of certificates"),
}


@pytest.mark.parametrize("case", BUNDLES.values(), ids=BUNDLES)
def test_a_bundle_that_is_none_is_said_before_anything_is_sent(
    case: tuple[HttpOptions, str], server: FakeServer
) -> None:
    """Whose fault it is, is clear; no attempt is wasted on it."""
    options, words = case
    with pytest.raises(HttpError) as caught:
        get(server, options)
    assert str(caught.value) == words
    assert caught.value.__context__ is None
    assert server.received == []
