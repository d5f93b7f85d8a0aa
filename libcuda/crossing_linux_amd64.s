//go:build !android && !faketime && !ferrysoft

#include "textflag.h"

GLOBL ·callCode(SB), NOPTR|RODATA, $8
DATA ·callCode(SB)/8, $callCode<>(SB)

GLOBL ·shortCode(SB), NOPTR|RODATA, $8
DATA ·shortCode(SB)/8, $shortCode<>(SB)

GLOBL ·crossingCode(SB), NOPTR|RODATA, $8
DATA ·crossingCode(SB)/8, $crossingCode<>(SB)

GLOBL ·nothingCode(SB), NOPTR|RODATA, $8
DATA ·nothingCode(SB)/8, $nothingCode<>(SB)

// System V AMD64: a function has its first six arguments in DI, SI, DX, CX, R8 and
// R9, and the rest on the stack, which is aligned to 16 before a call.

// C: CUresult callCode(struct call *c)
//
// It copies what c points to before it calls anything.
//
// The stack frame has 152 bytes, from SP: a6 to a10; the function and a0 to a5, saved
// while a context is made current; the extra array of a launch, and the size that one
// of its words points to.
TEXT callCode<>(SB), NOSPLIT|NOFRAME, $0
	ADJSP $152
	MOVQ 88(DI), AX   // a6
	MOVQ AX, 0(SP)
	MOVQ 96(DI), AX
	MOVQ AX, 8(SP)
	MOVQ 104(DI), AX
	MOVQ AX, 16(SP)
	MOVQ 112(DI), AX
	MOVQ AX, 24(SP)
	MOVQ 120(DI), AX  // a10
	MOVQ 16(DI), CX   // params
	TESTQ CX, CX
	JE   plain
	MOVQ $1, 96(SP)   // CU_LAUNCH_PARAM_BUFFER_POINTER
	MOVQ CX, 104(SP)
	MOVQ $2, 112(SP)  // CU_LAUNCH_PARAM_BUFFER_SIZE
	LEAQ 136(SP), AX
	MOVQ AX, 120(SP)
	MOVQ $0, 128(SP)  // CU_LAUNCH_PARAM_END
	MOVQ 24(DI), AX   // bytes
	MOVQ AX, 136(SP)
	LEAQ 96(SP), AX

plain:
	MOVQ AX, 32(SP)
	MOVQ 32(DI), AX   // the function
	MOVQ 48(DI), SI   // a1
	MOVQ 56(DI), DX
	MOVQ 64(DI), CX
	MOVQ 72(DI), R8
	MOVQ 80(DI), R9   // a5
	MOVQ 0(DI), R10   // set
	TESTQ R10, R10
	JE   bound
	MOVQ AX, 40(SP)
	MOVQ SI, 56(SP)
	MOVQ DX, 64(SP)
	MOVQ CX, 72(SP)
	MOVQ R8, 80(SP)
	MOVQ R9, 88(SP)
	MOVQ 40(DI), AX   // a0
	MOVQ AX, 48(SP)
	MOVQ 8(DI), DI    // ctx
	CALL R10
	TESTL AX, AX
	JNE  done
	MOVQ 40(SP), AX
	MOVQ 56(SP), SI
	MOVQ 64(SP), DX
	MOVQ 72(SP), CX
	MOVQ 80(SP), R8
	MOVQ 88(SP), R9
	LEAQ 8(SP), DI    // so that 40(DI) is the saved a0

bound:
	MOVQ 40(DI), DI   // a0
	CALL AX

done:
	ADJSP $-152
	RET

// C: CUresult shortCode(struct shortCall *c)
//
// The function returns to the caller of shortCode.
TEXT shortCode<>(SB), NOSPLIT|NOFRAME, $0
	MOVQ 0(DI), AX    // the function
	MOVQ 16(DI), SI   // a1
	MOVQ 24(DI), DX
	MOVQ 32(DI), CX   // a3
	MOVQ 8(DI), DI    // a0
	JMP  AX

// C: CUresult crossingCode(struct crossing *c)
//
// BX, R12 and R13 survive calls of C functions, and crossingCode preserves them. They
// hold the crossing, the next step and the number of steps left.
//
// The stack frame has 48 bytes, from SP: a6 to a10 of a step, one word unused.
TEXT crossingCode<>(SB), NOSPLIT|NOFRAME, $0
	PUSHQ BX
	PUSHQ R12
	PUSHQ R13
	ADJSP $48
	MOVQ  DI, BX

	MOVQ  0(BX), AX   // set
	TESTQ AX, AX
	JE    bound
	MOVQ  8(BX), DI   // ctx
	CALL  AX
	TESTL AX, AX
	JNE   done

bound:
	MOVQ  16(BX), R12 // steps
	MOVQ  24(BX), R13 // n

next:
	MOVQ 56(R12), AX
	MOVQ AX, 0(SP)    // a6
	MOVQ 64(R12), AX
	MOVQ AX, 8(SP)    // a7
	MOVQ 72(R12), AX
	MOVQ AX, 16(SP)   // a8
	MOVQ 80(R12), AX
	MOVQ AX, 24(SP)   // a9
	MOVQ 88(R12), AX
	MOVQ AX, 32(SP)   // a10
	MOVQ 8(R12), DI   // a0
	MOVQ 16(R12), SI
	MOVQ 24(R12), DX
	MOVQ 32(R12), CX
	MOVQ 40(R12), R8
	MOVQ 48(R12), R9  // a5
	MOVQ 0(R12), AX
	CALL AX
	TESTL AX, AX
	JNE  done
	INCQ 32(BX)       // done
	ADDQ $96, R12
	DECQ R13
	JNE  next

done:
	ADJSP $-48
	POPQ R13
	POPQ R12
	POPQ BX
	RET

// C: CUresult nothingCode(void)
TEXT nothingCode<>(SB), NOSPLIT|NOFRAME, $0
	XORL AX, AX
	RET
