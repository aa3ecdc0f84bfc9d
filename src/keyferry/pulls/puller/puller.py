"""Pull images as the kubelet does, with its credentials, order, records and back-off, and explain the outcome."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, nullcontext
from functools import partial
from threading import BoundedSemaphore, Lock
from typing import Self, TypedDict, Unpack

from keyferry._core.values import Value, field
from keyferry.errors import ImageNameError
from keyferry.images.dockerconfig import PullSecret
from keyferry.images.keyring import Credential
from keyferry.images.lookup import Providers
from keyferry.images.node.settings import Node
from keyferry.images.provider.accounts import Pod
from keyferry.images.reference import ImageName, parse_image
from keyferry.pulls.cri.client import connect_runtime
from keyferry.pulls.kubelet_guard import check_runtime
from keyferry.pulls.platform import Platform, parse_platform
from keyferry.pulls.puller.backoff import BackOff
from keyferry.pulls.puller.layout import LayoutTarget
from keyferry.pulls.puller.outcome import PullOutcome
from keyferry.pulls.puller.pull_policy import choose_pull_policy
from keyferry.pulls.puller.steps import PullContext, PullOperation, PullRequest
from keyferry.pulls.puller.target import OnProgress, PullTarget, RuntimeTarget
from keyferry.pulls.records.records import PullCounters, Records
from keyferry.pulls.registry.transport import RegistryRoute

__all__ = [
    "PullOptions",
    "Puller",
    "open_target",
    "pull",
    "pull_async",
]

_MOST_THREADS = 64


class PullOptions(TypedDict, total=False):
    """The keyword arguments for the pull of one image.

    *pull_policy* is Always, IfNotPresent or Never; the default depends on the tag, as in Kubernetes. *credentials* are
    tried in the given order instead of a lookup; an empty sequence means an anonymous attempt. *timeout_seconds* limits
    each attempt. *on_progress* is called with the number of bytes, if the target reports it.
    """

    pull_policy: str
    pod: Pod | None
    pull_secrets: Sequence[PullSecret]
    credentials: Sequence[Credential] | None
    timeout_seconds: float | None
    on_progress: OnProgress | None


class Puller:
    """A puller that makes images available to pods that may use them; safe to use from many threads.

    *providers* supply credentials in addition to a pod's own secrets. *records* determine which pods may use an image
    that is present; without them, every pod may. *max_parallel* is the number of pulls that run at once, None for no
    limit. With *evict* set to False, a provider whose credential is refused is not called again, as in Kubernetes.

    A kubelet lets every pod use an image that it did not pull itself. If a kubelet uses the target, nothing is pulled
    with a credential, unless *preload* allows every pod to use the image. Set *no_kubelet* if there is no kubelet and
    processes are not visible. *find_node* returns the current state of the node.
    """

    def __init__(
        self,
        target: PullTarget,
        *,
        providers: Providers | None = None,
        records: Records | None = None,
        max_parallel: int | None = 1,
        evict: bool = True,
        back_off: BackOff | None = None,
        preload: bool = False,
        no_kubelet: bool = False,
        find_node: Callable[[], Node] = Node,
    ) -> None:
        if max_parallel is not None and max_parallel < 1:
            raise ValueError(f"max_parallel is {max_parallel}, expected 1 or more, or None for no limit")
        self.target = target
        self.counters = PullCounters() if records is None else records.counters
        self._context = PullContext(
            target=target,
            providers=Providers(()) if providers is None else providers,
            records=records,
            counters=self.counters,
            back_off=back_off or BackOff(),
            slots=nullcontext() if max_parallel is None else BoundedSemaphore(max_parallel),
            evict=evict,
            check_private=self._check_private,
        )
        self._preload = preload
        self._no_kubelet = no_kubelet
        self._find_node = find_node
        self._max_threads = max_parallel or _MOST_THREADS
        self._executor: ThreadPoolExecutor | None = None
        self._executor_lock = Lock()

    def __repr__(self) -> str:
        return f"<Puller into {self.target.place}: {self._context.providers!r}>"

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def ensure(self, image: str | ImageName, **options: Unpack[PullOptions]) -> PullOutcome:
        """Make *image* available to the pod, if it may use it; a failure is part of the outcome."""
        name = _parse(image)
        known = name if isinstance(name, ImageName) else None
        policy = choose_pull_policy(options.get("pull_policy", ""), known)
        credentials = options.get("credentials")
        request = PullRequest(
            image=image.text if isinstance(image, ImageName) else image,
            name=name,
            pull_policy=policy,
            pod=options.get("pod"),
            pull_secrets=tuple(options.get("pull_secrets", ())),
            credentials=None if credentials is None else tuple(credentials),
            timeout_seconds=options.get("timeout_seconds"),
            on_progress=options.get("on_progress"),
        )
        return PullOperation(self._context, request).run()

    def pull(self, image: str | ImageName, **options: Unpack[PullOptions]) -> PullOutcome:
        """Do the same as ``ensure``, but raise a failure: ImagePullError, or the error that prevented the pull."""
        outcome = self.ensure(image, **options)
        outcome.raise_for_failure()
        return outcome

    async def pull_async(self, image: str | ImageName, **options: Unpack[PullOptions]) -> PullOutcome:
        """Do the same as ``pull``, without blocking the event loop.

        Cancellation does not stop a running pull: it continues, and is recorded when it is done.
        """
        work = partial(self.pull, image, **options)
        return await asyncio.get_running_loop().run_in_executor(self._threads(), work)

    def close(self) -> None:
        """Close the target, which stops the pulls in progress; the records stay open."""
        self.target.close()
        with self._executor_lock:
            executor, self._executor = self._executor, None
        if executor is not None:
            executor.shutdown()

    def _check_private(self) -> None:
        if self.target.runtime_socket and not self._preload:
            check_runtime(self.target.runtime_socket, self._find_node(), no_kubelet=self._no_kubelet)

    def _threads(self) -> ThreadPoolExecutor:
        with self._executor_lock:
            if self._executor is None:
                self._executor = ThreadPoolExecutor(self._max_threads, thread_name_prefix="keyferry-pull")
            return self._executor


def _parse(image: str | ImageName) -> ImageName | ImageNameError:
    try:
        return parse_image(image).with_default_tag()
    except ImageNameError as error:
        return error


class TargetOptions(TypedDict, total=False):
    """The arguments of ``open_target``."""

    cri: str
    to: str | os.PathLike[str] | None
    platform: Platform | str | None
    route: RegistryRoute


class PullSettings(PullOptions, TargetOptions, total=False):
    """The arguments of ``pull``: those of ``open_target``, ``PullOptions``, and some of ``Puller``."""

    providers: Providers | None
    records: Records | None
    evict: bool
    preload: bool
    no_kubelet: bool


def open_target(
    *,
    cri: str = "",
    to: str | os.PathLike[str] | None = None,
    platform: Platform | str | None = None,
    route: RegistryRoute = RegistryRoute(),
) -> PullTarget:
    """Return the OCI layout in the folder *to*, or the container runtime at the socket *cri*, or that of this node.

    *platform* and *route* apply to a layout only, because a runtime uses its own. Raise EnvironmentProblem if the
    target cannot be used, and ValueError if arguments exclude each other.
    """
    if to is None:
        if platform:
            raise ValueError(
                "a container runtime pulls for its own platform; give a platform only with a folder"
            )
        return RuntimeTarget(connect_runtime(cri))
    if cri:
        raise ValueError("pull into a container runtime or into a folder, not both")
    wanted = parse_platform(platform) if isinstance(platform, str) and platform else platform
    return LayoutTarget(to, platform=wanted or None, route=route)


def pull(image: str | ImageName, **settings: Unpack[PullSettings]) -> PullOutcome:
    """Pull one image as the kubelet would, into a container runtime or, with *to*, into an OCI layout.

    See ``open_target``, ``Puller`` and ``PullOptions`` for the settings. Raise ImagePullError if the pull fails, and
    EnvironmentProblem if a kubelet uses the target.
    """
    plan = _plan(image, **settings)
    return plan.run(plan.open())


async def pull_async(image: str | ImageName, **settings: Unpack[PullSettings]) -> PullOutcome:
    """Do the same as ``pull``, without blocking the event loop.

    Cancellation stops a pull into a folder. A container runtime's pull continues, and is recorded when it is done.
    """
    plan = _plan(image, **settings)
    target = await asyncio.to_thread(plan.open)
    try:
        return await asyncio.to_thread(plan.run, target)
    except asyncio.CancelledError:
        if plan.place.get("to") is not None:
            target.close()
        raise


class _Plan(Value):
    """The arguments of one pull, grouped by the steps that use them."""

    image: str | ImageName
    place: TargetOptions
    make: Callable[[PullTarget], Puller]
    options: PullOptions = field(repr=False)

    def open(self) -> PullTarget:
        """Open the target."""
        return open_target(**self.place)

    def run(self, target: PullTarget) -> PullOutcome:
        """Pull the image, and close the target."""
        with closing(target):
            return self.make(target).pull(self.image, **self.options)


def _plan(
    image: str | ImageName,
    *,
    cri: str = "",
    to: str | os.PathLike[str] | None = None,
    platform: Platform | str | None = None,
    route: RegistryRoute = RegistryRoute(),
    providers: Providers | None = None,
    records: Records | None = None,
    evict: bool = True,
    preload: bool = False,
    no_kubelet: bool = False,
    **options: Unpack[PullOptions],
) -> _Plan:
    def make(target: PullTarget) -> Puller:
        return Puller(
            target,
            providers=providers,
            records=records,
            evict=evict,
            preload=preload,
            no_kubelet=no_kubelet,
        )

    place = TargetOptions(cri=cri, to=to, platform=platform, route=route)
    return _Plan(image=image, place=place, make=make, options=options)
