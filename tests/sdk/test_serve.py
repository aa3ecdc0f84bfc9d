"""An image plugin on the SDK: what its function is given, and one answer on standard output, whatever its code does."""

from __future__ import annotations

import itertools
import os
import pty
import signal
import subprocess
import sys

import pytest

from keyferry.errors import ProvideError
from keyferry.sdk import IMAGE, REGISTRY, AuthConfig, Request, Response
from keyferry.sdk.image import respond
from keyferry.sdk.testing import ask
from support.plugins import PATIENCE_SECONDS, wait_until
from support.sdk_plugins import (
    IMAGE_GROUP,
    LOGIN,
    SOURCE,
    Ran,
    image_plugin,
    python,
    request_bytes,
    run_source,
)

ANSWER = (
    b'{"kind":"CredentialProviderResponse","apiVersion":"credentialprovider.kubelet.k8s.io/v1",'
    b'"cacheKeyType":"Registry","cacheDuration":"10m0s",'
    b'"auth":{"registry.example":{"username":"user","password":"pass-word"}}}\n'
)


# A name of the C library, called as an extension module would call it.
C_WRITE = "import ctypes; ctypes.CDLL(None).write(1, b'stray', 5)"


C_PUTS = "import ctypes; c = ctypes.CDLL(None); c.puts(b'stray'); c.fflush(None)"


STRAY = {
    "print": "print('stray')",
    "print-flushed": "print('stray', flush=True)",
    "much": "print('stray' * 100000)",
    "sys.__stdout__": "sys.__stdout__.write('stray')",
    "logging": "import logging; logging.basicConfig(stream=sys.stdout); logging.error('stray')",
    "descriptor": "os.write(1, b'stray')",
    "child": "import subprocess; subprocess.run(['/bin/echo', 'stray'], check=True)",
    "shell": "os.system('echo stray')",
    "fork": "pid = os.fork()\nif not pid:\n    print('stray', flush=True); os._exit(0)\nos.waitpid(pid, 0)",
    "thread": "import threading\nthreading.Thread(target=print, args=('stray',)).start()",
    "at-exit": "import atexit; atexit.register(print, 'stray')",
    "at-exit-descriptor": "import atexit; atexit.register(os.write, 1, b'stray')",
    "c-write": C_WRITE,
    "c-stdio": C_PUTS,
}


@pytest.mark.parametrize("version", ["v1", "v1beta1", "v1alpha1"])
def test_the_answer_is_in_the_version_of_the_request(version: str) -> None:
    """All three versions are spoken, byte for byte."""
    ran = run_source(image_plugin(), request_bytes(version=version))
    assert (ran.status, ran.stderr) == (0, "")
    assert ran.stdout == ANSWER.replace(b"/v1", f"/{version}".encode())


@pytest.mark.parametrize("stray", STRAY.values(), ids=STRAY)
def test_stray_output_ends_up_on_standard_error(stray: str) -> None:
    """Whatever writes to standard output, in whatever way, the answer is alone there."""
    ran = run_source(image_plugin(f"{stray}\n{LOGIN}"), request_bytes())
    assert (ran.status, ran.stdout) == (0, ANSWER)
    assert "stray" in ran.stderr


def test_output_from_before_the_plugin_serves_is_kept_apart_too() -> None:
    """A line printed while modules are imported is still in Python's buffer, and goes to standard error."""
    ran = run_source(image_plugin(before="print('stray')"), request_bytes())
    assert (ran.stdout, ran.stderr) == (ANSWER, "stray\n")


def test_stray_output_that_nobody_reads_does_not_fail_the_plugin() -> None:
    """With standard error gone, what was printed is dropped; the answer and the status stay."""
    source = image_plugin(f"print('stray')\n{LOGIN}")
    read_end, write_end = os.pipe()
    os.close(read_end)
    with os.fdopen(write_end, "wb") as gone:
        done = subprocess.run(
            python(source), input=request_bytes(), stdout=subprocess.PIPE, stderr=gone, check=False
        )
    assert (done.returncode, done.stdout) == (0, ANSWER)


