#!/bin/sh
# Install the real programs that some tests drive. Debian as root only; elsewhere those tests skip and say why.
set -eu
parts="zsh fish gcc libc6-dev"
missing=""
for part in $parts; do
    dpkg-query -W -f '${Status}' "$part" 2>/dev/null | grep -q 'install ok installed' || missing="$missing $part"
done
[ -z "$missing" ] && exit 0
if [ "$(id -u)" != 0 ] || ! command -v apt-get > /dev/null; then
    echo "tools/parts.sh: not installed here, their tests will skip:$missing" >&2
    exit 0
fi
echo "installing$missing"
export DEBIAN_FRONTEND=noninteractive
log=.cache/parts.log
mkdir -p .cache
{ apt-get update && apt-get install -y --no-install-recommends $missing; } > "$log" 2>&1 || { tail -20 "$log" >&2; exit 1; }
