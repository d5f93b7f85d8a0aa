package simt

import (
	"context"
	"strings"
	"testing"

	"github.com/ferrygpu/ferry/softgpu/internal/ptxforms"
)

// TestEveryFormHasADecoder checks that the table of forms and the decoders have the
// same operations.
func TestEveryFormHasADecoder(t *testing.T) {
	ops := map[string]bool{}
	for _, form := range ptxforms.Forms() {
		op, _, _ := strings.Cut(form, ".")
		ops[op] = true
		if decoders[op] == nil {
			t.Errorf("%s has forms and no decoder", op)
		}
	}
	for op := range decoders {
		if !ops[op] {
			t.Errorf("%s has a decoder and no forms", op)
		}
	}
}

// TestRefusalShowsThePlace checks that an unsupported instruction refuses the launch
// of a kernel that can reach it, with file, line, column and a caret.
func TestRefusalShowsThePlace(t *testing.T) {
	const source = `.version 8.0
.target sm_90a
.address_size 64
.func waits() {
	wgmma.fence.sync.aligned;
	ret;
}
.visible .entry fine() { ret; }
.visible .entry calls() {
	call waits, ();
	ret;
}
`
	m := load(t, newSpace(), "k.ptx", source)
	if err := m.Kernel("fine").Unsupported; err != nil {
		t.Errorf("a kernel that cannot reach it is refused: %v", err)
	}
	_, err := Run(context.Background(), m.launch(t, "calls", 1, 1))
	const want = "k.ptx:5:2: kernel calls: wgmma.fence.sync.aligned: asynchronous matrix operations of sm_90a are not supported: CUDA_ERROR_NOT_SUPPORTED\n" +
		"\twgmma.fence.sync.aligned;\n\t^"
	if err == nil || err.Error() != want {
		t.Errorf("got\n%v\nwant\n%s", err, want)
	}
}

// TestVideoRefused: forms of vshr that no assembler takes are refused, not run in part.
func TestVideoRefused(t *testing.T) {
	for instruction, want := range map[string]string{
		"vshr.u32.u32.u32.clamp.add %r1.h0, %r2, %r3, %r4;": "a part of the destination and .add are not supported together",
		"vshr.u32.u32.u32.clamp.add %r1, %r2, -%r3, %r4;":   "",
	} {
		source := ".version 8.0\n.target sm_80\n.address_size 64\n.visible .entry k() {\n\t.reg .b32 %r<5>;\n\t" + instruction + "\n\tret;\n}\n"
		m := load(t, newSpace(), "k.ptx", source)
		err := m.Kernel("k").Unsupported
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v, want %q", instruction, err, want)
		}
	}
}
