#include "textflag.h"

// func framePointers(pcs *[maxDepth]uintptr) int
//
// The frame at R29 has the caller's R29, and then the return address. The stack of g is from 0(g) to
// 8(g). No goroutine switch and no growth of the stack happens in here.
TEXT ·framePointers(SB), NOSPLIT|NOFRAME, $0-16
	MOVD pcs+0(FP), R0
	MOVD 0(g), R1
	MOVD 8(g), R2
	SUB  $16, R2
	MOVD $0, R3
	MOVD R29, R4

next:
	CMP  R1, R4        // later frames have higher addresses, so a chain has no circle
	BLS  done
	CMP  R2, R4
	BHI  done
	MOVD R4, R1
	MOVD 8(R4), R5
	MOVD R5, (R0)(R3<<3)
	MOVD 0(R4), R4
	ADD  $1, R3
	CMP  $40, R3       // maxDepth
	BLT  next

done:
	MOVD R3, ret+8(FP)
	RET

// func goroutine() uintptr
TEXT ·goroutine(SB), NOSPLIT|NOFRAME, $0-8
	MOVD g, ret+0(FP)
	RET
