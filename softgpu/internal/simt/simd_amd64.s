//go:build !noasm

#include "textflag.h"

// The loops of simd_amd64.go. A lane has 64 bits, so a CPU register holds four lanes.
// A loop handles lanes 0 to 3, and the other 28 only if n is more than 4.

#define ARGS \
	MOVQ d+0(FP), DI \
	MOVQ a+8(FP), SI \
	MOVQ b+16(FP), DX \
	MOVQ c+24(FP), CX \
	MOVQ n+32(FP), BX

#define LANES(FOUR) \
	FOUR(0) \
	CMPQ BX, $4 \
	JLE  done \
	FOUR(32) \
	FOUR(64) \
	FOUR(96) \
	FOUR(128) \
	FOUR(160) \
	FOUR(192) \
	FOUR(224) \
done: \
	VZEROUPPER \
	RET

// LOW sets Y15 to the mask of the low halves of lanes, and Y14 to the NaN of f32 there.
#define LOW \
	VPCMPEQD Y15, Y15, Y15 \
	VPSRLQ   $33, Y15, Y14 \
	VPSRLQ   $32, Y15, Y15

// CANONICAL replaces NaN in the f32 lanes of Y0 by the NaN of the GPU, and clears
// their upper halves.
#define CANONICAL \
	VCMPPS    $3, Y0, Y0, Y1 \
	VBLENDVPS Y1, Y14, Y0, Y0 \
	VPAND     Y15, Y0, Y0

#define BINARY(OP, at) \
	VMOVDQU at(SI), Y0 \
	OP      at(DX), Y0, Y0 \
	VMOVDQU Y0, at(DI)

#define ADD(at) BINARY(VPADDQ, at)
#define SUB(at) BINARY(VPSUBQ, at)
#define AND(at) BINARY(VPAND, at)
#define OR(at) BINARY(VPOR, at)
#define XOR(at) BINARY(VPXOR, at)
#define MULU(at) BINARY(VPMULUDQ, at)
#define MULS(at) BINARY(VPMULDQ, at)
#define SHL(at) BINARY(VPSLLVD, at)
#define SHR(at) BINARY(VPSRLVD, at)
#define SAR(at) BINARY(VPSRAVD, at)
#define MINS(at) BINARY(VPMINSD, at)
#define MAXS(at) BINARY(VPMAXSD, at)
#define MINU(at) BINARY(VPMINUD, at)
#define MAXU(at) BINARY(VPMAXUD, at)

// SWAPPED has b as the first operand: its NaN wins over the NaN of a.
#define SWAPPED(OP, at) \
	VMOVUPD at(DX), Y0 \
	OP      at(SI), Y0, Y0 \
	VMOVUPD Y0, at(DI)

#define ADDF64(at) SWAPPED(VADDPD, at)
#define MULF64(at) SWAPPED(VMULPD, at)

#define MAD(OP, at) \
	VMOVDQU at(SI), Y0 \
	OP      at(DX), Y0, Y0 \
	VPADDQ  at(CX), Y0, Y0 \
	VMOVDQU Y0, at(DI)

#define MADU(at) MAD(VPMULUDQ, at)
#define MADS(at) MAD(VPMULDQ, at)

// SIGN copies the sign of the low half to the upper half.
#define SIGN(at) \
	VMOVDQU  at(SI), Y0 \
	VPSRAD   $31, Y0, Y1 \
	VPSHUFD  $0xa0, Y1, Y1 \
	VPBLENDD $0xaa, Y1, Y0, Y0 \
	VMOVDQU  Y0, at(DI)

#define ZERO(at) \
	VPAND   at(SI), Y15, Y0 \
	VMOVDQU Y0, at(DI)

#define FLOAT(OP, at) \
	VMOVUPS at(SI), Y0 \
	OP      at(DX), Y0, Y0 \
	CANONICAL \
	VMOVUPS Y0, at(DI)

#define ADDF32(at) FLOAT(VADDPS, at)
#define SUBF32(at) FLOAT(VSUBPS, at)
#define MULF32(at) FLOAT(VMULPS, at)

