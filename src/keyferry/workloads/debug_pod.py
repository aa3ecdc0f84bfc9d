"""A short-lived pod on a node that runs commands of keyferry on the node's files, and is deleted in every way out.

It is like that of ``kubectl debug node/NAME``, which stays behind. Each command is a container of its own; the answers
are read from the logs. What a run could not delete, the kubelet ends after its deadline, and the next run deletes.

A server may still be making the pod when its client has given up, and then knows no pod to delete: the deletion is
repeated for as long as an admission webhook usually may take.
"""

from __future__ import annotations

import signal
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from datetime import datetime
from secrets import token_hex
from types import FrameType

from keyferry._core.log import log_debug
from keyferry._core.secrets import printable
from keyferry._core.values import Value, field
from keyferry._net.forms import encode_percent, encode_query
from keyferry.clusters.access import ClusterAccess
from keyferry.clusters.api_calls import ApiAction, ApiProblem, Denial, Json, call_api, problem_of
from keyferry.clusters.request import request
from keyferry.errors import ClusterAuthError, EnvironmentProblem, KeyferryError, Kind
from keyferry.show.documents import API_VERSION
from keyferry.workloads.listing import PodSelection, list_pods
from keyferry.workloads.objects import KubernetesObject, ObjectKind
from keyferry.workloads.pods import ContainerState, read_pod

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Self

__all__ = ["DEBUG_LABEL", "HOST_ROOT", "ContainerLog", "DebugPod", "debug_pod", "run_debug_pod"]

HOST_ROOT = "/host"
# Not a label of the agent's pods, so that nobody takes one for the other.
DEBUG_LABEL = f"{API_VERSION.partition('/')[0]}/debug"
_ENFORCE = "pod-security.kubernetes.io/enforce"
POLL_SECONDS = 0.25
_MAX_LOG_BYTES = 1 << 22
# After its deadline a pod may take so long to end, and clocks may differ by so much.
_LEFTOVER_SECONDS = 300
# An admission webhook may take 10 s unless its configuration says otherwise.
MAX_CREATE_SECONDS = 12.0
# A node that is well ends a pod within its grace period of 1 s, and a little more.
MAX_END_SECONDS = 10.0
_DELETE_ATTEMPTS, DELETE_PAUSE_SECONDS, _DELETE_SECONDS = 4, 1.0, 5.0
_GATEWAY_STATUSES = (502, 503, 504)
_ENDED = ("Succeeded", "Failed")
# Why a container that has its image is not started; some of it passes.
_NOT_STARTED = ("CreateContainerConfigError", "CreateContainerError", "RunContainerError")
MAX_NOT_STARTED_SECONDS = 3.0
# Why a container ended that never ran, and so has no log.
_NEVER_RAN = ("ContainerCannotRun", "StartError")
# What the exit code tells as well.
_USUAL_ENDS = ("Completed", "Error")
_BACK_OFF = "ImagePullBackOff"
_SIGNAL_EXIT = 128

Announce = Callable[[str], None]


class ContainerLog(Value):
    """What the container of one command wrote, on both streams, and its exit code.

    *ended* is why it ended, if its status tells more than that, such as that its program could not be started.
    """

    exit_code: int
    text: bytes = field(repr=False)
    ended: str = ""


class DebugPod(Value):
    """A pod to make: its *commands* run on *node* from *image*, with the host's root at ``HOST_ROOT``."""

    name: str
    namespace: str
    node: str
    image: str
    commands: tuple[tuple[str, ...], ...]
    seconds: int = 60
    is_privileged: bool = False

    def __str__(self) -> str:
        return f"{self.namespace}/{self.name}"

    @property
    def containers(self) -> tuple[str, ...]:
        """The name of each command's container."""
        return tuple(f"keyferry-{number}" for number, _ in enumerate(self.commands, 1))

    def document(self) -> Json:
        """Return the pod as it is made."""
        # As root, with the capability to change the root folder that containers have by default.
        context: Json = {"runAsUser": 0, "runAsGroup": 0, "runAsNonRoot": False}
        if self.is_privileged:
            context["privileged"] = True
        # Without the second field, which kubelets use since 1.31, a file system mounted below is read-only only if the
        # host has it so.
        mount = {"name": "host", "mountPath": HOST_ROOT, "readOnly": True, "recursiveReadOnly": "IfPossible"}
        containers = [
            {
                "name": name,
                "image": self.image,
                "command": list(words),
                "securityContext": context,
                "volumeMounts": [mount],
            }
            for name, words in zip(self.containers, self.commands, strict=True)
        ]
        return {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {
                "name": self.name,
                "namespace": self.namespace,
                "labels": {DEBUG_LABEL: "on-node", "app.kubernetes.io/managed-by": "keyferry"},
            },
            "spec": {
                "nodeName": self.node,
                "hostPID": True,
                "hostNetwork": True,
                "dnsPolicy": "Default",
                "restartPolicy": "Never",
                "activeDeadlineSeconds": self.seconds,
                "terminationGracePeriodSeconds": 1,
                "automountServiceAccountToken": False,
                "enableServiceLinks": False,
                "tolerations": [{"operator": "Exists"}],
                "containers": containers,
                "volumes": [{"name": "host", "hostPath": {"path": "/", "type": "Directory"}}],
            },
        }


