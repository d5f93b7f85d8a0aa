//go:build !noasm && !race

package staging

// Copies that keep data out of the caches of the core that copies. The build tag noasm
// and the race detector, which does not see what assembly accesses, leave them out.

// minNonTemporal is the least number of bytes that nonTemporal takes.
const minNonTemporal = 128

// copyNonTemporal copies as copy does, with stores past the caches. dst and src have the
// same length.
func copyNonTemporal(dst, src []byte) {
	if len(dst) < minNonTemporal {
		copy(dst, src)
		return
	}
	nonTemporal(dst, src)
}

//go:noescape
func nonTemporal(dst, src []byte)

// demote moves memory from the caches of this core to the one that the cores share
// (CLDEMOTE). Processors without that instruction ignore it.
//
//go:noescape
func demote(p []byte)

// canDemote reports whether the processor has CLDEMOTE.
var canDemote = features()&cldemote != 0

// cldemote is the bit of CLDEMOTE in features.
const cldemote = 1 << 25

// features returns ECX of CPUID leaf 7, and 0 if there is no such leaf.
func features() uint32
