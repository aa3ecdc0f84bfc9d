"""The addresses of this machine, and a separate network to give it others."""

from __future__ import annotations

import fcntl
import os
import shutil
import socket
import struct
import subprocess
import sys
from ipaddress import IPv6Address, ip_address
from itertools import pairwise
from pathlib import Path

from support.records import TESTS

# Of <linux/sockios.h> and <net/if.h>.
_SET_FLAGS, _SET_ADDRESS, _SET_MASK, _UP = 0x8914, 0x8916, 0x891C, 0x1
CAN_SEPARATE = os.geteuid() == 0 and shutil.which("unshare") is not None


def own_addresses() -> list[str]:
    """Return the addresses of this machine's interfaces from the system's tables, without link-local ones."""
    found = [
        str(IPv6Address(bytes.fromhex(line.split()[0])))
        for line in Path("/proc/net/if_inet6").read_text().splitlines()
    ]
    lines = Path("/proc/net/fib_trie").read_text().splitlines()
    found += [address.split()[-1] for address, kind in pairwise(lines) if kind.strip() == "/32 host LOCAL"]
    return sorted({each for each in found if not ip_address(each).is_link_local})


def add_addresses(*addresses: str) -> None:
    """Add addresses to the loopback interface of this network, all in one network of 24 bits."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
        fcntl.ioctl(sock, _SET_FLAGS, struct.pack("16sH14x", b"lo", _UP))
        for number, address in enumerate(addresses):
            name = f"lo:{number}".encode()
            for request, value in ((_SET_ADDRESS, address), (_SET_MASK, "255.255.255.0")):
                where = struct.pack("HH4s8x", socket.AF_INET, 0, socket.inet_aton(value))
                fcntl.ioctl(sock, request, struct.pack("16s16s", name, where))


def add_address_6(address: str) -> None:
    """Add an IPv6 address to the loopback interface of this network."""
    with socket.socket(socket.AF_INET6, socket.SOCK_DGRAM) as sock:
        where = struct.pack("16sIi", IPv6Address(address).packed, 128, socket.if_nametoindex("lo"))
        fcntl.ioctl(sock, _SET_ADDRESS, where)


def run_separately(code: str, *words: str) -> subprocess.CompletedProcess[str]:
    """Run Python in a separate, isolated network, with the support modules of the tests."""
    setup = f"import sys; sys.path[:0] = {[str(TESTS), *sys.path]!r}\n"
    return subprocess.run(
        ["unshare", "--net", sys.executable, "-c", setup + code, *words],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
