#include "cpu.hpp"

#include <cstdlib>

#include "error.hpp"

namespace gnomon {
namespace {

#define GNOMON_TABLE(level)                                                                                \
    Kernels {                                                                                              \
        #level, level::bm25_add, level::bm25_select, level::bm25_row, level::bm25_pick, level::bm25_find,  \
            level::bm25_bound, level::bm25_blocks, level::dense_dot, level::dense_l2, level::dense_square, \
            level::dense_screen, level::mmr_step                                                           \
    }

struct Level {
    Kernels kernels;
    bool usable;
};

// The one list of levels, slowest first. Each is a cluster of features (an ABI level), never a single one.
const std::vector<Level>& all_levels() {
    static const std::vector<Level> levels = {
        {GNOMON_TABLE(scalar), true},
#ifdef GNOMON_HAVE_AVX2
        {GNOMON_TABLE(avx2), static_cast<bool>(__builtin_cpu_supports("x86-64-v3"))},
#endif
#ifdef GNOMON_HAVE_AVX512
        {GNOMON_TABLE(avx512), static_cast<bool>(__builtin_cpu_supports("x86-64-v4"))},
#endif
#ifdef GNOMON_HAVE_AVX512VNNI
        {GNOMON_TABLE(avx512vnni),
         __builtin_cpu_supports("x86-64-v4") && __builtin_cpu_supports("avx512vnni")},
#endif
    };
    return levels;
}

#undef GNOMON_TABLE

const Kernels& named(std::string_view name, const char* argument) {
    bool known = false;
    std::string usable;
    for (const Level& level : all_levels()) {
        if (level.kernels.level == name) {
            if (level.usable) return level.kernels;
            known = true;
        }
        if (level.usable) usable += (usable.empty() ? "" : ", ") + std::string(level.kernels.level);
    }
    throw InvalidInput(std::string(argument) + " names the level '" + std::string(name) + "', which " +
                       (known ? "this CPU cannot run" : "this build does not have") +
                       "; usable levels: " + usable);
}

}  // namespace

std::vector<std::string> usable_levels() {
    std::vector<std::string> names;
    for (const Level& level : all_levels())
        if (level.usable) names.emplace_back(level.kernels.level);
    return names;
}

const Kernels& default_kernels() {
    // Read once: a process has one default. An unusable name throws on every call, so it is never ignored.
    static const char* const forced = std::getenv("GNOMON_LEVEL");
    if (forced != nullptr && *forced != '\0') return named(forced, "GNOMON_LEVEL");
    const Kernels* best = nullptr;
    for (const Level& level : all_levels())
        if (level.usable) best = &level.kernels;
    return *best;
}

const Kernels& kernels_named(std::string_view level) {
    return level.empty() ? default_kernels() : named(level, "level");
}

}  // namespace gnomon
