//go:build race || hosttsan

package simt

// raceBuild reports whether the race detector is built in.
const raceBuild = true
