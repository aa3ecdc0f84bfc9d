"""An exec plugin of kubeconfigs that obtains Entra tokens for AKS and other clusters that accept them."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Mapping

from keyferry.sdk import Deadline, ExecRequest, ExecResponse, ProvideError, serve_cluster
from keyferry.sdk.flags import LOG_FLAGS, Flag, Flags, read_flags
from keyferry.sdk.stdio import program_name, report, try_write
from keyferry_plugins.azure.convert import ABOUT as ABOUT_CONVERT
from keyferry_plugins.azure.convert import FLAGS as CONVERT_FLAGS
from keyferry_plugins.azure.convert import convert_kubeconfig
from keyferry_plugins.azure.entra import EntraError
from keyferry_plugins.azure.login import log_in
from keyferry_plugins.azure.options import FLAGS, read_options
from keyferry_plugins.azure.user import choose_folder, remove_entries

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Never


ABOUT = """\
Print an Entra token for an AKS cluster, for kubectl and other clients. COMMAND is get-token (the default),
convert-kubeconfig, or remove-cache-dir."""
_GET, _CONVERT = "get-token", "convert-kubeconfig"
_REMOVE = ("remove-cache-dir", "remove-tokens")
_REMOVE_FLAGS = (
    Flag(name="cache-dir", about="folder of the cached tokens", aliases=("token-cache-dir",)),
    Flag(name="compat", about="use kubelogin's folder if none is given", is_switch=True),
    *LOG_FLAGS,
)
# What Entra's errors mean to a user of this plugin, by its flags.
_HINTS = {
    "AADSTS50076": "multi-factor authentication is required, so a password is not enough; use --login devicecode",
    "AADSTS50079": "the user must set up multi-factor authentication; use --login devicecode",
    "AADSTS50126": "check the user name and the password; accounts of a federated domain need --login devicecode",
    "AADSTS65001": "an administrator must consent to the application's use of the cluster's server application",
    "AADSTS500011": "check --server-id; for AKS it is 6dae42f8-4368-4678-94ff-3960e28e3630",
    "AADSTS7000218": "allow public client flows in the application's settings, or use --login spn",
}


def main() -> None:
    """Run the plugin, or one of its other commands."""
    command, argv = _GET, sys.argv[1:]
    if argv and argv[0] in (_GET, _CONVERT, *_REMOVE):
        command, *argv = argv
    if command in _REMOVE:
        _finish(lambda: _remove(read_flags(_REMOVE_FLAGS, "Remove the cached tokens.", argv=argv)))
    if command == _CONVERT:
        given = read_flags(CONVERT_FLAGS, ABOUT_CONVERT, argv=argv)
        _finish(lambda: convert_kubeconfig(given, os.environ))
    # An unknown command stays among the words, which are rejected later.
    flags = read_flags(FLAGS, ABOUT, words="[COMMAND]", argv=argv)
    serve_cluster(lambda request: provide(request, flags))


def provide(request: ExecRequest, flags: Flags, environ: Mapping[str, str] | None = None) -> ExecResponse:
    """Return a token for the cluster's server application, by the login that flags and environment select."""
    environ = os.environ if environ is None else environ
    options = read_options(flags, environ)
    try:
        token = log_in(options, request, environ, Deadline(options.timeout_seconds))
    except EntraError as error:
        refused = error
    else:
        return ExecResponse(token=token.value, expires_at=token.expires_at)
    notes = [f"--{flag} is overridden by {variable}" for flag, variable in options.overridden]
    notes += ["--disable-environment-override ignores such variables"] if notes else []
    hint = _HINTS.get(refused.number, refused.hint)
    raise refused.with_hint("; ".join(filter(None, [hint, *notes])))


def _remove(flags: Flags) -> str:
    folder = choose_folder(flags.text("cache-dir"), os.environ, is_compat=flags.is_on("compat"))
    if not folder:
        raise ProvideError(
            "no folder is given, and without --cache-dir no tokens are cached", "give --cache-dir"
        )
    removed, left = remove_entries(folder)
    return f"removed {removed} files from {folder}" + (f"; other files left: {left}" if left else "")


def _finish(run: Callable[[], str]) -> Never:
    """Run a command for people: print its result on standard output, or its error on standard error, and exit."""
    try:
        done = run()
    except ProvideError as error:
        report(program_name(), error)
        sys.exit(1)
    try_write(1, f"{done}\n".encode("utf-8", "surrogateescape"))
    sys.exit(0)