#define FMAF32(at) \
	VMOVUPS     at(SI), Y0 \
	VMOVUPS     at(DX), Y1 \
	VFMADD213PS at(CX), Y1, Y0 \
	CANONICAL \
	VMOVUPS     Y0, at(DI)

// FMAF64 has b as the second operand: its NaN wins over the NaN of a and c. Where c is
// NaN it replaces a, so that it wins over the NaN of a.
#define FMAF64(at) \
	VMOVUPD     at(CX), Y2 \
	VMOVUPD     at(SI), Y0 \
	VCMPPD      $3, Y2, Y2, Y3 \
	VBLENDVPD   Y3, Y2, Y0, Y0 \
	VMOVUPD     at(DX), Y1 \
	VFMADD213PD Y2, Y1, Y0 \
	VMOVUPD     Y0, at(DI)

// EIGHT compares the low halves of eight lanes, packed into one register. The results
// are put in order after the comparison.
#define EIGHT(COMPARE, at, next, shift) \
	VMOVUPS   at(SI), Y0 \
	VSHUFPS   $0x88, next(SI), Y0, Y0 \
	VMOVUPS   at(DX), Y1 \
	VSHUFPS   $0x88, next(DX), Y1, Y1 \
	COMPARE \
	VPERMQ    $0xd8, Y0, Y0 \
	VMOVMSKPS Y0, AX \
	SHLL      $shift, AX \
	ORL       AX, R8

#define COMPARISON(COMPARE) \
	MOVQ a+0(FP), SI \
	MOVQ b+8(FP), DX \
	XORL R8, R8 \
	EIGHT(COMPARE, 0, 32, 0) \
	EIGHT(COMPARE, 64, 96, 8) \
	EIGHT(COMPARE, 128, 160, 16) \
	EIGHT(COMPARE, 192, 224, 24) \
	MOVL R8, ret+16(FP) \
	VZEROUPPER \
	RET

#define EQ VPCMPEQD Y1, Y0, Y0
#define LTS VPCMPGTD Y0, Y1, Y0
#define LTU \
	VPXOR    Y2, Y0, Y0 \
	VPXOR    Y2, Y1, Y1 \
	VPCMPGTD Y0, Y1, Y0
#define EQF VCMPPS $0, Y1, Y0, Y0
#define LTF VCMPPS $0x11, Y1, Y0, Y0
#define LEF VCMPPS $0x12, Y1, Y0, Y0

// PICK sets Y3 to the mask of the next four lanes, from the bits of Y2.
#define PICK \
	VPSLLVQ Y4, Y2, Y3 \
	VPSRLQ  $4, Y2, Y2

#define MASK(at) \
	MOVL         at, AX \
	VMOVQ        AX, X2 \
	VPBROADCASTQ X2, Y2 \
	VMOVDQU      tops<>(SB), Y4

#define KEEP(at) \
	PICK \
	VMOVDQU    at(SI), Y0 \
	VPMASKMOVQ Y0, Y3, at(DI)

#define SELECT(at) \
	PICK \
	VMOVUPD   at(DX), Y0 \
	VMOVUPD   at(SI), Y1 \
	VBLENDVPD Y3, Y1, Y0, Y0 \
	VMOVUPD   Y0, at(DI)

#define UNPACK(at, from) \
	VPMOVZXDQ from(SI), Y0 \
	VMOVDQU   Y0, at(DI)

#define PACK(at, next, to) \
	VMOVUPS at(SI), Y0 \
	VSHUFPS $0x88, next(SI), Y0, Y0 \
	VPERMQ  $0xd8, Y0, Y0 \
	VMOVUPS Y0, to(DI)

DATA tops<>+0(SB)/8, $63
DATA tops<>+8(SB)/8, $62
DATA tops<>+16(SB)/8, $61
DATA tops<>+24(SB)/8, $60
GLOBL tops<>(SB), RODATA|NOPTR, $32

TEXT ·add(SB), NOSPLIT, $0-40
	ARGS
	LANES(ADD)

TEXT ·sub(SB), NOSPLIT, $0-40
	ARGS
	LANES(SUB)

TEXT ·and(SB), NOSPLIT, $0-40
	ARGS
	LANES(AND)

