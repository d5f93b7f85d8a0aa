//go:build !race

package cutest

const raceBuild = false
