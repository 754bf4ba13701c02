// The devices of this machine, and what searches on one of them share. Plain C++: no CUDA header comes with
// it.
#pragma once
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace gnomon::cuda {

struct DeviceInfo {
    int number;
    std::string name;
    int major, minor;  // compute capability
    std::size_t bytes, free_bytes;
    bool usable;
    std::string why;  // it is not usable
};

struct Devices {
    std::vector<DeviceInfo> found;
    std::string why;      // there is none
    int driver, runtime;  // versions; driver 0: there is none
};

// Never throws for a machine without a GPU or driver.
Devices devices();

// Throws DeviceError saying why, when the device cannot be used.
void require_device(int number);

// Hits of a batch, in host memory, best first: those of query q at [q * k, q * k + counts[q]).
struct Found {
    std::vector<double> scores;
    std::vector<std::uint32_t> rows;
    std::vector<int> counts;
    std::size_t k = 0;
};

// What a search did and held.
struct Did {
    std::uint64_t waves = 0;
    std::uint64_t repeated = 0;  // waves that were done again, as candidates did not fit
    std::uint64_t settled = 0;
    std::uint64_t chunks = 0;  // of rows that were streamed
    std::size_t workspace_bytes = 0;
    std::string format;
};

constexpr std::size_t kWorkspaceBytes = std::size_t{256} << 20;

}  // namespace gnomon::cuda
