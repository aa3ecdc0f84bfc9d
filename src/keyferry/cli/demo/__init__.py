"""``keyferry demo``: problems that people have, and the commands that explain them, on files and a registry of ours."""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
import tempfile
import time
from argparse import ArgumentParser, Namespace
from collections.abc import Iterator
from shutil import which

from keyferry._core.values import Value
from keyferry.cli.exits import Exit
from keyferry.cli.main import main
from keyferry.errors import EnvironmentProblem
from keyferry.show.text import fold, text_width
from keyferry.show.writer import REPORTED, Lines, report, style

DESCRIPTION = """\
Show six problems that people have with credentials, and the command that explains each, on this machine and
without installing anything else. The demo writes a provider config, small plugins, pods and a kubeconfig into
a folder of its own and starts a registry that requires a login. Each step prints the commands that it runs.

On a terminal, it waits after each step: Enter goes on, q ends it. With --all it also shows the other main
commands. With --page it first runs the node agent on these files and prints a link to the agent's page; n goes
on with the problems. This needs the extra 'agent', and Linux."""

EXAMPLES = """\
examples:
  keyferry demo
  keyferry demo --all
  keyferry demo --page
  keyferry demo --keep ./demo     # keep the files, to try other commands on them"""

_LOG = "agent.log"
_START_SECONDS, _STOP_SECONDS = 20.0, 15.0
_NEXT, _END = "n", "q"
_GLUE = "\0"
# What is looked up for the page to show: an answer, the same from the cache, a failure, and keys that do not match.
_IMAGES = (
    "eu.harbour.example/team/app:v1",
    "eu.harbour.example/team/app:v1",
    "pier.example/app",
    "eu.wharf.example/team/app",
)


class DemoStep(Value):
    """One step: each of *commands* is a command line, with ``{host}`` for the registry, and its exit codes."""

    problem: str
    commands: tuple[tuple[str, tuple[Exit, ...]], ...]
    moral: str


_WHERE = "--config providers.yaml --bin-dir bin"
_APP = f"{_WHERE} -f app.yaml"
_WEB = f"{_WHERE} -f web.yaml"

STEPS = (
    DemoStep(
        problem="The pattern looks right, and the kubelet still pulls without credentials.",
        commands=((f"explain eu.harbour.example:443/team/app {_APP}", (Exit.NO,)),),
        moral="A pattern without a port matches only images without one.",
    ),
    DemoStep(
        problem="The registry says 'unauthorized', and nobody says that a plugin failed.",
        commands=((f"explain pier.example/app {_APP}", (Exit.PLUGIN,)),),
        moral="The kubelet only logs a failed plugin, on the node, and pulls anonymously. Secrets in what the plugin"
        " printed are masked here.",
    ),
    DemoStep(
        problem="The pod lists its pull secret, which exists and is right, and it is not used.",
        commands=((f"explain dock.example/shop/web:v1 {_WEB} --secret copy.yaml", (Exit.UNKNOWN,)),),
        moral="A pod uses pull secrets of its own namespace only.",
    ),
    DemoStep(
        problem="The plugin returns credentials, and the kubelet ignores them.",
        commands=((f"explain eu.wharf.example/team/app {_APP}", (Exit.NO,)),),
        moral="The keys of a response must match the image, by the rules of patterns.",
    ),
    DemoStep(
        problem="An image is on the node. Which pods may use it?",
        commands=(
            (
                f"pull {{host}}/team/app:v1 {_WEB} --secret secret.yaml --to layout"
                " --platform linux/amd64 --root node",
                (Exit.OK,),
            ),
            ("records who {host}/team/app:v1 --root node", (Exit.OK,)),
        ),
        moral="Only pods with the secret that it was pulled with; all others must pull it again.",
    ),
    DemoStep(
        problem="kubectl says 'You must be logged in to the server', although the plugin works.",
        commands=(("kube explain --kubeconfig kubeconfig.yaml", (Exit.UNKNOWN,)),),
        moral="The plugin printed a token that had already expired. The demo has no cluster, so no server answers.",
    ),
)

