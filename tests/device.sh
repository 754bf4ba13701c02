#!/usr/bin/env bash
# The checks that need a GPU, as one prepared command: `bash tests/device.sh`. Builds for the GPU at hand,
# compares every primitive and every search with the CPU by their bits, runs compute-sanitizer, measures
# ceilings and searches beside torch, cupy, faiss, cuVS and raft as far as they are installed, and ends with a
# short table; JSON goes to $OUT (build/device when it is not set). It stays below 450 s. Where there is no GPU
# its emulated half runs and the table says so. PYTHON names the interpreter; it needs numpy, pybind11,
# scikit-build-core, cmake and ninja, and torch for ceilings and rivals.
set -uo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
cd "$root"
python=${PYTHON:-python3}
out=${OUT:-$root/build/device}
mkdir -p "$out"
log=$out/log.txt
: >"$log"
failed=0

step() {  # step NAME SECONDS COMMAND...: the command's output goes to the log, its outcome to the table
    local name=$1 seconds=$2 start=$SECONDS status=0
    shift 2
    echo "==> $name" >>"$log"
    timeout "$seconds" "$@" >>"$log" 2>&1 || status=$?
    printf '{"step": "%s", "status": %d, "seconds": %d}\n' "$name" "$status" $((SECONDS - start)) >>"$out/steps.jsonl"
    [ "$status" -eq 0 ] || failed=1
    return "$status"
}

rm -f "$out"/*.json "$out"/*.jsonl
gpu=$(nvidia-smi --query-gpu=name --format=csv,noheader 2>/dev/null | head -1)
capability=$(nvidia-smi --query-gpu=compute_cap --format=csv,noheader 2>/dev/null | head -1 | tr -d .)
nvcc=$(command -v nvcc || ls /usr/local/cuda/bin/nvcc 2>/dev/null)

if [ -n "$gpu" ]; then
    arch=$capability
    [ "$arch" = 90 ] && arch=90a  # wgmma is in Hopper's own instruction set
    step build 150 "$python" -m pip install -q --no-build-isolation --no-deps --target "$out/site" . \
        --config-settings=cmake.define.GNOMON_CUDA=ON \
        --config-settings=cmake.define.GNOMON_CUDA_ARCHITECTURES="$arch"
    export PYTHONPATH="$out/site:$root/tests"
    top=$("$nvcc" --dryrun -c "$root/cuda/kernels.cu" -o /dev/null 2>&1 | sed -n 's/^#\$ TOP=//p')
    step "primitives: build" 60 "$nvcc" -std=c++17 -O2 -fmad=false \
        -gencode "arch=compute_$arch,code=sm_$arch" -I"$top/include" \
        "$root/tests/cuda/conformance.cu" -o "$out/conformance" &&
        step primitives 20 bash -c "'$out/conformance' | tee '$out/primitives.jsonl'"
    device=cuda
else
    export PYTHONPATH="$root/tests${PYTHONPATH:+:$PYTHONPATH}"
    device=emulated
fi
step "emulated primitives" 150 "$python" -m pytest -q -p no:cacheprovider \
    tests/test_cuda_build.py -k "primitive"
step "answers" 120 "$python" tests/device_check.py answers "$device" "$out"
if [ -n "$gpu" ]; then
    sanitizer=$(command -v compute-sanitizer || ls /usr/local/cuda/bin/compute-sanitizer 2>/dev/null)
    if [ -n "$sanitizer" ]; then
        for tool in memcheck racecheck; do
            step "compute-sanitizer $tool" 40 "$sanitizer" --tool "$tool" --error-exitcode 9 \
                "$python" tests/device_check.py small "$device" "$out"
        done
    else
        echo '{"step": "compute-sanitizer is not installed", "status": 0, "seconds": 0}' >>"$out/steps.jsonl"
    fi
    left=$((430 - SECONDS))
    [ "$left" -gt 60 ] && DEVICE_SECONDS=$((left - 30)) step timings "$left" "$python" tests/device_check.py timings "$device" "$out"
fi
[ "$failed" -eq 0 ] || tail -n 40 "$log"
"$python" tests/device_check.py table "${gpu:-none}" "$out"
exit "$failed"
