package simt

import (
	"math/bits"

	"github.com/ferrygpu/ferry/softgpu/internal/kernelrace"
)

// mostParts is how many strips the lanes of an access may consist of, else they are told one by one.
const mostParts = 4

// strips tells the detector of those lanes of an access to global memory that have regular distances. It
// returns the others.
func (c *checker) strips(a *kernelrace.Access) (rest uint32) {
	low := trailing(c.lanes)
	n := bits.OnesCount32(c.lanes)
	if n < 4 || c.lanes>>low != allLanes>>(warpSize-n) {
		return c.lanes
	}
	for step := 1; step <= 2; step++ {
		if parts := c.parts(low, n, step); parts != nil {
			return c.tell(a, parts)
		}
	}
	return c.lanes
}

// regular has lanes with addresses at regular distances.
type regular struct {
	lane, step, n int
	stride        uint64
}

// parts divides n lanes from one on into few parts whose lanes are step apart. It returns nil if they would
// be many.
func (c *checker) parts(low, n, step int) []regular {
	all := c.found[:0]
	for first := low; first < low+step; first++ {
		for at := first; at < low+n; {
			p := regular{lane: at, step: step, n: 1}
			for next := at + step; next < low+n; next += step {
				switch stride := c.addrs[next] - c.addrs[next-step]; {
				case stride == 0 || int64(stride) < 0:
					return nil
				case p.n == 1:
					p.stride = stride
				case stride != p.stride:
					next = low + n
					continue
				}
				p.n++
			}
			if all = append(all, p); len(all) > mostParts {
				return nil
			}
			at += p.n * step
		}
	}
	return all
}

// tell tells the detector of the lanes of some parts. It returns those of which it must be told one by one.
func (c *checker) tell(a *kernelrace.Access, parts []regular) (rest uint32) {
	for _, p := range parts {
		addr := c.addrs[p.lane]
		past := addr + uint64(p.n-1)*p.stride + uint64(a.Bytes)
		done := 0
		if past <= windows && past > addr && (past <= c.heapBase || addr >= c.heapBase+c.heapBytes) {
			a.Shared, a.Addr = false, addr
			done = c.w.b.check.Strip(c.w.index*warpSize+p.lane, p.step, p.n, max(p.stride, uint64(a.Bytes)), a)
		}
		for i := done; i < p.n; i++ {
			rest |= 1 << (p.lane + i*p.step)
		}
	}
	return rest
}
