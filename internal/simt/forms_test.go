package simt

import (
	"context"
	"strings"
	"testing"

	"github.com/ferrygpu/ferry/internal/ptxforms"
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
