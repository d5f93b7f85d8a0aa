package cutest

// gate(flag, started): sets *started and spins until *flag is not 0
const ptxGate = `
.visible .entry gate(.param .u64 flag, .param .u64 started)
{` + ptxRegs + `
	ld.param.u64 %d1, [flag];
	ld.param.u64 %d2, [started];
	setp.eq.u64 %p1, %d1, 0;
	@%p1 bra done;
	mov.u32 %r1, 1;
	st.volatile.global.u32 [%d2], %r1;
	membar.sys;
spin:
	ld.volatile.global.u32 %r2, [%d1];
	setp.eq.u32 %p1, %r2, 0;
	@%p1 bra spin;
	membar.sys;
done:
	ret;
}
`

// pingpong(ping, pong, n): for i in 1..n waits for *ping == i (or all ones, to give
// up) and sets *pong = i
const ptxPingpong = `
.visible .entry pingpong(.param .u64 ping, .param .u64 pong, .param .u32 n)
{` + ptxRegs + `
	ld.param.u64 %d1, [ping];
	ld.param.u64 %d2, [pong];
	ld.param.u32 %r1, [n];
	mov.u32 %r2, 0;
next:
	setp.ge.u32 %p1, %r2, %r1;
	@%p1 bra done;
	add.u32 %r2, %r2, 1;
spin:
	ld.volatile.global.u32 %r3, [%d1];
	setp.eq.s32 %p1, %r3, -1;
	@%p1 bra done;
	setp.ne.u32 %p1, %r3, %r2;
	@%p1 bra spin;
	membar.sys;
	st.volatile.global.u32 [%d2], %r2;
	membar.sys;
	bra next;
done:
	ret;
}
`

// ticket(counter, slot): *slot = (*counter)++, counting from 0
const ptxTicket = `
.visible .entry ticket(.param .u64 counter, .param .u64 slot)
{` + ptxRegs + `
	ld.param.u64 %d1, [counter];
	ld.param.u64 %d2, [slot];
	setp.eq.u64 %p1, %d1, 0;
	@%p1 bra done;
	atom.global.add.u32 %r1, [%d1], 1;
	st.global.u32 [%d2], %r1;
done:
	ret;
}
`

// count(counter): every thread adds 1 to *counter
const ptxCount = `
.visible .entry count(.param .u64 counter)
{` + ptxRegs + `
	ld.param.u64 %d1, [counter];
	setp.eq.u64 %p1, %d1, 0;
	@%p1 bra done;
	red.global.add.u32 [%d1], 1;
done:
	ret;
}
`

// delay(cycles, out): runs for at least that many clock cycles, then *out = 1 if out is not 0
const ptxDelay = `
.visible .entry delay(.param .u64 cycles, .param .u64 out)
{` + ptxRegs + `
	ld.param.u64 %d1, [cycles];
	ld.param.u64 %d2, [out];
	mov.u64 %d3, %clock64;
spin:
	mov.u64 %d4, %clock64;
	sub.s64 %d4, %d4, %d3;
	setp.lt.u64 %p1, %d4, %d1;
	@%p1 bra spin;
	setp.eq.u64 %p1, %d2, 0;
	@%p1 bra done;
	mov.u32 %r1, 1;
	st.global.u32 [%d2], %r1;
done:
	ret;
}
`

// ids(p): each thread writes its block's and its own index at its linear index
const ptxIDs = `
.visible .entry ids(.param .u64 p)
{` + ptxRegs + `
	ld.param.u64 %d1, [p];
	setp.eq.u64 %p1, %d1, 0;
	@%p1 bra done;
	mov.u32 %r1, %ctaid.x;
	mov.u32 %r2, %ctaid.y;
	mov.u32 %r3, %ctaid.z;
	mov.u32 %r4, %tid.x;
	mov.u32 %r5, %tid.y;
	mov.u32 %r6, %tid.z;
	mov.u32 %r7, %nctaid.x;
	mov.u32 %r8, %nctaid.y;
	mov.u32 %r9, %ntid.x;
	mov.u32 %r10, %ntid.y;
	mov.u32 %r11, %ntid.z;
	mad.lo.u32 %r12, %r3, %r8, %r2;
	mad.lo.u32 %r12, %r12, %r7, %r1;
	mul.lo.u32 %r13, %r9, %r10;
	mul.lo.u32 %r13, %r13, %r11;
	mul.lo.u32 %r12, %r12, %r13;
	mad.lo.u32 %r14, %r6, %r10, %r5;
	mad.lo.u32 %r14, %r14, %r9, %r4;
	add.u32 %r12, %r12, %r14;
	shl.b32 %r2, %r2, 4;
	shl.b32 %r3, %r3, 8;
	shl.b32 %r4, %r4, 12;
	shl.b32 %r5, %r5, 18;
	shl.b32 %r6, %r6, 24;
	or.b32 %r1, %r1, %r2;
	or.b32 %r1, %r1, %r3;
	or.b32 %r1, %r1, %r4;
	or.b32 %r1, %r1, %r5;
	or.b32 %r1, %r1, %r6;
	mul.wide.u32 %d2, %r12, 4;
	add.s64 %d1, %d1, %d2;
	st.global.u32 [%d1], %r1;
done:
	ret;
}
`

