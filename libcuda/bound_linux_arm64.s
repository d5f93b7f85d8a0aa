//go:build !android && !faketime

#include "textflag.h"

GLOBL ·boundCall(SB), NOPTR|RODATA, $8
DATA ·boundCall(SB)/8, $boundCall<>(SB)

// C: uint32_t boundCall(uint32_t (*set)(void *), void *ctx,
//                       uint32_t (*fn)(a0, ..., a10), a0, ..., a10)
//
// AAPCS64: the first eight arguments come in R0 to R7, the rest on the stack,
// which is always aligned to 16. purego lays all 32 arguments out, so that
// reading those that were not given is harmless.
//
// The frame of 96 bytes, from RSP: a8 to a10 for fn, one word unused, then what
// the first call would lose: the return address, fn, a0 to a4.
#define FRAME 96

TEXT boundCall<>(SB), NOSPLIT|NOFRAME, $0
	SUB  $FRAME, RSP
	MOVD R30, 32(RSP)
	MOVD R2, 40(RSP)
	STP  (R3, R4), 48(RSP)
	STP  (R5, R6), 64(RSP)
	MOVD R7, 80(RSP)

	MOVD  R0, R9
	MOVD  R1, R0
	BL    (R9)
	CBNZW R0, done

	MOVD (FRAME+24)(RSP), R9 // a8
	MOVD R9, 0(RSP)
	MOVD (FRAME+32)(RSP), R9 // a9
	MOVD R9, 8(RSP)
	MOVD (FRAME+40)(RSP), R9 // a10
	MOVD R9, 16(RSP)

	LDP  48(RSP), (R0, R1)   // a0, a1
	LDP  64(RSP), (R2, R3)   // a2, a3
	MOVD 80(RSP), R4         // a4
	MOVD FRAME(RSP), R5      // a5
	MOVD (FRAME+8)(RSP), R6  // a6
	MOVD (FRAME+16)(RSP), R7 // a7
	MOVD 40(RSP), R9
	BL   (R9)

done:
	MOVD 32(RSP), R30
	ADD  $FRAME, RSP
	RET