TEXT ·or(SB), NOSPLIT, $0-40
	ARGS
	LANES(OR)

TEXT ·xor(SB), NOSPLIT, $0-40
	ARGS
	LANES(XOR)

TEXT ·mulU32(SB), NOSPLIT, $0-40
	ARGS
	LANES(MULU)

TEXT ·mulS32(SB), NOSPLIT, $0-40
	ARGS
	LANES(MULS)

TEXT ·shl32(SB), NOSPLIT, $0-40
	ARGS
	LANES(SHL)

TEXT ·shrU32(SB), NOSPLIT, $0-40
	ARGS
	LANES(SHR)

TEXT ·shrS32(SB), NOSPLIT, $0-40
	ARGS
	LANES(SAR)

TEXT ·minS32(SB), NOSPLIT, $0-40
	ARGS
	LANES(MINS)

TEXT ·maxS32(SB), NOSPLIT, $0-40
	ARGS
	LANES(MAXS)

TEXT ·minU32(SB), NOSPLIT, $0-40
	ARGS
	LANES(MINU)

TEXT ·maxU32(SB), NOSPLIT, $0-40
	ARGS
	LANES(MAXU)

TEXT ·addF64(SB), NOSPLIT, $0-40
	ARGS
	LANES(ADDF64)

TEXT ·mulF64(SB), NOSPLIT, $0-40
	ARGS
	LANES(MULF64)

TEXT ·madU32(SB), NOSPLIT, $0-40
	ARGS
	LANES(MADU)

TEXT ·madS32(SB), NOSPLIT, $0-40
	ARGS
	LANES(MADS)

TEXT ·signExtend32(SB), NOSPLIT, $0-40
	ARGS
	LANES(SIGN)

TEXT ·zeroExtend32(SB), NOSPLIT, $0-40
	ARGS
	LOW
	LANES(ZERO)

TEXT ·addF32(SB), NOSPLIT, $0-40
	ARGS
	LOW
	LANES(ADDF32)

TEXT ·subF32(SB), NOSPLIT, $0-40
	ARGS
	LOW
	LANES(SUBF32)

TEXT ·mulF32(SB), NOSPLIT, $0-40
	ARGS
	LOW
	LANES(MULF32)

TEXT ·fmaF32(SB), NOSPLIT, $0-40
	ARGS
	LOW
	LANES(FMAF32)

TEXT ·fmaF64(SB), NOSPLIT, $0-40
	ARGS
	LANES(FMAF64)

TEXT ·eq32(SB), NOSPLIT, $0-20
	COMPARISON(EQ)

TEXT ·ltS32(SB), NOSPLIT, $0-20
	COMPARISON(LTS)

TEXT ·ltU32(SB), NOSPLIT, $0-20
	VPCMPEQD Y2, Y2, Y2
	VPSLLD   $31, Y2, Y2
	COMPARISON(LTU)

TEXT ·eqF32(SB), NOSPLIT, $0-20
	COMPARISON(EQF)

TEXT ·ltF32(SB), NOSPLIT, $0-20
	COMPARISON(LTF)

TEXT ·leF32(SB), NOSPLIT, $0-20
	COMPARISON(LEF)

// func keep(d, a *lanes, mask uint32)
TEXT ·keep(SB), NOSPLIT, $0-20
	MOVQ d+0(FP), DI
	MOVQ a+8(FP), SI
	MASK(mask+16(FP))
	MOVQ $32, BX
	LANES(KEEP)

// func choose(d, a, b *lanes, mask uint32)
TEXT ·choose(SB), NOSPLIT, $0-28
	MOVQ d+0(FP), DI
	MOVQ a+8(FP), SI
	MOVQ b+16(FP), DX
	MASK(mask+24(FP))
	MOVQ $32, BX
	LANES(SELECT)

// func loadWordsSIMD(d *lanes, p uintptr)
TEXT ·loadWordsSIMD(SB), NOSPLIT, $0-16
	MOVQ d+0(FP), DI
	MOVQ p+8(FP), SI
	UNPACK(0, 0)
	UNPACK(32, 16)
	UNPACK(64, 32)
	UNPACK(96, 48)
	UNPACK(128, 64)
	UNPACK(160, 80)
	UNPACK(192, 96)
	UNPACK(224, 112)
	VZEROUPPER
	RET

