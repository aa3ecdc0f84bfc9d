"""``keyferry completion``: a script for bash, zsh or fish, which asks keyferry for what may follow."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

from keyferry.cli.exits import Exit
from keyferry.show.writer import Guard, Lines

DESCRIPTION = """\
Print a completion script. It completes commands, subcommands, options, their values, plugins, codes, and the
contexts, clusters and users of the kubeconfig; from the cluster, namespaces, nodes, and the pods and workloads that
explain and can-pull take. The cluster is asked as the command would ask it, within seconds, and by no plugin that
prompts or that kuberc's policy forbids. zsh and fish also show a description of each.

'kubectl keyferry' is completed by kubectl's own completion, without this script."""

EXAMPLES = """\
examples:
  source <(keyferry completion bash)                                      # this shell; or ~/.bashrc
  keyferry completion zsh > "${fpath[1]}/_keyferry"                       # then start a new zsh
  keyferry completion fish > ~/.config/fish/completions/keyferry.fish"""

# The word before those that a shell wants to have completed.
COMPLETE = "__complete"

# bash splits words at ":" and "=", and replaces only what follows the last one.
_BASH = """\
# completion of keyferry for bash
_keyferry() {
    local line="${COMP_LINE:0:COMP_POINT}" marks="[${COMP_WORDBREAKS//[^:=]/}]" cut="" directive=4 words word candidate
    read -ra words <<< "$line"
    [[ "$line" == *[[:space:]] ]] && words+=("")
    word="${words[${#words[@]}-1]}"
    [ "$marks" != "[]" ] && cut="${word%"${word##*$marks}"}"
    COMPREPLY=()
    while IFS=$'\\t' read -r candidate _; do
        case "$candidate" in
        :*) directive="${candidate#:}" ;;
        *) COMPREPLY+=("${candidate#"$cut"}") ;;
        esac
    done < <(keyferry __complete "${words[@]:1}" 2> /dev/null)
    if [ "$directive" -eq 0 ]; then
        local IFS=$'\\n'
        COMPREPLY=($(compgen -f -- "$word"))
        compopt -o filenames 2> /dev/null
    elif [ $((directive & 2)) -ne 0 ]; then
        compopt -o nospace 2> /dev/null
    fi
}
complete -F _keyferry keyferry
"""

_ZSH = """\
#compdef keyferry
# completion of keyferry for zsh
_keyferry() {
  local -a found suffix
  local line directive=4
  for line in "${(@f)$(keyferry __complete "${(@Q)words[2,CURRENT]}" 2> /dev/null)}"; do
    if [[ "$line" == :* ]]; then
      directive="${line#:}"
    elif [[ "$line" == *$'\\t'* ]]; then
      found+=("${${line%%$'\\t'*}//:/\\\\:}:${line#*$'\\t'}")
    else
      found+=("${line//:/\\\\:}")
    fi
  done
  if (( directive == 0 )); then
    _files
    return
  fi
  (( directive & 2 )) && suffix=(-S '')
  _describe keyferry found "${suffix[@]}"
}
if [ "$funcstack[1]" = _keyferry ]; then _keyferry "$@"; else compdef _keyferry keyferry; fi
"""

_FISH = """\
# completion of keyferry for fish
function __keyferry_complete
    set -l words (commandline -opc)
    set -l word (commandline -ct)
    for line in (keyferry __complete $words[2..-1] "$word" 2> /dev/null)
        switch $line
            case ':0'
                __fish_complete_path "$word"
            case ':*'
            case '*'
                echo -- $line
        end
    end
end
complete -c keyferry -f -a '(__keyferry_complete)'
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of ``keyferry completion``."""
    parser.add_argument("shell", choices=("bash", "zsh", "fish"), help="the shell that reads the script")


def run(args: argparse.Namespace) -> int:
    """Print the completion script for the chosen shell."""
    print(Lines({"bash": _BASH, "zsh": _ZSH, "fish": _FISH}[args.shell]), end="")
    return Exit.OK


def complete_for_kubectl() -> None:
    """Run the console script ``kubectl_complete-keyferry``, by which kubectl completes ``kubectl keyferry``."""
    with Guard():
        print_candidates(sys.argv[1:])
        sys.stdout.flush()


def print_candidates(words: Sequence[str]) -> int:
    """Print the candidates for the last of *words*, each with its description, then what the shell does with them.

    Whatever goes wrong, nothing is said about it: the command that is being typed will say it.
    """
    from keyferry.cli.candidates import Candidates, complete

    try:
        candidates = complete(words)
    except (Exception, KeyboardInterrupt):  # noqa: BLE001 - a message would stand in the middle of the line
        candidates = Candidates()
    lines = ("\t".join(filter(None, pair)) for pair in candidates.found)
    print(Lines("\n".join((*lines, f":{candidates.directive}"))))
    return Exit.OK
