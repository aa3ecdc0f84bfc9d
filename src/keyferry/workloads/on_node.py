"""Ask a node of a cluster from afar: by a command in the pod of its node agent, or else in a debug pod.

Secrets do not travel: a command line has names, and what comes back is a masked document, of limited size.
"""

from __future__ import annotations

from collections.abc import Callable
from math import ceil

from keyferry._core.json import read_object
from keyferry._core.secrets import in_one_line, stderr_tail
from keyferry._core.values import Value, replace
from keyferry._net.agent import OFF
from keyferry._net.forms import encode_percent
from keyferry.clusters.api_calls import ApiAction, ApiProblem, call_api
from keyferry.clusters.session import ClusterSession
from keyferry.errors import ClusterAuthError, EnvironmentProblem, KeyferryError, Kind
from keyferry.show.documents import API_VERSION
from keyferry.show.writer import PREFIX
from keyferry.workloads.agent_pod import AgentPod, find_agent_pod
from keyferry.workloads.debug_pod import HOST_ROOT, ContainerLog, DebugPod, debug_pod, run_debug_pod
from keyferry.workloads.names import is_object_name
from keyferry.workloads.node_reply import NodeReply, Through
from keyferry.workloads.request import DEBUG_IMAGE, NodeAccess, Request

__all__ = ["NodeQuestion", "ask_node", "plan_debug_pod"]

# What a debug pod may take beside its commands, for its image and its start.
_START_SECONDS = 120
# What the connection to a container may take beside the command.
_EXEC_SECONDS = 30

Announce = Callable[[str], None]


class NodeQuestion(Value):
    """Commands of keyferry, each without the name of the program, for *node*; each prints a document.

    *debug_commands* are those in a debug pod, which sees the whole node; *request* is what is asked.
    """

    node: str
    commands: tuple[tuple[str, ...], ...]
    request: Request
    debug_commands: tuple[tuple[str, ...], ...]

    @property
    def options(self) -> NodeAccess:
        """How the node is asked."""
        return self.request.node_access


def ask_node(
    session: ClusterSession, question: NodeQuestion, announce: Announce = lambda _: None
) -> tuple[NodeReply, ...]:
    """Return the reply to each command, from the agent's pod on the node, else from a debug pod if its image is given.

    *announce* is told of a pod before it is made. Raise EnvironmentProblem if there is nothing to ask, and
    ClusterAuthError if the server refuses or cannot be reached.
    """
    options, seconds = question.options, question.request.timeout_seconds
    try:
        agent = _find_agent(session, question)
        if agent is not None:
            replies = tuple(_ask_agent(session, question, agent, words) for words in question.commands)
            if options.debug_image:
                announce(f"no debug pod is made, since {_answers(question, agent)}")
            return replies
    except KeyferryError as error:
        if not options.debug_image:
            raise
        announce(f"{error}; a debug pod is asked in place of the node agent's")
    _check_node(session, question)
    if not options.debug_image:
        raise EnvironmentProblem(
            f"no node agent runs on node {question.node!r}, and no debug pod is made without --debug-image "
            f"{DEBUG_IMAGE}"
        )
    pod = _debug_pod(session.namespace, question)
    logs = run_debug_pod(session, pod, announce, timeout_seconds=seconds)
    return tuple(_read_log(question.node, pod, each) for each in logs)


def plan_debug_pod(session: ClusterSession, question: NodeQuestion) -> DebugPod:
    """Return the debug pod that ``ask_node`` would make; raise EnvironmentProblem if the agent's pod would be asked."""
    try:
        agent = _find_agent(session, question)
    except KeyferryError:
        agent = None  # a debug pod is then asked in its place
    if agent is not None:
        raise EnvironmentProblem(f"no debug pod would be made, since {_answers(question, agent)}")
    _check_node(session, question)
    return _debug_pod(session.namespace, question)


