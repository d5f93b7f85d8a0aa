package stage

// leastStream is the least that streamLong takes.
const leastStream = 128

// stream copies as copy does, past the caches. dst and src are of one length.
func stream(dst, src []byte) {
	if len(dst) < leastStream {
		copy(dst, src)
		return
	}
	streamLong(dst, src)
}

//go:noescape
func streamLong(dst, src []byte)

// demote moves memory from the core's own caches to the one that cores share
// (CLDEMOTE). Processors that cannot take no notice.
//
//go:noescape
func demote(p []byte)

// canDemote says that demote does something.
var canDemote = features()&cldemote != 0

// cldemote is its bit of features.
const cldemote = 1 << 25

// features is what CPUID says of leaf 7 in ECX, 0 if it has none.
func features() uint32
