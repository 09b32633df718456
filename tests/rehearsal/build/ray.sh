#!/bin/sh
# Ray from PyPI, and neither an MPI nor ssh.
set -eu
pip -q install --break-system-packages ray==2.60.0
