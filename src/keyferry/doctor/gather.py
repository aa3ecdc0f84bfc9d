"""Gather the facts about this machine as a node: processes, files and, only if it is asked for, registries."""

from __future__ import annotations

import os
import stat
import sys
from collections.abc import Iterator, Mapping

from keyferry._core.host_root import host_root, is_on_host, on_host
from keyferry._core.paths import format_path
from keyferry._core.user_info import hide_user_info
from keyferry._core.values import Value
from keyferry._net.agent import AGENT_VARIABLE, AUTO, ROOT_SOCKET, find_socket
from keyferry.doctor.facts import (
    AgentFacts,
    ConfigFacts,
    DiskFacts,
    KubeletFacts,
    MirrorFacts,
    NodeFacts,
    PluginFile,
    ProviderFacts,
    RecordsFacts,
    RegistryProbe,
    RuntimeFacts,
    ShimFacts,
)
from keyferry.doctor.online import ask_agent, ask_registries, ask_runtime
from keyferry.errors import ImageNameError, PolicyError
from keyferry.images.config.read import ReadConfig, read_config
from keyferry.images.config.validate import GATE, plugin_path
from keyferry.images.match import Pattern
from keyferry.images.node.changes import newer_than_kubelet
from keyferry.images.node.discover import discover
from keyferry.images.node.kubelet import KUBELET_ROOT
from keyferry.images.node.settings import RECORDS_GATE, KubeletSettings, Node
from keyferry.images.reference import parse_image, registry_of
from keyferry.invoke.shim import BEHIND, LINK, is_shim, plugin_behind
from keyferry.lint.kinds.providers import lint
from keyferry.lint.kinds.records import lint_records
from keyferry.lint.versions import LATEST
from keyferry.pulls.cri import SOCKETS
from keyferry.pulls.mirrors.endpoints import (
    MirrorPlaces,
    RuntimeKind,
    running_places,
    runtime_of,
    runtime_process,
    stale_sources,
)
from keyferry.pulls.mirrors.find import configured_registries, find_mirrors
from keyferry.pulls.records.policy import DEFAULT, make_policy

__all__ = ["DoctorOptions", "gather_facts"]

# A registry that no file can name, for the mirrors of all registries.
_ANY_REGISTRY, _OTHERS = "registry.invalid", "every other registry"


class DoctorOptions(Value):
    """What to look at: files that are given, the root of the file system, and whether hosts are contacted."""

    config: str | None = None
    bin_dir: str | None = None
    root: str | None = None
    hosts_dir: str = ""
    registries_conf: str = ""
    host_root: str = "/"
    is_online: bool = False
    ca_file: str = ""
    timeout_seconds: float = 10.0
    kubernetes: str = ""

    @property
    def names_mirrors(self) -> bool:
        """Whether files that name mirrors are given."""
        return bool(self.hosts_dir or self.registries_conf)


def gather_facts(node: Node, options: DoctorOptions) -> NodeFacts:
    """Read everything once; no program is run, and no socket is opened unless *is_online* is set."""
    config, read = _config(node, options, node.settings)
    own_config = config.found.config if config is not None and _is_own(config) else ""
    kubelet = KubeletFacts(
        kubelets=node.kubelets,
        settings=node.settings,
        environment=None if node.kubelet is None else node.kubelet.read_environment(),
        version=options.kubernetes,
        newer=() if node.settings is None else newer_than_kubelet(node.settings, own_config),
    )
    # A config that is given may be another machine's: then only files that are given count as the node's.
    is_here = kubelet.kubelet is not None or (config is not None and _is_own(config))
    registries = tuple(dict.fromkeys(name.partition("/")[0] for name in _plain_names(read)))
    runtime = _runtime(kubelet, options) if is_here else None
    # Below a host root, the variable of this process does not name the node's agent.
    agents = tuple(_agents(config, options.host_root, {} if host_root() else os.environ))
    probes: tuple[RegistryProbe, ...] = ()
    if options.is_online:
        config_hash = "" if read is None else read.hash
        agents = tuple(
            ask_agent(each, config_hash, options.timeout_seconds) if each.is_there else each
            for each in agents
        )
        owner, environ = _proxy_owner(kubelet, runtime)
        probes = ask_registries(
            registries, options.ca_file, options.timeout_seconds, owner=owner, environ=environ
        )
    return NodeFacts(
        kubelet=kubelet,
        config=config,
        runtime=runtime,
        mirrors=tuple(_mirrors(kubelet, options, _plain_names(read)))
        if is_here or options.names_mirrors
        else (),
        stale_sources=stale_sources(options.host_root) if is_here and not options.names_mirrors else (),
        records=_records(kubelet.settings, options) if is_here or options.root else None,
        disk=_disk(kubelet.settings, options) if is_here or options.root else None,
        registries=registries,
        probes=probes,
        is_online=options.is_online,
        is_root=sys.platform == "win32" or os.geteuid() == 0,
        agents=agents,
    )


