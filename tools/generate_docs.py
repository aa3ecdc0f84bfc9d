"""Write the generated parts of the docs: help, references, codes, the README's figures, the chart's values."""

from __future__ import annotations

import argparse
import contextlib
import io
import re
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

from reference.chart import values_table
from reference.codes import kit_page, lint_page
from reference.configs import agent_settings, federation_config_tables

from keyferry.cli.main import main as keyferry
from keyferry.cli.run import COMMANDS, load_command

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from bench.sections import marks, section, table, with_section  # noqa: E402 - found in the folder above


def help_text(*words: str) -> str:
    """Return the help text of a command."""
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        keyferry([*words, "--help"])
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


# What a row of figures in the README says, and the row of docs/figures.md that it is from: its name and its peer.
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
_CHART = ROOT / "deploy" / "helm" / "keyferry"


def figures() -> str:
    """Return the table of figures beside other tools."""
    page = (ROOT / "docs" / "figures.md").read_text(encoding="utf-8")
    page = section(page, "bench")
    found = re.findall(r"^\| (.*?) \| (.*?) \| (.*?): (.*?) \| (.*?) \|", page, re.MULTILINE)
    rows = {(what, peer): (measured, theirs, ratio) for what, measured, peer, theirs, ratio in found}
    written = [("job", "keyferry", "other tool", "ratio")]
    for job, what, peer in _FIGURES:
        measured, theirs, ratio = rows[what, peer]
        written.append((job, measured, f"{peer}: {theirs}", ratio))
    ((day, machine),) = re.findall(r"^(\d{4}-\d\d-\d\d): (.*?);", page, re.MULTILINE)
    return f"{table(written)}\n\nMeasured by `make bench` on {day}: {machine}."


# The pages that are generated as a whole, by their names in docs.
REFERENCES: dict[str, Callable[[], str]] = {
    "cli": cli_page,
    "kit-codes": kit_page,
    "lint-codes": lint_page,
}
# The pages of which a part is generated.
PARTS: dict[str, Callable[[], str]] = {
    "README.md": figures,
    "deploy/helm/keyferry/README.md": lambda: values_table(_CHART / "values.yaml"),
    "docs/agent-reference.md": agent_settings,
    "docs/plugins/federation.md": federation_config_tables,
}


def pages() -> Iterator[tuple[Path, str]]:
    """Yield every generated file and its content."""
    for name, make in REFERENCES.items():
        yield ROOT / "docs" / f"{name}.md", f"{marks('generated')[0]}\n\n{make()}"
    for name, make in PARTS.items():
        path = ROOT / name
        yield path, with_section(path.read_text(encoding="utf-8"), "generated", make())


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
