package api

import (
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/ferrygpu/ferry"
	"github.com/ferrygpu/ferry/internal/address"
	"github.com/ferrygpu/ferry/internal/test/sample"
)

// numberFile returns a file with the numbers from 0 to n-1.
func numberFile(t *testing.T, n int) *os.File {
	t.Helper()
	words := make([]uint32, n)
	for i := range words {
		words[i] = uint32(i)
	}
	path := filepath.Join(t.TempDir(), "numbers")
	check(t, os.WriteFile(path, bytesOf(words), 0o600))
	f := must(os.OpenFile(path, os.O_RDWR, 0))(t)
	t.Cleanup(func() { _ = f.Close() })
	return f
}

func bytesOf(words []uint32) []byte {
	return address.Bytes(address.Of(words), uintptr(4*len(words)))
}

// wantOnce demands that words are the numbers from 0 to n-1, in any order.
func wantOnce(t *testing.T, words []uint32, n int) {
	t.Helper()
	if len(words) != n {
		t.Fatalf("%d numbers, want %d", len(words), n)
	}
	words = slices.Sorted(slices.Values(words))
	for i, w := range words {
		if w != uint32(i) {
			t.Fatalf("number %d is there too often or not at all", min(w, uint32(i)))
		}
	}
}

// TestCopyFromOneFile: goroutines that read one file at the same time, by CopyFrom to memory of
// several kinds and by Read, get each byte once. What CopyFrom gets is one piece of the file.
func TestCopyFromOneFile(t *testing.T) {
	g := openTest(t)
	const n = 200_000
	rounds := 3
	if sample.Race() {
		rounds = 1
	}
	for range rounds {
		f := numberFile(t, 8*n)
		device, host := must(ferry.Alloc[uint32](g, n))(t), must(ferry.AllocHost[uint32](g, n, nil))(t)
		more, last := must(ferry.Alloc[uint32](g, n))(t), must(ferry.Alloc[uint32](g, n))(t)
		slice := make([]uint32, n)
		targets := []ferry.Memory[uint32]{device, host, ferry.Pageable(slice), more, last}
		var all []uint32
		var mu sync.Mutex
		got := func(words []uint32) {
			mu.Lock()
			defer mu.Unlock()
			all = append(all, words...)
		}
		var users sync.WaitGroup
		for _, m := range targets {
			s := must(ferry.NewStream(g, nil))(t)
			users.Go(func() {
				defer func() { check(t, s.Close()) }()
				if k, err := ferry.CopyFrom(t.Context(), s, m, f); err != nil || k != 4*n {
					t.Errorf("CopyFrom: %d bytes, %v", k, err)
				}
				words, err := ferry.Download(m)
				if err != nil {
					t.Error(err)
				}
				for i, w := range words {
					if w != words[0]+uint32(i) {
						t.Errorf("%v: number %d follows %d", m, w, words[i-1])
						break
					}
				}
				got(words)
			})
		}
		users.Go(func() {
			words := make([]uint32, 3*n)
			for p := bytesOf(words); len(p) > 0; p = p[4000:] {
				if _, err := io.ReadFull(f, p[:4000]); err != nil {
					t.Error(err)
				}
			}
			got(words)
		})
		users.Wait()
		if !t.Failed() {
			wantOnce(t, all, 8*n)
		}
		closeAll(t, device, host, more, last)
	}
}

