#!/usr/bin/env bash
# Shares the machine's first GPU among three pods, as a node of a cluster would, and checks that memory beyond a claim is
# refused and that cores are throttled. Real are the device plugin, HAMi-core's library, kube-apiserver and deviceshare.
# Requires root or user namespaces, NVIDIA's driver, openssl, and the kit that `make gpu-kit` builds, of which this file is
# part. No setting of the card is changed, and nothing is written outside of the kit: kubelet's and the plugin's directories are
# overlays in a mount namespace.
#
# GPU_DRIVER   a directory with libcuda.so.1 and libnvidia-ml.so.1 to use instead of the driver's
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
if [ ! -e "$here/venv" ]; then
  "$(cat "$here/python")" -m venv "$here/venv"
  "$here/venv/bin/pip" install --quiet --disable-pip-version-check --no-index "$here"/wheels/*.whl || {
    rm -rf "$here/venv"
    exit 1
  }
fi
[ "$(id -u)" = 0 ] || user=--map-root-user
[ -z "${GPU_DRIVER:-}" ] || export LD_LIBRARY_PATH=$GPU_DRIVER
# shellcheck disable=SC2016
exec unshare ${user:-} --mount --pid --fork --kill-child --mount-proc -- bash -c '
  set -e
  mount -t tmpfs tmpfs /mnt
  for directory in /etc /usr/local /var/lib /tmp; do
    mkdir -p "/mnt$directory/upper" "/mnt$directory/work"
    mount -t overlay overlay -o "lowerdir=$directory,upperdir=/mnt$directory/upper,workdir=/mnt$directory/work" "$directory"
  done
  exec "$0/venv/bin/python" "$0/card.py"' "$here"
