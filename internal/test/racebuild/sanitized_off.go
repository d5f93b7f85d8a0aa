//go:build !asan && !msan

package racebuild

const sanitized = false
