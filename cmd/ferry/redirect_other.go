//go:build !linux

package main

import (
	"errors"
	"os"
)

// redirectDescriptor is not supported here.
func redirectDescriptor(*os.File) (undo func(), err error) { return nil, errors.ErrUnsupported }
