//go:build !linux

package crew

type bell = slowBell
