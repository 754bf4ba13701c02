// The scheduler of emulator.hpp: fibers, or OS threads.
#include "emulator.hpp"

#ifdef GNOMON_EMULATED_THREADS
#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <deque>
#include <thread>
#elif !defined(__x86_64__)
#include <ucontext.h>
#endif

namespace emulator {

#ifdef GNOMON_EMULATED_THREADS

namespace {

constexpr timespec kPatience = {60, 0};  // then threads wait for one another for ever

template <class Word>
void futex_wait(std::atomic<Word>& word, Word value) {
    errno = 0;
    syscall(SYS_futex, &word, FUTEX_WAIT_PRIVATE, value, &kPatience, nullptr, 0);
    if (errno != ETIMEDOUT) return;
    std::fputs("emulator: deadlock: not every thread reaches a barrier\n", stderr);
    std::_Exit(70);
}
template <class Word>
void futex_wake(std::atomic<Word>& word) {
    syscall(SYS_futex, &word, FUTEX_WAKE_PRIVATE, 1, nullptr, nullptr, 0);
}

Block::Meeting& meeting_of(const Lane& lane, State state) {
    return state == State::warp    ? block.warps[lane.linear / kWarp]
           : state == State::group ? block.groups[lane.linear / kGroup]
                                   : block.whole;
}

// Lets go of those who wait, if all have come. Only the last one to come looks: each of them looking at all
// the others took most of the time.
void resolve(Block::Meeting& meeting, const Lane& last, State state) {
    const unsigned wanted = state == State::warp    ? static_cast<unsigned>(std::popcount(last.mask))
                            : state == State::group ? kGroup
                                                    : meeting.live;
    if (meeting.waiting < wanted || wanted == 0) return;
    const bool released = state == State::warp    ? resolve_warp(last.linear / kWarp)
                          : state == State::group ? resolve_group(last.linear / kGroup)
                                                  : resolve_block();
    if (!released) return;
    meeting.waiting -= wanted;
    const auto all = static_cast<unsigned>(block.lanes.size());
    const unsigned size = state == State::warp ? kWarp : state == State::group ? kGroup : all;
    const unsigned first = last.linear / size * size;
    for (unsigned i = first; i < std::min(first + size, all); ++i)
        if (&block.lanes[i] != &last) futex_wake(block.lanes[i].state.value);
}

// A thread of the system that plays one of each block's. They are made once, which takes longer than most
// blocks do, and told to start by a word of their own: a lock or a counter that all of them meet would put
// their work in an order that it has not on a device. For the same reason each waits for its own state alone.
struct Player {
    std::atomic<unsigned> started{0};
    std::thread thread;
};
const std::function<void()>* body_of_block = nullptr;
std::atomic<unsigned> playing{0};

void play(Player& own, unsigned linear) {
    for (unsigned blocks = 0;; ++blocks) {
        while (own.started.load(std::memory_order_acquire) == blocks)
            syscall(SYS_futex, &own.started, FUTEX_WAIT_PRIVATE, blocks, nullptr, nullptr, 0);
        if (body_of_block == nullptr) return;
        current = &block.lanes[linear];
        (*body_of_block)();
        {
            const std::lock_guard<std::mutex> guard(block.whole.lock);
            current->state = State::done;
            --block.whole.live;
            resolve(block.whole, *current, State::block);
        }
        if (playing.fetch_sub(1, std::memory_order_release) == 1) futex_wake(playing);
    }
}

struct Players {
    std::deque<Player> all;

