//go:build !linux

package check_test

// The check asks only Linux which memory is mapped.
const canMap = false

func mapping(n int) []byte { return make([]byte, n) }

func unmap([]byte) {}
