// The driver API for programs that call it. A program has these functions instead of being linked with
// the driver library, which need not be there when it is built. Each jumps to the function of the
// library, which it finds at its first call; so reports name the caller.
#include "runtime.h"

static const char *const names[] = {
#define FERRY_DRIVER(N, NAME) #NAME,
#include "zz_driver.h"
#undef FERRY_DRIVER
};

extern "C" {

__attribute__((visibility("hidden"))) void *ferry_driver_slots[sizeof names / sizeof *names];

// ferry_driver_find fills a slot.
__attribute__((visibility("hidden"), used)) void *ferry_driver_find(size_t n) {
    void *f = ferry::driver(names[n]);
    __atomic_store_n(&ferry_driver_slots[n], f, __ATOMIC_RELEASE);
    return f;
}

} // extern "C"

// ferry_driver_resolve keeps the arguments while ferry_driver_find runs.
#if defined(__x86_64__)
asm(R"(
    .text
    .hidden ferry_driver_slots
    .type ferry_driver_resolve, @function
ferry_driver_resolve:
    pushq %rdi
    pushq %rsi
    pushq %rdx
    pushq %rcx
    pushq %r8
    pushq %r9
    pushq %rax
    subq $24, %rsp
    movups %xmm0, (%rsp)
    movq 80(%rsp), %rdi
    call ferry_driver_find
    movq %rax, %r11
    movups (%rsp), %xmm0
    addq $24, %rsp
    popq %rax
    popq %r9
    popq %r8
    popq %rcx
    popq %rdx
    popq %rsi
    popq %rdi
    addq $8, %rsp
    jmpq *%r11
)");
#define FERRY_DRIVER(N, NAME)                                   \
    asm(".globl " #NAME "\n.type " #NAME ", @function\n" #NAME ":\n" \
        "movq ferry_driver_slots+8*" #N "(%rip), %r11\n"        \
        "testq %r11, %r11\nje 1f\njmpq *%r11\n"                 \
        "1: pushq $" #N "\njmp ferry_driver_resolve\n");
#elif defined(__aarch64__)
asm(R"(
    .text
    .hidden ferry_driver_slots
    .type ferry_driver_resolve, %function
ferry_driver_resolve:
    stp x29, x30, [sp, #-112]!
    stp x0, x1, [sp, #16]
    stp x2, x3, [sp, #32]
    stp x4, x5, [sp, #48]
    stp x6, x7, [sp, #64]
    str x8, [sp, #80]
    str q0, [sp, #96]
    mov x0, x17
    bl ferry_driver_find
    mov x16, x0
    ldp x0, x1, [sp, #16]
    ldp x2, x3, [sp, #32]
    ldp x4, x5, [sp, #48]
    ldp x6, x7, [sp, #64]
    ldr x8, [sp, #80]
    ldr q0, [sp, #96]
    ldp x29, x30, [sp], #112
    br x16
)");
#define FERRY_DRIVER(N, NAME)                                   \
    asm(".globl " #NAME "\n.type " #NAME ", %function\n" #NAME ":\n" \
        "adrp x16, ferry_driver_slots\nadd x16, x16, :lo12:ferry_driver_slots\n" \
        "ldr x16, [x16, #8*" #N "]\ncbz x16, 1f\nbr x16\n"      \
        "1: mov x17, #" #N "\nb ferry_driver_resolve\n");
#else
#error "the runtime library is for amd64 and arm64"
#endif
#include "zz_driver.h"
