//go:build race

#include "textflag.h"

// func cas32(p *uint32, old, new uint32) bool
TEXT ·cas32(SB), NOSPLIT, $0-17
	MOVD p+0(FP), R0
	MOVW old+8(FP), R1
	MOVW new+12(FP), R2
again:
	LDAXRW (R0), R3
	CMPW R1, R3
	BNE done
	STLXRW R2, (R0), R3
	CBNZ R3, again
done:
	CSET EQ, R0
	MOVB R0, ret+16(FP)
	RET

// func cas64(p *uint64, old, new uint64) bool
TEXT ·cas64(SB), NOSPLIT, $0-25
	MOVD p+0(FP), R0
	MOVD old+8(FP), R1
	MOVD new+16(FP), R2
again:
	LDAXR (R0), R3
	CMP R1, R3
	BNE done
	STLXR R2, (R0), R3
	CBNZ R3, again
done:
	CSET EQ, R0
	MOVB R0, ret+24(FP)
	RET
