"""Options of ``keyferry kube`` for a ClusterProfile: the profile, the provider file, and the session that they make."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace

from keyferry.cli.exits import WrongUsage
from keyferry.cli.options import cluster_options, open_session

TYPE_CHECKING = False
if TYPE_CHECKING:
    from keyferry.clusters.kubeconfig.resolve import ClientConfig
    from keyferry.clusters.profile import Profile
    from keyferry.clusters.profile_access import RefusedProfile, ResolvedProfile
    from keyferry.clusters.session import ClusterSession

_FILE_ENDINGS = (".json", ".yaml", ".yml")


def add_profile_arguments(parser: ArgumentParser) -> None:
    """Declare the profile and the provider file."""
    group = parser.add_argument_group("cluster of an inventory")
    group.add_argument(
        "--cluster-profile",
        metavar="FILE|NAME",
        help="use the cluster of this ClusterProfile: a file, with a '/' in its path or one of the endings "
        f"{', '.join(_FILE_ENDINGS)}, or the name of one in the context's cluster and namespace",
    )
    group.add_argument(
        "--provider-file",
        metavar="FILE",
        help="the plugins for the providers of ClusterProfiles, --clusterprofile-provider-file of a controller",
    )
    group.add_argument(
        "--allow-loader-variables",
        action="store_true",
        help="let the ClusterProfile set variables that change how programs are loaded, such as PATH",
    )


def open_chosen_session(args: Namespace) -> ClusterSession:
    """Return a session for the ClusterProfile of the command line, or else for the context."""
    profile = _find(args)
    if profile is None:
        return open_session(args)
    from keyferry.clusters.profile import load_cluster_profile

    return load_cluster_profile(
        profile,
        providers=args.provider_file,
        trust=args.trust,
        allow_loader_variables=args.allow_loader_variables,
        timeout_seconds=args.timeout,
    )


def find_profile(args: Namespace) -> ResolvedProfile | None:
    """Return the client configuration for the ClusterProfile of the command line; None if it names none."""
    profile = _find(args)
    if profile is None:
        return None
    from keyferry.clusters.profile import read_profile

    return read_profile(profile, args.provider_file, allow_loader_variables=args.allow_loader_variables)


def examine_chosen(args: Namespace) -> ResolvedProfile | RefusedProfile | None:
    """Return the same as ``find_profile``, or why the ClusterProfile cannot be used."""
    profile = _find(args)
    if profile is None:
        return None
    from keyferry.clusters.profile import examine_profile

    return examine_profile(profile, args.provider_file, allow_loader_variables=args.allow_loader_variables)


def profile_name(args: Namespace, config: ClientConfig) -> str:
    """Return the name of the ClusterProfile that *config* is for; empty if it is for a context."""
    return config.cluster_name if args.cluster_profile else ""


def _find(args: Namespace) -> Profile | None:
    """Return the file of the ClusterProfile, or the object, read from the context's cluster; None without either."""
    given: str | None = args.cluster_profile
    if given is None:
        without = [name for name in ("provider_file", "allow_loader_variables") if getattr(args, name)]
        if without:
            raise WrongUsage(f"{_option(without[0])} requires --cluster-profile")
        return None
    if not args.provider_file:
        raise WrongUsage("--cluster-profile requires --provider-file")
    if "/" not in given and not given.endswith(_FILE_ENDINGS):
        from keyferry.clusters.profile import fetch_cluster_profile

        return fetch_cluster_profile(open_session(args), given, namespace=args.namespace or "")
    # What is about the cluster that has the profile.
    others = ("namespace", "proxy_url")
    wrong = [*cluster_options(args).flags(), *(_option(name) for name in others if getattr(args, name))]
    if wrong:
        raise WrongUsage(f"{wrong[0]} has no effect: the ClusterProfile is a file, {given!r}")
    return given


def _option(name: str) -> str:
    return f"--{name.replace('_', '-')}"
