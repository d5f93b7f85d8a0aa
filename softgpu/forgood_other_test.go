//go:build !unix

package softgpu

func reserveForGood(n int) (*backing, error) { return reserveHost(n) }