def test_a_provide_error_is_a_message_a_hint_and_status_1() -> None:
    """What went wrong and what to do are two lines that begin with the program's name."""
    ran = run_source(image_plugin('raise ProvideError("no login", "ask for one")'), request_bytes())
    ran.failed_with()
    assert ran.stderr == "plugin: no login\nplugin: ask for one\n"


def test_the_pause_that_a_server_asked_for_is_the_last_line() -> None:
    """In the form that the node agent reads."""
    raised = 'raise ProvideError("busy", "ask less", retry_after_seconds=30)'
    ran = run_source(image_plugin(raised), request_bytes())
    ran.failed_with()
    assert ran.stderr == "plugin: busy\nplugin: ask less\nplugin: retry after 30 s\n"


BUGS = {
    "key": ("{}['%s']", "KeyError in the plugin itself (<string>, line 6, in provide): ********"),
    "recursion": ("return provide(request)", "RecursionError in the plugin itself"),
    "base-exception": ("raise BaseException(repr('%s'))", "BaseException in the plugin itself"),
    "group": ("raise ExceptionGroup('two', [ValueError('%s')])", "ExceptionGroup in the plugin itself"),
    "unprintable": (
        "class E(Exception):\n    def __str__(self): raise ValueError('%s')\nraise E",
        "E in the plugin itself",
    ),
    "generator-exit": ("raise GeneratorExit", "GeneratorExit in the plugin itself"),
}


@pytest.mark.parametrize("bug", BUGS.values(), ids=BUGS)
def test_a_bug_is_named_with_its_place_and_without_values(bug: tuple[str, str]) -> None:
    """An exception of the plugin's code is one line: its type, its place, and no value it had."""
    body, shown = bug
    ran = run_source(image_plugin(body.replace("%s", "hunter2-horse")), request_bytes())
    ran.failed_with(shown)
    assert "hunter2" not in ran.stderr
    assert ran.stderr.count("\n") == 1


def test_a_file_that_is_missing_is_named() -> None:
    """The name of a file is no secret, and what an author needs most."""
    ran = run_source(image_plugin("open('/no/such/file')"), request_bytes())
    ran.failed_with("FileNotFoundError", "No such file or directory: '/no/such/file'")


EXITS = {
    "nothing": ("sys.exit()", 1, "exited without a response"),
    "success": ("sys.exit(0)", 1, "exited without a response"),
    "status": ("sys.exit(7)", 7, "exited without a response"),
    "too-large": ("sys.exit(256)", 1, "exited without a response"),
    "words": ("sys.exit('no token for you')", 1, "no token for you"),
}


@pytest.mark.parametrize("case", EXITS.values(), ids=EXITS)
def test_an_exit_inside_the_function_is_never_a_success(case: tuple[str, int, str]) -> None:
    """A plugin that leaves without an answer has failed, whatever status it meant."""
    body, status, shown = case
    run_source(image_plugin(body), request_bytes()).failed_with(shown, status=status)


