"""Docker configs to test with, and what the plugins read of them."""

import base64
import json

from keyferry.sdk import ProvideError
from keyferry_plugins.docker.config import DockerConfig


def auth(text: str) -> str:
    """The user and password of an entry, encoded."""
    return base64.b64encode(text.encode()).decode()


def config(**logins: str) -> str:
    """A config with these logins, each as user and password by its key."""
    return json.dumps({"auths": {key: {"auth": auth(pair)} for key, pair in logins.items()}})


def logins_of(found: list[DockerConfig | ProvideError]) -> dict[str, tuple[str, str]]:
    """The users and passwords in what was read, by key."""
    configs = [each for each in found if isinstance(each, DockerConfig)]
    return {key: (login.username, login.password) for each in configs for key, login in each.logins.items()}