REST = (
    DemoStep(
        problem="A provider config that looks correct. Does a kubelet accept it?",
        commands=(("lint mistaken.yaml", (Exit.NO,)), ("lint providers.yaml --bin-dir bin", (Exit.OK,))),
        moral="The corrected config has no findings, and its plugins can be run.",
    ),
    DemoStep(
        problem="Which credentials does the kubelet have for an image?",
        commands=((f"get eu.harbour.example/team/app:v1 {_APP}", (Exit.OK,)),),
        moral="They are listed in the order in which the kubelet tries them.",
    ),
    DemoStep(
        problem="Where do they come from?",
        commands=((f"explain eu.harbour.example/team/app:v1 {_APP} -o wide", (Exit.OK,)),),
        moral="The matching pattern, the plugin, the auth key and the order of trial are the kubelet's.",
    ),
    DemoStep(
        problem="Does the registry accept the credentials?",
        commands=((f"can-pull {{host}}/team/app:v1 {_APP}", (Exit.OK,)),),
        moral="Each is tried in order; nothing is downloaded.",
    ),
    DemoStep(
        problem="Does a plugin follow the protocol?",
        commands=(
            (
                "plugin test bin/harbour --image eu.harbour.example/team/app --image eu.harbour.example/other"
                " --only KP101 --only KP105 --only KP112 --only KP129 --only KP301",
                (Exit.OK,),
            ),
        ),
        moral="These are five of about sixty checks; the plugin uses keyferry's SDK.",
    ),
    DemoStep(
        problem="What did a plugin receive and answer?",
        commands=(("plugin trace bin/harbour eu.harbour.example/team/app -o text", (Exit.OK,)),),
        moral="The trace has no secret in it, so that it can be part of a bug report.",
    ),
    DemoStep(
        problem="What does kubectl pass to its plugin?",
        commands=(
            ("kube exec-info --kubeconfig kubeconfig.yaml", (Exit.OK,)),
            ("kube explain --no-run --kubeconfig kubeconfig.yaml", (Exit.OK,)),
        ),
        moral="The names of variables are shown, and their values are not. With --no-run no plugin is run.",
    ),
)


def add_arguments(parser: ArgumentParser) -> None:
    """Declare the arguments of ``keyferry demo``."""
    parser.add_argument("--all", action="store_true", help="show the other main commands as well")
    parser.add_argument("--page", action="store_true", help="first run the node agent, and show its page")
    parser.add_argument("--keep", metavar="DIR", help="write the files to this folder and keep them")


def run(args: Namespace) -> int:
    """Write the files, then run the commands on them."""
    steps = (*STEPS, *REST) if args.all else STEPS
    if args.keep:
        folder = os.path.abspath(args.keep)
        try:
            os.makedirs(folder, exist_ok=True)
        except OSError as error:
            raise EnvironmentProblem(f"{args.keep!r} cannot be created: {error.strerror}") from None
        code = _tell(steps, folder, with_page=args.page)
        print(Lines(f"\nThe files are in {folder}."))
    else:
        with tempfile.TemporaryDirectory(prefix="keyferry-demo-") as folder:
            code = _tell(steps, folder, with_page=args.page)
    if not args.all:
        more = f"'{_program()} demo --all' shows the other main commands as well."
        print(Lines("\n" + "\n".join(fold(more))))
    return code


def _program() -> str:
    """Return what starts keyferry in this shell: its name, or the path of this program if it is not on the PATH."""
    if which("keyferry"):
        return "keyferry"
    is_module = os.path.basename(sys.argv[0]) == "__main__.py"
    return f"{shlex.quote(sys.executable)} -m keyferry" if is_module else shlex.quote(sys.argv[0])


def _tell(steps: tuple[DemoStep, ...], folder: str, *, with_page: bool) -> Exit:
    from keyferry.cli.demo.files import write_files
    from keyferry.cli.demo.registry import DemoRegistry

    here = os.getcwd()
    with DemoRegistry() as registry:
        write_files(folder, registry.host)
        os.chdir(folder)
        try:
            is_page_good, goes_on = show_page() if with_page else (True, True)
            shown = _pausing(steps if goes_on else ())
            results = [_show(step, f"{number}/{len(steps)}", registry.host) for number, step in shown]
        finally:
            os.chdir(here)
    return Exit.OK if is_page_good and all(results) else Exit.NO


def _pausing(steps: tuple[DemoStep, ...]) -> Iterator[tuple[int, DemoStep]]:
    """Yield the steps with their numbers; on a terminal, wait for Enter in between."""
    has_terminal = sys.stdin is not None and sys.stdin.isatty() and sys.stdout.isatty()
    for number, step in enumerate(steps, 1):
        if has_terminal and number > 1 and not _goes_on():
            return
        yield number, step


def _goes_on() -> bool:
    print(Lines("\n" + style(f"Enter: next, {_END}: end ", "dim")), end="", flush=True)
    line = sys.stdin.readline()
    return bool(line) and not line.strip().lower().startswith(_END)


