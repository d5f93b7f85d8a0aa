//go:build !android && !faketime

#include "textflag.h"

GLOBL ·boundCall(SB), NOPTR|RODATA, $8
DATA ·boundCall(SB)/8, $boundCall<>(SB)

// C: uint32_t boundCall(uint32_t (*set)(void *), void *ctx,
//                       uint32_t (*fn)(a0, ..., a10), a0, ..., a10)
//
// System V AMD64: the first six arguments come in DI, SI, DX, CX, R8, R9, the
// rest on the stack above the return address, and the stack is aligned to 16
// before a call. purego lays all 32 arguments out, so that reading those that
// were not given is harmless.
//
// The frame of 88 bytes, from SP: a6 to a10 for fn, one word unused, then what
// the first call would lose: fn, a0, a1, a2.
#define FRAME 88

TEXT boundCall<>(SB), NOSPLIT|NOFRAME, $0
	ADJSP $FRAME
	MOVQ  DX, 48(SP)
	MOVQ  CX, 56(SP)
	MOVQ  R8, 64(SP)
	MOVQ  R9, 72(SP)

	MOVQ  DI, AX
	MOVQ  SI, DI
	CALL  AX
	TESTL AX, AX
	JNE   done

	MOVQ (FRAME+32)(SP), AX // a6
	MOVQ AX, 0(SP)
	MOVQ (FRAME+40)(SP), AX // a7
	MOVQ AX, 8(SP)
	MOVQ (FRAME+48)(SP), AX // a8
	MOVQ AX, 16(SP)
	MOVQ (FRAME+56)(SP), AX // a9
	MOVQ AX, 24(SP)
	MOVQ (FRAME+64)(SP), AX // a10
	MOVQ AX, 32(SP)

	MOVQ 56(SP), DI         // a0
	MOVQ 64(SP), SI         // a1
	MOVQ 72(SP), DX         // a2
	MOVQ (FRAME+8)(SP), CX  // a3
	MOVQ (FRAME+16)(SP), R8 // a4
	MOVQ (FRAME+24)(SP), R9 // a5
	MOVQ 48(SP), AX
	CALL AX

done:
	ADJSP $-FRAME
	RET
