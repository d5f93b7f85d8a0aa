//go:build !android && !faketime

#include "textflag.h"

GLOBL ·crossingCode(SB), NOPTR|RODATA, $8
DATA ·crossingCode(SB)/8, $crossingCode<>(SB)

// C: void crossingCode(struct crossing *c)
//
// AAPCS64: c comes in R0; a function gets its first eight arguments in R0 to R7
// and the rest on the stack, which is always aligned to 16. R19, R20 and R21
// survive calls, ours included: they are the crossing, the step that is next and
// the number of steps left.
//
// The frame of 64 bytes, from RSP: a8 to a10 of a step, the return address, R19
// to R21, one word unused.
TEXT crossingCode<>(SB), NOSPLIT|NOFRAME, $0
	SUB  $64, RSP
	MOVD R30, 24(RSP)
	STP  (R19, R20), 32(RSP)
	MOVD R21, 48(RSP)
	MOVD R0, R19

	MOVD  0(R19), R9    // set
	MOVD  8(R19), R0    // ctx
	BL    (R9)
	CBNZW R0, done
	MOVD  16(R19), R20  // steps
	MOVD  24(R19), R21  // n

next:
	MOVD  72(R20), R9
	MOVD  R9, 0(RSP)    // a8
	MOVD  80(R20), R9
	MOVD  R9, 8(RSP)    // a9
	MOVD  88(R20), R9
	MOVD  R9, 16(RSP)   // a10
	LDP   8(R20), (R0, R1)
	LDP   24(R20), (R2, R3)
	LDP   40(R20), (R4, R5)
	LDP   56(R20), (R6, R7)
	MOVD  0(R20), R9
	BL    (R9)
	CBNZW R0, done
	MOVD  32(R19), R9
	ADD   $1, R9
	MOVD  R9, 32(R19)   // done
	ADD   $96, R20
	SUB   $1, R21
	CBNZ  R21, next

done:
	MOVW R0, 40(R19)    // result
	MOVD 24(RSP), R30
	LDP  32(RSP), (R19, R20)
	MOVD 48(RSP), R21
	ADD  $64, RSP
	RET
