// How tests steer the emulated device; called through ctypes on the built module.
#include <string>

#include "emulator_runtime.hpp"

extern "C" __attribute__((visibility("default"))) void emulator_schedule(int schedule) {
    emulator::config.schedule = schedule;
    emulator::runtime.random.seed(static_cast<unsigned>(schedule));
}
extern "C" __attribute__((visibility("default"))) void emulator_skip(const char* file, unsigned line) {
    emulator::config.skip_file = file;
    emulator::config.skip_line = line;
    emulator::config.skipped = 0;
}
extern "C" __attribute__((visibility("default"))) std::size_t emulator_skipped() {
    return emulator::config.skipped;
}
extern "C" __attribute__((visibility("default"))) void emulator_memory(std::size_t bytes) {
    emulator::config.memory = bytes;
    emulator::config.used_most = emulator::config.used;
}
extern "C" __attribute__((visibility("default"))) void emulator_refuse(std::size_t call) {
    emulator::config.refuse = call;
}
extern "C" __attribute__((visibility("default"))) std::size_t emulator_to_refuse() {
    return emulator::config.refuse;
}
extern "C" __attribute__((visibility("default"))) std::size_t emulator_held() {
    return emulator::config.held;
}
extern "C" __attribute__((visibility("default"))) std::size_t emulator_used() {
    return emulator::config.used;
}
extern "C" __attribute__((visibility("default"))) std::size_t emulator_used_most() {
    return emulator::config.used_most;
}
