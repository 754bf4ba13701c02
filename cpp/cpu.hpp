// CPU levels: which kernel table a process uses. Decided once; passed as a value, so tests run each level.
#pragma once
#include <string>
#include <string_view>
#include <vector>

#include "kernels/kernels.hpp"

namespace gnomon {

// Names of the levels that this build has and this CPU can run, slowest first; "scalar" is always there.
std::vector<std::string> usable_levels();

// The best usable level, or the one that GNOMON_LEVEL names. Throws InvalidInput for an unknown or unusable
// name.
const Kernels& default_kernels();

// An empty name means default_kernels(). Throws InvalidInput, listing the usable levels.
const Kernels& kernels_named(std::string_view level);

}  // namespace gnomon