def _check_node(session: ClusterSession, question: NodeQuestion) -> None:
    """Raise EnvironmentProblem if the node is known not to exist; who may not get nodes does not learn that."""
    action = ApiAction(verb="get", resource="nodes", name=question.node)
    path = f"/api/v1/nodes/{encode_percent(question.node)}"
    found = call_api(session, action, path, timeout_seconds=question.request.timeout_seconds)
    if isinstance(found, ApiProblem) and found.kind is Kind.NOT_FOUND:
        raise EnvironmentProblem(f"node {question.node!r} does not exist")


def _find_agent(session: ClusterSession, question: NodeQuestion) -> AgentPod | None:
    """Return the pod of the node's agent, if it is to be asked and there is one."""
    request = question.request
    if request.agent == OFF:
        return None
    return find_agent_pod(
        session, question.node, question.options.agent_namespace, timeout_seconds=request.timeout_seconds
    )


def _answers(question: NodeQuestion, agent: AgentPod) -> str:
    return f"the node agent's pod {agent} answers for node {question.node!r}; --agent off asks a debug pod in its place"


def _debug_pod(namespace: str, question: NodeQuestion) -> DebugPod:
    """Return the debug pod to ask; *namespace* is that of the context."""
    options = question.options
    if not is_object_name(question.node):
        raise EnvironmentProblem(f"{question.node!r} is not the name of a node")
    root = ("--host-root", HOST_ROOT)
    return debug_pod(
        options.debug_namespace or namespace,
        question.node,
        options.debug_image,
        tuple(("keyferry", *words, *root) for words in question.debug_commands),
        seconds=_START_SECONDS + ceil(question.request.timeout_seconds),
        is_privileged=options.is_privileged,
    )


def _ask_agent(
    session: ClusterSession, question: NodeQuestion, agent: AgentPod, words: tuple[str, ...]
) -> NodeReply:
    try:
        from keyferry.clusters.exec import ExecLimits, ExecTarget, exec_in_pod
    except ImportError as error:
        raise EnvironmentProblem(str(error)) from None
    target = ExecTarget(namespace=agent.namespace, pod=agent.name, container=agent.container)
    limits = ExecLimits(seconds=question.request.timeout_seconds + _EXEC_SECONDS)
    found = exec_in_pod(session, target, ("keyferry", *words), limits)
    if isinstance(found, ApiProblem):
        raise ClusterAuthError("", str(found), kind=found.kind)
    reply = NodeReply(node=question.node, through=Through.AGENT, pod=str(agent), exit_code=found.exit_code)
    return _read(reply, found.stdout, found.stderr)


def _read_log(node: str, pod: DebugPod, log: ContainerLog) -> NodeReply:
    reply = NodeReply(node=node, through=Through.DEBUG_POD, pod=str(pod), exit_code=log.exit_code)
    return _read(reply, *_split(log.text), log.ended)


def _split(log: bytes) -> tuple[bytes, bytes]:
    """Return the document and the messages in a log, which has the lines of both streams."""
    lines = log.splitlines(keepends=True)
    start = PREFIX.encode()
    messages = (line for line in lines if line.startswith(start))
    return b"".join(line for line in lines if not line.startswith(start)), b"".join(messages)


def _read(reply: NodeReply, stdout: bytes, stderr: bytes, ended: str = "") -> NodeReply:
    """Return *reply* with the document, if what was written is one of keyferry's, or else with the problem.

    *ended* is why the command ended, if the exit code does not tell that.
    """
    document = read_object(stdout)
    if document is not None and document.get("apiVersion") == API_VERSION:
        return replace(reply, document=document)
    tail = in_one_line(stderr_tail(stderr)) or "it wrote no document of keyferry"
    why = f" ({ended})" if ended else ""
    what = f"{reply.through.noun} {reply.pod} exited with status {reply.exit_code}{why}"
    return replace(reply, problem=f"{what}: {tail}")
