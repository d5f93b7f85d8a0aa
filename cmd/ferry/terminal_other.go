//go:build !linux

package main

import "os"

// terminalWidth returns 0 columns, which means that they are not known, and whether f is a
// terminal.
func terminalWidth(f *os.File) (columns int, ok bool) {
	info, err := f.Stat()
	return 0, err == nil && info.Mode()&os.ModeCharDevice != 0 && info.Mode()&os.ModeDevice != 0
}
