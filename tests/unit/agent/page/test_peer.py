"""The kernel tells whose process connects over loopback."""

from __future__ import annotations

import os
import socket
import sys

import pytest

from keyferry.agent.page.access import loopback_uid
from support.parts import lacking, root

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="the agent needs Linux")


def uid_of_a_client(family: socket.AddressFamily, address: str, uid: int) -> int | None:
    with socket.socket(family) as listener:
        try:
            listener.bind((address, 0))
        except OSError:
            lacking("ipv6")
        listener.listen()
        with socket.socket(family) as client:
            before = os.geteuid()
            os.seteuid(uid)
            try:
                client.connect(listener.getsockname())
            finally:
                os.seteuid(before)
            os.fchown(client.fileno(), uid, -1)
            with listener.accept()[0] as accepted:
                return loopback_uid(accepted)


@pytest.mark.parametrize(("family", "address"), [(socket.AF_INET, "127.0.0.1"), (socket.AF_INET6, "::1")])
def test_our_own_connection_is_ours(family: socket.AddressFamily, address: str) -> None:
    assert uid_of_a_client(family, address, os.geteuid()) == os.geteuid()


@root
def test_another_users_connection_is_theirs() -> None:
    assert uid_of_a_client(socket.AF_INET, "127.0.0.1", 12_001) == 12_001