// func storeWordsSIMD(p uintptr, a *lanes)
TEXT ·storeWordsSIMD(SB), NOSPLIT, $0-16
	MOVQ p+0(FP), DI
	MOVQ a+8(FP), SI
	PACK(0, 32, 0)
	PACK(64, 96, 32)
	PACK(128, 160, 64)
	PACK(192, 224, 96)
	VZEROUPPER
	RET

// func cpuHasAVX2() bool
TEXT ·cpuHasAVX2(SB), NOSPLIT, $0-1
	MOVB $0, ret+0(FP)
	XORL AX, AX
	XORL CX, CX
	CPUID
	CMPL AX, $7
	JLT  no
	MOVL $1, AX
	XORL CX, CX
	CPUID
	ANDL $0x18001000, CX // FMA, the system saves the extended state, AVX
	CMPL CX, $0x18001000
	JNE  no
	XORL CX, CX
	XGETBV
	ANDL $6, AX          // it saves the registers of SSE and AVX
	CMPL AX, $6
	JNE  no
	MOVL $7, AX
	XORL CX, CX
	CPUID
	ANDL $0x20, BX       // AVX2
	JEQ  no
	MOVB $1, ret+0(FP)
no:
	RET

#define OFFSETS(at) \
	VPAND   at(SI), Y10, Y0 \
	VPADDQ  Y11, Y0, Y0 \
	VMOVDQU Y0, at(DI) \
	VPOR    Y0, Y8, Y8 \
	VPSUBQ  Y0, Y12, Y1 \
	VPOR    Y1, Y9, Y9

// ANY sets a register to the OR of the four lanes of Y.
#define ANY(Y, X, TO) \
	VEXTRACTI128 $1, Y, X0 \
	VPOR         X0, X, X0 \
	VPSRLDQ      $8, X0, X1 \
	VPOR         X1, X0, X0 \
	VMOVQ        X0, TO

// func offsetsSIMD(d, a *lanes, cut, delta, most uint64) (low, high uint64)
TEXT ·offsetsSIMD(SB), NOSPLIT, $0-56
	MOVQ         d+0(FP), DI
	MOVQ         a+8(FP), SI
	VPBROADCASTQ cut+16(FP), Y10
	VPBROADCASTQ delta+24(FP), Y11
	VPBROADCASTQ most+32(FP), Y12
	VPXOR        Y8, Y8, Y8
	VPXOR        Y9, Y9, Y9
	OFFSETS(0)
	OFFSETS(32)
	OFFSETS(64)
	OFFSETS(96)
	OFFSETS(128)
	OFFSETS(160)
	OFFSETS(192)
	OFFSETS(224)
	ANY(Y8, X8, AX)
	ANY(Y9, X9, BX)
	VZEROUPPER
	MOVQ AX, low+40(FP)
	MOVQ BX, high+48(FP)
	RET

#define SPREAD(at) \
	VMOVDQU Y0, at(DI) \
	VPADDQ  Y2, Y0, Y0

// func spreadSIMD(d *lanes, v, step uint64)
TEXT ·spreadSIMD(SB), NOSPLIT, $0-24
	MOVQ        d+0(FP), DI
	MOVQ        v+8(FP), AX
	MOVQ        step+16(FP), BX
	VMOVQ       AX, X0
	ADDQ        BX, AX
	VPINSRQ     $1, AX, X0, X0
	ADDQ        BX, AX
	VMOVQ       AX, X1
	ADDQ        BX, AX
	VPINSRQ     $1, AX, X1, X1
	VINSERTI128 $1, X1, Y0, Y0
	SHLQ        $2, BX
	VMOVQ       BX, X2
	VPBROADCASTQ X2, Y2
	SPREAD(0)
	SPREAD(32)
	SPREAD(64)
	SPREAD(96)
	SPREAD(128)
	SPREAD(160)
	SPREAD(192)
	SPREAD(224)
	VZEROUPPER
	RET
