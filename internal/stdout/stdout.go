// Package stdout writes what kernels print. A program in another language has a buffer of its own for
// its standard output, so a library that it loads says how to write there: else the order of lines
// would be wrong.
package stdout

import (
	"os"
	"sync/atomic"
)

var writer atomic.Pointer[func(text string)]

// Use makes write the way to the standard output, for the whole process. It must be safe for
// concurrent use. Use(nil) ends that.
func Use(write func(text string)) {
	if write == nil {
		writer.Store(nil)
		return
	}
	writer.Store(&write)
}

// Write writes a text to the standard output. It is safe for concurrent use.
func Write(text string) {
	if w := writer.Load(); w != nil {
		(*w)(text)
		return
	}
	_, _ = os.Stdout.WriteString(text)
}