def _proxy_owner(kubelet: KubeletFacts, runtime: RuntimeFacts | None) -> tuple[str, Mapping[str, str] | None]:
    """Return whose proxies lead to the registries, and the environment that names them.

    The runtime pulls the images; the kubelet's plugins ask registries too. Without either, keyferry's own are used.
    """
    if runtime is not None and runtime.process is not None and runtime.environment is not None:
        return runtime.process.program, runtime.environment
    return ("", None) if kubelet.environment is None else ("the kubelet", kubelet.environment)


def _is_own(config: ConfigFacts) -> bool:
    return config.found.config_from not in ("given", "KEYFERRY_CONFIG")


def _config(
    node: Node, options: DoctorOptions, settings: KubeletSettings | None
) -> tuple[ConfigFacts | None, ReadConfig | None]:
    found = discover(
        options.config,
        options.bin_dir,
        node=node,
        root=options.host_root,
        needs_config=False,
        needs_bin_dir=False,
    )
    if not found.config:
        return None, None
    gates = {GATE: settings.gates[GATE]} if settings is not None and GATE in settings.gates else {}
    read = read_config(found.config)
    # The same bytes, in case the path is a pipe, which can be read only once.
    data = None if is_on_host(found.config, os.path.isdir) or not read.files else read.files[0].data
    version = options.kubernetes or LATEST
    report = lint(found.config, data=data, bin_dir=found.bin_dir or None, kubernetes=version, gates=gates)
    return ConfigFacts(found=found, report=report, providers=tuple(_providers(read, found.bin_dir))), read


def _providers(read: ReadConfig, bin_dir: str) -> Iterator[ProviderFacts]:
    for provider, location in zip(read.providers, read.locations, strict=True):
        place = location.file.path, format_path(("providers", location.index))
        path = plugin_path(bin_dir, provider.name) if bin_dir else ""
        plugin = _plugin(path) if path else None
        patterns = tuple(map(hide_user_info, provider.match_images or ()))
        shim = _shim(path) if plugin is not None and is_shim(path) else None
        yield ProviderFacts(name=provider.name, patterns=patterns, place=place, plugin=plugin, shim=shim)


def _shim(path: str) -> ShimFacts:
    try:
        target = os.readlink(on_host(path + LINK, follows=False))
        # The kubelet, which executes it, is root.
        socket = ROOT_SOCKET if target == AUTO else target
    except OSError:
        socket = ""
    behind = plugin_behind(path)
    plugin = _plugin(behind) if behind and not is_shim(behind) else None
    is_named = any(is_on_host(path + suffix, os.path.lexists) for suffix in BEHIND)
    return ShimFacts(socket=socket, plugin=plugin, is_broken=plugin is None and is_named)


def _plugin(path: str) -> PluginFile | None:
    try:
        found = os.stat(on_host(path))
    except (OSError, ValueError):
        return None
    return PluginFile(path=path, user_id=found.st_uid, mode=found.st_mode)


def _agents(config: ConfigFacts | None, root: str, environ: Mapping[str, str]) -> Iterator[AgentFacts]:
    """Yield the agents that are named; one that is only looked for in its usual place has to be there."""
    seen: set[str] = set()
    for provider in () if config is None else config.providers:
        if provider.shim is not None and provider.shim.socket not in ("", *seen):
            seen.add(provider.shim.socket)
            place = provider.shim.socket
            yield AgentFacts(
                socket=place,
                named_by=f"the shim of {provider.name}",
                is_there=is_on_host(place, os.path.lexists),
            )
    place, is_named = find_socket(environ), bool(environ.get(AGENT_VARIABLE))
    if not is_named:
        place = os.path.join(root, place.lstrip("/")) if place else ""
    is_there = is_on_host(place, os.path.lexists)
    if place and place not in seen and (is_named or is_there):
        yield AgentFacts(
            socket=place, named_by=AGENT_VARIABLE if is_named else "its usual place", is_there=is_there
        )


def _plain_names(read: ReadConfig | None) -> Iterator[str]:
    """Yield how the image names begin that a pattern matches, for patterns whose host has no wildcard."""
    for pattern in (each for patterns in (read.patterns if read is not None else ()) for each in patterns):
        if isinstance(pattern, Pattern):
            host = pattern.authority
            # A path that no image can have is left out.
            name = next(filter(_is_name, (f"{host}{pattern.path}".rstrip("/"), host)), "")
            if name:
                yield name