// TestCopyFromEarlyEnd: after a CopyFrom that ended early, the next reader of the file gets what
// it did not read, and not less or more. If another has read on since, the offset stays.
func TestCopyFromEarlyEnd(t *testing.T) {
	g := openTest(t)
	s := must(ferry.NewStream(g, nil))(t)
	const n = 2 << 20 // words: more than one part
	host := must(ferry.AllocHost[uint32](g, n, nil))(t)
	device := must(ferry.Alloc[uint32](g, n))(t)
	t.Cleanup(func() { closeAll(t, host, device, s) })
	whole := numberFile(t, n+100)
	for _, m := range []ferry.Memory[uint32]{host, device} {
		inMiddle := false
		for try := 0; !inMiddle && try < 2000; try++ { // until the context ends in the middle
			must(whole.Seek(0, io.SeekStart))(t)
			within, end := context.WithCancel(t.Context())
			timer := time.AfterFunc(time.Duration(try%200)*10*time.Microsecond, end)
			k, err := ferry.CopyFrom(within, s, m, whole)
			timer.Stop()
			end()
			if (err != nil) != (k < 4*n) || err != nil && !errors.Is(err, context.Canceled) || k%4 != 0 {
				t.Fatalf("%v: %d bytes, %v", m, k, err)
			}
			check(t, s.Wait(t.Context()))
			if inMiddle = k > 0 && k < 4*n; !inMiddle {
				continue
			}
			rest := must(io.ReadAll(whole))(t)
			if int64(len(rest)) != 4*(n+100)-k {
				t.Fatalf("%v: %d bytes, and %d are left of %d", m, k, len(rest), 4*(n+100))
			}
			words := make([]uint32, n+100)
			copy(bytesOf(words)[copy(bytesOf(words), bytesOf(must(ferry.Download(m))(t))[:k]):], rest)
			wantOnce(t, words, n+100)
		}
		if !inMiddle {
			t.Errorf("%v: no copy ended in its middle", m)
		}
	}

	f := numberFile(t, 1000)
	k, err := ferry.CopyFrom(t.Context(), s, ferry.Memory[uint32](device), f)
	if k != 4000 || !errors.Is(err, io.ErrUnexpectedEOF) || must(f.Seek(0, io.SeekCurrent))(t) != 4000 {
		t.Errorf("of a short file: %d bytes, %v", k, err)
	}
	if k, err = ferry.CopyFrom(t.Context(), s, ferry.Memory[uint32](device), f); k != 0 || !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Errorf("at its end: %d bytes, %v", k, err)
	}
	closed := numberFile(t, 1000)
	check(t, closed.Close())
	if k, err = ferry.CopyFrom(t.Context(), s, ferry.Memory[uint32](device), closed); k != 0 || !errors.Is(err, os.ErrClosed) {
		t.Errorf("of a closed file: %d bytes, %v", k, err)
	}
	unreadable := must(os.OpenFile(f.Name(), os.O_WRONLY, 0))(t)
	defer func() { check(t, unreadable.Close()) }()
	if k, err = ferry.CopyFrom(t.Context(), s, ferry.Memory[uint32](device), unreadable); k != 0 || err == nil || must(unreadable.Seek(0, io.SeekCurrent))(t) != 0 {
		t.Errorf("of a file that cannot be read: %d bytes, %v", k, err)
	}
}

// TestCopyToOneFile: goroutines that write to one file at the same time write each byte once,
// also to a file that is open for appending.
func TestCopyToOneFile(t *testing.T) {
	g := openTest(t)
	const users, n = 4, 300_000
	for name, flag := range map[string]int{"a file": 0, "a file open for appending": os.O_APPEND} {
		path := filepath.Join(t.TempDir(), "out")
		f := must(os.OpenFile(path, os.O_CREATE|os.O_RDWR|flag, 0o600))(t)
		var all sync.WaitGroup
		for u := range users {
			words := make([]uint32, n)
			for i := range words {
				words[i] = uint32(u*n + i)
			}
			d := must(ferry.Upload(g, words))(t)
			s := must(ferry.NewStream(g, nil))(t)
			all.Go(func() {
				defer func() { check(t, errors.Join(s.Close(), d.Close())) }()
				if k, err := ferry.CopyTo(t.Context(), s, f, ferry.Memory[uint32](d)); err != nil || k != 4*n {
					t.Errorf("%s: %d bytes, %v", name, k, err)
				}
			})
		}
		all.Wait()
		check(t, f.Close())
		words := make([]uint32, users*n)
		if k := copy(bytesOf(words), must(os.ReadFile(path))(t)); k != 4*users*n {
			t.Errorf("%s: %d bytes", name, k)
		}
		wantOnce(t, words, users*n)
	}
}
