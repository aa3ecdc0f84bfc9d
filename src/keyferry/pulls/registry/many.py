"""Ask registries about many images, each question once: a few at a time, with the pauses that registries ask for."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from time import monotonic, sleep

from keyferry._core.clock import check_timeout
from keyferry._core.values import Value, field, replace
from keyferry._net.deadline import NO_LIMIT, Deadline
from keyferry.errors import Kind, RegistryError
from keyferry.images.keyring import Credential
from keyferry.images.reference import ImageName
from keyferry.pulls.mirrors.endpoints import Mirrors
from keyferry.pulls.registry.check import check_endpoints, trial_of
from keyferry.pulls.registry.client import RegistryAccess
from keyferry.pulls.registry.pace import Budget, NotAskedError, Pace
from keyferry.pulls.registry.transport import RegistryRoute, Transport
from keyferry.pulls.trial import Attempt

__all__ = ["ManyOptions", "RegistryAnswer", "RegistryQuestion", "ask_many"]

MAX_PARALLEL, MAX_PER_REGISTRY = 8, 4
# The requests of most questions: one that is challenged, and for each login one for a token and one with it.
_FIRST_REQUESTS, _REQUESTS_PER_LOGIN = 1, 2
# How often a question is asked that a registry answers with a pause.
_MAX_TRIES = 3
# A registry that does not respond so often in a row is not asked any more.
_MAX_SILENCES = 2
_BUSY = (429, 503)
_NO_RESPONSE = (Kind.UNREACHABLE, Kind.TIMEOUT)


class RegistryQuestion(Value):
    """An image and the credentials to try for it in order; without any, the request is anonymous.

    *mirrors* tell where the container runtime asks.
    """

    image: ImageName
    credentials: tuple[Credential, ...] = field(default=(), repr=False)
    mirrors: Mirrors | None = None


class RegistryAnswer(Value):
    """The attempts of a question, until one worked; *without_file* are those without the file of its mirrors."""

    attempts: tuple[Attempt, ...]
    without_file: tuple[Attempt, ...] = ()

    @property
    def not_asked(self) -> NotAskedError | None:
        """Why the question was not asked to its end; None if it was."""
        attempts = (*self.attempts, *self.without_file)
        errors = (
            *(each.error for each in attempts),
            *(each.error for one in attempts for each in one.answers),
        )
        return next((each for each in errors if isinstance(each, NotAskedError)), None)

    @property
    def is_busy(self) -> bool:
        """Whether the registry answered that it is to be asked later."""
        error = self.attempts[-1].error if self.attempts else None
        return isinstance(error, RegistryError) and error.status in _BUSY


class ManyOptions(Value):
    """How many questions are asked: connections, the time limit of a response, and the budget of requests.

    *clock* and *pause* are those of the pauses; *on_pause* is told which registry is waited for, and how long.
    """

    route: RegistryRoute = RegistryRoute()
    timeout_seconds: float = 60.0
    budget: Budget = field(default_factory=Budget)
    clock: Callable[[], float] = monotonic
    pause: Callable[[float], None] = sleep
    on_pause: Callable[[str, float], None] = lambda _registry, _seconds: None


def ask_many(
    questions: Sequence[RegistryQuestion], options: ManyOptions
) -> Iterator[tuple[int, RegistryAnswer]]:
    """Yield the place of each question with its answer, in the order of the answers.

    The questions of a registry are asked in their order. Those that were not asked, since the budget is used up or the
    registry does not respond or asks for too long a pause, have an answer that says so.
    """
    check_timeout(options.timeout_seconds)
    rounds = _Rounds(questions, options)
    try:
        yield from rounds.run()
    except BaseException:
        rounds.interrupt()
        raise
    finally:
        rounds.close()


class _Host:
    """A registry with the questions that wait for it."""

    def __init__(self, name: str, options: ManyOptions) -> None:
        seconds = options.timeout_seconds
        limits = {
            each: min(getattr(options.route, each), seconds) for each in ("connect_seconds", "answer_seconds")
        }
        self.name = name
        self.waiting: deque[int] = deque()
        self.running = 0
        self.pace = Pace(name, options.budget, options.clock)
        self.transport = Transport(replace(options.route, **limits), Deadline(NO_LIMIT), meter=self.pace)
        self._access = RegistryAccess(self.transport, name)
        self._seconds = seconds
        self._silences = 0

    @property
    def is_ready(self) -> bool:
        """Whether a question may be asked now."""
        return bool(self.waiting) and self.running < MAX_PER_REGISTRY and not self.pace.pause_left

    def ask(self, question: RegistryQuestion) -> RegistryAnswer:
        """Ask until a credential works; in a thread of its own."""
        mirrors = question.mirrors
        if mirrors is None or not mirrors.endpoints:
            return RegistryAnswer(attempts=self._try(question))
        attempts = check_endpoints(
            question.image,
            question.credentials,
            mirrors,
            route=self.transport.route,
            timeout_seconds=self._seconds,
            meter=self.pace,
        )
        return RegistryAnswer(attempts=attempts, without_file=self._try(question) if mirrors.doubt else ())

    def _try(self, question: RegistryQuestion) -> tuple[Attempt, ...]:
        trial = trial_of(self._access, question.image)
        trial.run(question.credentials)
        return tuple(trial.attempts)

    def note(self, answer: RegistryAnswer) -> None:
        """Note whether the registry responds."""
        error = answer.attempts[-1].error if answer.attempts else None
        is_silent = isinstance(error, RegistryError) and error.kind in _NO_RESPONSE
        self._silences = self._silences + 1 if is_silent else 0
        if self._silences >= _MAX_SILENCES and error is not None:
            self.pace.stop(error.message)


class _Rounds:
    """Asks the questions from one thread, which starts others, waits for them and for the ends of pauses."""

    def __init__(self, questions: Sequence[RegistryQuestion], options: ManyOptions) -> None:
        self._questions = questions
        self._options = options
        self._hosts: dict[str, _Host] = {}
        self._tries = [0] * len(questions)
        self._running: dict[Future[RegistryAnswer], tuple[_Host, int]] = {}
        self._pool = ThreadPoolExecutor(MAX_PARALLEL, thread_name_prefix="keyferry-registry")
        for at, question in enumerate(questions):
            name = question.image.registry
            if name not in self._hosts:
                self._hosts[name] = _Host(name, options)
            self._hosts[name].waiting.append(at)

    def run(self) -> Iterator[tuple[int, RegistryAnswer]]:
        """Yield the answers."""
        while True:
            yield from self._give_up()
            self._start()
            if self._running:
                yield from self._collect()
            elif not self._pause():
                return

    def interrupt(self) -> None:
        """Abort the requests in progress."""
        for host in self._hosts.values():
            host.pace.stop("the check was interrupted")
            host.transport.interrupt()

    def close(self) -> None:
        """Wait for the threads, and close the connections."""
        self._pool.shutdown(cancel_futures=True)
        for host in self._hosts.values():
            host.transport.close()

    def _give_up(self) -> Iterator[tuple[int, RegistryAnswer]]:
        """Yield the answers of the questions that are not asked any more."""
        for host in self._hosts.values():
            error = host.pace.refusal
            while error is not None and host.waiting:
                at = host.waiting.popleft()
                credential = next(iter(self._questions[at].credentials), None)
                yield at, RegistryAnswer(attempts=(Attempt(credential=credential, error=error),))

    def _start(self) -> None:
        """Start as many questions as may be asked now, of each registry in turn."""
        ready = deque(host for host in self._hosts.values() if host.is_ready)
        while ready:
            if self._options.budget.left < float("inf"):
                # What comes first may not be asked any more after the others.
                ready = deque(sorted(ready, key=lambda each: each.waiting[0]))
            if not self._may_start(ready[0].waiting[0]):
                return
            host = ready.popleft()
            at = host.waiting.popleft()
            host.running += 1
            self._tries[at] += 1
            self._running[self._pool.submit(host.ask, self._questions[at])] = host, at
            if host.is_ready:
                ready.append(host)

    def _may_start(self, at: int) -> bool:
        """Return whether a question may be asked; at the end of the budget one at a time, which gets what is left."""
        running = [each for _, each in self._running.values()]
        needed = sum(map(self._usual_requests, (*running, at)))
        return len(running) < MAX_PARALLEL and (not running or needed <= self._options.budget.left)

    def _usual_requests(self, at: int) -> int:
        logins = max(1, len(self._questions[at].credentials))
        return _FIRST_REQUESTS + _REQUESTS_PER_LOGIN * logins

    def _collect(self) -> Iterator[tuple[int, RegistryAnswer]]:
        """Wait for answers, at most until another registry may be asked again, and yield them."""
        seconds = min((left for left, _ in self._pauses()), default=None)
        done, _ = wait(self._running, seconds, FIRST_COMPLETED)
        for future in done:
            host, at = self._running.pop(future)
            host.running -= 1
            answer = future.result()
            host.note(answer)
            if answer.is_busy and host.pace.pause_left and self._tries[at] < _MAX_TRIES:
                host.waiting.append(at)
            else:
                yield at, answer

    def _pauses(self) -> list[tuple[float, str]]:
        """Return for how long registries with questions are not asked, with their names."""
        waiting = (host for host in self._hosts.values() if host.waiting)
        return [(host.pace.pause_left, host.name) for host in waiting if host.pace.pause_left]

    def _pause(self) -> bool:
        """Wait until the first registry may be asked again; return False if nothing is left to ask."""
        pauses = self._pauses()
        if pauses:
            seconds, registry = min(pauses)
            self._options.on_pause(registry, seconds)
            self._options.pause(seconds)
        return bool(pauses) or any(host.waiting for host in self._hosts.values())
