package runner

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/ferrygpu/ferry"
	"github.com/ferrygpu/ferry/cu"
	"github.com/ferrygpu/ferry/kernels"
)

func open(t *testing.T) *ferry.GPU {
	t.Helper()
	g, err := ferry.Open("soft")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := g.Close(); err != nil && !t.Failed() && !errors.Is(err, cu.ErrorIllegalAddress) && !errors.Is(err, cu.ErrorMisalignedAddress) {
			t.Error(err)
		}
	})
	return g
}

func spec(t *testing.T, source, kernel string, words ...string) *Spec {
	t.Helper()
	return &Spec{
		Program: program(t, source), Kernel: kernel, Args: parseArgs(t, words...),
		Grid: cu.Dim3{X: 4, Y: 1, Z: 1}, Block: cu.Dim3{X: 64, Y: 1, Z: 1},
	}
}

func TestRun(t *testing.T) {
	for _, memory := range []Memory{DeviceMemory, MappedMemory, ManagedMemory} {
		s := spec(t, kernels.PTX, "vector_add", "in:f32=iota[1000]", "in:f32=random[1000]", "out:f32=[1000]", "u64=1000")
		s.Memory, s.Seed = memory, 5
		r, err := Run(t.Context(), open(t), s)
		if err != nil {
			t.Fatalf("%v: %v", memory, err)
		}
		if len(r.Outputs) != 1 || r.Outputs[0].Arg != 2 || r.Outputs[0].Elements != 1000 {
			t.Fatalf("%v: got %+v", memory, r.Outputs)
		}
		b := load(t, s.Args[1], 5, 1)
		want := make([]byte, 4000)
		for i := range 1000 {
			v := float32(i) + math.Float32frombits(binary.LittleEndian.Uint32(b[4*i:]))
			binary.LittleEndian.PutUint32(want[4*i:], math.Float32bits(v))
		}
		o := r.Outputs[0]
		if !bytes.Equal(o.head, want) || o.SHA256 != sha256.Sum256(want) {
			t.Errorf("%v: the sums are wrong", memory)
		}
		if r.Threads != 256 || r.Wall <= 0 || r.DeviceTime <= 0 {
			t.Errorf("%v: %d threads, %v, %v", memory, r.Threads, r.Wall, r.DeviceTime)
		}
	}
}

// TestRunInOut checks that an inout buffer from a file is an output with the kernel's
// changes, and that an in buffer is no output.
func TestRunInOut(t *testing.T) {
	path := filepath.Join(t.TempDir(), "data")
	data := binary.LittleEndian.AppendUint32(nil, math.Float32bits(1.5))
	data = binary.LittleEndian.AppendUint32(data, math.Float32bits(-8))
	if err := os.WriteFile(path, data, 0o600); err != nil {
		t.Fatal(err)
	}
	r, err := Run(t.Context(), open(t), spec(t, kernels.PTX, "increment", "inout:f32=@"+path, "u64=2"))
	if err != nil {
		t.Fatal(err)
	}
	if got := string(r.Outputs[0].json(false).Values); got != "[2.5,-7]" {
		t.Errorf("got %s", got)
	}
	r, err = Run(t.Context(), open(t), spec(t, kernels.PTX, "copy", "out:u8=[5]", "in:u8=1,2,3,4,5", "u64=5"))
	if err != nil {
		t.Fatal(err)
	}
	if got := string(r.Outputs[0].json(false).Values); len(r.Outputs) != 1 || got != "[1,2,3,4,5]" {
		t.Errorf("got %s", got)
	}
}

// TestRunLargeBuffers copies a buffer of several chunks to the device and back.
func TestRunLargeBuffers(t *testing.T) {
	words := []string{"out:u8=[33554439]", "in:u8=random[33554439]", "u64=33554439"} // a chunk and 7 bytes
	s := spec(t, kernels.PTX, "copy", words...)
	s.Grid.X = 128
	r, err := Run(t.Context(), open(t), s)
	if err != nil {
		t.Fatal(err)
	}
	if o := r.Outputs[0]; o.SHA256 != sha256.Sum256(load(t, s.Args[1], 0, 1)) || o.shown() != maxValues {
		t.Errorf("%d values, sha256 %x", o.shown(), o.SHA256)
	}
}

// scalars is a kernel that writes each of its scalars to memory.
const scalars = `.version 7.0
.target sm_75
.address_size 64
.visible .entry scalars(
	.param .u64 out, .param .u8 a, .param .u16 b, .param .u32 c, .param .f64 d, .param .b16 e
)
{
	.reg .b64 %rd<2>;
	.reg .b32 %r<3>;
	.reg .b16 %h<3>;
	.reg .b64 %d;
	ld.param.u64 %rd0, [out];
	cvta.to.global.u64 %rd1, %rd0;
	ld.param.u8 %h0, [a];
	st.global.u8 [%rd1], %h0;
	ld.param.u16 %h1, [b];
	st.global.u16 [%rd1+2], %h1;
	ld.param.u32 %r0, [c];
	st.global.u32 [%rd1+4], %r0;
	ld.param.b64 %d, [d];
	st.global.b64 [%rd1+8], %d;
	ld.param.b16 %h2, [e];
	st.global.b16 [%rd1+16], %h2;
	ret;
}
`

