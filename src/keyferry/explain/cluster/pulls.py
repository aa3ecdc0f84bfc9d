"""Whether all that runs in a cluster can be pulled again: every distinct question is asked once, at its registry."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterator

from keyferry._core.user_info import hide_in_url
from keyferry._core.values import replace
from keyferry.clusters.session import ClusterSession
from keyferry.errors import ClusterAuthError, EnvironmentProblem
from keyferry.explain.cluster.prepare import prepare
from keyferry.explain.cluster.pull_answers import ClusterPulls, checked_images, judge, node_notes, pull_groups
from keyferry.explain.cluster.uses import MAX_USES, WORKLOADS, ImageUse, ImageUses, has_no_pod
from keyferry.explain.explanation import PullVerdict
from keyferry.explain.registry import image_mirrors
from keyferry.images.answer import Answer
from keyferry.images.keyring import Credential
from keyferry.pulls.mirrors.endpoints import Mirrors
from keyferry.pulls.registry.many import ManyOptions, RegistryAnswer, RegistryQuestion, ask_many
from keyferry.pulls.registry.pace import Budget
from keyferry.pulls.registry.transport import RegistryRoute
from keyferry.pulls.trial import Attempt
from keyferry.workloads.listing import PodSelection, list_pods, list_workloads, select_pods
from keyferry.workloads.objects import KubernetesObject
from keyferry.workloads.request import Request

__all__ = ["Tell", "check_cluster"]

# Is told what is done, for people who wait.
Tell = Callable[[str], None]

_PODS_PER_LINE = 500


def check_cluster(
    request: Request,
    *,
    max_requests: int | None = None,
    tell: Tell = lambda _: None,
) -> ClusterPulls:
    """Ask registries whether the images of the pods that *request* selects can be pulled again; nothing is downloaded.

    Workloads without pods count too, if they can be listed. A question that several pods share is asked once, and at
    most *max_requests* requests are sent. Raise EnvironmentProblem if the request does not go together, ConfigError,
    PolicyError, and ClusterAuthError if the server cannot be reached or does not let this user list pods.
    """
    request = prepare(request)
    session = request.open_session()
    selection = select_pods(request, session)
    uses = ImageUses(request, session)
    listed = _Listed(request, session, selection, uses, tell)
    listed.read_pods()
    listed.read_workloads()
    asked = _Asked(request, uses, max_requests, tell)
    asked.run()
    judged = [judge(key, use, *asked.answer_for(use)) for key, use in uses]
    unseen = tuple(listed.notes())
    failing = {each.key for each in judged if each.verdict is PullVerdict.NO}
    return ClusterPulls(
        selection=selection,
        server=hide_in_url(session.server),
        now=time.time(),
        pods=listed.pods,
        workloads=listed.workloads,
        never=uses.never,
        requests=asked.budget.spent,
        failing_pods=uses.pods.count(failing),
        failing_workloads=uses.workloads.count(failing),
        images=tuple(checked_images(judged)),
        groups=tuple(pull_groups(judged, uses.pods, uses.workloads)),
        notes=(
            *(uses.shared.notes if uses.shared.found.config else ()),
            *node_notes(judged),
            *unseen,
        ),
        unseen=unseen,
    )


class _Listed:
    """Lists what needs images, and adds it to the uses."""

    def __init__(
        self,
        request: Request,
        session: ClusterSession,
        selection: PodSelection,
        uses: ImageUses,
        tell: Tell,
    ) -> None:
        self._seconds = request.timeout_seconds
        self._session = session
        self._selection = selection
        self._uses = uses
        self._tell = tell
        self._problem = ""
        # The kinds of workloads that cannot be listed, with why.
        self._refused: dict[str, str] = {}
        self.pods = self.workloads = self.unread = 0

    def read_pods(self) -> None:
        """Add the pods."""
        for item in list_pods(self._session, self._selection, timeout_seconds=self._seconds):
            if self.pods % _PODS_PER_LINE == 0:
                self._tell(f"read {self.pods:,} pods with {len(self._uses):,} different needs")
            self.pods += 1
            self._add(item)

    def read_workloads(self) -> None:
        """Add the workloads that have no pods; none if only some nodes or fields of pods are meant."""
        selection = self._selection
        for kind in () if selection.node or selection.field_selector else WORKLOADS:
            self._tell(f"reading {kind}s that have no pod")
            try:
                for item in list_workloads(self._session, kind, selection, timeout_seconds=self._seconds):
                    if has_no_pod(item):
                        self.workloads += 1
                        self._add(item)
            except ClusterAuthError as error:
                self._refused[f"{kind}s"] = str(error)
            except EnvironmentProblem as error:
                self._note_unread(error)

    def _add(self, item: KubernetesObject) -> None:
        try:
            self._uses.add(item)
        except EnvironmentProblem as error:
            self._note_unread(error)

    def _note_unread(self, error: EnvironmentProblem) -> None:
        self.unread += 1
        self._problem = self._problem or str(error)

    def notes(self) -> Iterator[str]:
        """Yield what was not looked at."""
        if self._refused:
            *others, last = self._refused
            kinds, why = (
                f"{', '.join(others)} and {last}" if others else last,
                next(iter(self._refused.values())),
            )
            yield f"{kinds} that have no pod were not looked at{'; the first' if others else ''}: {why}"
        if self.unread:
            yield f"pods and workloads that cannot be read: {self.unread}; the first: {self._problem}"
        if self._uses.left_out:
            yield (
                f"only {MAX_USES:,} different needs are kept: {self._uses.left_out:,} images of other pods were not "
                "looked at; select fewer with -n or -l"
            )


Logins = tuple[tuple[str, str], ...]


class _Asked:
    """The questions of all uses: those with the same image and the same logins are one."""

    def __init__(self, request: Request, uses: ImageUses, max_requests: int | None, tell: Tell) -> None:
        self._uses = uses
        self._tell = tell
        self._places: dict[tuple[str, Logins], int] = {}
        self._questions: list[RegistryQuestion] = []
        self._weights: list[int] = []
        self._answers: dict[int, RegistryAnswer] = {}
        self._request = request
        self.budget = Budget(max_requests)
        options = request.registry
        self._options = ManyOptions(
            route=RegistryRoute(ca_file=options.ca_file, is_insecure=options.insecure),
            timeout_seconds=options.timeout_seconds,
            budget=self.budget,
            on_pause=lambda registry, seconds: tell(f"waiting {seconds:.0f} s, as {registry} asks"),
        )

    def run(self) -> None:
        """Ask the registries; the images of most pods first."""
        for _, use in self._uses:
            self._add(use)
        images: Counter[str] = Counter()
        for question, weight in zip(self._questions, self._weights, strict=True):
            images[question.image.in_full().text] += weight
        # An image counts with all its logins.
        order = sorted(
            range(len(self._questions)),
            key=lambda at: (-images[self._questions[at].image.in_full().text], -self._weights[at]),
        )
        questions = [self._questions[at] for at in order]
        for number, (at, answer) in enumerate(ask_many(questions, self._options), 1):
            self._answers[order[at]] = answer
            self._tell(f"asked {number:,} of {len(questions):,} questions")

    def answer_for(self, use: ImageUse) -> tuple[RegistryAnswer | None, Mirrors | None]:
        """Return the registry's answer to a use, with the use's own credentials; None without a question."""
        at = self._places.get(_question_key(use)) if _is_asked(use) else None
        if at is None or use.answer is None:
            return None, None
        own, answer = _distinct_logins(use.answer), self._answers[at]
        return replace(
            answer, attempts=_of(own, answer.attempts), without_file=_of(own, answer.without_file)
        ), self._questions[at].mirrors

    def _add(self, use: ImageUse) -> None:
        if not _is_asked(use) or use.name is None or use.answer is None:
            return
        key = _question_key(use)
        if key not in self._places:
            self._places[key] = len(self._questions)
            mirrors = self._mirrors(use)
            self._questions.append(
                RegistryQuestion(image=use.name, credentials=_distinct_logins(use.answer), mirrors=mirrors)
            )
            self._weights.append(0)
        self._weights[self._places[key]] += use.pods + use.workloads

    def _mirrors(self, use: ImageUse) -> Mirrors | None:
        shared = self._uses.shared
        is_here = self._request.here
        return image_mirrors(use.image, self._request.registry, shared.node, shared.found, is_here=is_here)


def _is_asked(use: ImageUse) -> bool:
    return use.answer is not None and use.inputs is not None and use.inputs.sources.unreadable is None


def _question_key(use: ImageUse) -> tuple[str, Logins]:
    """Return what makes a question: the image and the logins, which stay in memory."""
    assert use.name is not None and use.answer is not None  # noqa: S101, PT018 - see _is_asked
    logins = tuple((each.username, each.password) for each in _distinct_logins(use.answer))
    return use.name.in_full().text, logins


def _distinct_logins(answer: Answer) -> tuple[Credential, ...]:
    """Return the credentials; of those with the same user name and password, the first."""
    found: dict[tuple[str, str], Credential] = {}
    for each in answer.credentials:
        found.setdefault((each.username, each.password), each)
    return tuple(found.values())


def _of(own: tuple[Credential, ...], attempts: tuple[Attempt, ...]) -> tuple[Attempt, ...]:
    """Return the attempts with credentials of the same logins, of other sources."""
    return tuple(replace(each, credential=mine) for each, mine in zip(attempts, own or (None,), strict=False))
