"""Choose the logins of several docker configs for a response, under keys that the kubelet understands."""

from keyferry.sdk import GLOBAL, IMAGE, AuthConfig
from keyferry.sdk.docker_hub import HUB, LOGIN_HOST, is_default_registry
from keyferry_plugins.docker.keys import HostPath, covers, normalise, parse_host_path

TYPE_CHECKING = False  # spelled out: a plugin run must not pay for typing
if TYPE_CHECKING:
    from collections.abc import Iterable

    from keyferry_plugins.docker.config import Login

    Kept = list[tuple[HostPath, Login]]

__all__ = ["choose_logins", "write_auth"]

# The kubelet treats these spellings as one key, and a response can contain each spelling once.
_SPELLINGS = ("{}", "https://{}", "http://{}")


def choose_logins(entries: "Iterable[tuple[str, Login]]", image: str, cache_key_type: str) -> "Kept":
    """Return the logins that a response of *cache_key_type* for *image* must contain, in the order given.

    A response for the image contains the logins that cover the image; one for the registry contains those of
    its host with any path; a global one contains all.
    """
    places = [(place, login) for key, login in entries if (place := normalise(key)) is not None]
    if cache_key_type == GLOBAL:
        return places
    asked = parse_host_path(image)
    if asked is None:
        return []
    if cache_key_type == IMAGE:
        return [kept for kept in places if covers(kept[0], asked)] or _hub_logins(places, image)
    same_host = [
        (place, login) for place, login in places if covers(HostPath(place.host, place.port, ""), asked)
    ]
    return same_host or _hub_logins(places, image)


def _hub_logins(places: "Kept", image: str) -> "Kept":
    """Return the logins under Docker Hub's own key, which apply only if no other login does."""
    if not is_default_registry(image):
        return []
    host = image.partition("/")[0] if "/" in image else HUB
    hub = parse_host_path(host) or HostPath(HUB, "", "")
    return [(hub, login) for place, login in places if str(place) == LOGIN_HOST]


def write_auth(kept: "Kept", notes: list[str]) -> dict[str, AuthConfig]:
    """Return the logins as the ``auth`` of a response; several logins under one key use several spellings of it."""
    logins: dict[str, list[AuthConfig]] = {}
    for place, login in kept:
        entry = AuthConfig(login.username, login.password)
        under = logins.setdefault(str(place), [])
        if entry not in under:
            under.append(entry)
    auth: dict[str, AuthConfig] = {}
    for key, entries in logins.items():
        auth.update(zip((spelling.format(key) for spelling in _SPELLINGS), entries, strict=False))
        if len(entries) > len(_SPELLINGS):
            notes.append(
                f"{key!r} has {len(entries)} logins; only the first {len(_SPELLINGS)} fit in a response"
            )
    return auth
