//go:build !noasm && !race

#include "textflag.h"

// func nonTemporal(dst, src []byte)
//
// The first and the last 64 bytes are stored in the ordinary way, because the
// destination is seldom aligned. Everything between them is stored past the caches.
TEXT ·nonTemporal(SB), NOSPLIT, $0-48
	MOVQ dst_base+0(FP), DI
	MOVQ dst_len+8(FP), CX
	MOVQ src_base+24(FP), SI
	LEAQ (DI)(CX*1), R9
	LEAQ (SI)(CX*1), R8

	MOVOU (SI), X0
	MOVOU 16(SI), X1
	MOVOU 32(SI), X2
	MOVOU 48(SI), X3
	MOVOU X0, (DI)
	MOVOU X1, 16(DI)
	MOVOU X2, 32(DI)
	MOVOU X3, 48(DI)

	LEAQ 64(DI), AX
	ANDQ $~63, AX
	SUBQ DI, AX
	ADDQ AX, DI
	ADDQ AX, SI
	SUBQ AX, CX

loop:
	CMPQ CX, $64
	JB   last
	MOVOU (SI), X0
	MOVOU 16(SI), X1
	MOVOU 32(SI), X2
	MOVOU 48(SI), X3
	MOVNTO X0, (DI)
	MOVNTO X1, 16(DI)
	MOVNTO X2, 32(DI)
	MOVNTO X3, 48(DI)
	ADDQ $64, SI
	ADDQ $64, DI
	SUBQ $64, CX
	JMP  loop

last:
	MOVOU -64(R8), X0
	MOVOU -48(R8), X1
	MOVOU -32(R8), X2
	MOVOU -16(R8), X3
	MOVOU X0, -64(R9)
	MOVOU X1, -48(R9)
	MOVOU X2, -32(R9)
	MOVOU X3, -16(R9)
	SFENCE
	RET

// func demote(p []byte)
TEXT ·demote(SB), NOSPLIT, $0-24
	MOVQ p_base+0(FP), DI
	MOVQ p_len+8(FP), CX
	ADDQ DI, CX
	ANDQ $~63, DI
	JMP  more

line:
	BYTE $0x0F; BYTE $0x1C; BYTE $0x07 // CLDEMOTE (DI)
	ADDQ $64, DI

more:
	CMPQ DI, CX
	JB   line
	RET

// func features() uint32
TEXT ·features(SB), NOSPLIT, $0-4
	MOVL $0, ret+0(FP)
	MOVL $0, AX
	CPUID
	CMPL AX, $7
	JB   none
	MOVL $7, AX
	MOVL $0, CX
	CPUID
	MOVL CX, ret+0(FP)

none:
	RET
