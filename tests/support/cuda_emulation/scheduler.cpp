// Runs the threads of a grid as fibers of one host thread. A thread runs until it has to wait; what it waits for is
// looked at by the scheduler, without waking it. A mistake stops the launch with a text.
#include "scheduler.h"

#include <csetjmp>
#include <csignal>
#include <cstdarg>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <ctime>
#include <deque>
#include <memory>
#include <new>
#include <vector>

#include <sys/mman.h>
#include <sys/syscall.h>

#include "fibers.h"

#if defined(__x86_64__)
#include <xmmintrin.h>
#endif

namespace emulation {

uint3 thread_index, block_index;
dim3 block_size, grid_size;

namespace {

constexpr unsigned GUARD = 1024, ALIGNMENT = 1024, NO_ACCESS = 1 << 20;  // bytes
constexpr unsigned MOST_IDLE_ROUNDS = 20000, MOST_TICKS = 10000;
constexpr unsigned MOST_ARRIVALS = (1u << 20) - 1, MOST_BYTES = (1u << 20) - 1;
constexpr unsigned long long MARK = 0xba221e5ull << 32;
constexpr unsigned char POISON = 0xff;

enum class Waits : unsigned char { nothing, block, warp, barrier, time, finished };

struct Copy {
    char* target;
    const char* source;                    // of element (0, 0, 0)
    long long dims[3], strides[3], at[3];  // elements, bytes, elements
    unsigned columns, rows, itemsize;
    Place place;
    unsigned bytes() const { return columns * rows * itemsize; }
    void perform() const {
        char* to = target;
        const long long first = at[0] < 0 ? (-at[0] < columns ? -at[0] : columns) : 0;
        long long last = dims[0] - at[0] < columns ? dims[0] - at[0] : columns;
        last = last < first ? first : last;
        for (unsigned row = 0; row < rows; row++, to += columns * itemsize) {
            std::memset(to, 0, columns * itemsize);
            const long long y = at[1] + row;
            if (y < 0 || y >= dims[1] || at[2] < 0 || at[2] >= dims[2]) continue;
            const char* from = source + at[2] * strides[2] + y * strides[1] + (at[0] + first) * strides[0];
            std::memcpy(to + first * itemsize, from, static_cast<std::size_t>(last - first) * itemsize);
        }
    }
};

struct BarrierState {
    const unsigned long long* address;
    unsigned arrivals, missing, creator;
    unsigned long long phase;
    long long expected, copied;  // bytes, in this phase
    bool published;
    Place place;
    std::vector<Copy> under_way;
};

struct Collective {
    unsigned mask, arrived;
    unsigned long long generation;
    const char* what;
    Place place;
    Lanes lanes[2];
};

struct Warp {
    unsigned alive;
    std::deque<Collective> collectives;
};

struct Fiber {
    Context context;
    char* stack;
    unsigned number;
    Waits waits;
    Place place;
    const char* what;
    void* object;
    unsigned long long ticket;
    uint3 index;
};

// Dynamic shared memory of a block between pages without access, which begin less than ALIGNMENT bytes after its end.
struct SharedArea {
    char *first = nullptr, *end = nullptr;

    SharedArea() = default;
    SharedArea(const SharedArea&) = delete;
    ~SharedArea() { release(); }