def _is_name(name: str) -> bool:
    """Return whether an image name can begin so, with the registry as it is written."""
    try:
        return parse_image(f"{name}/image").registry == registry_of(f"{name}/image")
    except ImageNameError:
        return False


def _endpoint(settings: KubeletSettings | None) -> str:
    found = None if settings is None else settings.image_endpoint or settings.endpoint
    return "" if found is None else found.value


def _runtime(kubelet: KubeletFacts, options: DoctorOptions) -> RuntimeFacts | None:
    settings, runtimes = kubelet.settings, kubelet.kubelets.runtimes
    endpoint = _endpoint(settings)
    process = runtime_process(runtimes, endpoint)
    if settings is not None:
        setting = settings.image_endpoint or settings.endpoint
        named_by = "" if setting is None else setting.origin
        socket = settings.kubelet.inside(endpoint.removeprefix("unix://")) if endpoint else ""
    else:
        usual = (os.path.join(options.host_root, path.lstrip("/")) for path in SOCKETS)
        socket, named_by = next(filter(is_on_host, usual), ""), "its usual place"
        if not socket:
            return None
    version, problem = None, ""
    if options.is_online and _is_socket(socket):
        version, problem = ask_runtime(socket, options.timeout_seconds)
    return RuntimeFacts(
        socket=socket,
        named_by=named_by,
        is_socket=_is_socket(socket),
        kind=runtime_of(endpoint or socket, runtimes),
        process=process,
        environment=None if process is None else process.read_environment(),
        version=version,
        version_problem=problem,
    )


def _is_socket(path: str) -> bool | None:
    try:
        return stat.S_ISSOCK(os.stat(on_host(path)).st_mode)
    except (OSError, ValueError):
        return None


def _mirrors(kubelet: KubeletFacts, options: DoctorOptions, names: Iterator[str]) -> Iterator[MirrorFacts]:
    if options.names_mirrors:
        places = MirrorPlaces(hosts_dir=options.hosts_dir, registries_conf=options.registries_conf)
    else:
        endpoint = _endpoint(kubelet.settings)
        places = running_places(kubelet.kubelets.runtimes, endpoint, root=options.host_root)
    seen = set()
    for name in dict.fromkeys((*names, *configured_registries(places), _ANY_REGISTRY)):
        try:
            found = find_mirrors(f"{name.replace('*', 'any')}/image", places)
        except ImageNameError:
            continue
        # containerd has mirrors for whole registries, CRI-O for any start of a name.
        is_whole = found is not None and found.runtime is RuntimeKind.CONTAINERD
        shown = name.partition("/")[0] if is_whole else name
        if found is not None and shown not in seen:
            seen.add(shown)
            yield MirrorFacts(name=_OTHERS if name == _ANY_REGISTRY else shown, mirrors=found)


def _root(settings: KubeletSettings | None, options: DoctorOptions) -> str:
    if options.root:
        return os.path.abspath(options.root)
    if settings is None:
        return os.path.join(options.host_root, KUBELET_ROOT.lstrip("/"))
    return settings.kubelet.inside(settings.root_dir.value)


def _records(settings: KubeletSettings | None, options: DoctorOptions) -> RecordsFacts:
    root = _root(settings, options)
    folder = os.path.join(root, "image_manager")
    policy = None if settings is None else settings.policy
    name = DEFAULT if policy is None else policy.value
    unreadable, report, count = "", None, 0
    if is_on_host(folder, os.path.isdir):
        try:
            count = len(os.listdir(on_host(os.path.join(folder, "pulled"))))
            report = lint_records(on_host(folder))
        except FileNotFoundError:
            report = lint_records(on_host(folder))
        except OSError as error:
            unreadable = error.strerror or "it is not known why"
    return RecordsFacts(
        root=root,
        policy=name,
        policy_from="the kubelet's default" if policy is None else policy.origin,
        policy_problem="" if settings is None else _policy_problem(name, settings.allowlist),
        is_off=settings is not None and settings.gates.get(RECORDS_GATE) is False,
        report=report,
        count=count,
        unreadable=unreadable,
    )


def _policy_problem(name: str, allowlist: tuple[str, ...]) -> str:
    try:
        make_policy(name, allowlist)
    except PolicyError as error:
        return str(error)
    return ""


def _disk(settings: KubeletSettings | None, options: DoctorOptions) -> DiskFacts | None:
    root = _root(settings, options)
    try:
        found = os.statvfs(on_host(root))
    except (AttributeError, OSError):
        return None  # Windows has no statvfs
    return DiskFacts(path=root, free=found.f_bavail * found.f_frsize, total=found.f_blocks * found.f_frsize)
