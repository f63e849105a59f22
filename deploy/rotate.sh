#!/usr/bin/env bash
# Replaces the keys and certificates of the bus in a cluster, without a pause and without a restart.
#
#   deploy/rotate.sh DIR
#
# DIR is the directory that `deviceshare credentials` has written, and names the namespace. KUBECTL and DEVICESHARE name
# the commands. Called again after a failure it continues. docs/security.md describes the two steps.
set -euo pipefail
kubectl=${KUBECTL:-kubectl}
deviceshare=${DEVICESHARE:-deviceshare}
directory=${1:?usage: $0 DIR}
namespace=$(cat "$directory/namespace")
# Seconds between two looks at the files, and for which kubelet may take to replace them.
interval=${INTERVAL:-5}
longest=${LONGEST:-600}

bus=app.kubernetes.io/part-of=deviceshare,app.kubernetes.io/name=bus
users=app.kubernetes.io/part-of=deviceshare,app.kubernetes.io/name!=bus

# Prints the running pods with a label. Of the bus there is at least one.
running() {
  local found
  found=$("$kubectl" -n "$namespace" get pods --selector "$1" --field-selector status.phase=Running -o name) || return 1
  if [ "$1" = "$bus" ] && [ -z "$found" ]; then
    echo "no pod of the bus is running in the namespace $namespace" >&2
    return 1
  fi
  echo "$found"
}

# Prints the running pods that do not have the authorities of DIR yet, which all users and the bus share. Kubelet replaces
# all files of a Secret together.
outdated() {
  local pod pods wanted
  wanted=$(cat "$directory/server/ca.crt") || return 1
  pods=$(running "$1") || return 1 # a condition has no errexit
  for pod in $pods; do
    if [ "$("$kubectl" -n "$namespace" exec "$pod" -- \
      sh -c 'cat /etc/nats/secret/ca.crt 2> /dev/null || cat /etc/deviceshare/bus/ca.crt')" != "$wanted" ]; then
      echo "$pod"
    fi
  done
}

# Applies those of the Secrets with a label and waits until the files have reached all pods with this label.
distribute() {
  local end=$((SECONDS + longest)) pods
  printf '%s' "$2" | "$kubectl" apply --server-side --force-conflicts --selector "$1" -f -
  until pods=$(outdated "$1") && [ -z "$pods" ]; do
    if ((SECONDS > end)); then
      echo "these pods do not have their new files: ${pods:-(they could not be listed)}" >&2
      exit 1
    fi
    sleep "$interval"
  done
}

# First the bus, which accepts what its users have before and after a step.
step() {
  local pod pods secrets
  secrets=$("$deviceshare" credentials "$directory" --format kubernetes)
  distribute "$bus" "$secrets"
  pods=$(running "$bus")
  for pod in $pods; do
    "$kubectl" -n "$namespace" exec "$pod" -- sh -c 'kill -HUP 1' # nats-server reads its configuration again
  done
  distribute "$users" "$secrets"
}

if ! test -e "$directory/rotation" || test -e "$directory/rotation/begin"; then
  "$deviceshare" credentials "$directory" --rotate
fi
if ! test -e "$directory/rotation/finishing"; then
  step
fi
"$deviceshare" credentials "$directory" --finish
step
