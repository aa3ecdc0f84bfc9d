#!/bin/sh
# Leave of a Debian root file system what Python and keyferry need: no shell, no package manager, no other program.
#   strip.sh ROOT
# dpkg removes the other packages, so that its list of what is left is right.
set -eu
cd "$1"
kept=" base-files ca-certificates libbz2-1.0 libc6 libexpat1 libffi8 libgcc-s1 liblzma5 \
libpython3.11-minimal libpython3.11-stdlib libssl3 libstdc++6 libuuid1 python3.11-minimal zlib1g "
library=usr/lib/python3.11
rm -rf "$library"/pydoc_data "$library"/test "$library"/unittest
# By hash: the times of files do not matter, and nothing is compiled at a start.
chroot . python3.11 -m compileall -q -f --invalidation-mode unchecked-hash "/$library"
# Scripts of packages would be run by a shell that is being removed.
(cd var/lib/dpkg/info && rm -f -- *.preinst *.postinst *.prerm *.postrm *.config *.triggers)
dpkg-query --root="$PWD" --show --showformat='${Package} ${Package}:${Architecture}\n' \
    | while read -r name package; do
        case $kept in *" $name "*) ;; *) echo "$package" ;; esac
    done \
    | xargs dpkg --root="$PWD" --force-all --force-unsafe-io --no-triggers --log=/dev/null --purge > /dev/null 2>&1
mv etc etc.debian
mkdir etc
for name in debian_version nsswitch.conf os-release ssl; do
    mv "etc.debian/$name" etc
done
printf 'root:x:0:0:root:/:/none\nkeyferry:x:65532:65532:keyferry:/:/none\n' > etc/passwd
printf 'root:x:0:\nkeyferry:x:65532:\n' > etc/group
rm -rf boot dev/* etc.debian home media mnt opt root run/* srv usr/games usr/include usr/local usr/sbin/* \
    usr/lib/*/engines-3 usr/lib/*/gconv usr/share/lintian usr/share/perl* usr/src var/backups var/cache \
    var/lib/[!d]* var/lib/dpkg/*-old var/local var/log var/mail var/opt var/spool
