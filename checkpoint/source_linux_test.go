package checkpoint_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/ferrygpu/ferry/checkpoint"
)

// onDisk writes a file into a folder of the disk, on which O_DIRECT works, or skips the test.
func onDisk(t *testing.T, data []byte) string {
	t.Helper()
	path := write(t, "a.safetensors", data)
	f, err := os.OpenFile(path, os.O_RDONLY|unix.O_DIRECT, 0)
	if err != nil {
		t.Skipf("the file system of %s has no O_DIRECT: %v", path, err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	return path
}

// cached returns which part of a file is in the page cache.
func cached(t *testing.T, path string) float64 {
	t.Helper()
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		t.Fatal(err)
	}
	var stat unix.Cachestat_t
	if err := unix.Cachestat(uint(f.Fd()), &unix.CachestatRange{Len: uint64(info.Size())}, &stat, 0); err != nil {
		t.Skip(err)
	}
	return float64(stat.Cache) * float64(os.Getpagesize()) / float64(info.Size())
}

// drop lets the page cache forget a file.
func drop(t *testing.T, path string) {
	t.Helper()
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if err := f.Sync(); err != nil {
		t.Fatal(err)
	}
	if err := unix.Fadvise(int(f.Fd()), 0, 0, unix.FADV_DONTNEED); err != nil {
		t.Fatal(err)
	}
}

// TestDirect loads a file of which the page cache has nothing, in all ways. The sizes are chosen so
// that tensors and the file end within blocks. Only reads through the page cache fill it.
func TestDirect(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	tensors := []tensor{random(r, "a", checkpoint.U8, 5000), random(r, "b", checkpoint.U8, 24<<20), random(r, "c", checkpoint.U8, 1<<16+77)}
	path := onDisk(t, safetensorsOf(nil, tensors...))
	for direct, most := range map[checkpoint.Direct]float64{checkpoint.DirectOn: 0.02, checkpoint.DirectAuto: 0.02, checkpoint.DirectOff: 2} {
		for _, names := range [][]string{nil, {"b"}} {
			drop(t, path)
			if part := cached(t, path); part > 0.01 {
				t.Skipf("the page cache keeps %.2f of the file", part)
			}
			want := tensors
			if names != nil {
				want = tensors[1:2]
			}
			loaded(t, load(t, stream(t, 0), open(t, path), &checkpoint.Options{Direct: direct, Tensors: names}), want)
			if part := cached(t, path); part > most || direct == checkpoint.DirectOff && part < 0.9 {
				t.Errorf("%v, %v: the page cache has %.2f of the file", direct, names, part)
			}
		}
	}
	// The page cache has the file now.
	loaded(t, load(t, stream(t, 0), open(t, path), &checkpoint.Options{DropCache: true}), tensors)
	if part := cached(t, path); part > 0.05 {
		t.Errorf("DropCache: the page cache has %.2f of the file", part)
	}
}

// TestDirectEnds loads two tensors at the ends of a file of which the page cache has these alone. Load
// reads them from it, and DropCache drops no page between them.
func TestDirectEnds(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	a, z := random(r, "a", checkpoint.U8, 9<<20), random(r, "z", checkpoint.U8, 9<<20)
	middle := tensor{"m", checkpoint.U8, []int64{64 << 20}, make([]byte, 64<<20)}
	path := onDisk(t, safetensorsOf(nil, a, middle, z))
	drop(t, path)
	if part := cached(t, path); part > 0.01 {
		t.Skipf("the page cache keeps %.2f of the file", part)
	}
	c := open(t, path)
	ends := &checkpoint.Options{Tensors: []string{"a", "z"}, Direct: checkpoint.DirectOff}
	loaded(t, load(t, stream(t, 0), c, ends), []tensor{a, z}) // by the page cache, which has them now
	if !c.ReadsCached(t, ends) {
		t.Error("the page cache has what is wanted, but Load reads past it")
	}
	load(t, stream(t, 0), c, &checkpoint.Options{Tensors: []string{"m"}, Direct: checkpoint.DirectOff})
	load(t, stream(t, 0), c, &checkpoint.Options{Tensors: []string{"a", "z"}, DropCache: true})
	if part := cached(t, path); part < 0.7 || part > 0.9 {
		t.Errorf("the page cache has %.2f of the file: want the middle, 0.78", part)
	}
}

// TestDirectShrinks reads past the page cache from a file that becomes shorter, and ends within a block.
func TestDirectShrinks(t *testing.T) {
	b := random(rand.New(rand.NewPCG(1, 2)), "b", checkpoint.U8, 1<<20)
	path := onDisk(t, safetensorsOf(nil, b))
	c := open(t, path)
	if err := os.Truncate(path, 1<<19+100); err != nil {
		t.Fatal(err)
	}
	l, err := checkpoint.Load(t.Context(), stream(t, 0), c, &checkpoint.Options{Direct: checkpoint.DirectOn})
	if l != nil || !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Errorf("%v, %v", l, err)
	}
}

