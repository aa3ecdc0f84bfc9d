"""What the system's errors mean, as types that code can decide by."""

from __future__ import annotations

import copy
import errno
import socket
import ssl

import pytest

from keyferry._net import errors
from keyferry._net.errors import NetworkError, explain
from keyferry._net.proxy import Origin

PROXY = Origin(scheme="http", host="proxy.example", port=3128, target="", user_info="me:pass-word")


def unverified(code: int) -> ssl.SSLCertVerificationError:
    """What OpenSSL says of a certificate that it does not accept."""
    error = ssl.SSLCertVerificationError(1, "certificate verify failed")
    error.verify_code, error.verify_message = code, "why"
    return error


def ssl_error(reason: str) -> ssl.SSLError:
    """Another error of OpenSSL."""
    error = ssl.SSLError(1, "some text")
    error.reason = reason
    return error


MEANINGS = {
    "timeout": (TimeoutError(), errors.TimedOutError, "no response in time"),
    "name": (
        socket.gaierror(-2, "Name or service not known"),
        errors.NotResolvedError,
        "cannot be reached: its name cannot be resolved",
    ),
    "refused": (
        ConnectionRefusedError(errno.ECONNREFUSED, "Connection refused"),
        errors.RefusedError,
        "cannot be reached: connection refused",
    ),
    "reset": (
        ConnectionResetError(errno.ECONNRESET, "Connection reset by peer"),
        errors.ClosedEarlyError,
        "cannot be reached: connection reset by peer",
    ),
    "no route": (
        OSError(errno.EHOSTUNREACH, "No route to host"),
        errors.UnreachableError,
        "cannot be reached: no route to host",
    ),
    "untrusted": (unverified(20), errors.UntrustedError, "its certificate is not trusted: why"),
    "other name": (
        unverified(62),
        errors.WrongNameError,
        "its certificate is not trusted: why; only its subject alternative names count, a common name does not",
    ),
    "other address": (
        unverified(64),
        errors.WrongNameError,
        "its certificate is not trusted: why; only its subject alternative names count, a common name does not",
    ),
    "cut": (ssl.SSLEOFError(8, "EOF occurred"), errors.ClosedEarlyError, "the connection was cut off"),
    "cut, by Debian 12's Python": (
        ssl_error("UNEXPECTED_EOF_WHILE_READING"),
        errors.ClosedEarlyError,
        "the connection was cut off",
    ),
    "no TLS": (ssl_error("WRONG_VERSION_NUMBER"), errors.TlsError, "TLS failed: wrong version number"),
    "a value": (
        ValueError("s3cret"),
        errors.UnreachableError,
        "cannot be reached: the request cannot be sent",
    ),
    "ours": (errors.TooLongError("the response is longer"), errors.TooLongError, "the response is longer"),
}


@pytest.mark.parametrize("case", MEANINGS.values(), ids=MEANINGS)
def test_each_way_to_fail_has_a_type(case: tuple[Exception, type[NetworkError], str]) -> None:
    """Exactly one, whose words name the proxy if there is one, and never its password."""
    error, kind, words = case
    assert type(explain(error)) is kind
    assert str(explain(error)) == words
    assert str(explain(error, PROXY)) == f"{words} (through the proxy http://proxy.example:3128)"


def test_what_is_explained_has_no_frames() -> None:
    """They hold headers and bodies; a new error takes the place of the old one, also of one of ours."""
    for kind in (OSError, errors.ClosedEarlyError):
        try:
            raise kind("broken")
        except Exception as caught:  # noqa: BLE001 - either of the two
            found = explain(caught)
        assert (found.__traceback__, found.__context__, found.__cause__) == (None, None, None)


def test_what_is_not_the_servers_fault_names_whose_it_is() -> None:
    """And not the proxy beside it."""
    error = errors.ProxyError("the proxy refused", "try another", "http://proxy.example:3128")
    assert str(explain(error, PROXY)) == "http://proxy.example:3128: the proxy refused"
    assert explain(error, PROXY).hint == "try another"


def test_errors_can_be_copied() -> None:
    """All three parts of them, as a pickle would."""
    again = copy.copy(errors.ProxyError("problem", "hint", "subject"))
    assert (again.problem, again.hint, again.subject) == ("problem", "hint", "subject")


FINAL = {"BundleError", "RequestError", "TooLongError", "UntrustedError", "UrlError", "WrongNameError"}


def test_another_attempt_is_left_out_where_it_cannot_help() -> None:
    """What is wrong with a certificate, a setting or a limit stays so; a network has bad moments."""
    kinds = [
        each for each in vars(errors).values() if isinstance(each, type) and issubclass(each, NetworkError)
    ]
    assert {kind.__name__ for kind in kinds if kind.is_final} == FINAL
