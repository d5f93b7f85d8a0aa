// Package filerange takes ranges of files that several users share by one offset.
//
// Who reads or writes a file at many places at once, by ReadAt or WriteAt, takes its range
// first: [Take] moves the offset behind it. Whoever comes after that, by this package or by
// Read and Write, gets other bytes. Who has not used all of its range gives the rest back.
package filerange

import (
	"io"
	"os"
	"sync"
)

// mu makes GiveBack of a file one step for the others. It is a leaf lock, and not held while a
// Seek of the program runs.
var mu sync.Mutex

// lock locks mu for a file, and returns what unlocks it.
func lock(f io.Seeker) (unlock func()) {
	if _, ok := f.(*os.File); !ok {
		return func() {}
	}
	mu.Lock()
	return mu.Unlock
}

// Take takes n bytes: it moves the offset of f by n, and returns where the bytes begin. It does
// not look whether f has as many. If f is a file, or a struct that embeds one, Take is safe for
// concurrent use, also beside Read, Write and Seek of the file, and beside other processes
// that use the descriptor.
func Take(f io.Seeker, n int64) (at int64, err error) {
	defer lock(f)()
	if isFile(f) {
		end, err := f.Seek(n, io.SeekCurrent) // one step of the system
		return end - n, err
	}
	if at, err = f.Seek(0, io.SeekCurrent); err == nil {
		_, err = f.Seek(at+n, io.SeekStart)
	}
	return at, err
}

// GiveBack moves the offset of f from end, where a range ends, back to the beginning of its
// unused part. If something else has moved the offset since, it stays: then those who read or
// write on do not get the unused part. GiveBack looks at the offset and moves it in two steps. A
// Read, Write or Seek of the file itself between the two is undone.
func GiveBack(f io.Seeker, end, unused int64) error {
	if unused >= end {
		return nil
	}
	defer lock(f)()
	at, err := f.Seek(0, io.SeekCurrent)
	if err == nil && at == end {
		_, err = f.Seek(unused, io.SeekStart)
	}
	return err
}

// isFile reports whether f is an *os.File, or embeds one.
func isFile(f io.Seeker) bool {
	_, ok := f.(interface{ Fd() uintptr })
	return ok
}
