package stage

// leastStream is the least that stream takes.
const leastStream = 128

// stream copies as copy does, past the caches. dst and src are of one length, at
// least leastStream.
//
//go:noescape
func stream(dst, src []byte)
