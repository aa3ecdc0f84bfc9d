"""Messages to systemd: that the agent is ready, reloads, stops, and is alive."""

from __future__ import annotations

import os
import socket
import time
from collections.abc import Mapping

__all__ = ["SystemdNotifier"]

_MICROSECONDS = 1_000_000


class SystemdNotifier:
    """Sends to the socket that systemd names in NOTIFY_SOCKET; does nothing without one."""

    def __init__(self, environ: Mapping[str, str]) -> None:
        self._address = environ.get("NOTIFY_SOCKET", "")
        interval, owner = environ.get("WATCHDOG_USEC", ""), environ.get("WATCHDOG_PID", "")
        is_ours = owner in ("", str(os.getpid()))
        # Half of the time after which systemd acts.
        self.watchdog_seconds = (
            int(interval) / _MICROSECONDS / 2 if is_ours and interval.isdecimal() and self._address else 0.0
        )

    def ready(self) -> None:
        """Tell that requests are served, at the start and after a reload."""
        self._send("READY=1")

    def reloading(self) -> None:
        """Tell that a reload begins; `ready` follows, also if it fails."""
        microseconds = time.clock_gettime_ns(time.CLOCK_MONOTONIC) // 1000
        self._send(f"RELOADING=1\nMONOTONIC_USEC={microseconds}")

    def stopping(self) -> None:
        """Tell that the agent stops."""
        self._send("STOPPING=1")

    def alive(self) -> None:
        """Tell that the event loop still runs."""
        self._send("WATCHDOG=1")

    def _send(self, message: str) -> None:
        if not self._address:
            return
        # systemd's notation for an abstract address.
        address = "\0" + self._address[1:] if self._address.startswith("@") else self._address
        try:
            with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC) as sender:
                sender.setblocking(False)
                sender.sendto(message.encode(), address)
        except OSError:
            pass  # whoever started the agent does not listen; that is no reason to stop
