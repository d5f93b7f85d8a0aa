package simt

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/ferrygpu/ferry/cu"
	"github.com/ferrygpu/ferry/internal/test/hostile"
	"github.com/ferrygpu/ferry/ptx"
)

// FuzzRun parses, links and runs damaged PTX. The process must survive, and a launch
// must end when its context does.
func FuzzRun(f *testing.F) {
	for _, name := range append(slices.Clone(corpora), "../../../../ptx/testdata/features.ptx", "../../../../ptx/testdata/kernels.ptx") {
		b, err := os.ReadFile(filepath.Join("testdata", name))
		if err != nil {
			f.Fatal(err)
		}
		for _, part := range entriesOf(string(b)) {
			f.Add(part)
		}
	}
	for _, source := range []string{callSource, spaceSource} {
		f.Add(source)
	}
	f.Fuzz(func(t *testing.T, source string) {
		m, err := ptx.Parse("f.ptx", source)
		if err != nil {
			return
		}
		mem := newSpace()
		buf := mem.alloc(make([]byte, 1<<14))
		var p *Program
		hostile.Check(t, "decode", func() { p, err = Link(m, func(string) (uint64, bool) { return buf.Base + 8192, true }) })
		if err != nil {
			return
		}
		for _, k := range p.kernels {
			runBriefly(t, k, mem, buf)
		}
	})
}

// runBriefly launches a kernel whose arguments are addresses of buf, for 5 ms.
func runBriefly(t *testing.T, k *Kernel, mem *space, buf *Segment) {
	if k.SharedBytes > 1<<20 || k.LocalBytes > 1<<16 || k.ParamBytes > 1<<16 || k.fn.numRegs > 1<<14 {
		return // too much memory for frequent tries
	}
	params := make([]byte, k.ParamBytes)
	for i := 0; i+8 <= len(params); i += 8 {
		storeBytes(params[i:i+8], buf.Base+uint64(i)*64)
	}
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Millisecond)
	defer cancel()
	begin := time.Now()
	_, _ = Run(ctx, &Launch{Kernel: k, Grid: cu.Dim3{X: 2, Y: 1, Z: 1}, Block: cu.Dim3{X: 48, Y: 1, Z: 1}, Params: params, Memory: mem, Counters: 1, SharedBytes: 64, Workers: 1})
	if d := time.Since(begin); d > 20*time.Second {
		t.Fatalf("kernel %s ended %v after the start, its context after 5 ms", k.Name, d)
	}
}

// entriesOf splits a module into modules of one entry each. They work if no entry
// calls another.
func entriesOf(source string) []string {
	const mark = ".visible .entry"
	head, rest, ok := strings.Cut(source, mark)
	if !ok {
		return []string{source}
	}
	var out []string
	for part := range strings.SplitSeq(rest, mark) {
		if len(part) < 3000 { // the fuzzer spends its time on minimising larger ones
			out = append(out, head+mark+part)
		}
	}
	return out
}
