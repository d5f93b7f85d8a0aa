package cutest

import "strings"

// ptxHeader begins every module of the suite. Its versions suit every driver since
// CUDA 10 and every GPU since Maxwell.
const ptxHeader = ".version 6.3\n.target sm_52\n.address_size 64\n"

// suiteKernels lists the kernels of the suite. Each does nothing when all parameters are
// zero, so that it can be launched once to load its code before a case needs it.
var suiteKernels = []struct {
	name  string
	block uint32
	bytes int // of parameters
}{
	{"store", 1, 16}, {"inc", 1, 16}, {"copy", 1, 20}, {"add3", 1, 36}, {"addf", 1, 16},
	{"gate", 1, 16}, {"pingpong", 1, 20}, {"ticket", 1, 16}, {"count", 1, 8}, {"delay", 1, 16},
	{"ids", 1, 8}, {"params", 1, 24}, {"noparams", 1, 0}, {"reverse", 256, 8}, {"dynamic", 1, 12},
	{"small", 1, 8}, {"exact", 32, 8}, {"locals", 1, 12}, {"globals", 1, 8}, {"trapping", 1, 4},
}

// suitePTX is the module that the suite loads in every context.
var suitePTX = strings.Join([]string{
	ptxHeader,
	ptxGlobals, ptxStore, ptxInc, ptxCopy, ptxAdd3, ptxAddf,
	ptxGate, ptxPingpong, ptxTicket, ptxCount, ptxDelay,
	ptxIDs, ptxParams, ptxReverse, ptxDynamic, ptxBounded, ptxLocals, ptxReadGlobals, ptxTrapping,
}, "\n")

// ptxIndex sets %r1 to the thread's index. If the index is not below n in %r2, it
// branches to done.
const ptxIndex = `
	mov.u32 %r3, %ctaid.x;
	mov.u32 %r4, %ntid.x;
	mov.u32 %r5, %tid.x;
	mad.lo.s32 %r1, %r3, %r4, %r5;
	setp.ge.u32 %p1, %r1, %r2;
	@%p1 bra done;
`

const ptxRegs = `
	.reg .pred %p<4>;
	.reg .b16 %h<4>;
	.reg .b32 %r<24>;
	.reg .f32 %f<4>;
	.reg .b64 %d<16>;
`

const ptxGlobals = `
.visible .global .align 4 .u32 answer = 42;
.visible .global .align 4 .u32 table[4] = {10, 20, 30, 40};
.visible .global .align 8 .b8 zeroes[100];
.visible .const .align 4 .u32 constant = 77;
.extern .shared .align 4 .b8 window[];
`

// store(p, v, n): p[i] = v
const ptxStore = `
.visible .entry store(.param .u64 p, .param .u32 v, .param .u32 n)
{` + ptxRegs + `
	ld.param.u64 %d1, [p];
	ld.param.u32 %r6, [v];
	ld.param.u32 %r2, [n];` + ptxIndex + `
	mul.wide.u32 %d2, %r1, 4;
	add.s64 %d1, %d1, %d2;
	st.global.u32 [%d1], %r6;
done:
	ret;
}
`

// inc(p, v, n): p[i] += v
const ptxInc = `
.visible .entry inc(.param .u64 p, .param .u32 v, .param .u32 n)
{` + ptxRegs + `
	ld.param.u64 %d1, [p];
	ld.param.u32 %r6, [v];
	ld.param.u32 %r2, [n];` + ptxIndex + `
	mul.wide.u32 %d2, %r1, 4;
	add.s64 %d1, %d1, %d2;
	ld.global.u32 %r7, [%d1];
	add.u32 %r7, %r7, %r6;
	st.global.u32 [%d1], %r7;
done:
	ret;
}
`

// copy(dst, src, n): dst[i] = src[i]
const ptxCopy = `
.visible .entry copy(.param .u64 dst, .param .u64 src, .param .u32 n)
{` + ptxRegs + `
	ld.param.u64 %d1, [dst];
	ld.param.u64 %d3, [src];
	ld.param.u32 %r2, [n];` + ptxIndex + `
	mul.wide.u32 %d2, %r1, 4;
	add.s64 %d1, %d1, %d2;
	add.s64 %d3, %d3, %d2;
	ld.global.u32 %r7, [%d3];
	st.global.u32 [%d1], %r7;
done:
	ret;
}
`

// add3(out, a, b, c, n): out[i] = a[i] + b[i] + c[i]
const ptxAdd3 = `
.visible .entry add3(.param .u64 out, .param .u64 a, .param .u64 b, .param .u64 c, .param .u32 n)
{` + ptxRegs + `
	ld.param.u64 %d1, [out];
	ld.param.u64 %d3, [a];
	ld.param.u64 %d4, [b];
	ld.param.u64 %d5, [c];
	ld.param.u32 %r2, [n];` + ptxIndex + `
	mul.wide.u32 %d2, %r1, 4;
	add.s64 %d1, %d1, %d2;
	add.s64 %d3, %d3, %d2;
	add.s64 %d4, %d4, %d2;
	add.s64 %d5, %d5, %d2;
	ld.global.u32 %r7, [%d3];
	ld.global.u32 %r8, [%d4];
	ld.global.u32 %r9, [%d5];
	add.u32 %r7, %r7, %r8;
	add.u32 %r7, %r7, %r9;
	st.global.u32 [%d1], %r7;
done:
	ret;
}
`

// addf(p, v, n): p[i] += v in float
const ptxAddf = `
.visible .entry addf(.param .u64 p, .param .f32 v, .param .u32 n)
{` + ptxRegs + `
	ld.param.u64 %d1, [p];
	ld.param.f32 %f1, [v];
	ld.param.u32 %r2, [n];` + ptxIndex + `
	mul.wide.u32 %d2, %r1, 4;
	add.s64 %d1, %d1, %d2;
	ld.global.f32 %f2, [%d1];
	add.rn.f32 %f2, %f2, %f1;
	st.global.f32 [%d1], %f2;
done:
	ret;
}
`
