// The parts of the self-check: each reports what it checked by `check(name, holds)`.
#pragma once
#include <string>

#include "cpu.hpp"

using Check = void(const std::string& name, bool holds);

void check_dense_screen(const gnomon::Kernels& kernels, Check& check);
