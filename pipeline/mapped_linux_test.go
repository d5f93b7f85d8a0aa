package pipeline_test

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/ferrygpu/ferry"
	"github.com/ferrygpu/ferry/pipeline"
	"github.com/ferrygpu/ferry/softgpu"
)

// TestMappedFileShrinks: memory that cannot be read or written, such as pages of a mapped
// file that was cut off, is an error of its chunk. It does not end the process.
func TestMappedFileShrinks(t *testing.T) {
	p := newFixture(t, openSoft(t, "h200", softgpu.Eager))
	const size, left = 64 << 10, 20 << 10
	f := must(os.Create(filepath.Join(t.TempDir(), "data")))(t)
	defer f.Close()
	check(t, f.Truncate(size))
	m := must(syscall.Mmap(int(f.Fd()), 0, size, syscall.PROT_READ|syscall.PROT_WRITE, syscall.MAP_SHARED))(t)
	defer func() { check(t, syscall.Munmap(m)) }()
	check(t, f.Truncate(left))
	whole := make([]byte, size)
	for want, x := range map[string]*pipeline.Pipeline{
		"read input 0: cannot read":    {In: []pipeline.End{ferry.Pageable(m)}, Out: []pipeline.End{ferry.Pageable(whole)}},
		"write output 0: cannot write": {In: []pipeline.End{ferry.Pageable(whole)}, Out: []pipeline.End{ferry.Pageable(m)}},
	} {
		x.GPU, x.ChunkLen, x.InPlace = p.GPU, 4<<10, true
		x.Step = func(*ferry.Stream, *pipeline.Chunk) error { return nil }
		n, err := x.Run(context.Background())
		if n != left || err == nil || !strings.Contains(err.Error(), "chunk 5 (elements 20480 to 24575, byte 20480 of input 0): "+want) {
			t.Errorf("%d elements, %v; want %s", n, err, want)
		}
		closeAll(t, x)
	}
}
