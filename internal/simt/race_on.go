//go:build race

package simt

// raceBuild says whether the race detector is built in.
const raceBuild = true
