"""Write the generated parts of the docs: help, references, codes, man pages, completions, the README's figures."""

from __future__ import annotations

import argparse
import contextlib
import io
import re
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

from reference.api import api_page, sdk_page, wire_page
from reference.codes import kit_page, lint_page
from reference.configs import agent_config_page, federation_config_page

from keyferry import __version__
from keyferry.cli.exits import EXIT_CODES
from keyferry.cli.main import main as keyferry
from keyferry.cli.run import COMMANDS, load_command

ROOT = Path(__file__).resolve().parent.parent
# The names by which the shells find them.
COMPLETIONS = {"bash": "keyferry.bash", "fish": "keyferry.fish", "zsh": "_keyferry"}
_NOTE = "<!-- written by `make generated`; do not edit -->\n"


def help_text(*words: str) -> str:
    """Return the help text of a command."""
    return output_of(*words, "--help")


def output_of(*words: str) -> str:
    """Return what the command line prints."""
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        keyferry(list(words))
    return out.getvalue()


def cli_page() -> str:
    """Return the page with the help of every command."""
    parts = ["# The command line\n", "```text\n" + help_text() + "```\n"]
    for words in pages_of_help():
        heading = "#" * (len(words) + 1)
        parts += [f"{heading} keyferry {' '.join(words)}\n", "```text\n" + help_text(*words) + "```\n"]
    return "\n".join(parts)


def pages_of_help() -> Iterator[tuple[str, ...]]:
    """Yield every command, followed by its subcommands."""
    for name in COMMANDS:
        yield (name,)
        for below in load_command(name).subcommands:
            yield name, below


def man_page(words: tuple[str, ...]) -> str:
    """Return a manual page in the man macros, made from the help of a command."""
    title = "-".join(("keyferry", *words))
    summary = _summary(words)
    body = help_text(*words)
    others = ", ".join(f"\\fBkeyferry-{other}\\fR(1)" for other in COMMANDS if (other,) != words)
    return (
        f'.TH {title.upper()} 1 "" "keyferry {__version__}" "keyferry"\n'
        f".SH NAME\n{title} \\- {_roff(summary)}\n"
        f".SH DESCRIPTION\n.nf\n{_roff(body)}.fi\n"
        f".SH EXIT STATUS\n{_roff(EXIT_CODES)}\n"
        f".SH SEE ALSO\n{others}\n"
    )


def _summary(words: tuple[str, ...]) -> str:
    if not words:
        return "run, explain and test Kubernetes credential plugins"
    return load_command(*words).summary


def _roff(text: str) -> str:
    escaped = text.replace("\\", "\\e").replace("-", "\\-")
    return re.sub(r"(?m)^([.'])", r"\\&\1", escaped)


# What a row of figures in the README says, and the row of docs/speed.md that it is from: its name and its peer.
_FIGURES = (
    ("an ECR login, TLS through a proxy", "keyferry-ecr, TLS through a proxy", "aws ecr"),
    ("the same", "keyferry-ecr, TLS through a proxy", "Go's ecr-login"),
    ("an EKS token", "keyferry-eks, whole job", "aws eks"),
    (
        "the first answer of a cluster, from the start of the program",
        "first answer of a cluster, kube raw",
        "official client",
    ),
    ("the same", "first answer of a cluster, kube raw", "kubectl"),
    ("a pull of 200 MB into a folder, plain HTTP", "pull 200 MB in 4 layers, plain", "skopeo"),
    ("a pull of 200 MB into a folder, TLS", "pull 200 MB in 4 layers, TLS", "skopeo"),
)
_FIGURES_BEGIN = "<!-- figures: written by `make generated` from docs/speed.md; do not edit -->\n"
_FIGURES_END = "<!-- end of figures -->\n"


def readme() -> str:
    """Return the README with the figures of the last measurement."""
    before, _, rest = (ROOT / "README.md").read_text(encoding="utf-8").partition(_FIGURES_BEGIN)
    after = rest.partition(_FIGURES_END)[2]
    return before + _FIGURES_BEGIN + figures() + _FIGURES_END + after


def figures() -> str:
    """Return the table of figures beside other tools."""
    page = (ROOT / "docs" / "speed.md").read_text(encoding="utf-8")
    table = re.findall(r"^\| (.*?) \| (.*?) \| (.*?): (.*?) \| (.*?) \|", page, re.MULTILINE)
    rows = {(what, peer): (measured, theirs, ratio) for what, measured, peer, theirs, ratio in table}
    written = ["| job | keyferry | other tool | ratio |\n|---|---|---|---|\n"]
    for job, what, peer in _FIGURES:
        measured, theirs, ratio = rows[what, peer]
        written.append(f"| {job} | {measured} | {peer}: {theirs} | {ratio} |\n")
    ((day, machine),) = re.findall(r"^(\d{4}-\d\d-\d\d): (.*?);", page, re.MULTILINE)
    return f"\n{''.join(written)}\nMeasured by `make bench` on {day}: {machine}.\n\n"


# The pages that are generated as a whole, by their names in docs.
REFERENCES: dict[str, Callable[[], str]] = {
    "agent-config": agent_config_page,
    "api": api_page,
    "api-sdk": sdk_page,
    "api-wire": wire_page,
    "cli": cli_page,
    "federation-config": federation_config_page,
    "kit-codes": kit_page,
    "lint-codes": lint_page,
}


def pages() -> Iterator[tuple[Path, str]]:
    """Yield every generated file and its content."""
    for name, make in REFERENCES.items():
        yield ROOT / "docs" / f"{name}.md", f"{_NOTE}\n{make()}"
    yield ROOT / "README.md", readme()
    for words in ((), *pages_of_help()):
        yield ROOT / "docs" / "man" / f"{'-'.join(('keyferry', *words))}.1", man_page(words)
    for shell, name in COMPLETIONS.items():
        yield ROOT / "docs" / "completions" / name, output_of("completion", shell)


def main(argv: list[str]) -> int:
    """Write or check all pages."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--check", action="store_true", help="say what is out of date, and exit 1")
    args = parser.parse_args(argv)
    stale = [
        (path, text)
        for path, text in pages()
        if not path.exists() or path.read_text(encoding="utf-8") != text
    ]
    for path, text in stale:
        if args.check:
            print(f"{path.relative_to(ROOT)} is out of date; run 'make generated'")
            continue
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
        print(f"wrote {path.relative_to(ROOT)}")
    return 1 if stale and args.check else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
