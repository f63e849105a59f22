#!/usr/bin/env bash
# Builds the images of the tests on a real node into the directory given, unless they are there: `deviceshare` and
# `deviceshare-cli` by deploy/Dockerfile, and stand-ins without a registry of images: the Dockerfile's base image from
# Debian's packages, nats from the nats-server in the directory .venv, and pause from busybox. Requires root, buildah,
# mmdebstrap and busybox-static, and reaches Debian's archive and the package index that pip is configured with.
# Takes some five minutes once, some two after a change of the sources.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
top=$(cd "$here/../.." && pwd)
into=$(mkdir -p "${1:?directory}" && cd "$1" && pwd)
cd "$top"

key_of() { find "$@" -type f -not -path '*/__pycache__/*' -not -path '*.egg-info/*' -not -path '*/build/*' -not -name '*.so' -print0 |
  sort -z | xargs -0 sha256sum | sha256sum | cut -d' ' -f1; }
key=$(key_of "$here/images.sh" deploy/Dockerfile deploy/Dockerfile.dockerignore libs services \
  requirements/{uv,service,runtime,dev}.txt LICENSE)
if [ "$(cat "$into/key" 2>/dev/null)" = "$key" ]; then exit 0; fi
# Where the build fails, the tests must not run with those of other sources.
rm -f "$into/key" "$into"/{pause,nats,deviceshare,deviceshare-cli}.tar

version=$(sed -n 's/^appVersion: *"\{0,1\}\([^"]*\)"\{0,1\}$/\1/p' deploy/helm/deviceshare/Chart.yaml)
base=$(sed -n 's/^ARG PYTHON_IMAGE=//p' deploy/Dockerfile)
nats=nats:$(sed -n 's/^    tag: \(.*-alpine.*\)$/\1/p' deploy/helm/deviceshare/values.yaml)

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
builder() { buildah --root "$into/store" --runroot "$work/run" --storage-driver "${STORAGE_DRIVER:-overlay}" "$@"; }
saved() { rm -f "$into/$1.tar"; builder push --quiet "$2" "docker-archive:$into/$1.tar:$2"; }

# The Dockerfile's FROM: Python of Debian, as `python`, with a pip that installs as in the official image.
if [ ! -e "$into/base.tar" ]; then
  echo "fetching the base image's packages (once)"
  mmdebstrap --quiet --variant=minbase --include=python3,python3-dev,python3-venv,python3-pip,ca-certificates \
    --customize-hook='rm -f "$1"/usr/lib/python3*/EXTERNALLY-MANAGED' \
    --customize-hook='ln -s python3 "$1"/usr/bin/python' bookworm "$work/base.tar"
  container=$(builder from scratch)
  builder add --quiet "$container" "$work/base.tar" / > /dev/null
  builder config --env SSL_CERT_FILE=/etc/ssl/certs/ca-certificates.crt "$container"
  builder commit --quiet --rm "$container" "docker.io/library/$base" > /dev/null
  mv "$work/base.tar" "$into/base.tar"
fi

busybox=$(command -v busybox)
container=$(builder from scratch)
builder copy --quiet "$container" "$busybox" /bin/busybox > /dev/null
for program in sh sleep tail wget env cat; do builder run --isolation chroot "$container" /bin/busybox ln -s busybox "/bin/$program"; done
# What Volcano's guides start.
printf '#!/bin/sh\nexec sh "$@"\n' > "$work/bash"
printf '#!/bin/sh\nexec sleep 2147483647\n' > "$work/python"
builder copy --quiet --chmod 755 "$container" "$work/bash" "$work/python" /bin/ > /dev/null
builder config --cmd '["/bin/sleep", "2147483647"]' "$container"
builder commit --quiet "$container" docker.io/local/pause:1 > /dev/null
saved pause docker.io/local/pause:1
builder copy --quiet "$container" .venv/bin/nats-server /usr/local/bin/nats-server > /dev/null
builder config --cmd '' --entrypoint '["/usr/local/bin/nats-server"]' "$container"
builder commit --quiet --rm "$container" "docker.io/library/$nats" > /dev/null
saved nats "docker.io/library/$nats"

# How pip reaches its index on this machine is given to the build and not kept in the image.
settings=()
for file in /etc/ssl/certs/ca-certificates.crt /etc/pip.conf /etc/uv/uv.toml; do
  if [ -e "$file" ]; then settings+=(--volume "$file:$file:ro"); fi
done
for target in service cli; do
  name=deviceshare; if [ "$target" = cli ]; then name=deviceshare-cli; fi
  builder bud --quiet --isolation chroot --pull-never --layers "${settings[@]}" --target "$target" --ignorefile deploy/Dockerfile.dockerignore \
    -f deploy/Dockerfile -t "docker.io/library/$name:$version" . > "$into/$name.log" 2>&1 || { tail -30 "$into/$name.log" >&2; exit 1; }
  saved "$name" "docker.io/library/$name:$version"
done
echo "$key" > "$into/key"
