"""Read a ``WWW-Authenticate`` header: authentication schemes and their parameters."""

from __future__ import annotations

from keyferry._net.challenge import ChallengeError, read_challenges

__all__ = ["ChallengeError", "read_challenges"]
