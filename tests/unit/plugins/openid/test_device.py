"""Patience with a device code."""

from __future__ import annotations

import pytest

from keyferry.sdk import ProvideError
from keyferry_plugins.openid.issuer import Issuer
from keyferry_plugins.openid.login import log_in_by_device
from keyferry_plugins.openid.options import Options
from support.fake_cloud import Reply
from support.fake_issuer import CLIENT, FakeIssuer, device, refused


def plain(issuer: FakeIssuer) -> Issuer:
    return Issuer(
        url=issuer.url, token_endpoint=f"{issuer.url}/token", device_endpoint=f"{issuer.url}/device"
    )


def test_waits_grow_when_the_issuer_asks_for_it_and_stay_grown(
    issuer: FakeIssuer, capfd: pytest.CaptureFixture[str]
) -> None:
    """Five seconds more for good after slow_down, and after an issuer in trouble."""
    waits: list[float] = []
    issuer.give("/device", device(issuer, interval=2))
    pending, slow = refused("authorization_pending"), refused("slow_down")
    issuer.give("/token", pending, slow, pending, Reply(503), pending, issuer.tokens())
    tokens = log_in_by_device(plain(issuer), Options(issuer=issuer.url, client_id=CLIENT), waits.append)
    assert tokens.id_token
    assert waits == [2, 2, 7, 7, 12, 12]
    assert "WDJB-MJHT" in capfd.readouterr().err


@pytest.mark.parametrize(("interval", "wait"), [(None, 5), (0, 5), ("3", 3), (0.01, 1), (9999, 60), ("x", 5)])
def test_an_odd_interval_neither_floods_nor_stalls(issuer: FakeIssuer, interval: object, wait: float) -> None:
    """Five seconds where none is given, at least one, at most a minute."""
    waits: list[float] = []
    issuer.give("/device", device(issuer, interval=interval, expires_in=600))
    log_in_by_device(plain(issuer), Options(issuer=issuer.url, client_id=CLIENT), waits.append)
    assert waits == [wait]


def test_a_code_is_polled_for_once_at_a_time(issuer: FakeIssuer) -> None:
    """A request that failed on its way is not sent again by itself: a code used twice counts as stolen."""
    issuer.give("/device", device(issuer))
    issuer.give("/token", Reply(is_closed=True))
    with pytest.raises(ProvideError):
        log_in_by_device(plain(issuer), Options(issuer=issuer.url, client_id=CLIENT), lambda _: None)
    assert len(issuer.asked("/token")) == 1
