//go:build !android && !faketime

#include "textflag.h"

GLOBL ·crossingCode(SB), NOPTR|RODATA, $8
DATA ·crossingCode(SB)/8, $crossingCode<>(SB)

// C: void crossingCode(struct crossing *c)
//
// System V AMD64: c comes in DI; a function gets its first six arguments in DI,
// SI, DX, CX, R8, R9 and the rest on the stack, which is aligned to 16 before a
// call. BX, R12 and R13 survive calls, ours included: they are the crossing, the
// step that is next and the number of steps left.
//
// The frame of 48 bytes, from SP: a6 to a10 of a step, one word unused.
TEXT crossingCode<>(SB), NOSPLIT|NOFRAME, $0
	PUSHQ BX
	PUSHQ R12
	PUSHQ R13
	ADJSP $48
	MOVQ  DI, BX

	MOVQ  0(BX), AX   // set
	MOVQ  8(BX), DI   // ctx
	CALL  AX
	TESTL AX, AX
	JNE   done
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
	MOVL AX, 40(BX)   // result
	ADJSP $-48
	POPQ R13
	POPQ R12
	POPQ BX
	RET
