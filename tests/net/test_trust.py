"""Whom TLS trusts: cheaply first, and in the end whom the system trusts."""

from __future__ import annotations

import ssl
import subprocess
from pathlib import Path

import pytest

from keyferry._net import trust
from keyferry._net.deadline import Deadline
from keyferry._net.trust import Tls, Trust, judge_as_go
from keyferry.errors import HttpError
from keyferry.sdk.http import ONCE, fetch
from support.fake_cloud import Authority, FakeServer, Reply, serving


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    """An authority of the test's own."""
    return Authority(tmp_path)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The system's folder of authorities, with nobody's in it but a stranger's."""
    place = tmp_path / "authorities"
    place.mkdir()
    stranger = tmp_path / "stranger"
    stranger.mkdir()
    put(Authority(stranger), place)
    monkeypatch.setenv("SSL_CERT_DIR", str(place))
    monkeypatch.delenv("SSL_CERT_FILE", raising=False)
    return place


def put(authority: Authority, folder: Path) -> None:
    """Put an authority into a folder under the name that it is looked up by."""
    command = ["openssl", "x509", "-in", str(authority.bundle), "-noout", "-hash"]
    name = subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()
    taken = len(list(folder.glob(f"{name}.*")))
    (folder / f"{name}.{taken}").write_bytes(authority.bundle.read_bytes())


def loaded(context: ssl.SSLContext) -> int:
    """How many authorities a context has read already."""
    return context.cert_store_stats()["x509_ca"]


def ask(server: FakeServer) -> Reply:
    """Send one request."""
    reply = fetch("GET", f"{server.url}/", deadline=Deadline(20), retry=ONCE)
    return Reply(reply.status, body=reply.body)


def test_an_openssl_of_another_system_trusts_the_bundle_of_this_one(
    authority: Authority, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As in one executable with libraries of its own; what the environment names counts all the same."""
    # None stands for a file that does not exist, which the type stubs do not know.
    nowhere = ssl.DefaultVerifyPaths(None, None, "SSL_CERT_FILE", "/nowhere", "SSL_CERT_DIR", "/nowhere")  # type: ignore[arg-type] # as above
    monkeypatch.setattr(ssl, "get_default_verify_paths", lambda: nowhere)
    monkeypatch.setattr(trust, "SYSTEM_BUNDLES", ("/nowhere.pem", str(authority.bundle)))
    for name in ("SSL_CERT_FILE", "SSL_CERT_DIR"):
        monkeypatch.delenv(name, raising=False)
    with serving(lambda _: Reply(200), authority.context("127.0.0.1")) as server:
        assert ask(server).status == 200
        monkeypatch.setenv("SSL_CERT_FILE", "/nowhere.pem")
        with pytest.raises(HttpError):
            ask(server)


def test_a_folder_that_is_not_laid_out_for_it_is_passed_over(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Some systems have only the bundle."""
    monkeypatch.setenv("SSL_CERT_DIR", str(tmp_path))
    monkeypatch.delenv("SSL_CERT_FILE", raising=False)
    tls = Tls(Trust())
    assert loaded(tls.context()) == loaded(ssl.create_default_context())
    assert not tls.widen()


@pytest.mark.usefixtures("folder")
def test_a_narrow_context_checks_as_much_as_a_full_one() -> None:
    """Names and certificates are verified by the same rules."""
    tls = Tls(Trust())
    narrow = tls.context()
    assert tls.widen()
    full = tls.context()
    assert (narrow.check_hostname, narrow.verify_mode) == (True, ssl.CERT_REQUIRED)
    assert narrow.verify_flags == full.verify_flags
    assert narrow.minimum_version == full.minimum_version
    assert not full.verify_flags & ssl.VERIFY_X509_STRICT


def test_a_connection_that_is_cut_off_is_an_error_with_every_build_of_python() -> None:
    """Debian 12's Python sets the option in every context."""
    context = ssl.create_default_context()
    context.options |= ssl.OP_IGNORE_UNEXPECTED_EOF
    judge_as_go(context)
    assert not context.options & ssl.OP_IGNORE_UNEXPECTED_EOF
