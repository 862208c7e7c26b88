/* What runs before main where branches lead to landing pads only: zig's own start code, for old C libraries, has none. */
        .text
        .globl  _start
        .type   _start, %function
_start:
        bti     jc
        mov     x29, #0
        mov     x30, #0
        mov     x5, x0                          // what the loader wants called at the end
        ldr     x1, [sp]                        // argc
        add     x2, sp, #8                      // argv
        mov     x6, sp                          // the end of the stack
        adrp    x0, main
        add     x0, x0, :lo12:main
        adrp    x3, __libc_csu_init
        add     x3, x3, :lo12:__libc_csu_init
        adrp    x4, __libc_csu_fini
        add     x4, x4, :lo12:__libc_csu_fini
        bl      __libc_start_main
        bl      abort

        /* C libraries before 2.34 have the program call its constructors itself. */
        .globl  __libc_csu_init
        .hidden __libc_csu_init
        .type   __libc_csu_init, %function
__libc_csu_init:
        paciasp
        stp     x29, x30, [sp, #-64]!
        mov     x29, sp
        stp     x19, x20, [sp, #16]
        stp     x21, x22, [sp, #32]
        str     x23, [sp, #48]
        mov     x19, x0
        mov     x20, x1
        mov     x21, x2
        adrp    x22, __init_array_start
        add     x22, x22, :lo12:__init_array_start
        adrp    x23, __init_array_end
        add     x23, x23, :lo12:__init_array_end
1:      cmp     x22, x23
        b.eq    2f
        ldr     x3, [x22], #8
        mov     x0, x19
        mov     x1, x20
        mov     x2, x21
        blr     x3
        b       1b
2:      ldr     x23, [sp, #48]
        ldp     x21, x22, [sp, #32]
        ldp     x19, x20, [sp, #16]
        ldp     x29, x30, [sp], #64
        autiasp
        ret

        .globl  __libc_csu_fini
        .hidden __libc_csu_fini
        .type   __libc_csu_fini, %function
__libc_csu_fini:
        bti     c
        ret

        .hidden main
        .section .note.GNU-stack, "", %progbits
