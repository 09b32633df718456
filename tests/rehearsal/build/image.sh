#!/bin/sh
# Smaller images: nothing of this is used by a test.
set -eu
apt-get clean
rm -rf /var/lib/apt/lists/* /var/cache/* /var/log/* /usr/share/doc/* /usr/share/man/* /usr/share/locale/*
rm -f /etc/ssh/ssh_host_* /etc/hostname
# UCX has a module for AMD GPUs that pulls in half of a compiler, 240 MB; it does without.
cd /usr/lib/x86_64-linux-gnu
rm -f ucx/*rocm* libamdhip64.so* libamd_comgr.so* libhsa-runtime64.so* libLLVM*.so* libz3.so*
