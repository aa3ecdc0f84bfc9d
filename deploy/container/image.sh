#!/bin/sh
# Build the agent's image by the Containerfile, without a registry: the two images that it starts from are made of
# Debian packages by mmdebstrap, once; FRESH=1 makes them again, of newer packages.
#   image.sh [FOLDER]      default: .cache/image
# writes keyferry.oci.tar, and the lists of its parts: sbom.cdx.json (Python) and debian-packages.txt. Needs root,
# buildah and mmdebstrap. pip inside gets this machine's own configuration and authorities, which the image does not.
set -eu
here=$(CDPATH='' cd -- "$(dirname -- "$0")" && pwd)
project=${here%/*/*}
kept=$project/.cache/image
out=${1:-$kept}
mkdir -p "$kept" "$out"
[ "$(id -u)" = 0 ] || { echo "image.sh: needs root, to make root file systems" >&2; exit 3; }
for program in buildah mmdebstrap; do
    command -v $program > /dev/null || { echo "image.sh: needs $program: apt-get install $program" >&2; exit 3; }
done
git() { command git -C "$project" "$@" 2> /dev/null || true; }
SOURCE_DATE_EPOCH=${SOURCE_DATE_EPOCH:-$(git log -1 --format=%ct)}
export SOURCE_DATE_EPOCH="${SOURCE_DATE_EPOCH:-0}" PYTHONHASHSEED=0
revision=${SOURCE_REVISION:-$(git rev-parse HEAD)}
version=$(sed -n 's/^version = "\(.*\)"/\1/p' "$project/pyproject.toml")
printf '{"default": [{"type": "insecureAcceptAnything"}]}' > "$kept/policy.json"
buildah() { command buildah --root "$kept/storage" --runroot "$kept/run" "$@"; }

# make_root NAME OPTION ...: an image of Debian packages, which mmdebstrap makes by the options.
make_root() {
    name=localhost/keyferry-$1:$(echo "$@" | cat - "$here/strip.sh" | sha256sum | cut -c-16)
    [ -n "${FRESH:-}" ] || ! buildah inspect --type image "$name" > /dev/null 2>&1 || return 0
    echo "making the image's $1 of Debian packages"
    for old in $(buildah images --quiet --filter "reference=localhost/keyferry-$1"); do
        buildah rmi --force "$old" > /dev/null
    done
    root=$kept/$1
    shift
    rm -rf "$root"
    # A mirror that stands still is good enough where this machine's own apt says so.
    eval "$(apt-config shell valid Acquire::Check-Valid-Until)"
    mmdebstrap --quiet --aptopt="Acquire::Check-Valid-Until \"${valid:-true}\"" \
        --dpkgopt='path-exclude=/usr/share/doc/*' --dpkgopt='path-include=/usr/share/doc/*/copyright' \
        --dpkgopt='path-exclude=/usr/share/man/*' --dpkgopt='path-exclude=/usr/share/locale/*' \
        --dpkgopt=force-unsafe-io \
        --format=directory "$@" bookworm "$root"
    [ "${root##*/}" = builder ] || sh "$here/strip.sh" "$root"
    container=$(buildah from scratch)
    buildah add --quiet "$container" "$root" / > /dev/null
    buildah commit --quiet --rm --timestamp 0 --signature-policy "$kept/policy.json" \
        "$container" "$name" > /dev/null
    rm -r "$root"
}

make_root builder --variant=apt --include=python3-venv,musl-tools,ca-certificates
builder=$name
make_root base --variant=essential --include=python3.11-minimal,libpython3.11-stdlib,libstdc++6,ca-certificates
base=$name

set -- --volume "${SSL_CERT_FILE:-/etc/ssl/certs/ca-certificates.crt}:/etc/ssl/certs/ca-certificates.crt:ro"
[ ! -e /etc/pip.conf ] || set -- "$@" --volume /etc/pip.conf:/etc/pip.conf:ro
own=${PIP_CONFIG_FILE:-${XDG_CONFIG_HOME:-$HOME/.config}/pip/pip.conf}
[ ! -e "$own" ] || set -- "$@" --volume "$own:/root/.config/pip/pip.conf:ro"
image=localhost/keyferry:$version
buildah bud --isolation chroot --signature-policy "$kept/policy.json" --timestamp "$SOURCE_DATE_EPOCH" "$@" \
    --build-arg BUILDER="$builder" --build-arg BASE="$base" \
    --label org.opencontainers.image.version="$version" --label org.opencontainers.image.revision="$revision" \
    --file "$here/Containerfile" --ignorefile "$here/Containerfile.dockerignore" --tag "$image" "$project" \
    > "$kept/log" 2>&1 || { tail -30 "$kept/log" >&2; exit 1; }
rm -f "$out/keyferry.oci.tar"
buildah push --quiet --signature-policy "$kept/policy.json" --digestfile "$kept/digest" \
    "$image" "oci-archive:$out/keyferry.oci.tar:$image"
container=$(buildah from "$image")
files=$(buildah mount "$container")
cp "$files/opt/keyferry/share/sbom.cdx.json" "$out"
dpkg-query --root="$files" --show > "$out/debian-packages.txt"
size=$(du -sm "$files" | cut -f1)
buildah rm "$container" > /dev/null
buildah rmi --prune > /dev/null
echo "$out/keyferry.oci.tar: $(($(stat -c %s "$out/keyferry.oci.tar") / 1000000)) MB, unpacked $size MB"
cat "$kept/digest" && echo
