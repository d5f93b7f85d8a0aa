//go:build !linux || !(amd64 || arm64) || android || faketime

package bench

import "errors"

// openLibrary opens a library of C functions.
var openLibrary = func(string) (library, error) {
	return nil, errors.New("C libraries cannot be called on this platform")
}
