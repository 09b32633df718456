#!/bin/sh
# JupyterLab and TensorBoard.
set -eu
pip -q install --break-system-packages jupyterlab==4.6.6 tensorboard==2.21.0 'setuptools<81'
rm -rf /root/.cache