func TestRunScalars(t *testing.T) {
	r, err := Run(t.Context(), open(t), spec(t, scalars, "scalars", "out:b8=[18]", "s8=-2", "bf16=1", "f32=0.5", "f64=-2", "f16=1"))
	if err != nil {
		t.Fatal(err)
	}
	want := []byte{0xfe, 0, 0x80, 0x3f, 0, 0, 0, 0x3f, 0, 0, 0, 0, 0, 0, 0, 0xc0, 0, 0x3c}
	if !bytes.Equal(r.Outputs[0].head, want) {
		t.Errorf("got %x, want %x", r.Outputs[0].head, want)
	}
}

// structure is a kernel that writes the words of its structure to memory.
const structure = `.version 7.0
.target sm_75
.address_size 64
.visible .entry structure(.param .u64 out, .param .align 4 .b8 s[12])
{
	.reg .b64 %rd<2>;
	.reg .b32 %r<3>;
	ld.param.u64 %rd0, [out];
	cvta.to.global.u64 %rd1, %rd0;
	ld.param.u32 %r0, [s];
	ld.param.u32 %r1, [s+4];
	ld.param.u32 %r2, [s+8];
	st.global.u32 [%rd1], %r0;
	st.global.u32 [%rd1+4], %r1;
	st.global.u32 [%rd1+8], %r2;
	ret;
}
`

func TestRunStructure(t *testing.T) {
	r, err := Run(t.Context(), open(t), spec(t, structure, "structure", "out:b8=[12]", "struct=f32:0.5,u8:7,9,s32:-2"))
	if err != nil {
		t.Fatal(err)
	}
	want := []byte{0, 0, 0, 0x3f, 7, 9, 0, 0, 0xfe, 0xff, 0xff, 0xff}
	if !bytes.Equal(r.Outputs[0].head, want) {
		t.Errorf("got %x, want %x", r.Outputs[0].head, want)
	}
	if len(r.Warnings) != 0 {
		t.Errorf("warnings %q", r.Warnings)
	}
}

func TestRunRefuses(t *testing.T) {
	for _, c := range []struct {
		name   string
		change func(*Spec)
		result error
		want   string
	}{
		{"block", func(s *Spec) { s.Block = cu.Dim3{X: 2048, Y: 1, Z: 1} }, cu.ErrorInvalidValue, "1024"},
		{"grid", func(s *Spec) { s.Grid = cu.Dim3{X: 1, Y: 70000, Z: 1} }, cu.ErrorInvalidValue, "65535"},
		{"shared", func(s *Spec) { s.Shared = 1 << 30 }, cu.ErrorInvalidValue, "shared"},
		{"memory", func(s *Spec) { s.Args[2].count = 1 << 40 }, cu.ErrorOutOfMemory, "parameter 2, out:f32=[8]"},
	} {
		s := spec(t, kernels.PTX, "vector_add", "in:f32=iota[8]", "in:f32=iota[8]", "out:f32=[8]", "u64=8")
		c.change(s)
		_, err := Run(t.Context(), open(t), s)
		if !errors.Is(err, c.result) || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: got %v", c.name, err)
		}
	}
}

// TestRunExplainsFaults checks that the error of a fault has its code, the thread, the
// line of the file and the buffers.
func TestRunExplainsFaults(t *testing.T) {
	_, err := Run(t.Context(), open(t), spec(t, kernels.PTX, "increment", "inout:f32=iota[16]", "u64=100000"))
	fault, ok := errors.AsType[*cu.Fault](err)
	if !ok || !errors.Is(err, cu.ErrorIllegalAddress) {
		t.Fatalf("got %v", err)
	}
	for _, want := range []string{"CUDA_ERROR_ILLEGAL_ADDRESS", "thread (", "block (", "test.ptx:", fault.Op, "parameter 0, inout:f32=iota[16]: 64 bytes from 0x"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("got %v\nwant it to say %q", err, want)
		}
	}
}

const forever = `.version 7.0
.target sm_75
.address_size 64
.visible .entry forever(.param .u64 out)
{
again:
	bra again;
}
`

// TestRunEndsWithItsContext checks that Run returns when its context ends, although the
// kernel never ends.
func TestRunEndsWithItsContext(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	g, err := ferry.Open("soft")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := g.Driver().DevicePrimaryCtxReset(0); err != nil { // ends the kernel
			t.Error(err)
		}
	})
	ended := make(chan error, 1)
	go func() {
		_, err := Run(ctx, g, spec(t, forever, "forever", "out:u8=[1]"))
		ended <- err
	}()
	select {
	case err := <-ended:
		if !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("got %v", err)
		}
	case <-time.After(20 * time.Second):
		t.Fatal("still running")
	}
}
