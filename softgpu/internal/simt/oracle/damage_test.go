package oracle

import (
	"context"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/ferrygpu/ferry/cu"
	"github.com/ferrygpu/ferry/internal/test/sample"
	"github.com/ferrygpu/ferry/ptx"
	"github.com/ferrygpu/ferry/softgpu/internal/ptxforms"
	"github.com/ferrygpu/ferry/softgpu/internal/simt"
)

// TestDamagedForms runs kernels of all families after an operand or a modifier was
// removed, doubled or replaced. The result is undefined, but the process must
// survive.
func TestDamagedForms(t *testing.T) {
	forms := ptxforms.Forms()
	n, r := 6000, rand.New(rand.NewPCG(3, 4))
	if testing.Short() || !sample.Full() {
		n, r = 600, sample.Rand(t)
	}
	ran := 0
	for range n {
		k, ok := kernelOf(forms[r.IntN(len(forms))])
		if !ok {
			continue
		}
		k.code = damage(r, k.code)
		m, err := ptx.Parse("damaged.ptx", head+k.decl+k.source("k"))
		if err != nil {
			continue
		}
		p, err := simt.Link(m, func(string) (uint64, bool) { return constAt, true })
		if err != nil || p.Kernel("k") == nil || p.Kernel("k").Unsupported != nil {
			continue
		}
		ran++
		mem := memory{{Base: inAt, Data: tableBytes, ReadOnly: true}, {Base: outAt, Data: make([]byte, threads*outBytes)}, {Base: cellAt, Data: make([]byte, threads*cellBytes+1<<18)}}
		params := make([]byte, p.Kernel("k").ParamBytes)
		for i, base := range []uint64{inAt, outAt, cellAt} {
			for b := range 8 {
				params[8*i+b] = byte(base >> (8 * b))
			}
		}
		ctx, cancel := context.WithTimeout(context.Background(), 20*time.Millisecond)
		_, _ = simt.Run(ctx, &simt.Launch{Kernel: p.Kernel("k"), Grid: cu.Dim3{X: 1, Y: 1, Z: 1}, Block: cu.Dim3{X: 40, Y: 1, Z: 1}, Params: params, Memory: mem, Workers: 1, Counters: 1})
		cancel()
	}
	if ran < n/10 {
		t.Errorf("only %d of %d damaged kernels ran", ran, n)
	}
}

// damage changes one line of code.
func damage(r *rand.Rand, code string) string {
	lines := strings.Split(code, "\n")
	i := r.IntN(len(lines))
	parts := strings.Split(lines[i], ",")
	j := r.IntN(len(parts))
	switch r.IntN(5) {
	case 0:
		parts = append(parts[:j], parts[j+1:]...)
	case 1:
		parts = append(parts, parts[j])
	case 2:
		parts[j] = " " + []string{"%a0", "%r1", "%x1", "%p1", "7", "[%x1]", "[%in]", "{%r1, %r2}", "_", "0f3F800000", "sh", "[sh+3]", "-1"}[r.IntN(13)]
	case 3:
		mods := strings.Split(lines[i], ".")
		k := r.IntN(len(mods))
		parts = []string{strings.Join(append(mods[:k:k], mods[k+1:]...), ".")}
	case 4:
		lines[i] = strings.Replace(lines[i], []string{"b32", "u32", "f32", "b64", "x2", "row", "m16n8k16"}[r.IntN(7)], []string{"b64", "f64", "f16", "pred", "x4", "col", "m8n8k4"}[r.IntN(7)], 1)
		parts = strings.Split(lines[i], ",")
	}
	lines[i] = strings.Join(parts, ",")
	if !strings.HasSuffix(lines[i], ";") {
		lines[i] += ";"
	}
	return strings.Join(lines, "\n")
}
