#include "textflag.h"

// func framePointers(pcs *[maxDepth]uintptr) int
//
// The frame at BP has the caller's BP, and then the return address. The stack of g is from 0(g) to
// 8(g). No goroutine switch and no growth of the stack happens in here.
TEXT ·framePointers(SB), NOSPLIT|NOFRAME, $0-16
	MOVQ pcs+0(FP), DI
	MOVQ (TLS), SI
	MOVQ 0(SI), R8
	MOVQ 8(SI), R9
	SUBQ $16, R9
	XORQ CX, CX
	MOVQ BP, BX

next:
	CMPQ BX, R8        // later frames have higher addresses, so a chain has no circle
	JLS  done
	CMPQ BX, R9
	JHI  done
	MOVQ BX, R8
	MOVQ 8(BX), AX
	MOVQ AX, (DI)(CX*8)
	MOVQ 0(BX), BX
	INCQ CX
	CMPQ CX, $40       // maxDepth
	JLT  next

done:
	MOVQ CX, ret+8(FP)
	RET

// func goroutine() uintptr
TEXT ·goroutine(SB), NOSPLIT|NOFRAME, $0-8
	MOVQ (TLS), AX
	MOVQ AX, ret+0(FP)
	RET