    // Return its first byte. It is aligned, and filled with POISON, as are GUARD bytes before it and the rest after it.
    char* reserve(std::size_t bytes) {
        static const std::size_t page = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
        const std::size_t aligned = (bytes + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
        const std::size_t size = (aligned + GUARD + page - 1) / page * page;
        if (size != static_cast<std::size_t>(end - first)) {
            release();
            void* all = mmap(nullptr, size + 2 * NO_ACCESS, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
            if (all == MAP_FAILED) throw std::bad_alloc();
            first = static_cast<char*>(all) + NO_ACCESS, end = first + size;
            if (mprotect(first, size, PROT_READ | PROT_WRITE)) throw std::bad_alloc();
        }
        std::memset(first, static_cast<char>(POISON), size);
        return end - aligned;
    }

private:
    void release() {
        if (first) munmap(first - NO_ACCESS, end - first + 2 * NO_ACCESS);
        first = end = nullptr;
    }
};

struct Block {
    uint3 index;
    std::vector<Fiber> fibers;
    std::vector<unsigned> order;
    unsigned alive, arrived, yes;
    unsigned long long generation, passes;
    Votes votes[2];
    Place meeting;
    const char* meeting_what;
    SharedArea area;
    char* shared;
    std::deque<BarrierState> barriers;
    std::vector<Warp> warps;
};

struct Launch {
    const char* name;
    void (*body)(void*);
    void* values;
    Options options;
    unsigned shared_bytes, threads;
    char* error;
    bool failed;
    Block* block;    // of the fiber that runs, or whose turn it is
    Fiber* current;  // null while the scheduler runs
    Context scheduler;
    unsigned ticks;
    unsigned long long random;
};
Launch now;
Stacks stacks;
sigjmp_buf fault;

unsigned draw() {
    now.random ^= now.random << 13, now.random ^= now.random >> 7, now.random ^= now.random << 17;
    return static_cast<unsigned>(now.random >> 16);
}

const char* file_name(Place place) {
    const char* slash = place.file ? std::strrchr(place.file, '/') : nullptr;
    return slash ? slash + 1 : place.file ? place.file : "?";
}

// An index as one number where the other two have only one value.
const char* index_text(uint3 n, dim3 size, char* text, std::size_t length) {
    if (size.y == 1 && size.z == 1) std::snprintf(text, length, "%u", n.x);
    else std::snprintf(text, length, "(%u, %u, %u)", n.x, n.y, n.z);
    return text;
}

void append(const char* format, ...) __attribute__((format(printf, 1, 2)));
void append(const char* format, ...) {
    const std::size_t used = std::strlen(now.error);
    va_list values;
    va_start(values, format);
    std::vsnprintf(now.error + used, ERROR_LENGTH - used, format, values);
    va_end(values);
}

void append_who(const Block* block, const Fiber* fiber) {
    char text[64];
    if (block) append("block %s", index_text(block->index, grid_size, text, sizeof text));
    if (fiber) append(", thread %s", index_text(fiber->index, block_size, text, sizeof text));
}

void report(Place place, const char* format, va_list values) {
    if (now.failed) return;
    now.failed = true;
    append("kernel %s: ", now.name);
    if (now.block) append_who(now.block, now.current), append(": ");
    if (place.file) append("%s:%d: ", file_name(place), place.line);
    const std::size_t used = std::strlen(now.error);
    std::vsnprintf(now.error + used, ERROR_LENGTH - used, format, values);
}

void report(Place place, const char* format, ...) __attribute__((format(printf, 2, 3)));
void report(Place place, const char* format, ...) {
    va_list values;
    va_start(values, format);
    report(place, format, values);
    va_end(values);
}

void leave() {
    now.ticks = 0;
    Fiber* fiber = now.current;
    change(fiber->context, now.scheduler);
}

void hold(Waits waits, const char* what, Place place, void* object = nullptr, unsigned long long ticket = 0) {
    Fiber& fiber = *now.current;
    fiber.waits = waits, fiber.what = what, fiber.place = place, fiber.object = object, fiber.ticket = ticket;
    leave();
}

// ------------------------------------------------------------------------------------------------------- meetings

void complete_meeting(Block& block) {
    block.votes[block.generation & 1] = {block.yes, block.arrived};
    block.arrived = block.yes = 0;
    block.generation++;
}

void complete_collective(Collective& collective) {
    collective.lanes[collective.generation & 1].given = collective.arrived;
    collective.arrived = 0;
    collective.generation++;
}

bool all_here(const Warp& warp, const Collective& collective) {
    return collective.arrived != 0 && (warp.alive & collective.mask & ~collective.arrived) == 0;
}

// ------------------------------------------------------------------------------------------------------- barriers

void settle(BarrierState& barrier) {
    if (barrier.missing != 0) return;
    if (barrier.copied > barrier.expected) {
        report(barrier.place, "the phase of a barrier (at byte %td of shared memory) can never complete: %lld bytes "
               "copied, but %lld expected", reinterpret_cast<const char*>(barrier.address) - now.block->shared,
               barrier.copied, barrier.expected);
        return;
    }
    if (barrier.copied < barrier.expected) return;
    if (!barrier.under_way.empty()) {
        report(barrier.under_way.back().place, "a phase of the barrier completes without this copy of %u bytes: "
               "expected were only %lld bytes", barrier.under_way.back().bytes(), barrier.expected);
        return;
    }
    barrier.phase++;
    barrier.missing = barrier.arrivals;
    barrier.expected = barrier.copied = 0;
}

void finish_copies(BarrierState& barrier) {
    if (barrier.under_way.empty()) return;
    for (const Copy& copy : barrier.under_way) copy.perform(), barrier.copied += copy.bytes();
    barrier.under_way.clear();
    settle(barrier);
}

BarrierState& find_barrier(const unsigned long long& bits, Place place) {
    Block& block = *now.block;
    const unsigned long long number = bits & 0xffffffffull;
    if ((bits & ~0xffffffffull) != MARK || number >= block.barriers.size() || block.barriers[number].address != &bits)
        stop(place, "this is no barrier: it was never created, or something wrote over it");
    return block.barriers[number];
}

// Whether what a fiber waits for has come.
bool ready(Fiber& fiber) {
    switch (fiber.waits) {
        case Waits::nothing: case Waits::time: return true;
        case Waits::finished: return false;
        case Waits::block: return now.block->generation != fiber.ticket;
        case Waits::warp: return static_cast<Collective*>(fiber.object)->generation != fiber.ticket;
        case Waits::barrier: {
            BarrierState& barrier = *static_cast<BarrierState*>(fiber.object);
            if (barrier.phase == fiber.ticket) finish_copies(barrier);
            return barrier.phase != fiber.ticket;
        }
    }
    return false;
}

// ------------------------------------------------------------------------------------------------------ scheduling

void enter_fiber() {
    now.body(now.values);
    Fiber& fiber = *now.current;
    Block& block = *now.block;
    fiber.waits = Waits::finished;
    block.alive--;
    if (block.arrived != 0 && block.arrived == block.alive) complete_meeting(block);
    Warp& warp = block.warps[fiber.number / 32];
    warp.alive &= ~(1u << fiber.number % 32);
    for (Collective& collective : warp.collectives)
        if (all_here(warp, collective)) complete_collective(collective);
    leave();
}

void resume(Fiber& fiber) {
    if (!fiber.stack) {
        fiber.stack = stacks.take();
        if (!fiber.stack) return report({nullptr, 0}, "no memory for another thread's stack");
        fiber.context.begin(fiber.stack, fiber.number, enter_fiber);
    }
    fiber.waits = Waits::nothing;
    thread_index = fiber.index;
    now.current = &fiber;
    change(now.scheduler, fiber.context);
    now.current = nullptr;
    if (fiber.waits == Waits::finished) stacks.give_back(fiber.stack), fiber.stack = nullptr;
}

// One turn for every thread of a block that can go on. False if there was none but those that only look again.
bool pass(Block& block) {
    const unsigned threads = now.threads;
    const bool descending = block.passes++ & 1;
    if (now.options.seed)
        for (unsigned n = threads - 1; n > 0; n--) std::swap(block.order[n], block.order[draw() % (n + 1)]);
    bool progress = false;
    for (unsigned n = 0; n < threads && !now.failed; n++) {
        Fiber& fiber = block.fibers[block.order[descending ? threads - 1 - n : n]];
        if (!ready(fiber) || now.failed) continue;
        const bool slept = fiber.waits == Waits::time;
        const int line = fiber.place.line;
        resume(fiber);
        progress |= !(slept && fiber.waits == Waits::time && fiber.place.line == line);
    }
    return progress;
}

void close(Block& block) {
    for (const BarrierState& barrier : block.barriers) {
        if (!barrier.under_way.empty())
            report(barrier.under_way.back().place, "the block ends while this copy is under way: nobody waited for it");
        if (barrier.expected != barrier.copied)
            report(barrier.place, "the block ends while a barrier expects %lld bytes, of which %lld were copied",
                   barrier.expected, barrier.copied);
    }
    for (const char* c = block.shared - GUARD; c < block.shared; c++)
        if (static_cast<unsigned char>(*c) != POISON)
            return report({nullptr, 0}, "something wrote %td bytes before the dynamic shared memory", block.shared - c);
    for (const char* c = block.shared + now.shared_bytes; c < block.area.end; c++)
        if (static_cast<unsigned char>(*c) != POISON)
            return report({nullptr, 0}, "something wrote beyond the %u bytes of dynamic shared memory, at byte %td",
                          now.shared_bytes, c - block.shared);
}

// Turns until the block waits for others; true if there was progress.
bool run_block(Block& block) {
    now.block = &block;
    block_index = block.index;
    bool progress = false;
    while (block.alive && !now.failed && pass(block)) progress = true;
    if (!block.alive && !now.failed) close(block), progress = true;
    now.block = nullptr;
    return progress;
}

void open(Block& block, unsigned long long number) {
    block.index.x = static_cast<unsigned>(number % grid_size.x);
    block.index.y = static_cast<unsigned>(number / grid_size.x % grid_size.y);
    block.index.z = static_cast<unsigned>(number / grid_size.x / grid_size.y);
    block.fibers.resize(now.threads);
    block.order.resize(now.threads);
    for (unsigned n = 0; n < now.threads; n++) {
        Fiber& fiber = block.fibers[n];
        fiber.stack = nullptr, fiber.number = n, fiber.waits = Waits::nothing, fiber.place = {nullptr, 0};
        fiber.index = {n % block_size.x, n / block_size.x % block_size.y, n / block_size.x / block_size.y};
        block.order[n] = n;
    }
    block.alive = now.threads, block.arrived = block.yes = 0, block.generation = block.passes = 0;
    block.shared = block.area.reserve(now.shared_bytes);
    block.barriers.clear();
    block.warps.resize((now.threads + 31) / 32);
    for (std::size_t n = 0; n < block.warps.size(); n++) {
        const unsigned lanes = now.threads - n * 32 < 32 ? now.threads - n * 32 : 32;
        block.warps[n].alive = lanes == 32 ? 0xffffffffu : (1u << lanes) - 1;
        block.warps[n].collectives.clear();
    }
}

void append_wait(const Block& block, const Fiber& fiber) {
    switch (fiber.waits) {
        case Waits::block:
            append("%s (%u of %u threads are there)", fiber.what, block.arrived, block.alive);
            break;
        case Waits::warp: {
            const Collective& collective = *static_cast<const Collective*>(fiber.object);
            append("%s (lanes 0x%x of mask 0x%x are there)", fiber.what, collective.arrived, collective.mask);
            break;
        }
        case Waits::barrier: {
            const BarrierState& barrier = *static_cast<const BarrierState*>(fiber.object);
            append("phase %llu of the barrier at byte %td of shared memory (%u of %u arrivals missing, %lld bytes "
                   "copied of %lld expected)", barrier.phase,
                   reinterpret_cast<const char*>(barrier.address) - block.shared, barrier.missing, barrier.arrivals,
                   barrier.copied, barrier.expected);
            break;
        }
        default: append("a change of memory (%s)", fiber.what);
    }
    append(" at %s:%d", file_name(fiber.place), fiber.place.line);
}

void report_deadlock(const std::vector<Block*>& running, bool more) {
    now.failed = true;
    append("kernel %s: ", now.name);
    int lines = 0;
    for (const Block* block : running) {
        std::vector<const Fiber*> told;
        for (const Fiber& fiber : block->fibers) {
            if (fiber.waits == Waits::finished) continue;
            bool known = false;
            for (const Fiber* other : told)
                known |= other->waits == fiber.waits && other->place.line == fiber.place.line &&
                         other->object == fiber.object;
            if (known || lines == 12) continue;
            told.push_back(&fiber), lines++;
            append("%sdeadlock: ", lines > 1 ? "\n" : "");
            append_who(block, &fiber);
            append(" waits for ");
            append_wait(*block, fiber);
        }
    }
    if (more) append("\n%zu blocks are running, as many as fit; others have not begun", running.size());
}

void run_all(unsigned long long total) {
    static std::deque<Block> pool;  // blocks are used again: their vectors keep their memory
    const std::size_t most = now.options.blocks_at_once ? now.options.blocks_at_once : 1;
    if (pool.size() < most) pool.resize(most);
    std::vector<Block*> unused, running;
    for (Block& block : pool) unused.push_back(&block);
    unsigned long long next = 0;
    unsigned idle = 0;
    const bool together = now.options.seed & 2;
    const auto begin = [&] {
        open(*unused.back(), now.options.seed & 1 ? total - 1 - next : next);
        running.push_back(unused.back()), unused.pop_back();
        next++, idle = 0;
    };
    while (!now.failed) {
        bool progress = false, sleeping = false;
        while (together && next < total && running.size() < most) begin();
        const std::size_t first = together && !running.empty() ? draw() % running.size() : 0;
        for (std::size_t n = 0; n < running.size() && !now.failed; n++)
            progress |= run_block(*running[(first + n) % running.size()]);
        if (now.failed) return;
        for (std::size_t n = running.size(); n-- > 0;)
            if (!running[n]->alive) unused.push_back(running[n]), running.erase(running.begin() + n);
        if (progress && !running.empty()) {
            idle = 0;
            continue;
        }
        if (next < total && running.size() < most) {
            begin();
            continue;
        }
        if (running.empty()) return;
        for (const Block* block : running)
            for (const Fiber& fiber : block->fibers) sleeping |= fiber.waits == Waits::time;
        if (!sleeping || ++idle > MOST_IDLE_ROUNDS) return report_deadlock(running, next < total);
    }
}

// ------------------------------------------------------------------------------------- what goes wrong in hard ways

void on_fault(int signal, siginfo_t* information, void*) {
    report({nullptr, 0}, "%s at address %p (array beyond its end, null pointer, misaligned vector, or a stack of more "
           "than %zu kB)", signal == SIGFPE ? "integer division by zero" : "access to memory that is not there",
           information->si_addr, STACK_BYTES >> 10);
    siglongjmp(fault, 1);
}

void on_timeout(int, siginfo_t*, void*) {
    if (!now.current) return;  // it comes again
    report({nullptr, 0}, "more than %g s of the processor's time; does this thread wait without __nanosleep?",
           now.options.seconds);
    siglongjmp(fault, 1);
}

struct Guard {
    static constexpr int COUNT = 4;
    const int signals[COUNT] = {SIGSEGV, SIGBUS, SIGFPE, SIGRTMIN + 5};
    struct sigaction before[COUNT];
    stack_t stack_before;
    std::unique_ptr<char[]> stack{new char[65536]};
    timer_t timer;
    bool timed;

    Guard() {
        stack_t own = {};
        own.ss_sp = stack.get(), own.ss_size = 65536;
        sigaltstack(&own, &stack_before);
        for (int n = 0; n < COUNT; n++) {
            struct sigaction action = {};
            action.sa_sigaction = n == COUNT - 1 ? on_timeout : on_fault;
            action.sa_flags = SA_SIGINFO | SA_ONSTACK;
            sigemptyset(&action.sa_mask);
            sigaction(signals[n], &action, &before[n]);
        }
        sigevent event = {};
        event.sigev_notify = SIGEV_THREAD_ID;
        event.sigev_signo = signals[COUNT - 1];
        event._sigev_un._tid = static_cast<pid_t>(syscall(SYS_gettid));
        timed = now.options.seconds > 0 && timer_create(CLOCK_THREAD_CPUTIME_ID, &event, &timer) == 0;
        if (timed) {
            itimerspec limit = {};
            limit.it_value.tv_sec = static_cast<time_t>(now.options.seconds);
            limit.it_value.tv_nsec = static_cast<long>((now.options.seconds - limit.it_value.tv_sec) * 1e9);
            limit.it_interval.tv_nsec = 10000000;
            timer_settime(timer, 0, &limit, nullptr);
        }
    }
    ~Guard() {
        if (timed) timer_delete(timer);
        for (int n = 0; n < COUNT; n++) sigaction(signals[n], &before[n], nullptr);
        sigaltstack(&stack_before, nullptr);
    }
};

}  // namespace

// ------------------------------------------------------------------------------------------------ called by kernels

void stop(Place place, const char* format, ...) {
    va_list values;
    va_start(values, format);
    report(place, format, values);
    va_end(values);
    while (true) leave();
}

void sleep(Place place) { hold(Waits::time, "__nanosleep", place); }

void tick(Place place) {
    if (++now.ticks > MOST_TICKS) hold(Waits::time, "atomic operation", place);
}

unsigned lane() { return now.current->number % 32; }

unsigned active_lanes() { return 1u << lane(); }

void* shared_memory() { return now.block->shared; }

Votes meet_block(const char* what, bool vote, Place place) {
    Block& block = *now.block;
    if (block.arrived != 0 && (block.meeting.line != place.line || std::strcmp(block.meeting_what, what) != 0))
        stop(place, "a thread meets others of its block that wait at %s:%d", file_name(block.meeting),
             block.meeting.line);
    block.meeting = place, block.meeting_what = what;
    const unsigned long long ticket = block.generation;
    block.arrived++, block.yes += vote;
    if (block.arrived == block.alive) complete_meeting(block);
    else hold(Waits::block, what, place, nullptr, ticket);
    return block.votes[ticket & 1];
}

const Lanes& meet_warp(const char* what, unsigned mask, unsigned long long value, Place place) {
    Fiber& fiber = *now.current;
    Warp& warp = now.block->warps[fiber.number / 32];
    const unsigned own = fiber.number % 32;
    if (!(mask >> own & 1)) stop(place, "%s: the thread is not in its own mask 0x%x", what, mask);
    Collective* collective = nullptr;
    for (Collective& known : warp.collectives)
        if (known.mask == mask) collective = &known;
    if (!collective) {
        for (const Collective& other : warp.collectives)
            if (other.arrived && other.mask & mask && other.arrived & mask)
                stop(place, "%s: with mask 0x%x, but others of them wait with mask 0x%x at %s:%d", what, mask,
                     other.mask, file_name(other.place), other.place.line);
        warp.collectives.push_back({mask, 0, 0, what, place, {}});
        collective = &warp.collectives.back();
    }
    if (collective->arrived && std::strcmp(collective->what, what) != 0)
        stop(place, "%s meets other lanes that wait in %s at %s:%d", what, collective->what,
             file_name(collective->place), collective->place.line);
    collective->what = what, collective->place = place;
    const unsigned long long ticket = collective->generation;
    collective->lanes[ticket & 1].value[own] = value;
    collective->arrived |= 1u << own;
    if (all_here(warp, *collective)) complete_collective(*collective);
    else hold(Waits::warp, what, place, collective, ticket);
    return collective->lanes[ticket & 1];
}

void create_barrier(unsigned long long& bits, unsigned arrivals, Place place) {
    Block& block = *now.block;
    const char* at = reinterpret_cast<const char*>(&bits);
    if (now.options.capability < 90)
        stop(place, "barriers that count bytes need compute capability 9.0, this device has %u.%u",
             now.options.capability / 10, now.options.capability % 10);
    if (at < block.shared || at + 8 > block.shared + now.shared_bytes || (at - block.shared) % 8 != 0)
        stop(place, "a barrier must lie in the dynamic shared memory, at a multiple of 8 bytes");
    if (arrivals == 0 || arrivals > MOST_ARRIVALS) stop(place, "a barrier cannot count %u arrivals", arrivals);
    BarrierState* state = nullptr;
    for (BarrierState& known : block.barriers)
        if (known.address == &bits) state = &known;
    if (!state) block.barriers.emplace_back(), state = &block.barriers.back();
    else if (!state->under_way.empty()) stop(place, "a barrier is created again while copies to it are under way");
    const unsigned creator = now.current->number;
    *state = {&bits, arrivals, arrivals, creator, 0, 0, 0, false, place, {}};
    std::size_t number = 0;
    while (&block.barriers[number] != state) number++;
    bits = MARK | number;
}

void publish_barriers() {
    for (BarrierState& barrier : now.block->barriers)
        if (barrier.creator == now.current->number) barrier.published = true;
}

void arrive(unsigned long long& bits, unsigned bytes, Place place) {
    BarrierState& barrier = find_barrier(bits, place);
    if (barrier.missing == 0)
        stop(place, "more than the barrier's %u arrivals in one phase (it still waits for %lld bytes)",
             barrier.arrivals, barrier.expected - barrier.copied);
    if (barrier.expected + bytes > MOST_BYTES) stop(place, "a barrier cannot expect more than %u bytes", MOST_BYTES);
    barrier.place = place;
    barrier.expected += bytes;
    barrier.missing--;
    settle(barrier);
    if (now.failed) leave();
}

void wait(unsigned long long& bits, unsigned parity, Place place) {
    BarrierState& barrier = find_barrier(bits, place);
    if (parity > 1) stop(place, "a parity is 0 or 1, not %u", parity);
    if ((barrier.phase & 1) != parity) return;
    const unsigned long long phase = barrier.phase;
    finish_copies(barrier);
    if (now.failed) leave();
    if (barrier.phase == phase) hold(Waits::barrier, "barrier", place, &barrier, phase);
    if (barrier.phase > phase + 1)
        stop(place, "the barrier ran %llu phases ahead of this thread, which waited for phase %llu: on a device it may "
             "wait for ever", barrier.phase - phase, phase);
}

void copy_box(void* target, const unsigned long long* map, int x, int y, int z, unsigned long long& bits, Place place) {
    Block& block = *now.block;
    BarrierState& barrier = find_barrier(bits, place);
    if (map[15] != 0x7e4504a9ull) stop(place, "copy_box: this is no tensor map");
    Copy copy;
    copy.target = static_cast<char*>(target), copy.place = place;
    copy.source = reinterpret_cast<const char*>(map[0]);
    copy.itemsize = static_cast<unsigned>(map[8]);
    copy.columns = static_cast<unsigned>(map[6]), copy.rows = static_cast<unsigned>(map[7]);
    const int at[3] = {x, y, z};
    for (int n = 0; n < 3; n++) {
        copy.dims[n] = static_cast<long long>(map[1 + n]), copy.at[n] = at[n];
        copy.strides[n] = n == 0 ? copy.itemsize : static_cast<long long>(map[3 + n]);
    }
    if (!barrier.published) stop(place, "copy_box: no publish_barriers after the creation of its barrier");
    if (reinterpret_cast<std::uintptr_t>(target) % 128 != 0)
        stop(place, "copy_box: the target (byte %td of shared memory) is not aligned to 128 bytes",
             copy.target - block.shared);
    if (copy.target < block.shared || copy.target + copy.bytes() > block.shared + now.shared_bytes)
        stop(place, "copy_box: the target (bytes %td to %td) leaves the %u bytes of dynamic shared memory",
             copy.target - block.shared, copy.target - block.shared + copy.bytes(), now.shared_bytes);
    if (static_cast<long long>(x) * copy.itemsize % 16 != 0)
        stop(place, "copy_box: x = %d begins in the middle of 16 bytes", x);
    for (const BarrierState& other : block.barriers) {
        const char* word = reinterpret_cast<const char*>(other.address);
        if (copy.target < word + 8 && word < copy.target + copy.bytes())
            stop(place, "copy_box: the target holds a barrier");
        for (const Copy& earlier : other.under_way)
            if (copy.target < earlier.target + earlier.bytes() && earlier.target < copy.target + copy.bytes())
                stop(place, "copy_box: another copy into this memory is under way (%s:%d)", file_name(earlier.place),
                     earlier.place.line);
    }
    if (now.options.seed && draw() & 1) {
        copy.perform();
        barrier.copied += copy.bytes();
        settle(barrier);
    } else {
        std::memset(copy.target, POISON, copy.bytes());
        barrier.under_way.push_back(copy);
    }
    if (now.failed) leave();
}

int run_grid(const char* name, void (*body)(void*), void* values, const unsigned* grid, const unsigned* block,
             unsigned shared_bytes, const Options& options, char* error) {
    error[0] = 0;
    now = {};
    now.name = name, now.body = body, now.values = values, now.options = options, now.error = error;
    now.shared_bytes = shared_bytes, now.threads = block[0] * block[1] * block[2];
    now.random = 0x9e3779b97f4a7c15ull * (options.seed + 1ull);
    grid_size = dim3(grid[0], grid[1], grid[2]);
    block_size = dim3(block[0], block[1], block[2]);
#if defined(__x86_64__)
    const unsigned control = _mm_getcsr();
    if (options.flush) _mm_setcsr(control | 0x8040);
#endif
    {
        Guard guard;
        if (sigsetjmp(fault, 1) == 0) run_all(static_cast<unsigned long long>(grid[0]) * grid[1] * grid[2]);
    }
#if defined(__x86_64__)
    _mm_setcsr(control);
#endif
    stacks.release();
    return now.failed;
}

}  // namespace emulation
