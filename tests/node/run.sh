#!/usr/bin/env bash
# Runs a command in namespaces of its own (network, mounts, processes) with a cgroup of its own, for the tests on a real node.
# When the command has ended, or was killed, nothing of the node is left: the processes end with their namespace.
set -euo pipefail
export DEVICESHARE_NODE_CGROUP=deviceshare-node-$$
# Another run on this machine would lose its mounts with these directories.
exec {lock}> "${TMPDIR:-/tmp}/deviceshare-node.lock"
flock --shared "$lock"
temporary=$(mktemp -d)
# What kubelet, containerd, podman, plugins of CNI and device plugins write has fixed names: it goes into memory of its own.
export directories="/run /config /var/lib/kubelet /var/lib/cni /var/log/pods /var/log/containers"
made=()
for directory in $directories; do
  [ -e "$directory" ] || made+=("$directory")
done
remove() {
  local hierarchy
  rm -rf "$temporary"
  if flock --exclusive --nonblock "$lock"; then
    for directory in "${made[@]}"; do rmdir "$directory" 2> /dev/null || true; done
  fi
  for hierarchy in /sys/fs/cgroup /sys/fs/cgroup/*/; do
    # A group is busy until its last process is gone.
    for _ in $(seq 100); do
      [ -d "$hierarchy/$DEVICESHARE_NODE_CGROUP" ] || break
      find "$hierarchy/$DEVICESHARE_NODE_CGROUP" -depth -type d -exec rmdir {} + 2> /dev/null || sleep 0.1
    done
  done
}
trap remove EXIT
# Device plugins write files with fixed names into /tmp.
unshare --net --mount --pid --fork --kill-child --mount-proc -- \
  bash -ec 'mount --bind "$0" /tmp
    for directory in $directories; do
      mkdir -p "$directory"
      mount -t tmpfs tmpfs "$directory"
      mount --make-shared "$directory"
    done
    ip link set lo up
    exec "$@"' "$temporary" "$@" &
inner=$!
# `unshare` ignores softer signals; with it the whole namespace of processes ends.
trap 'kill -KILL "$inner" 2> /dev/null || true' INT TERM
status=0
wait "$inner" || status=$?
wait "$inner" 2> /dev/null || true
exit "$status"
