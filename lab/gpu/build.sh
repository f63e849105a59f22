#!/usr/bin/env bash
# Builds the kit of run.sh into the directory given, which can then be taken to a machine with a GPU and without a network:
# Volcano's vGPU plugin, the HAMi-core that it names as its submodule, kube-apiserver with etcd, and the wheels of the current
# commit for this version of Python. The sources are cloned from GitHub, or from $DEVICESHARE_PLUGIN_SOURCES, a URL or
# directory with OWNER/NAME of each. Requires git, gcc and what `make kube` has built; takes some minutes once.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
root=$(cd "$here/../.." && pwd)
into=$(mkdir -p "${1:?directory}" && cd "$1" && pwd)
python=${2:-$root/.venv/bin/python}
from=${DEVICESHARE_PLUGIN_SOURCES:-https://github.com}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

clone() {
  git clone --quiet --no-checkout "$from/Project-HAMi/$1" "$work/$1"
  git -C "$work/$1" checkout --quiet "$2"
}

key=$(sha256sum < "$here/build.sh")
if [ "$(cat "$into/key" 2>/dev/null)" != "$key" ]; then
  echo "building the vGPU plugin and HAMi-core (once, some minutes)"
  go=$("$root/tests/golang/find.sh" "$into")
  clone volcano-vgpu-device-plugin 4fb76ba16a1744b161e9e2fbfc0b9ec3a546dd9b
  cd "$work/volcano-vgpu-device-plugin"
  "$go" build -trimpath -ldflags "-s -w" -o "$into/vgpu-plugin" ./cmd/vgpu
  cp deployments/static/volcano-vgpu-device-plugin.yml "$into/vgpu-plugin.yaml"
  nvml=$("$go" list -m -f '{{.Dir}}' github.com/NVIDIA/go-nvml)/pkg/nvml

  clone HAMi-core "$(git rev-parse HEAD:libvgpu)"
  cd "$work/HAMi-core"
  # The headers of the version on which the plugin's own image builds the library, whose options these are.
  "$python" -m pip install --quiet --disable-pip-version-check --no-deps --target "$work/cuda" nvidia-cuda-runtime-cu12==12.9.79
  for option in MULTIPROCESS_LIMIT_ENABLE DLSYM_HOOK_ENABLE HOOK_MEMINFO_ENABLE HOOK_NVML_ENABLE; do
    echo "#define $option"
  done > src/static_config.h
  # As in the image, the loader finds the driver's two libraries: empty ones take their place while linking.
  for library in cuda nvidia-ml; do
    gcc -shared -Wl,-soname,lib$library.so.1 -o "$work/lib$library.so" -x c /dev/null
  done
  find src -name '*.c' ! -name shrreg_tool.c -print0 | xargs -0 gcc -shared -fPIC -g -w -D_GNU_SOURCE \
    -Isrc -I"$nvml" -I"$work/cuda/nvidia/cuda_runtime/include" -L"$work" -Wl,--no-as-needed -lcuda -lnvidia-ml \
    -o "$into/libvgpu.so"
  cp "$root"/.cache/kube/{etcd,kube-apiserver} "$into/"
  echo "$key" > "$into/key"
fi

cd "$root"
cp "$here"/{run.sh,card.py,check.py,spin.ptx} "$into/"
commit=$(git rev-parse HEAD)
if [ "$(cat "$into/commit" 2>/dev/null)" != "$commit" ]; then
  echo "building the wheels (once for each commit, two minutes)"
  rm -rf "$into/wheels" "$into/venv" "$into/commit"
  "$python" .ci/build_dist.py "$work/dist"
  "$python" -m pip wheel --quiet --disable-pip-version-check --require-hashes -r requirements/runtime.txt -w "$into/wheels"
  mv "$work"/dist/*.whl "$into/wheels/"
  "$python" -c 'import sys; print("python%d.%d" % sys.version_info[:2])' > "$into/python"
  echo "$commit" > "$into/commit"
fi