// TestDirectUnaligned loads from a file system that needs a larger alignment than Ferry knows.
func TestDirectUnaligned(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	tensors := []tensor{random(r, "a", checkpoint.U8, 5000), random(r, "b", checkpoint.U8, 24<<20)}
	path := onDisk(t, safetensorsOf(nil, tensors...))
	drop(t, path)
	if part := cached(t, path); part > 0.01 {
		t.Skipf("the page cache keeps %.2f of the file", part)
	}
	c, s := open(t, path), stream(t, 0)
	checkpoint.SetDirectAlign(t, 1)
	if l, err := checkpoint.Load(t.Context(), s, c, &checkpoint.Options{Direct: checkpoint.DirectOn}); l != nil || !errors.Is(err, unix.EINVAL) {
		t.Errorf("%v, %v: this file system takes any alignment", l, err)
	}
	loaded(t, load(t, s, c, nil), tensors)
}

// TestDirectRefused reads past the page cache what cannot be read so.
func TestDirectRefused(t *testing.T) {
	data := safetensorsOf(nil, tensor{"a", checkpoint.U8, []int64{3}, []byte{1, 2, 3}})
	c, err := checkpoint.OpenReaderAt("m", strings.NewReader(string(data)), int64(len(data)))
	if err != nil {
		t.Fatal(err)
	}
	if l, err := checkpoint.Load(t.Context(), stream(t, 0), c, &checkpoint.Options{Direct: checkpoint.DirectOn}); l != nil || err == nil || !strings.Contains(err.Error(), "read m past the page cache: it is a reader") {
		t.Errorf("%v, %v", l, err)
	}
}

// openFiles returns the files that are open in a folder.
func openFiles(t *testing.T, dir string) (all []string) {
	t.Helper()
	fds, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Skip(err)
	}
	for _, fd := range fds {
		if to, err := os.Readlink("/proc/self/fd/" + fd.Name()); err == nil && strings.HasPrefix(to, dir) {
			all = append(all, to)
		}
	}
	return all
}

// TestFilesClosed demands that no file stays open: after loads, after those that fail, and after an
// Open that fails.
func TestFilesClosed(t *testing.T) {
	files, tensors := sharded(rand.New(rand.NewPCG(1, 1)))
	dir := folder(t, files)
	c, err := checkpoint.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	if n := len(openFiles(t, dir)); n != 2 {
		t.Errorf("%d files are open, want 2", n)
	}
	s := stream(t, 0)
	loaded(t, load(t, s, c, &checkpoint.Options{Direct: checkpoint.DirectOn}), tensors)
	if n := len(openFiles(t, dir)); n != 2 {
		t.Errorf("after a load: %d files are open, want 2", n)
	}
	if err := os.Truncate(filepath.Join(dir, "m-00001-of-00002.safetensors"), 0); err != nil {
		t.Fatal(err)
	}
	if l, err := checkpoint.Load(t.Context(), s, c, &checkpoint.Options{Direct: checkpoint.DirectOn}); l != nil || err == nil {
		t.Errorf("%v, %v", l, err)
	}
	if err := c.Close(); err != nil {
		t.Error(err)
	}
	wrong(t, "0 bytes, too few", dir)
	if all := openFiles(t, dir); len(all) != 0 {
		t.Errorf("%v are open", all)
	}
}

