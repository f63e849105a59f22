#!/usr/bin/env bash
# Builds the real device plugins of the tests on a real node, and Volcano's scheduler and controllers, into the directory
# given, unless they are there. The plugins are unmodified above the hardware: Volcano's vGPU and GPU plugins run on a
# stand-in for NVML (nvml.c), HAMi's Ascend plugin is built with stand-ins for Huawei's packages (ascend/). The commits are
# cloned from GitHub, or from $DEVICESHARE_PLUGIN_SOURCES, a URL or directory with OWNER/NAME of each below. Requires git and
# gcc; Go as tests/golang/find.sh finds it. Takes some ten minutes of two cores once.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
into=$(mkdir -p "${1:?directory}" && cd "$1" && pwd)
from=${DEVICESHARE_PLUGIN_SOURCES:-https://github.com}
key=$(find "$here/build.sh" "$here/nvml.c" "$here/ascend" -type f -print0 | sort -z | xargs -0 cat | sha256sum | cut -d' ' -f1)
if [ "$(cat "$into/key" 2>/dev/null)" = "$key" ]; then exit 0; fi
rm -f "$into/key"
go=$("$here/../../golang/find.sh" "$into")
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

clone() {
  echo "building $1 (once, some minutes)"
  git clone --quiet --no-checkout "$from/$1" "$work/$3"
  git -C "$work/$3" checkout --quiet "$2"
}

clone Project-HAMi/volcano-vgpu-device-plugin 4fb76ba16a1744b161e9e2fbfc0b9ec3a546dd9b vgpu
cd "$work/vgpu"
"$go" build -trimpath -ldflags "-s -w" -o "$into/vgpu-plugin" ./cmd/vgpu
cp deployments/static/volcano-vgpu-device-plugin.yml "$into/vgpu-plugin.yaml"

mkdir -p "$into/lib"
functions() { grep -oE '\bnvml[A-Z]\w*\(' "$1" | tr -d '(' | sort -u; }
header=$("$go" list -m -f '{{.Dir}}' github.com/NVIDIA/go-nvml)/pkg/nvml/nvml.h
comm -23 <(functions <(sed 's/ *(/(/g' "$header")) <(functions "$here/nvml.c") | sed 's/.*/int &(void) { return 3; }/' > "$work/rest.c"
gcc -O1 -Wall -Werror -fPIC -shared -Wl,-soname,libnvidia-ml.so.1 -o "$into/lib/libnvidia-ml.so.1" "$here/nvml.c" "$work/rest.c"

clone volcano-sh/devices 95b591b6787c7ae97fb340a6d7832ffcc3d29083 gpu
cd "$work/gpu"
# A module that one of its dependencies names and nothing imports is no longer published.
mkdir vbom && echo "module vbom.ml/util" > vbom/go.mod
"$go" mod edit -replace vbom.ml/util=./vbom
CGO_LDFLAGS="-L$into/lib -l:libnvidia-ml.so.1" "$go" build -mod=mod -trimpath -ldflags "-s -w" -o "$into/gpu-plugin" .

clone Project-HAMi/ascend-device-plugin ed35e1c4b003795de84ba942f6965fa269e866b3 ascend
cd "$work/ascend"
mkdir -p mind-cluster/component
cp -r "$here/ascend/"* mind-cluster/component/
"$go" build -mod=mod -trimpath -ldflags "-s -w" -o "$into/ascend-plugin" ./cmd
cp ascend-device-plugin.yaml "$into/ascend-plugin.yaml"
cp ascend-device-configmap.yaml "$into/ascend-devices.yaml"

clone volcano-sh/volcano ed72c7c815a9fd547a787134676f73d42e9d049c volcano
cd "$work/volcano"
CGO_ENABLED=0 "$go" build -trimpath -ldflags "-s -w" -o "$into/volcano-controllers" ./cmd/controller-manager
CGO_ENABLED=0 "$go" build -trimpath -ldflags "-s -w" -o "$into/volcano-scheduler" ./cmd/scheduler
mkdir -p "$into/volcano-crds"
# Its controllers wait for the kinds of all of them.
cp config/crd/*/bases/*.yaml "$into/volcano-crds/"
echo "$key" > "$into/key"
