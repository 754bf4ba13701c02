#!/usr/bin/env bash
# Searches, edits and ground truth under ThreadSanitizer: `bash tests/tsan.sh [PYTEST ARGUMENT...]`.
# Builds into build/tsan and leaves it there; some minutes. Any race that is seen ends the run. PYTHON names
# an interpreter with gnomon's extra `test`, PIP the command that installs for it.
set -euo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
cd "$root"
python=${PYTHON:-python3}
read -ra pip <<<"${PIP:-$python -m pip}"

"${pip[@]}" install -q --no-deps --upgrade --target build/tsan/site . \
    --config-settings=build-dir=build/tsan/build --config-settings=install.strip=false \
    --config-settings=cmake.build-type=RelWithDebInfo \
    --config-settings=cmake.define.CMAKE_CXX_FLAGS_RELWITHDEBINFO="-O1 -g1" \
    --config-settings=cmake.define.GNOMON_SANITIZE=thread --config-settings=cmake.define.GNOMON_CUDA=OFF

# The interpreter is not instrumented, so the runtime comes first; it cannot place its shadow where the
# kernel scatters mappings. Only accesses of instrumented code count, and every lock, theirs or not.
# A fork after threads is what some tests are about.
watched() {
    env PYTHONPATH="$root/build/tsan/site" LD_PRELOAD="$(g++ -print-file-name=libtsan.so) $(g++ -print-file-name=libstdc++.so)" \
        TSAN_OPTIONS="halt_on_error=1 exitcode=66 ignore_noninstrumented_modules=1 die_after_fork=0 history_size=4" \
        OPENBLAS_NUM_THREADS=1 GNOMON_THREADS=4 GNOMON_HYPOTHESIS=sanitize setarch -R "$python" "$@"
}

# A race that is there must be seen, or silence says nothing.
cat >build/tsan/control.cpp <<'CPP'
#include <thread>
int counter = 0;
extern "C" void race() {
    auto count = [] { for (int i = 0; i < 1000; ++i) ++counter; };
    std::thread other(count);
    count();
    other.join();
}
CPP
g++ -std=c++20 -O1 -g -fsanitize=thread -fPIC -shared -o build/tsan/control.so build/tsan/control.cpp
status=0
watched -c 'import ctypes; ctypes.CDLL("build/tsan/control.so").race()' 2>build/tsan/control.log || status=$?
if [ "$status" -ne 66 ] || ! grep -q 'data race' build/tsan/control.log; then
    cat build/tsan/control.log
    echo "tests/tsan.sh: a race that is there was not seen (exit $status)" >&2
    exit 1
fi

if [ $# -eq 0 ]; then set -- tests/test_dense*.py tests/test_mmr*.py tests/test_groundtruth.py; fi
watched -m pytest -q -p no:cacheprovider -k "not killed and not beyond_the_limit" "$@"
