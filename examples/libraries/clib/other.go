//go:build !linux || !(amd64 || arm64)

package clib

import "errors"

var errPlatform = errors.New("this program calls C on linux/amd64 and linux/arm64 alone")

func open(string) (uintptr, error)        { return 0, errPlatform }
func register(any, uintptr, string) error { return errPlatform }