    void start(unsigned n) {
        while (all.size() < n) {
            Player& made = all.emplace_back();
            made.thread = std::thread(play, std::ref(made), static_cast<unsigned>(all.size() - 1));
        }
        playing.store(n, std::memory_order_relaxed);
        for (unsigned i = 0; i < n; ++i) {
            all[i].started.fetch_add(1, std::memory_order_release);
            futex_wake(all[i].started);
        }
        for (unsigned left; (left = playing.load(std::memory_order_acquire)) != 0;) futex_wait(playing, left);
    }
    ~Players() {
        body_of_block = nullptr;
        for (Player& one : all) {
            one.started.fetch_add(1, std::memory_order_release);
            futex_wake(one.started);
        }
        for (Player& one : all) one.thread.join();
    }
};

}  // namespace

void wait(State state) {
    Lane* const own = current;
    {
        Block::Meeting& meeting = meeting_of(*own, state);
        const std::lock_guard<std::mutex> guard(meeting.lock);
        own->state = state;
        ++meeting.waiting;
        resolve(meeting, *own, state);
    }
    while (own->state.value.load(std::memory_order_acquire) == state) futex_wait(own->state.value, state);
}

void pause() {}

void run_block(const std::function<void()>& body, unsigned threads, std::size_t shared) {
    static Players players;
    block.lanes.assign(threads, Lane{});
    block.shared.assign(shared + 1024, static_cast<char>(0xA5));
    block.warps = std::make_unique<Block::Meeting[]>((threads + kWarp - 1) / kWarp);
    block.groups = std::make_unique<Block::Meeting[]>((threads + kGroup - 1) / kGroup);
    block.whole.waiting = 0;
    block.whole.live = threads;
    for (unsigned i = 0; i < threads; ++i) {
        Lane& lane = block.lanes[i];
        lane.linear = i;
        lane.id = {i % block_size.x, i / block_size.x % block_size.y, i / (block_size.x * block_size.y)};
    }
    body_of_block = &body;
    players.start(threads);
}

#else

namespace {

#ifdef __SANITIZE_ADDRESS__
constexpr std::size_t kStack = 512 * 1024;  // its frames are several times as large
#else
constexpr std::size_t kStack = 64 * 1024;
#endif
const std::function<void()>* body_of_block = nullptr;

char* stack_of(unsigned thread) {
    static char* pool = nullptr;
    if (pool == nullptr) {
        void* const made = mmap(nullptr, kStack * 1024, PROT_READ | PROT_WRITE,
                                MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        if (made == MAP_FAILED) throw Failure("emulator: no memory for stacks");
        pool = static_cast<char*>(made);
    }
    return pool + kStack * thread;
}

#ifdef __x86_64__
void* scheduler = nullptr;
extern "C" void gnomon_emulator_switch(void** save, void* load);
asm(R"(
.text
.type gnomon_emulator_switch,@function
gnomon_emulator_switch:
  pushq %rbp
  pushq %rbx
  pushq %r12
  pushq %r13
  pushq %r14
  pushq %r15
  movq %rsp, (%rdi)
  movq %rsi, %rsp
  popq %r15
  popq %r14
  popq %r13
  popq %r12
  popq %rbx
  popq %rbp
  ret
.size gnomon_emulator_switch,.-gnomon_emulator_switch
)");
void leave(Lane* lane) { gnomon_emulator_switch(&lane->stack_pointer, scheduler); }
void enter(Lane* lane) { gnomon_emulator_switch(&scheduler, lane->stack_pointer); }
#else
ucontext_t scheduler;
std::vector<ucontext_t> contexts(1024);
void leave(Lane* lane) { swapcontext(&contexts[lane->linear], &scheduler); }
void enter(Lane* lane) { swapcontext(&scheduler, &contexts[lane->linear]); }
#endif

// An exception must not leave a fiber: it has no caller.
void fiber() {
    try {
        (*body_of_block)();
    } catch (const std::exception& error) {
        block.failure = error.what();
    }
    current->state = State::done;
    leave(current);
}

void prepare(Lane& lane) {
    char* const stack = stack_of(lane.linear);
#ifdef __x86_64__
    auto** top =
        reinterpret_cast<void**>(reinterpret_cast<std::uintptr_t>(stack + kStack - 64) & ~std::uintptr_t{15});
    *--top = nullptr;  // the stack pointer of a function at its start is 8 off a multiple of 16
    *--top = reinterpret_cast<void*>(&fiber);
    for (int i = 0; i < 6; ++i) *--top = nullptr;
    lane.stack_pointer = top;
#else
    ucontext_t& context = contexts[lane.linear];
    getcontext(&context);
    context.uc_stack.ss_sp = stack;
    context.uc_stack.ss_size = kStack;
    context.uc_link = nullptr;
    makecontext(&context, &fiber, 0);
#endif
}

// Runs a warp's lanes until none of them can go on.
bool run_warp(unsigned warp, std::mt19937& random) {
    unsigned order[kWarp];
    std::iota(order, order + kWarp, 0U);
    if (config.schedule == 1) std::reverse(order, order + kWarp);
    bool progress = false;
    for (;;) {
        if (config.schedule > 1) std::shuffle(order, order + kWarp, random);
        for (const unsigned i : order) {
            const std::size_t thread = std::size_t{warp} * kWarp + i;
            if (thread >= block.lanes.size() || block.lanes[thread].state != State::ready) continue;
            current = &block.lanes[thread];
            enter(current);
            progress = true;
            if (!block.failure.empty()) return progress;
        }
        const bool released = resolve_warp(warp);
        progress = progress || released;
        if (!released) return progress;
        if (config.schedule > 1 && (random() & 3U) == 0) return progress;  // others may overtake
    }
}

}  // namespace

void wait(State state) {
    Lane* const own = current;
    own->state = state;
    leave(own);
}

// In every second schedule: a pause is also a chance for all others to catch up, which hides what they lack.
void pause() {
    if (config.schedule % 2 != 0) leave(current);
}

void run_block(const std::function<void()>& body, unsigned threads, std::size_t shared) {
    block.lanes.assign(threads, Lane{});
    block.shared.assign(shared + 1024, static_cast<char>(0xA5));
    block.failure.clear();
    body_of_block = &body;
    for (unsigned i = 0; i < threads; ++i) {
        Lane& lane = block.lanes[i];
        lane.linear = i;
        lane.id = {i % block_size.x, i / block_size.x % block_size.y, i / (block_size.x * block_size.y)};
        prepare(lane);
    }
    std::vector<unsigned> warps((threads + kWarp - 1) / kWarp);
    std::iota(warps.begin(), warps.end(), 0U);
    if (config.schedule == 1) std::reverse(warps.begin(), warps.end());
    std::mt19937 random(static_cast<unsigned>(config.schedule) * 7919U + block_id.x + 31U * block_id.y);
    for (;;) {
        if (config.schedule > 1) std::shuffle(warps.begin(), warps.end(), random);
        bool progress = false;
        for (const unsigned warp : warps) {
            progress = run_warp(warp, random) || progress;
            if (!block.failure.empty()) break;
            // At once: what the other warps have not done yet is missing to the group's products.
            if (warp / 4 < threads / kGroup) progress = resolve_group(warp / 4) || progress;
        }
        if (!block.failure.empty()) throw Failure(block.failure);
        const bool live = std::any_of(block.lanes.begin(), block.lanes.end(),
                                      [](const Lane& lane) { return lane.state != State::done; });
        if (!live) break;
        progress = resolve_block() || progress;
        for (const Lane& lane : block.lanes)
            if (!progress && lane.state != State::done)
                fail("deadlock: not every thread reaches", lane.what, lane.linear);
    }
    current = nullptr;
}

#endif

}  // namespace emulator
