#!/usr/bin/env bash
# Saves what cannot be rebuilt from the cluster, or restores it: the Secrets, the Queues, and the configuration.
#
#   deploy/backup.sh save DIR
#   deploy/backup.sh restore DIR
#
# NAMESPACE names the namespace (deviceshare-system), KUBECTL the command (kubectl). DIR then holds keys: keep it private.
# docs/install.md says what is lost without a backup.
set -euo pipefail
namespace=${NAMESPACE:-deviceshare-system}
kubectl=${KUBECTL:-kubectl}
usage="usage: $0 save|restore DIR"
action=${1:?$usage}
directory=${2:?$usage}

# Fields that belong to the stored object, not to a new one.
stored='/^    (uid|resourceVersion|creationTimestamp|generation): /d'

save() {
  local file=$1
  shift
  "$kubectl" get "$@" --ignore-not-found -o yaml | sed -E "$stored" > "$directory/$file.new"
  mv "$directory/$file.new" "$directory/$file"
}

case $action in
save)
  umask 077
  mkdir -p "$directory"
  save secrets.yaml --namespace "$namespace" secrets --selector app.kubernetes.io/part-of=deviceshare
  save queues.yaml queues.scheduling.volcano.sh
  # Inventory reads them in several namespaces.
  for name in volcano-scheduler-configmap volcano-vgpu-device-config; do
    save "$name.yaml" --all-namespaces configmaps --field-selector "metadata.name=$name"
  done
  ;;
restore)
  files="secrets queues volcano-scheduler-configmap volcano-vgpu-device-config"
  for file in $files; do
    if ! test -f "$directory/$file.yaml"; then
      echo "$directory/$file.yaml does not exist: $directory is no complete backup" >&2
      exit 1
    fi
  done
  for file in $files; do
    # A list without items is not accepted.
    if grep -q '^- ' "$directory/$file.yaml"; then
      "$kubectl" apply --server-side --force-conflicts --field-manager deviceshare-backup -f "$directory/$file.yaml"
    fi
  done
  ;;
*)
  echo "$usage" >&2
  exit 2
  ;;
esac
