"""An image credential provider that reads docker config files and mounted secrets."""

from __future__ import annotations

from collections.abc import Iterator

from keyferry._core.docker_hub import HUB, LOGIN_URL
from keyferry.sdk import GLOBAL, IMAGE, REGISTRY, Deadline, ProvideError, Request, Response, serve, tell
from keyferry.sdk.flags import LOG_FLAGS, Flag, Flags, read_flags
from keyferry.sdk.messages import shown
from keyferry_plugins.docker.config import DockerConfig, Login, read_config_file, read_secrets
from keyferry_plugins.docker.helper import ask_helper, host_of
from keyferry_plugins.docker.keyring import choose_logins, read_cache_duration, write_auth

ABOUT = """\
Give the kubelet logins from files: docker configs, and folders of Kubernetes secrets. A response contains only
the logins whose key covers the image."""

FLAGS = (
    Flag(
        name="docker-config",
        about="a docker config file; a name that ends in .dockercfg means the old format",
        is_repeated=True,
    ),
    Flag(name="secrets-dir", about="a folder of mounted secrets, or one mounted secret", is_repeated=True),
    Flag(name="helpers", about="also call the credential helpers that the config files name", is_switch=True),
    Flag(
        name="cache-duration",
        about="how long the kubelet caches a response, such as 10m or 1h; without it the config decides",
    ),
    Flag(
        name="cache-key-type",
        about="the images that a cached response applies to; a wider type includes the logins of all of them",
        default=IMAGE,
        choices=(IMAGE, REGISTRY, GLOBAL),
    ),
    *LOG_FLAGS,
)
_SECONDS = 50.0


def provide(request: Request, flags: Flags) -> Response:
    """Return the image's logins in the files, and those of the helpers that the files configure."""
    seconds, kind = read_cache_duration(flags.text("cache-duration")), flags.text("cache-key-type")
    if flags.is_on("helpers") and kind == GLOBAL:
        raise ProvideError(
            "--helpers cannot be used with --cache-key-type Global: a helper returns the login of one registry",
            "use --cache-key-type Registry",
        )
    notes: list[str] = []
    configs, problems = _read_all(flags, notes)
    entries = [entry for config in configs for entry in config.logins.items()]
    entries += _ask_helpers(configs, request, problems, notes, is_wanted=flags.is_on("helpers"))
    kept = choose_logins(entries, request.image, kind)
    usable = [(place, login) for place, login in kept if login.password or not login.has_identity_token]
    auth = write_auth(usable, notes)
    for note in notes + [str(problem) for problem in problems if auth]:
        tell(f"keyferry-static: {shown(note, 500)}")
    if not auth:
        _explain_nothing(problems, has_identity_token=len(usable) < len(kept))
    return Response(auth=auth, cache_key_type=kind, cache_seconds=seconds if auth else 0)


def _read_all(flags: Flags, notes: list[str]) -> tuple[list[DockerConfig], list[ProvideError]]:
    """Return all readable configs, and the errors of the others: one broken file does not affect the rest."""
    if not flags.texts("docker-config") and not flags.texts("secrets-dir"):
        raise ProvideError("no file is given", "add --docker-config FILE or --secrets-dir DIR to the args")
    configs: list[DockerConfig] = []
    problems: list[ProvideError] = []
    for found in _sources(flags, notes):
        if isinstance(found, DockerConfig):
            configs.append(found)
        else:
            problems.append(found)
    return configs, problems


def _sources(flags: Flags, notes: list[str]) -> Iterator[DockerConfig | ProvideError]:
    for path in flags.texts("docker-config"):
        try:
            yield read_config_file(path, notes)
        except ProvideError as error:
            yield error
    for folder in flags.texts("secrets-dir"):
        try:
            yield from read_secrets(folder, notes)
        except ProvideError as error:
            yield error


def _ask_helpers(
    configs: list[DockerConfig],
    request: Request,
    problems: list[ProvideError],
    notes: list[str],
    *,
    is_wanted: bool,
) -> list[tuple[str, Login]]:
    registry = request.registry
    deadline = Deadline(_SECONDS)
    logins = []
    for config in configs:
        by_host = {host_of(name): helper for name, helper in config.helpers.items()}
        helper = by_host.get(host_of(registry)) or config.store
        if helper and not is_wanted:
            notes.append(
                f"the helper {helper[:80]!r} for {registry!r} is not called: add --helpers to call it"
            )
        elif helper:
            try:
                url = LOGIN_URL if host_of(registry) == HUB else registry
                login = ask_helper(helper, url, deadline)
            except ProvideError as error:
                problems.append(error)
            else:
                logins += [(registry, login)] if login else []
    return logins


def _explain_nothing(problems: list[ProvideError], *, has_identity_token: bool) -> None:
    """Raise ProvideError if a login could not be read or used; the absence of a login is not an error."""
    if problems:
        more = f" (and {len(problems) - 1} more problems)" if len(problems) > 1 else ""
        raise ProvideError(problems[0].message + more, problems[0].hint)
    if has_identity_token:
        raise ProvideError(
            "the only login for the image is an identity token, which the kubelet's protocol cannot carry",
            "log in with a user name and a password, or an access token as the password",
        )


def main() -> None:
    """Run the plugin."""
    flags = read_flags(FLAGS, ABOUT)
    serve(lambda request: provide(request, flags))
