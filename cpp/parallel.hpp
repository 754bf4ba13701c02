// Runs fn(worker, item) for item = 0..n-1 on up to `threads` threads that take items in order from a counter.
// Threads are started per call and joined before it returns: nothing survives to break a fork, nothing spins.
// Which thread takes an item never matters to a result. The first exception is rethrown in the caller.
#pragma once
#include <atomic>
#include <cstddef>
#include <exception>
#include <mutex>
#include <thread>
#include <vector>

namespace gnomon {

// threads=0 means GNOMON_THREADS, or else the number of usable cores. Throws InvalidInput for a bad
// GNOMON_THREADS.
std::size_t thread_count(std::size_t threads);

template <class Fn>
void parallel_for(std::size_t threads, std::size_t n, const Fn& fn) {
    if (threads > n) threads = n;
    if (threads <= 1) {
        for (std::size_t item = 0; item < n; ++item) fn(std::size_t{0}, item);
        return;
    }
    std::atomic<std::size_t> next{0};
    std::atomic<bool> failed{false};
    std::exception_ptr error;
    std::mutex error_lock;
    auto work = [&](std::size_t worker) {
        try {
            for (std::size_t item; !failed && (item = next.fetch_add(1)) < n;) fn(worker, item);
        } catch (...) {
            const std::lock_guard<std::mutex> guard(error_lock);
            if (!error) error = std::current_exception();
            failed = true;
        }
    };
    std::vector<std::thread> pool;
    pool.reserve(threads - 1);
    try {
        for (std::size_t worker = 1; worker < threads; ++worker) pool.emplace_back(work, worker);
    } catch (const std::exception&) {
        // No more threads, or no memory for one: those that run, and this one, do the work. Thrown on, it
        // would destroy joinable threads, which ends the process.
    }
    work(0);
    for (std::thread& thread : pool) thread.join();
    if (error) std::rethrow_exception(error);
}

}  // namespace gnomon
