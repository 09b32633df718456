#!/bin/sh
# wheels.sh WHEEL…
# These packages of the package index within the tree, and no other index: pip works in an image that is built from it.
set -eu
python3 -m venv /tmp/venv
/tmp/venv/bin/pip -q download --no-deps --dest /srv/wheels "$@"
rm -rf /tmp/venv
printf '[global]\nno-index = true\nfind-links = /srv/wheels\n' >/etc/pip.conf
