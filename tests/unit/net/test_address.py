"""Which hosts are loopback, as written."""

from __future__ import annotations

import pytest

from keyferry._net.address import is_loopback_host

LOOPBACK = [
    "localhost",
    "LocalHost",
    "127.0.0.1",
    "127.255.255.255",
    "127.0.0.0",
    "::1",
    "0:0:0:0:0:0:0:1",
    "0::0001",
]
ELSEWHERE = [
    "", "127.", "127", "127.1", "127..1", "127..0.1", "127.0.0.1.", "127.0.0.0.1", "127.999.1.1", "127.0.0.256",
    "127.0.0.01", "127.0.0.0x1", "127.0.0.-1", "127.0.0.1 ", "127.0.0.\u0661", "127.0.0.\u00b2", "127.0.0.\udc80",
    "127.0.0.1.example", "128.0.0.1", "0.0.0.0", "2130706433", "0x7f.0.0.1", "localhost.", "localhost.example",
    "my-localhost", "[::1]", "::", "::2", "::1%lo", "1::", "::ffff:127.0.0.1", "64:ff9b::7f00:1", ":1", "localhost:80",
]  # fmt: skip


@pytest.mark.parametrize("host", LOOPBACK)
def test_loopback_is_known_as_written(host: str) -> None:
    """The name in any case, and every real address."""
    assert is_loopback_host(host)


@pytest.mark.parametrize("host", ELSEWHERE)
def test_nothing_else_is_loopback(host: str) -> None:
    """What only resembles such an address may be a name, and lead anywhere."""
    assert not is_loopback_host(host)
