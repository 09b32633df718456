#!/bin/sh
# Apptainer is only in Debian's unstable suite. The pin keeps everything else, its libraries
# too, at this tree's own suite; so no `-t unstable`, which would lift libc as well.
set -eu
export DEBIAN_FRONTEND=noninteractive
sed -n 's/^deb \(\[[^]]*\] \)\{0,1\}\([^ ]*\) [a-z]* main.*/deb [check-valid-until=no] \2 sid main/p' \
    /etc/apt/sources.list | head -n 1 > /etc/apt/sources.list.d/sid.list
[ -s /etc/apt/sources.list.d/sid.list ] || { echo 'no mirror found in sources.list' >&2; exit 1; }
printf 'Package: *\nPin: release n=sid\nPin-Priority: 50\n' > /etc/apt/preferences.d/sid
apt-get -q update
apt-get -q install -y --no-install-recommends apptainer
apt-get clean
rm -rf /etc/apt/sources.list.d/sid.list /etc/apt/preferences.d/sid /var/lib/apt/lists/*
