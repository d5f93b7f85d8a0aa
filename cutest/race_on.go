//go:build race

package cutest

// raceBuild says that kernels of an emulated GPU run under the race detector.
const raceBuild = true
