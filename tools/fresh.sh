#!/bin/sh
# Run the README's commands on fresh machines: a minimal root file system of each Debian release, with python3,
# python3-venv, make and git alone, and a clone of what is committed here; as root, and as an ordinary user with the
# umask of Debian 13's users.
#   tools/fresh.sh [SUITE ...]      default: bookworm trixie sid
# USERS="root user" and TARGETS="demo test" choose less. The output of each run is in .cache/fresh/SUITE-USER.log.TARGET,
# and the last table has the counts. The file systems are made once: remove .cache/fresh/SUITE.tar for newer packages.
# Those of runs that failed stay in .cache/fresh/root-SUITE-USER. Needs root and mmdebstrap (apt-get install mmdebstrap).
set -eu
[ $# -gt 0 ] || set -- bookworm trixie sid
users=${USERS:-root user}
targets=${TARGETS:-demo test}
tree=$PWD
place=$PWD/.cache/fresh
mkdir -p "$place"

[ "$(id -u)" = 0 ] || { echo "tools/fresh.sh: needs root, to make root file systems" >&2; exit 3; }
command -v mmdebstrap > /dev/null || { echo "tools/fresh.sh: needs mmdebstrap: apt-get install mmdebstrap" >&2; exit 3; }

# fresh_root SUITE FOLDER: the root file system, made once and unpacked for each run.
fresh_root() {
    archive=$place/$1.tar
    if [ ! -e "$archive" ]; then
        echo "making a root file system of $1"
        # A mirror that stands still is good enough where this machine's own apt says so.
        eval "$(apt-config shell valid Acquire::Check-Valid-Until)"
        mmdebstrap --variant=apt --aptopt="Acquire::Check-Valid-Until \"${valid:-true}\"" \
            --include=python3,python3-venv,make,git --format=tar "$1" "$archive.part" > "$place/$1.log" 2>&1 || { tail -20 "$place/$1.log" >&2; return 1; }
        mv "$archive.part" "$archive"
    fi
    rm -rf "$2" && mkdir -p "$2" && tar -xf "$archive" -C "$2"
}

# prepare ROOT USER: a clone in the user's home, and what this machine needs to reach the package indexes.
prepare() {
    home=/root
    if [ "$2" != root ]; then
        home=/home/$2
        # By hand: a minimal Debian 13 has no useradd.
        echo "$2:x:1000:1000::$home:/bin/sh" >> "$1/etc/passwd"
        echo "$2:x:1000:" >> "$1/etc/group"
        mkdir -p "$1$home"
    fi
    echo force-unsafe-io > "$1/etc/dpkg/dpkg.cfg.d/unsafe-io"
    printf '127.0.0.1 localhost\n::1 localhost ip6-localhost ip6-loopback\n' > "$1/etc/hosts"
    cp -L /etc/resolv.conf "$1/etc/resolv.conf"
    cp -L "${SSL_CERT_FILE:-/etc/ssl/certs/ca-certificates.crt}" "$1/etc/authorities.pem"
    git -C "$1$home" clone --quiet "$tree" keyferry && chroot "$1" chown -R "$2:$2" "$home"
}

# inside ROOT USER COMMAND: run in a mount namespace, so that nothing stays mounted.
inside() {
    root=$1 user=$2 command=$3
    home=/root ci=true mask=022
    [ "$user" = root ] || { home=/home/$user ci='' mask=002; }
    unshare --mount --pid --fork --kill-child sh -eu -c '
        root=$1 user=$2 home=$3 ci=$4 mask=$5 command=$6
        mount --bind "$root" "$root"
        mount -t proc proc "$root/proc"
        mount --rbind /sys "$root/sys"
        mount --rbind /dev "$root/dev"
        # Not chroot alone: containers are made inside, and they begin at the root of the namespace.
        cd "$root"
        mkdir -p .outside
        pivot_root . .outside
        # A minimal Debian 13 has no umount; 2 is MNT_DETACH.
        python3 -c "import ctypes; assert ctypes.CDLL(None).umount2(b\"/.outside\", 2) == 0"
        rmdir .outside
        umask "$mask"
        exec chroot --userspec="$user:$user" . env -i HOME="$home" USER="$user" TERM=dumb LANG=C.UTF-8 \
            PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin ${ci:+CI=$ci} \
            PIP_CERT=/etc/authorities.pem NODE_EXTRA_CA_CERTS=/etc/authorities.pem \
            sh -c "cd $home/keyferry && $command" < /dev/null
    ' sh "$root" "$user" "$home" "$ci" "$mask" "$command"
}

table=''
failed=0
for suite; do
    for user in $users; do
        root=$place/root-$suite-$user log=$place/$suite-$user.log
        if ! { fresh_root "$suite" "$root" && prepare "$root" "$user"; }; then
            table="$table$(printf '%-9s %-13s no root file system' "$suite" "$user")
"
            failed=1
            continue
        fi
        is_kept=''
        for target in $targets; do
            echo "$suite, $user: make $target"
            begin=$(date +%s)
            verdict=ok
            inside "$root" "$user" "make $target" > "$log.$target" 2>&1 || verdict=failed
            [ "$verdict" = ok ] || { failed=1 is_kept=1; tail -30 "$log.$target" >&2; }
            version=$(chroot "$root" python3 -c 'import platform; print(platform.python_version())')
            counts=$(grep -aE '^=+ .*(passed|failed).* =+$' "$log.$target" | tail -1 | tr -d =)
            table="$table$(printf '%-9s %-7s %-5s make %-5s %-7s %5d s %s' \
                "$suite" "$version" "$user" "$target" "$verdict" $(($(date +%s) - begin)) "$counts")
"
        done
        [ -n "$is_kept" ] || rm -rf "$root"
    done
done
printf '%s' "$table"
exit "$failed"
