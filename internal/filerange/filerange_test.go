package filerange

import (
	"bytes"
	"io"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"
)

// open returns a new file of n bytes.
func open(t *testing.T, n int) *os.File {
	t.Helper()
	path := filepath.Join(t.TempDir(), "data")
	if err := os.WriteFile(path, make([]byte, n), 0o600); err != nil {
		t.Fatal(err)
	}
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = f.Close() })
	return f
}

func offset(t *testing.T, f io.Seeker) int64 {
	t.Helper()
	at, err := f.Seek(0, io.SeekCurrent)
	if err != nil {
		t.Fatal(err)
	}
	return at
}

// TestTakeAtOnce: ranges that many goroutines take of one file, also through a struct around
// it, do not overlap and have no gaps between them.
func TestTakeAtOnce(t *testing.T) {
	const users, rounds = 8, 2000
	f := open(t, 0)
	var mu sync.Mutex
	var all [][2]int64
	var running sync.WaitGroup
	for u := range users {
		running.Go(func() {
			var own [][2]int64
			var x io.Seeker = f
			if u%2 == 1 {
				x = struct{ *os.File }{f}
			}
			for i := range rounds {
				n := int64(1 + (u+i)%5)
				at, err := Take(x, n)
				if err != nil {
					t.Error(err)
					return
				}
				own = append(own, [2]int64{at, at + n})
			}
			mu.Lock()
			defer mu.Unlock()
			all = append(all, own...)
		})
	}
	running.Wait()
	slices.SortFunc(all, func(a, b [2]int64) int { return int(a[0] - b[0]) })
	end := int64(0)
	for _, r := range all {
		if r[0] != end {
			t.Fatalf("bytes %d to %d follow byte %d", r[0], r[1], end)
		}
		end = r[1]
	}
	if at := offset(t, f); at != end {
		t.Errorf("the offset is %d, want %d", at, end)
	}
}

// TestGiveBack: the offset goes back only if nothing has moved it.
func TestGiveBack(t *testing.T) {
	for name, f := range map[string]io.ReadSeeker{"a file": open(t, 100), "a reader": bytes.NewReader(make([]byte, 100))} {
		take := func(n, want int64) {
			t.Helper()
			if at, err := Take(f, n); at != want || err != nil {
				t.Errorf("%s: took %d bytes at %d, %v; want %d", name, n, at, err, want)
			}
		}
		back := func(end, unused, want int64) {
			t.Helper()
			if err := GiveBack(f, end, unused); err != nil || offset(t, f) != want {
				t.Errorf("%s: bytes %d to %d given back: the offset is %d, %v; want %d", name, unused, end, offset(t, f), err, want)
			}
		}
		take(10, 0)
		back(10, 10, 10) // all is used
		back(10, 4, 4)
		take(16, 4)
		take(30, 20)
		back(20, 5, 50) // another range follows it
		back(50, 40, 40)
		if _, err := f.Read(make([]byte, 3)); err != nil {
			t.Error(err)
		}
		back(40, 0, 43)
	}
}

// TestErrors: a file that cannot seek is an error, and takes nothing.
func TestErrors(t *testing.T) {
	f := open(t, 10)
	_ = f.Close()
	if _, err := Take(f, 4); err == nil {
		t.Error("took bytes of a closed file")
	}
	if err := GiveBack(f, 4, 0); err == nil {
		t.Error("gave bytes of a closed file back")
	}
	if err := GiveBack(f, 4, 4); err != nil {
		t.Error(err)
	}
}