// TestCanceledLoad cancels a load in the middle. It leaves no device memory, no open file and no slot of the ring in use.
func TestCanceledLoad(t *testing.T) {
	dir := folder(t, map[string][]byte{"a.safetensors": safetensorsOf(nil, random(rand.New(rand.NewPCG(1, 2)), "a", checkpoint.U8, 64<<20))})
	s := stream(t, 0)
	free, _, err := s.GPU().MemInfo()
	if err != nil {
		t.Fatal(err)
	}
	c, err := checkpoint.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	most := int64(0)
	l, err := checkpoint.Load(ctx, s, c, &checkpoint.Options{Progress: func(done, total int64) {
		if most = max(most, done); done < total {
			cancel()
		}
	}})
	if l != nil || !errors.Is(err, context.Canceled) || most == 0 {
		t.Errorf("%v, %v, %d bytes were done", l, err, most)
	}
	ring := s.GPU().Staging()
	had, err := ring.Stats()
	if err = errors.Join(err, s.Wait(t.Context()), c.Close(), ring.SetLimit(had.SlotBytes)); err != nil {
		t.Error(err)
	}
	if x, err := ring.Stats(); err != nil || x.Locked > x.SlotBytes || x.InUse != 0 || had.Locked == 0 {
		t.Errorf("the ring has %+v, %v; want at most one slot, and that one free; it had %d bytes", x, err, had.Locked)
	}
	if n, _, err := s.GPU().MemInfo(); n != free || err != nil {
		t.Errorf("%d bytes are free, %d before; %v", n, free, err)
	}
	if all := openFiles(t, dir); len(all) != 0 {
		t.Errorf("%v are open", all)
	}
}

// TestManyLoads loads and closes again and again: no memory, no file and no goroutine stays.
func TestManyLoads(t *testing.T) {
	n := 1000
	if testing.Short() {
		n = 50
	}
	r := rand.New(rand.NewPCG(1, 2))
	tensors := []tensor{random(r, "a", checkpoint.U8, 1<<16), {"x", checkpoint.BF16, []int64{5000}, bits(checkpoint.BF16, indexes(r, 5000))}}
	dir := folder(t, map[string][]byte{"a.safetensors": safetensorsOf(nil, tensors...)})
	s := stream(t, 0)
	once := func(i int) {
		c, err := checkpoint.Open(dir)
		if err != nil {
			t.Fatal(err)
		}
		o := &checkpoint.Options{Direct: checkpoint.Direct(i % 3)}
		if i%10 == 0 {
			o.To = checkpoint.F32
			o.Tensors = []string{"x"}
		}
		l, err := checkpoint.Load(t.Context(), s, c, o)
		if err != nil {
			t.Fatal(err)
		}
		if err := l.Close(); err != nil {
			t.Fatal(err)
		}
		if err := c.Close(); err != nil {
			t.Fatal(err)
		}
	}
	state := func() string {
		if err := s.Wait(t.Context()); err != nil {
			t.Fatal(err)
		}
		free, _, err := s.GPU().MemInfo()
		return fmt.Sprint(free, len(openFiles(t, "/")), err)
	}
	once(0)
	once(1)
	before, goroutines := state(), runtime.NumGoroutine()
	for i := range n {
		once(i)
	}
	noMoreGoroutines(t, goroutines)
	if after := state(); after != before {
		t.Errorf("after %d loads: free memory, files: %s, before %s", n, after, before)
	}
}
