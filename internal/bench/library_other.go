//go:build !linux || !(amd64 || arm64) || android || faketime

package bench

import "errors"

// openLibrary opens a library of C functions.
var openLibrary = func(string) (library, error) {
	return nil, errors.New("libraries are not called here: the driver is not, either")
}
