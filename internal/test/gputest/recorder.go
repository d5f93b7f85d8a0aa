package gputest

import (
	"fmt"
	"testing"
)

// Recorder is a testing.TB that records how a test ended, for tests of helpers of tests.
type Recorder struct {
	testing.TB
	ended string
}

// Helper does nothing.
func (r *Recorder) Helper() {}

// Fatal records the message and ends f.
func (r *Recorder) Fatal(args ...any) { r.end("fatal: " + fmt.Sprint(args...)) }

// Skip records the message and ends f.
func (r *Recorder) Skip(args ...any) { r.end("skip: " + fmt.Sprint(args...)) }

func (r *Recorder) end(how string) { r.ended = how; panic(r) }

// Run runs f and returns how it ended: "skip: " or "fatal: " and the message, else "".
func (r *Recorder) Run(f func(testing.TB)) (how string) {
	defer func() {
		if v := recover(); v != nil && v != any(r) {
			panic(v)
		}
		how = r.ended
	}()
	f(r)
	return ""
}