// params(a, b, c, d, out): writes d, c, b, a one after the other to out;
// noparams() does nothing.
const ptxParams = `
.visible .entry params(.param .u8 a, .param .u16 b, .param .u32 c, .param .u64 d, .param .u64 out)
{` + ptxRegs + `
	ld.param.u64 %d1, [out];
	setp.eq.u64 %p1, %d1, 0;
	@%p1 bra done;
	ld.param.u64 %d2, [d];
	st.global.u64 [%d1], %d2;
	ld.param.u32 %r1, [c];
	st.global.u32 [%d1+8], %r1;
	ld.param.u16 %h1, [b];
	st.global.u16 [%d1+12], %h1;
	ld.param.u8 %h2, [a];
	st.global.u8 [%d1+14], %h2;
done:
	ret;
}
.visible .entry noparams()
{
	ret;
}
`

// reverse(p): 256 threads reverse the order of p's 256 words through static shared memory
const ptxReverse = `
.visible .entry reverse(.param .u64 p)
{` + ptxRegs + `
	.shared .align 4 .b8 room[1024];
	ld.param.u64 %d1, [p];
	setp.eq.u64 %p1, %d1, 0;
	@%p1 bra done;
	mov.u32 %r1, %tid.x;
	mul.wide.u32 %d2, %r1, 4;
	add.s64 %d2, %d1, %d2;
	ld.global.u32 %r2, [%d2];
	shl.b32 %r3, %r1, 2;
	mov.u32 %r4, room;
	add.u32 %r4, %r4, %r3;
	st.shared.u32 [%r4], %r2;
	bar.sync 0;
	mov.u32 %r5, 1020;
	sub.u32 %r5, %r5, %r3;
	mov.u32 %r4, room;
	add.u32 %r4, %r4, %r5;
	ld.shared.u32 %r2, [%r4];
	st.global.u32 [%d2], %r2;
done:
	ret;
}
`

// dynamic(out, bytes): uses the last word of that many bytes of dynamic shared memory
const ptxDynamic = `
.visible .entry dynamic(.param .u64 out, .param .u32 bytes)
{` + ptxRegs + `
	ld.param.u64 %d1, [out];
	ld.param.u32 %r1, [bytes];
	setp.eq.u64 %p1, %d1, 0;
	@%p1 bra done;
	mov.u32 %r2, window;
	add.u32 %r2, %r2, %r1;
	mov.u32 %r3, %dynamic_smem_size;
	st.shared.u32 [%r2+-4], %r3;
	ld.volatile.shared.u32 %r4, [%r2+-4];
	st.global.u32 [%d1], %r4;
done:
	ret;
}
`

// small(out) allows at most 64 threads per block, exact(out) exactly 32; each writes *out = 1
const ptxBounded = `
.visible .entry small(.param .u64 out)
.maxntid 64, 1, 1
{` + ptxRegs + `
	ld.param.u64 %d1, [out];
	setp.eq.u64 %p1, %d1, 0;
	@%p1 bra done;
	mov.u32 %r1, 1;
	st.global.u32 [%d1], %r1;
done:
	ret;
}
.visible .entry exact(.param .u64 out)
.reqntid 32, 1, 1
{` + ptxRegs + `
	ld.param.u64 %d1, [out];
	setp.eq.u64 %p1, %d1, 0;
	@%p1 bra done;
	mov.u32 %r1, 1;
	st.global.u32 [%d1], %r1;
done:
	ret;
}
`

