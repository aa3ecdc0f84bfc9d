"""A server listens at an IP address and a port, and at nothing that has to be looked up."""

from __future__ import annotations

import pytest

from keyferry._net.listen_address import ListenAddress, parse_listen_address


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("127.0.0.1:9750", ListenAddress(host="127.0.0.1", port=9750, is_loopback=True)),
        ("127.1.2.3:0", ListenAddress(host="127.1.2.3", port=0, is_loopback=True)),
        ("0.0.0.0:9750", ListenAddress(host="0.0.0.0", port=9750, is_loopback=False)),
        ("10.1.2.3:65535", ListenAddress(host="10.1.2.3", port=65535, is_loopback=False)),
        ("[::1]:9750", ListenAddress(host="::1", port=9750, is_loopback=True)),
        ("[::]:9750", ListenAddress(host="::", port=9750, is_loopback=False)),
    ],
)
def test_an_address_is_read_and_written_alike(text: str, expected: ListenAddress) -> None:
    assert parse_listen_address(text) == expected
    assert str(expected) == text


@pytest.mark.parametrize(
    "text",
    [
        *("", "9750", ":9750", "127.0.0.1", "127.0.0.1:", "127.0.0.1:65536", "127.0.0.1:-1", "127.0.0.1:x"),
        *("127.0.0.1:٩", "localhost:9750", "node.example:9750", "::1:9750", "[127.0.0.1]:9750", "[::1]"),
        *("127.0.0.1:000080", "http://127.0.0.1:9750", " 127.0.0.1:9750", "127.1:9750", "[[::1]]:1"),
    ],
)
def test_everything_else_is_refused(text: str) -> None:
    """Names too, since what they stand for may change."""
    assert parse_listen_address(text) is None
