// gnomon._core: the module, what it was built from, and the CPU levels.
#include "bindings.hpp"

#include <pybind11/stl.h>

#include <algorithm>
#include <string>

#include "bindings_arrays.hpp"
#include "cpu.hpp"
#include "parallel.hpp"

namespace py = pybind11;

namespace gnomon {
namespace {

py::dict build_info() {
    py::dict flags;
    const std::string all = GNOMON_KERNEL_FLAGS;  // "scalar=-O3 ...;avx2=...": see CMakeLists.txt
    for (std::size_t at = 0; at < all.size();) {
        const std::size_t equals = all.find('=', at);
        const std::size_t end = std::min(all.find(';', at), all.size());
        flags[py::str(all.substr(at, equals - at))] = all.substr(equals + 1, end - equals - 1);
        at = end + 1;
    }
    py::dict info;
    info["version"] = GNOMON_VERSION;
    info["compiler"] = GNOMON_COMPILER;
    info["kernel_flags"] = flags;
    return info;
}

}  // namespace
}  // namespace gnomon

PYBIND11_MODULE(_core, module) {
    module.doc() = "Compiled core of gnomon; its contracts are in cpp/*.hpp.";
    gnomon::register_errors(module);
    module.def("build_info", &gnomon::build_info, "Version, compiler, and the flags of each kernel level.");
    module.def(
        "levels", &gnomon::usable_levels,
        "Kernel levels usable on this CPU, slowest first; the last is the default unless GNOMON_LEVEL\n"
        "names another. Every level gives the same bits.\n\n"
        ">>> gnomon.levels()[0]\n'scalar'");
    module.def(
        "level", [] { return std::string(gnomon::default_kernels().level); },
        "The level in use: GNOMON_LEVEL, or else the best usable one.");
    module.def("thread_count", &gnomon::thread_count, py::arg("threads") = 0,
               "Threads that a call with this argument uses; 0 stands for GNOMON_THREADS or all cores.");
    gnomon::register_arrays(module);
    gnomon::register_storage(module);
    gnomon::register_analyze(module);
    gnomon::register_bm25(module);
    gnomon::register_bm25_snapshot(module);
    gnomon::register_bm25_arrays(module);
    gnomon::register_impacts(module);
    gnomon::register_query(module);
    gnomon::register_bm25_search(module);
    gnomon::register_bm25_device(module);
    gnomon::register_filter(module);
    gnomon::register_dense(module);
    gnomon::register_dense64(module);
    gnomon::register_trigram(module);
    gnomon::register_lines(module);
    gnomon::register_corpus(module);
    gnomon::register_markdown(module);
    gnomon::register_chunks(module);
    gnomon::register_names(module);
    gnomon::register_facts(module);
}
