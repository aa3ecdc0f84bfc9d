"""Docker configs for tests, and the logins that the plugins read from them."""

from __future__ import annotations

import base64
import json

from keyferry.sdk import ProvideError
from keyferry_plugins.docker.config import DockerConfig


def auth(text: str) -> str:
    """Return *text*, a user and password, in base64."""
    return base64.b64encode(text.encode()).decode()


def config(**logins: str) -> str:
    """Return a config with these logins: user and password by key."""
    return json.dumps({"auths": {key: {"auth": auth(pair)} for key, pair in logins.items()}})


def logins_of(found: list[DockerConfig | ProvideError]) -> dict[str, tuple[str, str]]:
    """Return the users and passwords that were read, by key."""
    configs = [each for each in found if isinstance(each, DockerConfig)]
    return {key: (login.username, login.password) for each in configs for key, login in each.logins.items()}
