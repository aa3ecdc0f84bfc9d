"""The option for colours, which every command has."""

from keyferry.show.writer import ColorChoice, choose_color

TYPE_CHECKING = False  # a literal: importing typing or argparse would slow down every start
if TYPE_CHECKING:
    import argparse

    from keyferry.cli.frame.usual import Declarations

__all__ = ["add_color_argument", "apply_color"]


def add_color_argument(parser: "argparse.ArgumentParser | Declarations") -> None:
    """Declare the choice of colours."""
    parser.add_argument(
        "--color",
        choices=tuple(ColorChoice),
        metavar="WHEN",
        help="colours: auto, always or never (default: auto, which means never if NO_COLOR is set, "
        "else always if FORCE_COLOR is set, else on a terminal)",
    )


def apply_color(args: "argparse.Namespace") -> None:
    """Set the colours of standard output; without the option, a choice made before stays."""
    if args.color is not None:
        choose_color(ColorChoice(args.color))
