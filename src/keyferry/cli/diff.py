"""Show what changes between two provider configs, and for which images."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from collections.abc import Iterator, Sequence

from keyferry._core.bounded import read_path, read_stream, standard_input
from keyferry._core.gotext import go_strerror
from keyferry._core.user_info import hide_user_info
from keyferry.cli.exits import Exit, WrongUsage
from keyferry.cli.options import add_output_argument
from keyferry.errors import EnvironmentProblem, ImageNameError
from keyferry.images.config.compare import ConfigChanges, ProviderChange, Served, compare_configs
from keyferry.images.load import check_config
from keyferry.images.reference import normalise
from keyferry.show.documents import make_document, render_document
from keyferry.show.text import fitting_table
from keyferry.show.writer import report

DESCRIPTION = """\
Show what changes between two provider configs: providers that are new, gone, moved or have other settings, and
patterns that are new, gone or shadowed. A pattern is shadowed if an earlier provider covers everything that it
covers; both plugins are run, and the credentials of the earlier provider are tried first.

With --images, also show the images that get credentials from other providers, by another pattern (key), in another
order or with other settings. Without it, no images are made up. No plugin is run."""

EXAMPLES = """\
examples:
  keyferry diff old.yaml new.yaml
  keyferry diff /etc/kubernetes/providers new/ --images images.txt
  kubectl get pods -A -o jsonpath='{range .items[*].spec.containers[*]}{.image}{"\\n"}{end}' \\
      | keyferry diff old.yaml new.yaml --images - -o json

exit codes: 0 nothing changes; 1 something changes; 2 wrong usage; 3 a config cannot be read or would stop a kubelet"""

FORMATS = ("table", "json", "yaml")
_HEADER = ("WHAT", "NAME", "CHANGE", "OLD", "NEW")
_Row = tuple[str, str, str, str, str]


def add_arguments(parser: ArgumentParser) -> None:
    """Declare the arguments of ``keyferry diff``."""
    parser.add_argument("old", metavar="OLD", help="a provider config, a file or a directory")
    parser.add_argument("new", metavar="NEW", help="the config that replaces it")
    parser.add_argument(
        "--images",
        metavar="FILE",
        help="a file with one image per line, or - for standard input; lines that begin with # are left out, "
        "and so are lines that are not image names, with a message",
    )
    add_output_argument(parser, FORMATS)


def run(args: Namespace) -> int:
    """Print the differences; return 1 if there are any."""
    old, new = (check_config(path, None) for path in (args.old, args.new))
    changes = compare_configs(old, new, _images(args.images) if args.images else ())
    if args.output != "table":
        print(render_document(_document(args.old, args.new, changes), args.output))
    elif changes.has_changes:
        print(fitting_table(_HEADER, list(_rows(changes))))
    report(_summary(changes, has_images=bool(args.images)))
    return Exit.NO if changes.has_changes else Exit.OK


def _images(path: str) -> Sequence[str]:
    try:
        data = read_stream(standard_input()) if path == "-" else read_path(path)
        lines = data.decode().splitlines()
    except (OSError, UnicodeDecodeError, ValueError) as error:
        reason = go_strerror(error) if isinstance(error, OSError) else "it is not UTF-8 text"
        origin = "standard input" if path == "-" else path
        raise EnvironmentProblem(f"{origin} cannot be read: {reason}") from None
    named = [(number, line.strip()) for number, line in enumerate(lines, 1)]
    named = [(number, line) for number, line in named if line and not line.startswith("#")]
    images = [line for number, line in named if _is_image(line, path, number)]
    if named and not images:
        raise WrongUsage(f"{path} has no line that is an image name")
    return images


def _is_image(line: str, path: str, number: int) -> bool:
    """Return whether a line is an image name; say so if it is not."""
    try:
        normalise(line)
    except ImageNameError as error:
        report(f"{path}:{number} is left out: {error}")
        return False
    return True


def _rows(changes: ConfigChanges) -> Iterator[_Row]:
    for provider in changes.providers:
        old, new = (_settings(provider, side) for side in ("old", "new"))
        yield "provider", provider.name, provider.change, old, new
    for pattern in changes.patterns:
        by = f"after {_served(pattern.by)}" if pattern.by else pattern.provider
        is_gone = pattern.change == "gone"
        yield (
            "pattern",
            hide_user_info(pattern.pattern),
            pattern.change,
            pattern.provider if is_gone or pattern.by else "",
            "" if is_gone else by,
        )
    for image in changes.changed_images:
        yield (
            "image",
            image.image,
            ", ".join(image.differences),
            ", ".join(map(_served, image.old)) or "none",
            ", ".join(map(_served, image.new)) or "none",
        )


def _settings(provider: ProviderChange, side: str) -> str:
    texts = ((each.name, each.old if side == "old" else each.new) for each in provider.settings)
    return "; ".join(f"{name}: {text or 'none'}" for name, text in texts)


def _served(served: Served) -> str:
    return f"{served.provider} ({hide_user_info(served.pattern)})"


def _document(old: str, new: str, changes: ConfigChanges) -> dict[str, object]:
    return make_document(
        "ConfigComparison",
        old=old,
        new=new,
        providers=[
            {
                "name": each.name,
                "change": str(each.change),
                "settings": [setting.name for setting in each.settings],
                "values": [
                    {"setting": setting.name, "old": setting.old, "new": setting.new}
                    for setting in each.settings
                ],
            }
            for each in changes.providers
        ],
        patterns=[
            {
                "pattern": hide_user_info(each.pattern),
                "provider": each.provider,
                "change": str(each.change),
                **({"by": _served_document(each.by)} if each.by else {}),
            }
            for each in changes.patterns
        ],
        images=[
            {
                "image": each.image,
                "differences": [str(difference) for difference in each.differences],
                "old": [_served_document(served) for served in each.old],
                "new": [_served_document(served) for served in each.new],
            }
            for each in changes.changed_images
        ],
        comparedImages=changes.images,
    )


def _served_document(served: Served) -> dict[str, str]:
    return {"provider": served.provider, "pattern": hide_user_info(served.pattern)}


def _summary(changes: ConfigChanges, *, has_images: bool) -> str:
    number = len(changes.changed_images)
    images = f"; {number} of {changes.images} images {_verb(number)}" if has_images else ""
    if not changes.has_changes:
        return f"nothing changes{images}"
    numbers = {"provider": len({each.name for each in changes.providers}), "pattern": len(changes.patterns)}
    parts = [_count(number, noun) for noun, number in numbers.items() if number]
    return f"{' and '.join(parts)} {_verb(sum(numbers.values()))}{images}"


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def _verb(number: int) -> str:
    return "changes" if number == 1 else "change"
