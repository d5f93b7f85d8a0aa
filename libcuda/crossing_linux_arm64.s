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

// AAPCS64: a function has its first eight arguments in R0 to R7, and the rest on the
// stack, which is always aligned to 16.

// C: CUresult callCode(struct call *c)
//
// It copies what c points to before it calls anything.
//
// The stack frame has 160 bytes, from RSP: a8 to a10; the return address; the function
// and a0 to a7, saved while a context is made current, one word unused; the extra array
// of a launch, and the size that one of its words points to.
TEXT callCode<>(SB), NOSPLIT|NOFRAME, $0
	SUB  $160, RSP
	MOVD R30, 24(RSP)
	LDP  104(R0), (R8, R9)   // a8, a9
	STP  (R8, R9), 0(RSP)
	MOVD 120(R0), R10        // a10
	LDP  16(R0), (R11, R12)  // params, bytes
	CBZ  R11, plain
	MOVD $1, R13             // CU_LAUNCH_PARAM_BUFFER_POINTER
	STP  (R13, R11), 112(RSP)
	MOVD $2, R13             // CU_LAUNCH_PARAM_BUFFER_SIZE
	ADD  $152, RSP, R14
	STP  (R13, R14), 128(RSP)
	STP  (ZR, R12), 144(RSP) // CU_LAUNCH_PARAM_END, the size
	ADD  $112, RSP, R10

plain:
	MOVD R10, 16(RSP)
	LDP  0(R0), (R11, R12)   // set, ctx
	LDP  32(R0), (R9, R10)   // the function, a0
	LDP  48(R0), (R1, R2)
	LDP  64(R0), (R3, R4)
	LDP  80(R0), (R5, R6)
	MOVD 96(R0), R7          // a7
	MOVD R10, R0
	CBZ  R11, bound
	STP  (R9, R0), 32(RSP)
	STP  (R1, R2), 48(RSP)
	STP  (R3, R4), 64(RSP)
	STP  (R5, R6), 80(RSP)
	MOVD R7, 96(RSP)
	MOVD R12, R0
	BL   (R11)
	CBNZW R0, done
	LDP  32(RSP), (R9, R0)
	LDP  48(RSP), (R1, R2)
	LDP  64(RSP), (R3, R4)
	LDP  80(RSP), (R5, R6)
	MOVD 96(RSP), R7

bound:
	BL   (R9)

done:
	MOVD 24(RSP), R30
	ADD  $160, RSP
	RET

// C: CUresult shortCode(struct shortCall *c)
//
// The function returns to the caller of shortCode.
TEXT shortCode<>(SB), NOSPLIT|NOFRAME, $0
	LDP  0(R0), (R9, R10)    // the function, a0
	LDP  16(R0), (R1, R2)
	MOVD 32(R0), R3          // a3
	MOVD R10, R0
	JMP  (R9)

// C: CUresult crossingCode(struct crossing *c)
//
// R19, R20 and R21 survive calls of C functions, and crossingCode preserves them. They
// hold the crossing, the next step and the number of steps left.
//
// The stack frame has 64 bytes, from RSP: a8 to a10 of a step, the return address, R19
// to R21, one word unused.
TEXT crossingCode<>(SB), NOSPLIT|NOFRAME, $0
	SUB  $64, RSP
	MOVD R30, 24(RSP)
	STP  (R19, R20), 32(RSP)
	MOVD R21, 48(RSP)
	MOVD R0, R19

	MOVD  0(R19), R9    // set
	CBZ   R9, bound
	MOVD  8(R19), R0    // ctx
	BL    (R9)
	CBNZW R0, done

bound:
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
	MOVD 24(RSP), R30
	LDP  32(RSP), (R19, R20)
	MOVD 48(RSP), R21
	ADD  $64, RSP
	RET

// C: CUresult nothingCode(void)
TEXT nothingCode<>(SB), NOSPLIT|NOFRAME, $0
	MOVW ZR, R0
	RET
