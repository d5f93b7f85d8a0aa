package cutest

import (
	"encoding/binary"

	"github.com/ferrygpu/ferry/cu"
)

const stackDoc = "Driver API: cuCtxSetLimit, CU_LIMIT_STACK_SIZE"

// overflowDepth is a depth of calls of ptxRecursion that the default stack has no room for:
// each frame takes 16 bytes. An H200 allows 63 calls in 1 KiB.
const overflowDepth = 200

// recurse runs the recursion and returns its result and the error of the wait.
func (c *trial) recurse(depth uint32) (uint32, error) {
	out := c.device(4)
	f := c.function(c.module(ptxRecursion), "recursion")
	c.ok(c.d.LaunchKernel(c.ctx, f, dim(1), dim(32), 0, 0, pack(out, depth)), "launch")
	if err := c.waitForFault(0); err != nil {
		return 0, err
	}
	return binary.LittleEndian.Uint32(c.down(out, 4)), nil
}

// recursionSum is the result of ptxRecursion.
func recursionSum(depth uint32) uint32 {
	sum := uint32(1)
	for n := uint32(1); n <= depth; n++ {
		sum = sum*3 + n
	}
	return sum
}

var stackChecks = []check{
	{"fault/stack-overflow", "a recursion that needs more than the default stack ends with an illegal address",
		stackDoc, needIsolation, func(c *trial) {
			limit, err := c.d.CtxGetLimit(c.ctx, cu.LimitStackSize)
			c.ok(err, "get")
			c.check(limit < 16*overflowDepth, "the default stack is %d bytes", limit)
			_, err = c.recurse(overflowDepth)
			c.want(err, "wait", cu.ErrorIllegalAddress)
		}},
	{"context/limit-stack-recursion", "a recursion that the default stack has room for succeeds; a deeper one does when the limit is raised",
		stackDoc, needOwnContext, func(c *trial) {
			for _, depth := range []uint32{20, overflowDepth} {
				if depth == overflowDepth {
					c.ok(c.d.CtxSetLimit(c.ctx, cu.LimitStackSize, 64<<10), "set 64 KiB")
				}
				sum, err := c.recurse(depth)
				c.ok(err, "recursion")
				c.check(sum == recursionSum(depth), "depth %d: got %d, want %d", depth, sum, recursionSum(depth))
			}
		}},
}

// recursion(out, n): sum(0) = 1, sum(n) = 3 sum(n-1) + n
const ptxRecursion = ptxHeader + `
.func (.param .b32 result) sum(.param .b32 n)
{
	.reg .b32 %r<5>;
	.reg .pred %p<2>;
	ld.param.u32 %r1, [n];
	mov.u32 %r3, 1;
	setp.eq.u32 %p1, %r1, 0;
	@%p1 bra done;
	sub.u32 %r2, %r1, 1;
	{
		.param .b32 less;
		st.param.b32 [less], %r2;
		.param .b32 got;
		call.uni (got), sum, (less);
		ld.param.b32 %r3, [got];
	}
	mad.lo.u32 %r3, %r3, 3, %r1;
done:
	st.param.b32 [result], %r3;
	ret;
}

.visible .entry recursion(.param .u64 out, .param .u32 n)
{
	.reg .b32 %r<5>;
	.reg .b64 %d<3>;
	ld.param.u64 %d1, [out];
	ld.param.u32 %r1, [n];
	{
		.param .b32 depth;
		st.param.b32 [depth], %r1;
		.param .b32 got;
		call.uni (got), sum, (depth);
		ld.param.b32 %r2, [got];
	}
	st.global.u32 [%d1], %r2;
	ret;
}
`
