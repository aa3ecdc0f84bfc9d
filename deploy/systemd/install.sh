#!/bin/sh
# Install keyferry for a whole node, or a newer version over it: an environment in /opt/keyferry, links in /usr/bin and
# to the man pages, and the agent's units. It starts nothing. "remove" takes all of it away again, but for what you have
# written in /etc.
#   install.sh [remove]      PYTHON=python3.12 for another interpreter, SOURCE=FILE.whl for a wheel in place of this clone
set -eu
umask 022
clone=$(CDPATH='' cd -- "$(dirname -- "$0")/../.." && pwd -P)
home=/opt/keyferry
# Only a folder that has this file is changed or removed.
marker=$home/.made-by-install.sh
man=/usr/local/share/man/man1
units=/etc/systemd/system
programs="keyferry docker-credential-keyferry kubectl-keyferry kubectl_complete-keyferry"
unit_names="keyferry-agent.service keyferry-agent.socket"

fail() {
    echo "install.sh: $1; nothing is changed" >&2
    exit 1
}

# check_home: end unless /opt/keyferry is absent, or was made by this script.
check_home() {
    case $clone/ in
    "$home"/* | "$(readlink -f "$home" || echo "$home")"/*)
        fail "this clone is in $home, which is where keyferry is installed: move it elsewhere"
        ;;
    esac
    if [ -e "$home" ] && [ ! -f "$marker" ]; then
        fail "$home exists, and was not made by install.sh"
    fi
}

# is_ours PATH: whether a path is free, or a link into our environment.
is_ours() {
    case $(readlink "$1" || echo) in
    "$home"/*) return 0 ;;
    esac
    [ ! -e "$1" ]
}

remove_man_pages() {
    for page in "$man"/keyferry*.1; do
        if is_ours "$page"; then
            rm -f "$page"
        fi
    done
}

remove() {
    check_home
    if [ -e "$units/keyferry-agent.service" ]; then
        systemctl disable --now $unit_names
    fi
    for name in $programs; do
        if is_ours "/usr/bin/$name"; then
            rm -f "/usr/bin/$name"
        fi
    done
    remove_man_pages
    for name in $unit_names; do
        rm -f "$units/$name"
    done
    rm -rf "$home"
    systemctl daemon-reload
}

install() {
    check_home
    for name in $programs; do
        is_ours "/usr/bin/$name" || fail "/usr/bin/$name exists, and is not of $home"
    done
    mkdir -p "$home" "$man"
    echo "install.sh of keyferry made this folder, and its 'remove' deletes it." > "$marker"
    "${PYTHON:-python3}" -m venv "$home"
    "$home/bin/pip" install --quiet --disable-pip-version-check --upgrade "${SOURCE:-$clone}[agent]"
    for name in $programs; do
        ln -sfn "$home/bin/$name" "/usr/bin/$name"
    done
    # Those of the version before may have other names.
    remove_man_pages
    for page in "$home"/share/man/man1/keyferry*.1; do
        if [ -e "$page" ] && is_ours "$man/${page##*/}"; then
            ln -sfn "$page" "$man/${page##*/}"
        fi
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
