package cutest

// gridPTX has two kernels with a barrier of the grid. Each block writes its number + 1 to
// data, and after the barrier writes the next block's word to out. around counts the
// blocks in the word behind data, which must be 0 at first. workspace uses the memory
// that the driver gives a cooperative launch, as cooperative groups do.
const gridPTX = ptxHeader + `
.visible .entry around(.param .u64 data, .param .u64 out)
{` + ptxRegs + ptxNeighbours + `
	mul.wide.u32 %d6, %r2, 4;
	add.u64 %d6, %d1, %d6;
	membar.gl;
	atom.global.add.u32 %r8, [%d6], 1;
wait:
	ld.volatile.global.u32 %r9, [%d6];
	setp.lt.u32 %p2, %r9, %r2;
	@%p2 bra wait;
	membar.gl;` + ptxNeighboursEnd + `
.visible .entry workspace(.param .u64 data, .param .u64 out)
{` + ptxRegs + ptxNeighbours + `
	mov.u32 %r6, %envreg1;
	mov.u32 %r7, %envreg2;
	mov.b64 %d6, {%r7, %r6};
	setp.eq.u32 %p2, %r1, 0;
	sub.s32 %r8, -2147483647, %r2;
	selp.b32 %r8, %r8, 1, %p2;
	membar.gl;
	atom.add.u32 %r9, [%d6+4], %r8;
wait:
	ld.volatile.u32 %r10, [%d6+4];
	xor.b32 %r10, %r10, %r9;
	setp.gt.s32 %p2, %r10, -1;
	@%p2 bra wait;
	membar.gl;` + ptxNeighboursEnd

// ptxNeighbours writes the block's number + 1. Only the first thread goes on to the
// barrier.
const ptxNeighbours = `
	ld.param.u64 %d1, [data];
	ld.param.u64 %d2, [out];
	mov.u32 %r1, %ctaid.x;
	mov.u32 %r2, %nctaid.x;
	mov.u32 %r3, %tid.x;
	add.u32 %r4, %r1, 1;
	rem.u32 %r5, %r4, %r2;
	mul.wide.u32 %d3, %r1, 4;
	add.u64 %d4, %d1, %d3;
	add.u64 %d5, %d2, %d3;
	mul.wide.u32 %d7, %r5, 4;
	add.u64 %d7, %d1, %d7;
	setp.ne.u32 %p1, %r3, 0;
	@%p1 bra arrived;
	st.global.u32 [%d4], %r4;
arrived:
	bar.sync 0;
	@%p1 bra done;`

const ptxNeighboursEnd = `
done:
	bar.sync 0;
	@%p1 bra end;
	ld.volatile.global.u32 %r11, [%d7];
	st.global.u32 [%d5], %r11;
end:
	ret;
}
`

// dependentPTX has two kernels for a programmatic launch. first lets the next kernel
// begin, and then adds 7 to *p. second waits for it, and multiplies *p by 3.
const dependentPTX = `.version 7.8
.target sm_90
.address_size 64
.visible .entry first(.param .u64 p)
{` + ptxRegs + `
	griddepcontrol.launch_dependents;
	griddepcontrol.wait;
	ld.param.u64 %d1, [p];
	mov.u32 %r1, %tid.x;
	setp.ne.u32 %p1, %r1, 0;
	@%p1 bra done;
	ld.volatile.global.u32 %r2, [%d1];
	add.u32 %r2, %r2, 7;
	st.volatile.global.u32 [%d1], %r2;
done:
	ret;
}
.visible .entry second(.param .u64 p)
{` + ptxRegs + `
	griddepcontrol.wait;
	ld.param.u64 %d1, [p];
	mov.u32 %r1, %tid.x;
	setp.ne.u32 %p1, %r1, 0;
	@%p1 bra done;
	ld.volatile.global.u32 %r2, [%d1];
	mul.lo.u32 %r2, %r2, 3;
	st.volatile.global.u32 [%d1], %r2;
done:
	ret;
}
`