def debug_pod(
    namespace: str, node: str, image: str, commands: tuple[tuple[str, ...], ...], **more: object
) -> DebugPod:
    """Return a pod with a name that no other has."""
    name = f"keyferry-node-{token_hex(5)}"
    return DebugPod(name=name, namespace=namespace, node=node, image=image, commands=commands, **more)  # type: ignore[arg-type] # the fields of DebugPod


def run_debug_pod(
    session: ClusterAccess, pod: DebugPod, announce: Announce, *, timeout_seconds: float = 60.0
) -> tuple[ContainerLog, ...]:
    """Make *pod*, wait until its commands have ended, return what each wrote, and delete it whatever happens.

    *announce* is told what is made before it is, and what could not be deleted. Leftovers of earlier runs are deleted
    first. Raise EnvironmentProblem if the pod does not start, and ClusterAuthError if the server cannot be reached or
    refuses something.
    """
    calls = _PodCalls(session, pod.namespace, timeout_seconds)
    calls.delete_leftovers()
    seen = "privileged, with the node's" if pod.is_privileged else "with the node's"
    announce(
        f"makes pod {pod} on node {pod.node!r} from image {pod.image!r} ({seen} processes and network, and its files "
        "to read), and deletes it when it has answered"
    )
    with _EndedBySignal() as ending:
        try:
            calls.create(pod)
            return tuple(calls.logs(pod, calls.wait(pod)))
        finally:
            try:
                ending.hold()
            finally:
                left = calls.remove(pod, announce)
                if left:
                    announce(
                        f"pod {pod} {left}; it ends {pod.seconds} s after its start; try: "
                        f"kubectl delete pod {pod.name} -n {pod.namespace}"
                    )


class _EndedBySignal:
    """A block that SIGTERM and SIGHUP end with an exception, as Ctrl-C does; only the first signal does.

    After ``hold`` none does until the end of the block, so that what was made can be deleted.
    """

    def __init__(self) -> None:
        self._handlers: dict[int, object] = {}
        self._is_held = False

    def __enter__(self) -> Self:
        for number in (signal.SIGINT, signal.SIGTERM, getattr(signal, "SIGHUP", signal.SIGTERM)):
            try:
                if signal.getsignal(number) is not signal.SIG_IGN:
                    self._handlers[number] = signal.signal(number, self._end)
            except ValueError:
                break  # not the main thread, in which no handler runs
        return self

    def __exit__(self, *_: object) -> None:
        for number, handler in self._handlers.items():
            signal.signal(number, handler)  # type: ignore[arg-type] # what signal.signal has returned

    def hold(self) -> None:
        """Let no signal end the block any more."""
        self._is_held = True

    def _end(self, number: int, _frame: FrameType | None) -> None:
        if self._is_held:
            return
        self._is_held = True
        if number == signal.SIGINT:
            raise KeyboardInterrupt
        raise SystemExit(_SIGNAL_EXIT + number)


