"""All checks of a node, in the order in which they are read."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from keyferry.doctor.checks.agents import check_agents
from keyferry.doctor.checks.kubelet import check_kubelet
from keyferry.doctor.checks.online import check_clock, check_registries
from keyferry.doctor.checks.providers import check_config, check_patterns, check_plugins
from keyferry.doctor.checks.proxies import check_proxies
from keyferry.doctor.checks.records import check_disk, check_records
from keyferry.doctor.checks.runtime import check_mirrors, check_runtime
from keyferry.doctor.facts import NodeFacts
from keyferry.doctor.health import HealthLevel, HealthLine, HealthSection, NodeHealth
from keyferry.doctor.hints import Hints
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
            HealthLine(
                level=unknown,
                subject="kubelet",
                text=f"a running kubelet, k3s or RKE2: none is visible{unseen}",
            ),
            HealthLine(level=unknown, subject="provider config", text=f"a provider config: none in {places}"),
        ),
    )
    lines = [
        HealthLine(
            level=HealthLevel.NEXT,
            subject="files",
            text="check the files of a node",
            next_command=hints.doctor("--config", "FILE", "--bin-dir", "DIR"),
        ),
        HealthLine(
            level=HealthLevel.NEXT,
            subject="demo",
            text="see what keyferry does",
            next_command="keyferry demo",
        ),
        HealthLine(
            level=HealthLevel.NEXT,
            subject="cluster",
            text="check the access to a cluster",
            next_command="keyferry kube explain",
        ),
    ]
    if hidden and not facts.is_root:
        lines.insert(
            0,
            HealthLine(
                level=HealthLevel.NEXT,
                subject="root",
                text="look again as root",
                next_command=hints.doctor(is_root=True),
            ),
        )
    yield HealthSection(title="what can be done here", lines=tuple(lines))
