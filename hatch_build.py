"""Make the man pages and the completions of the wheel, from the definitions of the command line in ``src``.

They are written into a temporary folder, and hatchling adds them to the wheel as shared data.
"""

from __future__ import annotations

import contextlib
import io
import os
import re
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

# Where the shells look for them.
COMPLETIONS = {
    "bash": "share/bash-completion/completions/keyferry",
    "fish": "share/fish/vendor_completions.d/keyferry.fish",
    "zsh": "share/zsh/site-functions/_keyferry",
}


class ManPagesAndCompletions(BuildHookInterface[Any]):
    """Adds the files to a wheel, also to that of an editable install."""

    PLUGIN_NAME = "custom"

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:  # noqa: ARG002 - hatchling's signature
        """Write the files and declare them."""
        self.folder = tempfile.TemporaryDirectory(prefix="keyferry-build-")
        with importing_from(Path(self.root) / "src"):
            for name, text in make_files():
                path = Path(self.folder.name) / name
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_text(text, encoding="utf-8")
                build_data["shared_data"][str(path)] = name

    def finalize(self, version: str, build_data: dict[str, Any], artifact_path: str) -> None:  # noqa: ARG002 - as above
        """Remove the folder, whose files are in the wheel now."""
        self.folder.cleanup()


@contextlib.contextmanager
def importing_from(source: Path) -> Iterator[None]:
    """Import from *source* first, write nothing there, and let help texts be as wide everywhere."""
    before = sys.dont_write_bytecode, os.environ.get("COLUMNS")
    sys.dont_write_bytecode, os.environ["COLUMNS"] = True, "100"
    sys.path.insert(0, str(source))
    try:
        yield
    finally:
        sys.path.remove(str(source))
        sys.dont_write_bytecode = before[0]
        if before[1] is None:
            del os.environ["COLUMNS"]
        else:
            os.environ["COLUMNS"] = before[1]


def make_files() -> Iterator[tuple[str, str]]:
    """Yield the place and the text of each man page and each completion."""
    from keyferry.cli.run import COMMANDS, load_command

    yield "share/man/man1/keyferry.1", man_page("run, explain and test Kubernetes credential plugins")
    for name in COMMANDS:
        group = load_command(name)
        for words in ((name,), *((name, below) for below in group.subcommands)):
            page = man_page(load_command(*words).summary, *words)
            yield f"share/man/man1/keyferry-{'-'.join(words)}.1", page
    for shell, place in COMPLETIONS.items():
        yield place, output_of("completion", shell)


def man_page(summary: str, *words: str) -> str:
    """Return a manual page in the man macros, made from the help of a command."""
    from keyferry import __version__
    from keyferry.cli.exits import EXIT_CODES
    from keyferry.cli.run import COMMANDS

    title = "-".join(("keyferry", *words))
    others = ", ".join(f"\\fBkeyferry-{other}\\fR(1)" for other in COMMANDS if (other,) != words)
    return (
        f'.TH {title.upper()} 1 "" "keyferry {__version__}" "keyferry"\n'
        f".SH NAME\n{title} \\- {roff(summary)}\n"
        f".SH DESCRIPTION\n.nf\n{roff(output_of(*words, '--help'))}.fi\n"
        f".SH EXIT STATUS\n{roff(EXIT_CODES)}\n"
        f".SH SEE ALSO\n{others}\n"
    )


def output_of(*words: str) -> str:
    """Return what the command line prints."""
    from keyferry.cli.main import main

    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        main(list(words))
    return out.getvalue()


def roff(text: str) -> str:
    """Return *text* with what roff would interpret escaped."""
    escaped = text.replace("\\", "\\e").replace("-", "\\-")
    return re.sub(r"(?m)^([.'])", r"\\&\1", escaped)
