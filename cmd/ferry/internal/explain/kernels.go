package explain

// gridStride puts the number of the thread into %d3, and the number of threads into %d4.
const gridStride = `	mov.u32 %r1, %ctaid.x;
	mov.u32 %r2, %ntid.x;
	mov.u32 %r3, %tid.x;
	mad.lo.u32 %r4, %r1, %r2, %r3;
	mov.u32 %r5, %nctaid.x;
	mul.lo.u32 %r5, %r5, %r2;
	cvt.u64.u32 %d3, %r4;
	cvt.u64.u32 %d4, %r5;
`

// kernelsPTX has the kernels of the runs. read reads n vectors of 16 bytes, write writes
// them. chase has one thread that reads n words of 4 bytes, each at the index that the
// word before it has.
const kernelsPTX = `
.version 6.3
.target sm_52
.address_size 64

.visible .entry read(.param .u64 x, .param .u64 n, .param .u64 out)
{
	.reg .pred %p<3>;
	.reg .b32 %r<12>;
	.reg .b64 %d<8>;
	ld.param.u64 %d1, [x];
	ld.param.u64 %d2, [n];
` + gridStride + `	mov.u32 %r6, 0;
next:
	setp.ge.u64 %p1, %d3, %d2;
	@%p1 bra done;
	shl.b64 %d5, %d3, 4;
	add.u64 %d5, %d1, %d5;
	ld.global.v4.u32 {%r7, %r8, %r9, %r10}, [%d5];
	xor.b32 %r6, %r6, %r7;
	xor.b32 %r6, %r6, %r8;
	xor.b32 %r6, %r6, %r9;
	xor.b32 %r6, %r6, %r10;
	add.u64 %d3, %d3, %d4;
	bra next;
done:
	setp.ne.u32 %p2, %r6, 0x5eed1234;
	@%p2 bra end;
	ld.param.u64 %d6, [out];
	st.global.u32 [%d6], %r6;
end:
	ret;
}

.visible .entry write(.param .u64 x, .param .u64 n, .param .u32 value)
{
	.reg .pred %p<2>;
	.reg .b32 %r<8>;
	.reg .b64 %d<6>;
	ld.param.u64 %d1, [x];
	ld.param.u64 %d2, [n];
	ld.param.u32 %r6, [value];
` + gridStride + `next:
	setp.ge.u64 %p1, %d3, %d2;
	@%p1 bra end;
	shl.b64 %d5, %d3, 4;
	add.u64 %d5, %d1, %d5;
	st.global.v4.u32 [%d5], {%r6, %r6, %r6, %r6};
	add.u64 %d3, %d3, %d4;
	bra next;
end:
	ret;
}

.visible .entry chase(.param .u64 x, .param .u32 n, .param .u64 out)
{
	.reg .pred %p<3>;
	.reg .b32 %r<5>;
	.reg .b64 %d<5>;
	ld.param.u64 %d1, [x];
	ld.param.u32 %r1, [n];
	mov.u32 %r2, 0;
	setp.eq.u32 %p1, %r1, 0;
	@%p1 bra done;
next:
	mul.wide.u32 %d2, %r2, 4;
	add.u64 %d2, %d1, %d2;
	ld.volatile.global.u32 %r2, [%d2];
	sub.u32 %r1, %r1, 1;
	setp.ne.u32 %p1, %r1, 0;
	@%p1 bra next;
done:
	setp.ne.u32 %p2, %r2, 0x5eed1234;
	@%p2 bra end;
	ld.param.u64 %d3, [out];
	st.global.u32 [%d3], %r2;
end:
	ret;
}
`