// locals(out, i): writes 0..63 to 64 words of local memory, then word i to out
const ptxLocals = `
.visible .entry locals(.param .u64 out, .param .u32 i)
{` + ptxRegs + `
	.local .align 4 .b8 depot[256];
	ld.param.u64 %d1, [out];
	ld.param.u32 %r1, [i];
	setp.eq.u64 %p1, %d1, 0;
	@%p1 bra done;
	mov.u64 %d2, depot;
	mov.u32 %r2, 0;
	mov.u64 %d3, %d2;
next:
	st.local.u32 [%d3], %r2;
	add.u32 %r2, %r2, 1;
	add.s64 %d3, %d3, 4;
	setp.lt.u32 %p1, %r2, 64;
	@%p1 bra next;
	mul.wide.u32 %d4, %r1, 4;
	add.s64 %d4, %d2, %d4;
	ld.local.u32 %r3, [%d4];
	st.global.u32 [%d1], %r3;
done:
	ret;
}
`

// globals(out): writes answer, table[2], zeroes[96..99] and constant to out
const ptxReadGlobals = `
.visible .entry globals(.param .u64 out)
{` + ptxRegs + `
	ld.param.u64 %d1, [out];
	setp.eq.u64 %p1, %d1, 0;
	@%p1 bra done;
	ld.global.u32 %r1, [answer];
	st.global.u32 [%d1], %r1;
	ld.global.u32 %r1, [table+8];
	st.global.u32 [%d1+4], %r1;
	ld.global.u32 %r1, [zeroes+96];
	st.global.u32 [%d1+8], %r1;
	ld.const.u32 %r1, [constant];
	st.global.u32 [%d1+12], %r1;
done:
	ret;
}
`

// trapping(go): traps unless go is 0
const ptxTrapping = `
.visible .entry trapping(.param .u32 go)
{` + ptxRegs + `
	ld.param.u32 %r1, [go];
	setp.eq.u32 %p1, %r1, 0;
	@%p1 bra done;
	trap;
done:
	ret;
}
`

// ptxAssert is a module of its own: check(go) fails an assertion unless go is 0.
const ptxAssert = ptxHeader + `
.extern .func __assertfail(.param .b64 a, .param .b64 b, .param .b32 c, .param .b64 d, .param .b64 e);
.global .align 1 .b8 message[7] = {119, 97, 110, 116, 101, 100, 0};
.global .align 1 .b8 file[5] = {99, 46, 99, 117, 0};
.global .align 1 .b8 function[6] = {99, 104, 101, 99, 107, 0};
.visible .entry check(.param .u32 go)
{` + ptxRegs + `
	ld.param.u32 %r1, [go];
	setp.eq.u32 %p1, %r1, 0;
	@%p1 bra done;
	mov.u64 %d1, message;
	cvta.global.u64 %d1, %d1;
	mov.u64 %d2, file;
	cvta.global.u64 %d2, %d2;
	mov.u32 %r2, 7;
	mov.u64 %d3, function;
	cvta.global.u64 %d3, %d3;
	mov.u64 %d4, 1;
	{
	.param .b64 p0;
	st.param.b64 [p0+0], %d1;
	.param .b64 p1;
	st.param.b64 [p1+0], %d2;
	.param .b32 p2;
	st.param.b32 [p2+0], %r2;
	.param .b64 p3;
	st.param.b64 [p3+0], %d3;
	.param .b64 p4;
	st.param.b64 [p4+0], %d4;
	call.uni __assertfail, (p0, p1, p2, p3, p4);
	}
done:
	ret;
}
`

// ptxManaged is a module of its own: bump(v) adds v to the managed global shared_count.
const ptxManaged = ptxHeader + `
.visible .global .attribute(.managed) .align 4 .u32 shared_count = 1000;
.visible .global .attribute(.managed) .align 4 .b8 shared_room[4096];
.visible .entry bump(.param .u32 v)
{` + ptxRegs + `
	ld.param.u32 %r1, [v];
	ld.global.u32 %r2, [shared_count];
	add.u32 %r2, %r2, %r1;
	st.global.u32 [shared_count], %r2;
	st.global.u32 [shared_room+4092], %r2;
	ret;
}
`

// ptxBreakpoint is a module of its own: stopping(go) reaches a breakpoint unless go is 0.
const ptxBreakpoint = ptxHeader + `
.visible .entry stopping(.param .u32 go)
{` + ptxRegs + `
	ld.param.u32 %r1, [go];
	setp.eq.u32 %p1, %r1, 0;
	@%p1 bra done;
	brkpt;
done:
	ret;
}
`
