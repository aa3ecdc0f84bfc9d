"""All checks of a node, in the order in which they are read."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from keyferry.doctor.facts import NodeFacts
from keyferry.doctor.health import HealthLevel, HealthLine, HealthSection, Hints, NodeHealth, make_line
from keyferry.doctor.network_checks import check_clock, check_proxies, check_registries
from keyferry.doctor.node_checks import (
    check_disk,
    check_kubelet,
    check_mirrors,
    check_records,
    check_runtime,
)
from keyferry.doctor.provider_checks import check_agents, check_config, check_patterns, check_plugins
from keyferry.images.node.discover import WELL_KNOWN_CONFIGS

__all__ = ["examine"]


def examine(facts: NodeFacts, hints: Hints) -> NodeHealth:
    """Return the health of a node; for a machine that is none, what was looked for and what can be done."""
    if not facts.is_node:
        return NodeHealth(sections=tuple(_elsewhere(facts, hints)), is_node=False, is_online=facts.is_online)
    sections: tuple[tuple[str, Iterable[HealthLine]], ...] = (
        ("kubelet", check_kubelet(facts.kubelet, hints, is_root=facts.is_root)),
        ("provider config", check_config(facts.config, facts.kubelet, hints)),
        ("plugins", check_plugins(facts.config, hints)),
        ("patterns", check_patterns(facts.config, hints)),
        ("node agent", check_agents(facts, hints)),
        ("container runtime", check_runtime(facts.runtime, hints, is_online=facts.is_online)),
        ("mirrors", check_mirrors(facts, hints)),
        ("pull records", check_records(facts.records, hints, is_root=facts.is_root)),
        ("proxies", check_proxies(facts, hints)),
        ("disk", check_disk(facts.disk)),
        ("registries", check_registries(facts, hints)),
        ("clock", check_clock(facts.probes)),
    )
    filled = ((title, tuple(lines)) for title, lines in sections)
    return NodeHealth(
        sections=tuple(HealthSection(title=title, lines=lines) for title, lines in filled if lines),
        is_online=facts.is_online,
    )


def _elsewhere(facts: NodeFacts, hints: Hints) -> Iterator[HealthSection]:
    hidden = facts.kubelet.kubelets.hidden
    unseen = f"; {hidden}" if hidden else ""
    places = ", ".join(known.config for known in WELL_KNOWN_CONFIGS)
    unknown = HealthLevel.UNKNOWN
    yield HealthSection(
        title="what was looked for",
        lines=(
            make_line(unknown, "kubelet", f"no kubelet, k3s or RKE2 is seen to run{unseen}"),
            make_line(unknown, "provider config", f"none in {places}"),
        ),
    )
    lines = []
    if hidden and not facts.is_root:
        again = hints.doctor(is_root=True)
        lines.append(make_line(HealthLevel.NEXT, "root", "look again as root", again))
    files = hints.doctor("--config", "FILE", "--bin-dir", "DIR")
    lines += [
        make_line(HealthLevel.NEXT, "files", "check the files of a node", files),
        make_line(HealthLevel.NEXT, "demo", "see what keyferry does", "keyferry demo"),
        make_line(HealthLevel.NEXT, "cluster", "check the access to a cluster", "keyferry kube explain"),
    ]
    yield HealthSection(title="what can be done here", lines=tuple(lines))
