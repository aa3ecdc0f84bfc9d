"""An image credential provider for every registry that trusts an OpenID Connect issuer."""

from __future__ import annotations

import gc
import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

    from keyferry.sdk import Request, Response
    from keyferry.sdk.flags import Flags

__all__ = ["main", "provide"]

ABOUT = """\
Exchange the token of a pod's service account, or another token of an OpenID Connect issuer, for a login at a
registry that trusts the issuer. The config has rules for registries, each with a preset or calls of its own."""


# New objects between two garbage collections: more than a run creates, and those all stay in use.
_PATIENT_GC = 100_000


def provide(request: Request, flags: Flags, environ: Mapping[str, str] | None = None) -> Response:
    """Return the login for the image's registry by the rule that lists it."""
    from time import monotonic, time

    from keyferry_plugins.federation.answer import make_response
    from keyferry_plugins.federation.config import find_rule, load_config
    from keyferry_plugins.federation.options import read_timeout
    from keyferry_plugins.federation.parameters import gather_values
    from keyferry_plugins.federation.subject import check_subject, obtain_subject
    from keyferry_plugins.federation.telling import make_teller

    environ = os.environ if environ is None else environ
    teller = make_teller(environ, is_verbose=flags.is_on("verbose"))
    with teller.step("rule"):
        rule = find_rule(load_config(flags, environ), request.registry)
        ends_at = monotonic() + read_timeout(flags)
    with teller.step("subject"):
        token = obtain_subject(rule.subject, request, environ, ends_at)
        subject = check_subject(token, rule.subject, time())
        teller.note("token from", rule.subject.source, "with", subject)
        teller.done("the token is the expected one", {"from": rule.subject.source, **subject.claims})
    with teller.step("parameters"):
        values = gather_values(rule, request, token, environ)
    if rule.recipe.calls:
        from keyferry_plugins.federation.calls import make_calls  # a token that is passed on needs no network

        values = make_calls(rule, values, subject, ends_at, teller)
    with teller.step("login"):
        response = make_response(rule, values, subject, request, time())
        kept, key_type = response.cache_seconds, response.cache_key_type
        teller.note("login for", request.registry, "to keep for", kept, "s by", key_type)
        teller.done(
            f"there is a login for {request.registry}", {"seconds to keep": kept, "cacheKeyType": key_type}
        )
    return response


def _show_preset(name: str) -> None:
    """Print a preset and end the program."""
    import json
    import sys

    from keyferry.sdk import ProvideError
    from keyferry.sdk.federation import PRESETS
    from keyferry.sdk.stdio import report, write_all

    if name not in PRESETS:
        error = ProvideError(f"there is no preset {name[:40]!r}, expected one of {', '.join(PRESETS)}")
        report("keyferry-federate", error)
        sys.exit(2)
    write_all(1, json.dumps(PRESETS[name], indent=2).encode() + b"\n")
    sys.exit(0)


def main() -> None:
    """Run the plugin."""
    gc.set_threshold(_PATIENT_GC)
    # Imported here, so that their objects, too, are created without garbage collections.
    from keyferry.sdk.flags import read_flags
    from keyferry_plugins.federation.options import FLAGS

    flags = read_flags(FLAGS, ABOUT)
    if flags.text("show-preset"):
        _show_preset(flags.text("show-preset"))
    from keyferry.sdk import serve

    try:
        serve(lambda request: provide(request, flags))
    except SystemExit as end:
        # All is written and nothing stays open: the interpreter's own clean-up would only take time.
        os._exit(end.code if isinstance(end.code, int) else 1)
