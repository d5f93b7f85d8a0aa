package main

import (
	"io"
	"os"

	"github.com/ferrygpu/ferry/internal/measure/runner"
)

// kernelOutput takes what kernels print while a document is written to standard output. It
// passes the output on at once, and keeps the first bytes for the document.
type kernelOutput struct {
	to      io.Writer
	kept    []byte
	pipe    *os.File // the end that is written
	restore func()
	done    chan struct{}
}

// takeOutput begins to take the standard output of this process and passes it to to.
// hardware says that the driver writes to the descriptor, not to os.Stdout.
func takeOutput(to io.Writer, hardware bool) (*kernelOutput, error) {
	r, w, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	k := &kernelOutput{to: to, pipe: w, done: make(chan struct{})}
	before := os.Stdout
	os.Stdout = w
	k.restore = func() { os.Stdout = before }
	if hardware {
		if back, err := redirectDescriptor(w); err == nil {
			k.restore = func() { os.Stdout = before; back() }
		}
	}
	go func() {
		defer close(k.done)
		defer r.Close()
		_, _ = io.Copy(k, r) // Write never fails
	}()
	return k, nil
}

// Write keeps and passes on what a kernel printed.
func (k *kernelOutput) Write(p []byte) (int, error) {
	k.kept = append(k.kept, p[:min(len(p), runner.MaxPrintf+1-len(k.kept))]...)
	_, _ = k.to.Write(p) // standard error may be closed
	return len(p), nil
}

// end gives standard output back, and returns the first bytes that were printed. It does
// nothing for nil.
func (k *kernelOutput) end() string {
	if k == nil {
		return ""
	}
	k.restore()
	k.pipe.Close()
	<-k.done
	return string(k.kept)
}
