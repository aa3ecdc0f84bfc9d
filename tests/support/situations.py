"""Situations of a pod's pull: a world for each, and what ``explain`` says of it."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from itertools import takewhile
from pathlib import Path
from subprocess import CompletedProcess
from typing import Any

from .account_world import AUDIENCE
from .kubernetes_api import Json, account, pod, pull_secret
from .pod_world import HOST, PodWorld, pod_world
from .pull_reports import aged
from .records import folder_of
from .schemas import check_document

POD = "pod/web -n shop"
IMAGE = f"{HOST}/team/app:v1"
LOGIN = ("alice", "kf-marked-password")
AUTH = '{{"{0}": {{"username": "alice", "password": "kf-marked-password"}}}}'
TOKENS = f"""\
  tokenAttributes:
    serviceAccountTokenAudience: {AUDIENCE}
    cacheType: Token
    requireServiceAccount: true
    requiredServiceAccountAnnotationKeys: [{HOST}/role]
"""
# The command that creates a secret for the registry.
CREATE = rf"kubectl create secret docker-registry \S+ -n shop --docker-server={re.escape(HOST)}\b"
COLUMNS, MAX_LINES = 80, 24
# For each case: the outcome, the mark of the first line, and the exit code.
CASES = {
    "runs": ("yes", "✓", 0),
    "found": ("yes", "✓", 0),
    "other-reason": ("no", "✗", 1),
    "no-credential": ("no", "✗", 1),
    "plugin-failed": ("no", "✗", 4),
    "refused": ("no", "✗", 5),
    "not-known-yet": ("no", "✗", 1),
    "unexplained": ("no", "✗", 1),
    "changed": ("unknown", "?", 6),
    "not-tried": ("unknown", "?", 6),
    "unknown": ("unknown", "?", 6),
}

Change = Callable[[PodWorld], None]


def nothing(_: PodWorld) -> None:
    """Change nothing."""


@dataclass(frozen=True)
class Situation:
    """How a world is made, and what must be said, as for ``check``; *then* happens after the kubelet's start."""

    make: Change
    case: str
    says: tuple[str, ...]
    cures: tuple[str, ...] = ()
    never: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    then: Change = nothing
    options: str = ""


@dataclass(frozen=True)
class Told:
    """What the command prints about the pod: a document, and lines for people, of 80 columns."""

    codes: tuple[int, int]
    document: dict[str, Any]
    text: str

    @property
    def explanation(self) -> dict[str, Any]:
        """The explanation of the first image."""
        explanation = self.document["pods"][0]["images"][0]["explanation"]
        assert isinstance(explanation, dict)
        return explanation

    @property
    def first_line(self) -> str:
        """The first line, unfolded."""
        first, *others = self.text.splitlines()
        more = takewhile(lambda line: line[:1] == " " and line.split()[:1] != ["→"], others)
        return " ".join((first, *map(str.strip, more)))

    @property
    def flat_text(self) -> str:
        """All lines as one."""
        return " ".join(self.text.split())

    @property
    def cures(self) -> str:
        """What is to be done, and the lines to paste."""
        return "\n".join("\n".join((each["text"], *each["lines"])) for each in self.explanation["cure"])

    @property
    def verdict(self) -> tuple[str, str]:
        """The outcome and its case."""
        verdict = self.explanation["verdict"]
        return verdict["outcome"], verdict["case"]


@contextmanager
def situation_world(
    folder: Path, make: Change, then: Change = nothing, *, is_in_process: bool = False
) -> Iterator[PodWorld]:
    """Yield a world in which the kubelet started after *make*, then *then* happened, then all that it reports."""
    with pod_world(folder) as world:
        world.is_in_process = is_in_process
        world.api.add(aged(account()), web())
        make(world)
        if world.is_node:
            for which in ("pulling", "pulled"):
                folder_of(world.root, which)
            if "containerRuntimeEndpoint" not in world.kubelet_config:
                world.run_runtime({})
            world.age_files()
            world.start_kubelet()
        then(world)
        world.publish()
        yield world


def situation_here(folder: Path, make: Change, then: Change = nothing) -> AbstractContextManager[PodWorld]:
    """Return such a world, whose commands run in this process."""
    return situation_world(folder, make, then, is_in_process=True)


def tell(world: PodWorld, options: str = "", subject: str = POD) -> Told:
    """Run the command in a world."""
    document, text = explain(world, f"{options} -o json", subject), explain(world, options, subject)
    assert "kf-marked" not in text.stdout + text.stderr + document.stdout + document.stderr
    assert document.stdout, document.stderr
    assert text.stdout, text.stderr
    return Told((document.returncode, text.returncode), json.loads(document.stdout), text.stdout)


def explain(world: PodWorld, options: str = "", subject: str = POD) -> CompletedProcess[str]:
    """Run the command in a world, for lines of 80 columns."""
    return world.run(f"keyferry explain {subject} {options}", COLUMNS=str(COLUMNS), PYTHONIOENCODING="utf-8")


def explain_pod(world: PodWorld, options: str) -> dict[str, Any]:
    """Return the explanation of the pod's first image."""
    done = explain(world, f"{options} -o json")
    assert "kf-marked" not in done.stdout + done.stderr
    explanation: dict[str, Any] = json.loads(done.stdout)["pods"][0]["images"][0]["explanation"]
    return explanation


def check(
    told: Told,
    case: str,
    says: Iterable[str],
    cures: Sequence[str] = (),
    *,
    never: Iterable[str] = (),
    notes: Iterable[str] = (),
) -> None:
    """Check what was told of one image: *says* are patterns for its first line, *never* for what is in no line.

    Without *cures* there is nothing to do.
    """
    outcome, mark, code = CASES[case]
    check_document(told.explanation)
    shown = f"{told.text}\n{json.dumps(told.explanation['verdict'], indent=1)}\n{told.cures}"
    assert told.verdict == (outcome, case), shown
    assert told.explanation["evidence"], shown
    assert set(told.codes) == {code}, shown
    assert told.text.startswith(f"{mark} "), shown
    for pattern in says:
        assert re.search(pattern, told.first_line), (pattern, shown)
    for pattern in cures:
        assert re.search(pattern, told.cures), (pattern, shown)
    assert bool(told.cures) is bool(cures), shown
    assert ("→" in told.text) is bool(cures), shown
    for pattern in notes:
        assert re.search(pattern, told.flat_text), (pattern, shown)
    for pattern in never:
        assert not re.search(pattern, f"{told.flat_text}\n{told.cures}"), (pattern, shown)
    assert len(told.text.splitlines()) <= MAX_LINES, shown


# The parts of worlds.


def web(
    image: str = IMAGE, *, secrets: tuple[str, ...] = (), policy: str = "IfNotPresent", **spec: object
) -> Json:
    """Return the pod, which lists pull secrets."""
    made = pod(images=(image,))
    whole = made["spec"]
    assert isinstance(whole, dict)
    whole |= {"imagePullSecrets": [{"name": name} for name in secrets], **spec}
    whole["containers"][0]["imagePullPolicy"] = policy
    return aged(made)


def login_secret(name: str = "regcred", **more: object) -> Json:
    """Return a pull secret with the right login, unless another is given."""
    return aged(pull_secret(name, **{"login": ":".join(LOGIN), **more}))  # type: ignore[arg-type] # by name


def add_provider(
    world: PodWorld, *patterns: str, name: str = "acme-registry", auth: str = HOST, **more: str
) -> None:
    """Add a provider whose plugin answers with the right login for *auth*."""
    world.node.add(name, list(patterns), AUTH.format(auth), **more)
