#!/bin/sh
# Install keyferry for a whole node, or a newer version over it: an environment in /opt/keyferry, links in /usr/bin, and
# the agent's units. It starts nothing. "remove" takes all of it away again, but for what you have written in /etc.
#   install.sh [remove]      PYTHON=python3.12 for another interpreter, SOURCE=FILE.whl for a wheel in place of this clone
set -eu
umask 022
clone=$(CDPATH='' cd -- "$(dirname -- "$0")/../.." && pwd)
home=/opt/keyferry
units=/etc/systemd/system
programs="keyferry docker-credential-keyferry"
unit_names="keyferry-agent.service keyferry-agent.socket"

# is_ours PATH: whether a path is free, or a link into our environment.
is_ours() {
    case $(readlink "$1" || echo) in
    "$home"/*) return 0 ;;
    esac
    [ ! -e "$1" ]
}

remove() {
    if [ -e "$units/keyferry-agent.service" ]; then
        systemctl disable --now $unit_names
    fi
    for name in $programs; do
        if is_ours "/usr/bin/$name"; then
            rm -f "/usr/bin/$name"
        fi
    done
    for name in $unit_names; do
        rm -f "$units/$name"
    done
    rm -rf "$home"
    systemctl daemon-reload
}

install() {
    for name in $programs; do
        is_ours "/usr/bin/$name" || { echo "install.sh: /usr/bin/$name exists, and is not of $home" >&2; exit 1; }
    done
    "${PYTHON:-python3}" -m venv "$home"
    "$home/bin/pip" install --quiet --disable-pip-version-check --upgrade "${SOURCE:-$clone}[agent]"
    for name in $programs; do
        ln -sfn "$home/bin/$name" "/usr/bin/$name"
    done
    for name in $unit_names; do
        cp "$clone/deploy/systemd/$name" "$units/$name"
    done
    systemctl daemon-reload
}

case ${1:-install} in
install) install ;;
remove) remove ;;
*)
    echo "usage: install.sh [remove]" >&2
    exit 2
    ;;
esac
