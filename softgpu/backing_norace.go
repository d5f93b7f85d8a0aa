//go:build !race

package softgpu

const raceBuild = false

// reserveHost takes memory for the host's own addresses.
func reserveHost(n int) (*backing, error) { return reserve(n) }