class _PodCalls:
    """The calls of the API server about pods of one namespace."""

    def __init__(self, session: ClusterAccess, namespace: str, timeout_seconds: float) -> None:
        self._session = session
        self._namespace = namespace
        self._timeout_seconds = timeout_seconds
        self._path = f"/api/v1/namespaces/{encode_percent(namespace)}/pods"
        # Whether the server has said what became of the pod; until then, it may still be making it.
        self._is_answered = False

    def create(self, pod: DebugPod) -> None:
        action = self._action("create", "pods", pod.name)
        found = call_api(
            self._session, action, self._path, pod.document(), timeout_seconds=self._timeout_seconds
        )
        # What stands before the server gives up earlier, and the server says so of its own deadline, too.
        self._is_answered = not isinstance(found, ApiProblem) or found.status not in _GATEWAY_STATUSES
        if isinstance(found, ApiProblem):
            raise _refused(found, self._needs(found.denial))

    def _needs(self, denial: Denial | None) -> str:
        """Return what a pod that sees its node needs, if that is what forbids it."""
        if denial is None:
            return ""
        needs = {
            Denial.RIGHT: f"the right to create pods in {self._namespace}",
            Denial.POD_SECURITY: f"the label {_ENFORCE}=privileged on namespace {self._namespace}",
        }
        return f"; a debug pod needs {needs[denial]}; --debug-namespace chooses another one"

    def wait(self, pod: DebugPod) -> KubernetesObject:
        """Return the pod when all its commands have ended."""
        begun = well = time.monotonic()
        is_put_off = False
        while True:
            item = self._get(pod.name, self._timeout_seconds)
            found = read_pod(item, self._namespace)
            if found.phase in _ENDED:
                return item
            now = time.monotonic()
            states = found.states
            # An older kubelet does not repeat why it backs off.
            put_off = [
                each for each in states if each.is_put_off or (is_put_off and each.reason == _BACK_OFF)
            ]
            is_put_off = bool(put_off)
            for each in states:
                if each.waits_for_image and each not in put_off:
                    raise EnvironmentProblem(
                        f"debug pod {pod} waits for its own image {pod.image!r} on node {pod.node!r}: {_why(each)}"
                    )
            stuck = next((each for each in states if each.reason in _NOT_STARTED), None)
            well = now if stuck is None else well
            if stuck is not None and now - well > MAX_NOT_STARTED_SECONDS:
                raise EnvironmentProblem(
                    f"debug pod {pod} is not started on node {pod.node!r}: {_why(stuck)}"
                )
            if now - begun > pod.seconds:
                told = " and ".join(dict.fromkeys(f"{each.kind} {_why(each)}".strip() for each in states))
                raise EnvironmentProblem(
                    f"debug pod {pod} did not end within {pod.seconds} s on node {pod.node!r}: "
                    f"it is {told or found.phase or 'without a status'}"
                )
            time.sleep(POLL_SECONDS)

    def logs(self, pod: DebugPod, item: KubernetesObject) -> Iterator[ContainerLog]:
        """Yield the log of each container that has ended."""
        codes = dict(_exit_codes(item))
        states = {each.name: each for each in read_pod(item, self._namespace).states}
        for name in pod.containers:
            if name not in codes:
                reason = item.text("status", "reason") or "its status does not tell why"
                raise EnvironmentProblem(
                    f"debug pod {pod} was not run to its end on node {pod.node!r}: {reason}"
                )
            state = states[name]
            text = b"" if state.reason in _NEVER_RAN else self._log(pod.name, name)
            ended = "" if state.reason in _USUAL_ENDS and not state.message else _why(state)
            yield ContainerLog(exit_code=codes[name], text=text, ended=ended)

    def remove(self, pod: DebugPod, announce: Announce) -> str:
        """Delete *pod*, and return in words what may be left of it; empty if it is gone."""
        try:
            found = self._delete(pod.name)
            if _is_missing(found) and not self._is_answered:
                # The terminal may be gone; the pod is to be deleted all the same.
                with suppress(OSError):
                    announce(
                        f"waits up to {MAX_CREATE_SECONDS:g} s for pod {pod}, which the server may be making"
                    )
                found = self._delete_late(pod.name)
                if _is_missing(found):
                    return "may still be made, since the server has not answered"
        except KeyferryError as error:
            return f"could not be deleted ({error})"
        if isinstance(found, ApiProblem):
            return "" if _is_missing(found) else f"could not be deleted ({found})"
        return "" if self._is_gone(pod.name, found) else "is still there, since its node has not ended it"

    def _is_gone(self, name: str, reply: Json) -> bool:
        """Return whether a pod is gone, now or soon; a *reply* with a time is that its deletion is only accepted."""
        metadata = reply.get("metadata")
        is_accepted = isinstance(metadata, dict) and "deletionTimestamp" in metadata
        until = time.monotonic() + MAX_END_SECONDS
        while is_accepted:
            try:
                self._get(name, _DELETE_SECONDS)
            except KeyferryError as error:
                if error.kind is Kind.NOT_FOUND:
                    return True
            if time.monotonic() > until:
                return False
            time.sleep(POLL_SECONDS)
        return True

    def _delete_late(self, name: str) -> Json | ApiProblem:
        """Delete a pod that may not have been made yet; return the response that there is none if it is never made."""
        until = time.monotonic() + MAX_CREATE_SECONDS
        while True:
            time.sleep(POLL_SECONDS)
            found = self._delete(name)
            if not _is_missing(found) or time.monotonic() > until:
                return found

    def _delete(self, name: str, uid: str = "") -> Json | ApiProblem:
        """Delete a pod, and return the response; several times if the server cannot be reached."""
        body: Json = {"apiVersion": "v1", "kind": "DeleteOptions", "gracePeriodSeconds": 1}
        if uid:
            body["preconditions"] = {"uid": uid}
        action, path = self._action("delete", "pods", name), f"{self._path}/{encode_percent(name)}"
        attempts = 0
        while True:
            attempts += 1
            try:
                found = call_api(
                    self._session, action, path, body, method="DELETE", timeout_seconds=_DELETE_SECONDS
                )
            except KeyferryError:
                if attempts == _DELETE_ATTEMPTS:
                    raise
            else:
                is_final = not isinstance(found, ApiProblem) or found.kind in (Kind.NOT_FOUND, Kind.REFUSED)
                if is_final or attempts == _DELETE_ATTEMPTS:
                    return found
            time.sleep(DELETE_PAUSE_SECONDS)

    def delete_leftovers(self) -> None:
        """Delete the pods of earlier runs whose deadline has passed long ago; others may be in use."""
        selection = PodSelection(
            namespace=self._namespace, label_selector=f"{DEBUG_LABEL}=on-node", with_ended=True
        )
        try:
            pods = list(list_pods(self._session, selection, timeout_seconds=self._timeout_seconds))
        except KeyferryError as error:
            log_debug("workloads", "leftovers are not looked for: %s", error)
            return
        for each in pods:
            if _is_leftover(each):
                with suppress(KeyferryError):
                    self._delete(each.name, each.uid)

    def _get(self, name: str, timeout_seconds: float) -> KubernetesObject:
        found = call_api(
            self._session,
            self._action("get", "pods", name),
            f"{self._path}/{encode_percent(name)}",
            timeout_seconds=timeout_seconds,
        )
        if isinstance(found, ApiProblem):
            raise _refused(found)
        return KubernetesObject(origin="the API server", kind=ObjectKind.POD, value=found)

    def _log(self, name: str, container: str) -> bytes:
        query = encode_query({"container": container, "limitBytes": str(_MAX_LOG_BYTES)})
        path = f"{self._path}/{encode_percent(name)}/log?{query}"
        with request(self._session, path, timeout_seconds=self._timeout_seconds) as reply:
            if not reply.is_success:
                raise _refused(problem_of(self._action("get", "pods/log", name), reply))
            return reply.read(_MAX_LOG_BYTES)

    def _action(self, verb: str, resource: str, name: str) -> ApiAction:
        return ApiAction(verb=verb, resource=resource, namespace=self._namespace, name=name)


