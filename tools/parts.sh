#!/bin/sh
# Install the real programs that some tests drive. Debian as root only; elsewhere those tests skip and say why.
set -eu
parts="zsh fish gcc libc6-dev"
unpacked=.cache/parts
missing=""
for part in $parts; do
    dpkg-query -W -f '${Status}' "$part" 2>/dev/null | grep -q 'install ok installed' || missing="$missing $part"
done
# Debian's kubectl is unpacked, not installed: a kubectl of another origin may own its place.
kubectl=""
[ -x "$unpacked/usr/bin/kubectl" ] || kubectl=kubernetes-client
[ -z "$missing$kubectl" ] && exit 0
if [ "$(id -u)" != 0 ] || ! command -v apt-get > /dev/null; then
    echo "tools/parts.sh: not installed here, their tests may skip:$missing $kubectl" >&2
    exit 0
fi
export DEBIAN_FRONTEND=noninteractive
log=$PWD/.cache/parts.log
mkdir -p .cache "$unpacked"

install_missing() {
    [ -z "$missing" ] || apt-get install -y --no-install-recommends $missing
}

unpack_kubectl() {
    [ -z "$kubectl" ] && return
    rm -f "$unpacked"/*.deb
    (cd "$unpacked" && apt-get -q download "$kubectl") && dpkg-deb -x "$unpacked/${kubectl}"_*.deb "$unpacked"
    rm -f "$unpacked"/*.deb
}

echo "installing$missing $kubectl"
{ apt-get update && install_missing && unpack_kubectl; } > "$log" 2>&1 || { tail -20 "$log" >&2; exit 1; }
