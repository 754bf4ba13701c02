#include "cpu.hpp"

#include <cstdlib>

#ifdef GNOMON_HAVE_AVX512AMX
#include <cpuid.h>
#include <sys/syscall.h>
#include <unistd.h>
#endif

#if defined(GNOMON_HAVE_NEON) && defined(__linux__)
#include <sys/auxv.h>
#endif

#include "error.hpp"

namespace gnomon {
namespace {

#define GNOMON_TABLE(level)                                                                                  \
    Kernels {                                                                                                \
        #level, level::tile_queries, level::bm25_add, level::bm25_select, level::bm25_row, level::bm25_pick, \
            level::bm25_find, level::bm25_settle, level::bm25_bound, level::bm25_levels, level::bm25_blocks, \
            level::bm25_above, level::dense_dot, level::dense_l2, level::dense_square,                       \
            level::dense_dot_tile, level::dense_l2_tile, level::dense_cosines, level::dense_float,           \
            level::dense_dot_64, level::dense_l2_64, level::dense_screen, level::screen_limits,              \
            level::screen_take, level::screen_untangle, level::screen_tails, level::screen_reach,            \
            level::screen_code, level::screen_greatest, level::screen_quick, level::screen_kth,              \
            level::mmr_step, level::lines_window                                                             \
    }

#ifdef GNOMON_HAVE_AVX512AMX
// AMX with 8-bit integers, by cpuid (GCC 12 has no name for it), and the kernel's leave to use its registers:
// Linux makes room for their 8 KiB in a thread's state only for a process that asked.
bool amx_granted() {
    unsigned a = 0, b = 0, c = 0, d = 0;
    if (__get_cpuid_count(7, 0, &a, &b, &c, &d) == 0) return false;
    constexpr unsigned kTile = 1u << 24, kInt8 = 1u << 25;
    if ((d & kTile) == 0 || (d & kInt8) == 0) return false;
    constexpr long kRequest = 0x1023;  // ARCH_REQ_XCOMP_PERM
    constexpr long kTileData = 18;     // XFEATURE_XTILEDATA
    return syscall(SYS_arch_prctl, kRequest, kTileData) == 0;
}
#endif

#ifdef GNOMON_HAVE_NEON
bool has_dot_product() {
#ifdef __linux__
    return (getauxval(AT_HWCAP) & HWCAP_ASIMDDP) != 0;
#else
    return true;  // every Apple silicon
#endif
}
#endif

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
#ifdef GNOMON_HAVE_AVX512AMX
        {GNOMON_TABLE(avx512amx), __builtin_cpu_supports("x86-64-v4") && amx_granted()},
#endif
#ifdef GNOMON_HAVE_NEON
        {GNOMON_TABLE(neon), has_dot_product()},
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