def _is_missing(found: Json | ApiProblem) -> bool:
    return isinstance(found, ApiProblem) and found.kind is Kind.NOT_FOUND


def _refused(problem: ApiProblem, more: str = "") -> ClusterAuthError:
    return ClusterAuthError("", f"{problem}{more}", kind=problem.kind)


def _why(state: ContainerState) -> str:
    """Return the reason and the message of a state, harmless on a terminal."""
    return printable(": ".join(filter(None, (state.reason, state.message))))


def _exit_codes(pod: KubernetesObject) -> Iterator[tuple[str, int]]:
    """Yield the name and exit code of each container that has ended."""
    for status in pod.items("status", "containerStatuses"):
        state = status.get("state")
        ended = state.get("terminated") if isinstance(state, dict) else None
        code = ended.get("exitCode") if isinstance(ended, dict) else None
        if isinstance(code, int):
            yield str(status.get("name")), code


def _is_leftover(pod: KubernetesObject) -> bool:
    """Return whether the deadline of a pod that a run has made is long over."""
    seconds = pod.field("spec", "activeDeadlineSeconds")
    created = pod.text("metadata", "creationTimestamp")
    try:
        age = time.time() - datetime.fromisoformat(created).timestamp()
    except ValueError:
        return False
    return isinstance(seconds, int) and age > seconds + _LEFTOVER_SECONDS
