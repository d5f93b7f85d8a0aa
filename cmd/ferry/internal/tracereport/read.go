package tracereport

import (
	"github.com/ferrygpu/ferry/internal/printable"
	"github.com/ferrygpu/ferry/trace"
)

// Read reads a recording. What is not printable in its strings is quoted, so that reports can show
// them. The error is that of [trace.ReadFile].
func Read(path string) (*trace.Recording, error) {
	rec, err := trace.ReadFile(path)
	printable.Strings(&rec)
	return rec, err
}
