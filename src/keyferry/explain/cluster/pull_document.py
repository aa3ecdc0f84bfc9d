"""Whether a cluster's images can be pulled again, as a document for programs."""

from __future__ import annotations

from keyferry.explain.cluster.pull_answers import CheckedImage, ClusterPulls, PullDoubt, PullGroup
from keyferry.explain.cluster.pull_text import verdict_text
from keyferry.explain.document import cure_documents, selection_document, time_text
from keyferry.explain.explanation import PullVerdict
from keyferry.show.documents import make_document

__all__ = ["pulls_document"]


def pulls_document(found: ClusterPulls) -> dict[str, object]:
    """Return the output of ``keyferry can-pull -A``; ``canPull`` is null where that is unknown."""
    return make_document(
        "ClusterPullCheck",
        server=found.server,
        time=time_text(found.now),
        selection=selection_document(found.selection),
        canPull=_can_pull(found.verdict),
        outcome=str(found.verdict),
        text=verdict_text(found),
        counts={
            "pods": found.pods,
            "workloads": found.workloads,
            "neverPulled": found.never,
            "requests": found.requests,
            "failingPods": found.failing_pods,
            "failingWorkloads": found.failing_workloads,
            "yes": len(found.names(PullVerdict.YES)),
            "no": len(found.names(PullVerdict.NO)),
            "unknown": {str(doubt): len(found.names(PullVerdict.UNKNOWN, doubt)) for doubt in PullDoubt},
        },
        problems=list(map(_group, found.groups)),
        images=list(map(_image, found.images)),
        notes=list(found.notes),
    )


def _can_pull(verdict: PullVerdict) -> bool | None:
    return None if verdict is PullVerdict.UNKNOWN else verdict is PullVerdict.YES


def _group(group: PullGroup) -> dict[str, object]:
    return {
        "outcome": str(group.verdict),
        "doubt": str(group.doubt or ""),
        "text": group.text,
        "cure": cure_documents(group.cures),
        "registry": group.registry,
        "images": list(group.images),
        "pods": group.pods,
        "workloads": group.workloads,
        "namespaces": list(group.namespaces),
        "example": _example(group.example),
        "command": group.command,
    }


def _image(image: CheckedImage) -> dict[str, object]:
    return {
        "image": image.image,
        "registry": image.registry,
        "canPull": _can_pull(image.verdict),
        "outcome": str(image.verdict),
        "doubt": str(image.doubt or ""),
        "message": image.message,
        "cause": image.cause,
        "status": image.status,
        "sources": list(image.sources),
        "public": image.is_public,
        "pods": image.pods,
        "workloads": image.workloads,
        "namespaces": list(image.namespaces),
        "example": _example(image.example),
        "digest": image.digest,
        "runningDigests": list(image.running),
    }


def _example(place: str) -> dict[str, str]:
    """Return the namespace of a pod or workload, and how commands name it."""
    namespace, _, target = place.partition("/")
    return {"namespace": namespace, "target": target}
