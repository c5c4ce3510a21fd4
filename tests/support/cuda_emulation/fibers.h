// Fibers: stacks, and changing from one to another.
#pragma once

#include <sys/mman.h>
#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <vector>

#if !defined(__x86_64__) || defined(EMULATION_UCONTEXT)
#define EMULATION_PORTABLE 1
#include <ucontext.h>
#endif

namespace emulation {

constexpr std::size_t STACK_BYTES = 128 << 10;

// Stacks with a page below that must not be touched; what was given back last is taken first.
class Stacks {
    std::vector<char*> all, unused;

  public:
    char* take() {
        if (unused.empty()) {
            void* made = mmap(nullptr, STACK_BYTES, PROT_READ | PROT_WRITE,
                              MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
            if (made == MAP_FAILED) return nullptr;
            mprotect(made, sysconf(_SC_PAGESIZE), PROT_NONE);
            all.push_back(static_cast<char*>(made));
            unused.push_back(all.back());
        }
        char* stack = unused.back();
        unused.pop_back();
        return stack;
    }
    void give_back(char* stack) { unused.push_back(stack); }
    // Unmap all stacks: a process may have 65,530 mappings, and each compiled source has stacks of its own, two for each.
    void release() {
        for (char* stack : all) munmap(stack, STACK_BYTES);
        all.clear(), unused.clear();
    }
};

// Tops of stacks that lie a multiple of a page apart would share a few lines of the cache.
inline char* stack_top(char* stack, unsigned number) { return stack + STACK_BYTES - number * 320 % 8192; }

#ifdef EMULATION_PORTABLE
struct Context {
    ucontext_t state;
    void begin(char* stack, unsigned number, void (*entry)()) {
        getcontext(&state);
        state.uc_stack.ss_sp = stack;
        state.uc_stack.ss_size = static_cast<std::size_t>(stack_top(stack, number) - stack);
        state.uc_link = nullptr;
        makecontext(&state, entry, 0);
    }
};
inline void change(Context& from, Context& to) { swapcontext(&from.state, &to.state); }
#else
extern "C" __attribute__((visibility("hidden"))) void emulation_change(void** from, void* to);
asm(R"(
    .text
    .p2align 4
    .hidden emulation_change
    .globl emulation_change
    .type emulation_change, @function
emulation_change:
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
    .size emulation_change, .-emulation_change
)");
struct Context {
    void* top;
    void begin(char* stack, unsigned number, void (*entry)()) {
        void** words = reinterpret_cast<void**>(stack_top(stack, number));
        *--words = nullptr;  // where `entry`, which never returns, would look for its caller
        *--words = reinterpret_cast<void*>(entry);
        for (int n = 0; n < 6; n++) *--words = nullptr;
        top = words;
    }
};
inline void change(Context& from, Context& to) { emulation_change(&from.top, to.top); }
#endif

}  // namespace emulation
