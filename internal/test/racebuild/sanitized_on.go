//go:build asan || msan

package racebuild

const sanitized = true
