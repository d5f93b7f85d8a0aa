//go:build race

package cutest

// raceBuild reports that kernels of an emulated GPU run under the race detector.
const raceBuild = true
