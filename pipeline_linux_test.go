package ferry_test

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/ferrygpu/ferry"
	"github.com/ferrygpu/ferry/softgpu"
)

// TestPipelineMappedFileShrinks: memory that cannot be read or written, as pages of a
// mapped file that was cut off, is an error of its chunk, not the end of the process.
func TestPipelineMappedFileShrinks(t *testing.T) {
	p := newPlant(t, openSoft(t, "h200", softgpu.Eager))
	const size, left = 64 << 10, 20 << 10
	f := must(os.Create(filepath.Join(t.TempDir(), "data")))(t)
	defer f.Close()
	check(t, f.Truncate(size))
	m := must(syscall.Mmap(int(f.Fd()), 0, size, syscall.PROT_READ|syscall.PROT_WRITE, syscall.MAP_SHARED))(t)
	defer func() { check(t, syscall.Munmap(m)) }()
	check(t, f.Truncate(left))
	whole := make([]byte, size)
	for want, x := range map[string]*ferry.Pipeline{
		"read input 0: cannot read":    {In: []ferry.End{ferry.Plain(m)}, Out: []ferry.End{ferry.Plain(whole)}},
		"write output 0: cannot write": {In: []ferry.End{ferry.Plain(whole)}, Out: []ferry.End{ferry.Plain(m)}},
	} {
		x.GPU, x.ChunkLen, x.InPlace = p.GPU, 4<<10, true
		x.Step = func(*ferry.Stream, *ferry.Chunk) error { return nil }
		n, err := x.Run(context.Background())
		if n != left || err == nil || !strings.Contains(err.Error(), "chunk 5 (elements 20480 to 24575, byte 20480 of input 0): "+want) {
			t.Errorf("%d elements, %v; want %s", n, err, want)
		}
		closeAll(t, x)
	}
}
