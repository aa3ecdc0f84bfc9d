"""Pull images as the kubelet does, with its credentials, order, records and back-off, and explain the outcome."""

from __future__ import annotations

import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from threading import BoundedSemaphore, Lock
from typing import Self

from keyferry.images.lookup import Providers
from keyferry.images.node.settings import Node
from keyferry.images.reference import ImageName
from keyferry.pulls.kubelet_guard import check_runtime
from keyferry.pulls.manifest import Platform, parse_platform
from keyferry.pulls.operation import BackOff, PullContext, PullOperation
from keyferry.pulls.records.records import PullCounters, Records
from keyferry.pulls.registry.transport import RegistryRoute
from keyferry.pulls.request import PullOptions, PullOutcome, PullTarget

_MAX_THREADS = 64


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
        self._max_threads = max_parallel or _MAX_THREADS
        self._executor: ThreadPoolExecutor | None = None
        self._executor_lock = Lock()

    def __repr__(self) -> str:
        return f"<Puller into {self.target.place}: {self._context.providers!r}>"

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def ensure(self, image: str | ImageName, options: PullOptions = PullOptions()) -> PullOutcome:
        """Make *image* available to the pod, if it may use it; a failure is part of the outcome."""
        return PullOperation(self._context, image, options).run()

    def pull(self, image: str | ImageName, options: PullOptions = PullOptions()) -> PullOutcome:
        """Do the same as ``ensure``, but raise a failure: ImagePullError, or the error that prevented the pull."""
        outcome = self.ensure(image, options)
        outcome.raise_for_failure()
        return outcome

    async def pull_async(self, image: str | ImageName, options: PullOptions = PullOptions()) -> PullOutcome:
        """Do the same as ``pull``, without blocking the event loop.

        Cancellation does not stop a running pull: it continues, and is recorded when it is done.
        """
        import asyncio

        return await asyncio.get_running_loop().run_in_executor(self._threads(), self.pull, image, options)

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
        from keyferry.pulls.cri import RuntimeTarget, connect_runtime

        return RuntimeTarget(connect_runtime(cri))
    if cri:
        raise ValueError("pull into a container runtime or into a folder, not both")
    from keyferry.pulls.layout_target import LayoutTarget

    wanted = parse_platform(platform) if isinstance(platform, str) and platform else platform
    return LayoutTarget(to, platform=wanted or None, route=route)


def pull(
    image: str | ImageName,
    options: PullOptions = PullOptions(),
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
) -> PullOutcome:
    """Pull one image as the kubelet would, into a container runtime or, with *to*, into an OCI layout.

    See ``open_target`` and ``Puller`` for the other arguments. Raise ImagePullError if the pull fails, and
    EnvironmentProblem if a kubelet uses the target.
    """
    target = open_target(cri=cri, to=to, platform=platform, route=route)
    with Puller(
        target, providers=providers, records=records, evict=evict, preload=preload, no_kubelet=no_kubelet
    ) as puller:
        return puller.pull(image, options)


async def pull_async(
    image: str | ImageName,
    options: PullOptions = PullOptions(),
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
) -> PullOutcome:
    """Do the same as ``pull``, without blocking the event loop.

    Cancellation stops a pull into a folder. A container runtime's pull continues, and is recorded when it is done.
    """
    import asyncio

    target = await asyncio.to_thread(open_target, cri=cri, to=to, platform=platform, route=route)
    puller = Puller(
        target, providers=providers, records=records, evict=evict, preload=preload, no_kubelet=no_kubelet
    )

    def work() -> PullOutcome:
        with puller:
            return puller.pull(image, options)

    try:
        return await asyncio.to_thread(work)
    except asyncio.CancelledError:
        if to is not None:
            target.close()
        raise