def _show(step: DemoStep, place: str, host: str) -> bool:
    """Run the commands of one step, and return whether they ended with the expected exit codes."""
    head = [style(line, "cyan") for line in fold(step.problem, f"# {place} ", "# ")]
    print(Lines("\n" + "\n".join(head)))
    results = [_run(typed.format(host=host), codes) for typed, codes in step.commands]
    print(Lines("\n" + "\n".join(style(line, "cyan") for line in fold(step.moral, "=> ", "   "))))
    sys.stdout.flush()
    return all(results)


def _run(typed: str, expected: tuple[Exit, ...]) -> bool:
    print(Lines("\n".join(style(line, "bold") for line in _prompt(typed))), flush=True)
    code = main(shlex.split(typed))
    sys.stdout.flush()
    if code not in expected:
        wanted = " or ".join(str(int(each)) for each in expected)
        report(f"this step of the demo expected exit code {wanted}, found {code}")
    return code in expected


def _prompt(typed: str) -> Iterator[str]:
    """Yield the command as it is typed; one that is too long continues on lines that can be pasted as well."""
    # An option and its value stay on one line.
    words = typed.replace(" -", "\n-").replace(" ", _GLUE).replace("\n", " ").replace(_GLUE, " ", 1)
    lines = list(fold(words, "$ keyferry ", "    ", width=text_width() - len(" \\")))
    for number, line in enumerate(lines, 1):
        yield line.replace(_GLUE, " ") + (" \\" if number < len(lines) else "")


def show_page() -> tuple[bool, bool]:
    """Run the agent in the current folder until the user ends it.

    Return whether the lookups went as expected, and whether the user wants to see the rest of the demo.
    """
    socket = os.path.abspath("agent.sock")
    print(Lines("\n" + style("# The node agent on these files, and its page", "cyan")))
    with open(_LOG, "wb") as log:
        agent = subprocess.Popen(
            [
                *(sys.executable, "-P", "-m", "keyferry", "agent", "run", "--socket", socket),
                *("--config", "providers.yaml", "--bin-dir", "bin", "--page", "127.0.0.1:0"),
            ],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
        )
    try:
        _wait_for(agent, socket)
        expected = (Exit.OK, Exit.NO, Exit.PLUGIN)
        results = [_run(f"get {image} {_APP} --agent {shlex.quote(socket)}", expected) for image in _IMAGES]
        while (choice := _show_link(socket)) not in (_NEXT, _END):
            pass
    finally:
        _stop(agent)
    return all(results), choice == _NEXT


def _wait_for(agent: subprocess.Popen[bytes], socket: str) -> None:
    """Return when the agent answers; raise EnvironmentProblem with the end of its log if it does not."""
    from keyferry.agent.management import AgentUnavailableError, ask_for_document

    end = time.monotonic() + _START_SECONDS
    while agent.poll() is None and time.monotonic() < end:
        try:
            ask_for_document(socket, "GET", "/v1/status")
        except AgentUnavailableError:
            time.sleep(0.05)
        else:
            return
    with open(_LOG, encoding="utf-8", errors="replace") as log:
        lines = log.read().strip().splitlines()
    why = lines[-1].removeprefix(REPORTED) if lines else "it says nothing"
    raise EnvironmentProblem(f"the agent does not start: {why}")


def _show_link(socket: str) -> str:
    """Print a link to the page, and return the first letter of what the user types."""
    from keyferry.agent.management import ask_for_page_link

    url, _ = ask_for_page_link(socket)
    text = "The link works once, within a minute, in a browser of this machine."
    print(Lines(f"\n{url}\n" + "\n".join(fold(text))))
    choices = f"Enter: another link, {_NEXT}: the problems, {_END}: end "
    try:
        # Inside: who sees the choices may choose at once.
        print(Lines(style(choices, "dim")), end="", flush=True)
        line = "" if sys.stdin is None else sys.stdin.readline()
    except KeyboardInterrupt:
        print()
        return _END
    if not line:  # where nobody can type, the demo goes on
        return _END if sys.stdin is not None and sys.stdin.isatty() else _NEXT
    return line.strip()[:1].lower()


def _stop(agent: subprocess.Popen[bytes]) -> None:
    agent.terminate()
    try:
        agent.wait(_STOP_SECONDS)
    except subprocess.TimeoutExpired:
        agent.kill()
        agent.wait()
