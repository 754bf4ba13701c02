#include "parallel.hpp"

#include <cstdlib>
#include <string>

#ifdef __linux__
#include <sched.h>
#endif

#include "error.hpp"

namespace gnomon {
namespace {

// Those that this process may run on: in a container or under taskset fewer than the machine has, which is
// what hardware_concurrency() gives.
std::size_t usable_cores() {
#ifdef __linux__
    cpu_set_t allowed;
    if (sched_getaffinity(0, sizeof allowed, &allowed) == 0) {
        const int count = CPU_COUNT(&allowed);
        if (count > 0) return static_cast<std::size_t>(count);
    }
#endif
    const unsigned cores = std::thread::hardware_concurrency();
    return cores == 0 ? 1 : cores;
}

}  // namespace

std::size_t thread_count(std::size_t threads) {
    constexpr std::size_t kMost = 1024;
    if (threads == 0) {
        const char* text = std::getenv("GNOMON_THREADS");
        if (text == nullptr || *text == '\0') return usable_cores();
        char* end = nullptr;
        const unsigned long long value = std::strtoull(text, &end, 10);
        if (*end != '\0' || *text < '0' || *text > '9' || value == 0 || value > kMost)
            throw InvalidInput("GNOMON_THREADS must be a whole number from 1 to 1024, got '" +
                               std::string(text) + "'; unset it to use all cores");
        return static_cast<std::size_t>(value);
    }
    if (threads > kMost) throw InvalidInput("threads must be at most 1024, got " + std::to_string(threads));
    return threads;
}

}  // namespace gnomon