def test_an_interrupt_is_one_line_and_status_130() -> None:
    """Ctrl-C while the plugin works gives no traceback."""
    source = image_plugin("import time\nos.write(2, b'here')\ntime.sleep(60)")
    with subprocess.Popen(
        python(source), stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as process:
        assert process.stdin is not None
        assert process.stderr is not None
        process.stdin.write(request_bytes())
        process.stdin.close()
        assert process.stderr.read(4) == b"here"
        process.send_signal(signal.SIGINT)
        rest = process.stderr.read()
        assert process.wait(PATIENCE_SECONDS) == 130
    assert rest == b"plugin: interrupted\n"


CLOSED = [closed for size in (1, 2, 3) for closed in itertools.combinations((0, 1, 2), size)]


def run_with_closed(closed: tuple[int, ...], source: str) -> Ran:
    """Run a plugin without some of its standard streams, which no plain subprocess call can do."""
    script = (
        f"import os\nfor fd in {closed!r}:\n    os.close(fd)\n"
        f"os.execv({sys.executable!r}, [{sys.executable!r}, '-IS', '-c', {source!r}])"
    )
    done = subprocess.run(
        [sys.executable, "-IS", "-c", script], input=request_bytes(), capture_output=True, check=False
    )
    return Ran(done.returncode, done.stdout, done.stderr.decode())


@pytest.mark.parametrize("closed", CLOSED, ids=str)
def test_missing_streams_are_no_traceback_and_no_false_success(closed: tuple[int, ...]) -> None:
    """Status 0 is an answer that was written; without standard input or output there is none."""
    ran = run_with_closed(closed, image_plugin())
    if closed == (2,):
        assert (ran.status, ran.stdout) == (0, ANSWER)
        return
    ran.failed_with()
    if 2 not in closed:
        expected = "standard input is empty or closed" if 0 in closed else "standard output has no reader"
        assert expected in ran.stderr


@pytest.mark.parametrize("closed", [(0,), (1,), (2,), (0, 1, 2)], ids=str)
def test_no_file_of_the_plugin_takes_the_place_of_a_missing_stream(closed: tuple[int, ...]) -> None:
    """A socket that becomes descriptor 1 would get every stray line; so the three are never free, nor in a child."""
    code = "import os; [os.fstat(fd) for fd in (0, 1, 2)]"
    body = (
        "fd = os.open('/dev/null', os.O_RDONLY)\nassert fd > 2\n"
        f"import subprocess\nsubprocess.run([sys.executable, '-IS', '-c', {code!r}], check=True)\nos._exit(77)"
    )
    read = "import keyferry.sdk.image as i\ni.read_request_bytes = lambda *a: " + repr(request_bytes())
    assert run_with_closed(closed, image_plugin(before=read, body=body)).status == 77


def test_a_reader_that_is_gone_is_a_failure_with_a_message() -> None:
    """EPIPE is no success and no traceback."""
    read_end, write_end = os.pipe()
    os.close(read_end)
    with os.fdopen(write_end, "wb") as gone:
        done = subprocess.run(
            python(image_plugin()), input=request_bytes(), stdout=gone, stderr=subprocess.PIPE, check=False
        )
    assert done.returncode == 1
    assert done.stderr == b"plugin: the response cannot be written: standard output has no reader\n"


def test_a_terminal_on_standard_input_gets_an_explanation_at_once() -> None:
    """Somebody who types the plugin's name is told how to try it, instead of a program that waits."""
    leader, follower = pty.openpty()
    try:
        done = subprocess.run(
            python(image_plugin()), stdin=follower, capture_output=True, check=False, timeout=PATIENCE_SECONDS
        )
    finally:
        os.close(leader)
        os.close(follower)
    assert (done.returncode, done.stdout) == (1, b"")
    assert b"keyferry plugin trace PROGRAM IMAGE" in done.stderr


@pytest.mark.parametrize("which", ["in", "out"])
def test_pipes_that_do_not_block_are_waited_for(which: str) -> None:
    """A parent that made its end of a pipe non-blocking shares that with the plugin, which waits all the same."""
    login = 'AuthConfig(username="user", password="p" * 1000)'
    big = f'return Response(auth={{f"r{{n}}.example": {login} for n in range(300)}})'
    in_read, in_write = os.pipe()
    out_read, out_write = os.pipe()
    os.set_blocking(in_read if which == "in" else out_write, False)
    with subprocess.Popen(
        python(image_plugin(big)), stdin=in_read, stdout=out_write, stderr=subprocess.PIPE
    ) as process:
        os.close(in_read)
        os.close(out_write)
        wait_until(lambda: "python" in os.readlink(f"/proc/{process.pid}/exe"))
        os.write(in_write, request_bytes())
        os.close(in_write)
        with os.fdopen(out_read, "rb") as answer:
            data = answer.read()
        assert process.wait(PATIENCE_SECONDS) == 0
    assert len(data) > 300_000
    assert data.endswith(b"}\n")


def test_standard_input_that_cannot_be_read_is_said() -> None:
    """A descriptor that is only for writing is neither a bug nor empty."""
    fd = os.open(os.devnull, os.O_WRONLY)
    try:
        done = subprocess.run(python(image_plugin()), stdin=fd, capture_output=True, check=False)
    finally:
        os.close(fd)
    assert (done.returncode, done.stdout) == (1, b"")
    assert b"standard input cannot be read: bad file descriptor" in done.stderr


def test_a_package_run_by_dash_m_says_the_packages_name(tmp_path: os.PathLike[str]) -> None:
    """Messages begin with a name that the user knows, not with __main__.py."""
    package = os.path.join(tmp_path, "acme")
    os.mkdir(package)
    for name, text in (("__init__.py", ""), ("__main__.py", image_plugin("raise ProvideError('no')"))):
        with open(os.path.join(package, name), "w", encoding="utf-8") as file:
            file.write(text)
    done = subprocess.run(
        [sys.executable, "-S", "-m", "acme"],
        cwd=tmp_path, env={"PYTHONPATH": SOURCE}, input=request_bytes(), capture_output=True, check=False,
    )  # fmt: skip
    assert done.stderr == b"acme: no\n"


def test_a_lenient_plugin_takes_any_request_and_answers_as_v1() -> None:
    """What stands in for an upstream program that never looks at the version does not either."""
    source = image_plugin().replace("serve(provide)", "serve(provide, is_lenient=True)")
    ran = run_source(source, b'{"image": "registry.example/app"}')
    assert ran.document["apiVersion"] == f"{IMAGE_GROUP}/v1"


@pytest.mark.parametrize(
    ("image", "registry"),
    [("r.example/a/b", "r.example"), ("r.example:5000/a", "r.example:5000"), ("r.example", "r.example")],
)
def test_the_registry_is_what_stands_before_the_first_slash(image: str, registry: str) -> None:
    """With its port."""
    assert Request(image=image).registry == registry


def test_a_login_for_a_registry_and_one_for_an_image() -> None:
    """The key and the scope go together."""
    request = Request(image="r.example:5000/team/app")
    assert Response.for_registry(request, "u", "p", cache_seconds=1) == Response(
        auth={"r.example:5000": AuthConfig(username="u", password="p")},
        cache_key_type=REGISTRY,
        cache_seconds=1,
    )
    assert Response.for_image(request, "u", "p") == Response(
        auth={"r.example:5000/team/app": AuthConfig(username="u", password="p")},
        cache_key_type=IMAGE,
        cache_seconds=None,
    )


DURATIONS = [(None, None), (0, "0s"), (0.5, "500ms"), (90, "1m30s"), (2.3, "2.3s"), (43200, "12h0m0s")]


@pytest.mark.parametrize(("seconds", "text"), DURATIONS)
def test_a_cache_time_is_written_as_go_writes_it(seconds: float | None, text: str | None) -> None:
    """And left out where the config is to decide."""
    outcome = ask(lambda _: Response(cache_seconds=seconds), "r/a")
    assert outcome.document("CredentialProviderResponse").get("cacheDuration") == text


def test_a_lenient_reading_takes_any_kind_but_not_just_anything() -> None:
    """It is to be an object with an image."""
    assert respond(lambda _: Response(), b'{"image":"a"}', is_lenient=True).startswith(b"{")
    for data in (b"[]", b'{"image":5}', b"{}", b"x"):
        with pytest.raises(ProvideError):
            respond(lambda _: Response(), data, is_lenient=True)
