package checkpoint_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"math/rand/v2"
	"os"
	"strings"
	"testing"

	"github.com/ferrygpu/ferry"
	"github.com/ferrygpu/ferry/checkpoint"
	"github.com/ferrygpu/ferry/cu"
	"github.com/ferrygpu/ferry/softgpu"
)

// TestVerifyPageable: memory that kernels cannot use is refused, with the tensor.
func TestVerifyPageable(t *testing.T) {
	c, s := open(t, write(t, "a.safetensors", safetensorsOf(nil, tensor{"a", checkpoint.U8, []int64{3}, []byte{1, 2, 3}}))), stream(t, 0)
	l := load(t, s, c, &checkpoint.Options{Into: map[string]ferry.Memory[byte]{"a": ferry.Pageable(make([]byte, 3))}})
	if err := checkpoint.Verify(t.Context(), s, l, nil); !errors.Is(err, cu.ErrorInvalidValue) || !strings.Contains(err.Error(), `tensor "a"`) {
		t.Error(err)
	}
}

// TestVerify: equal bytes pass, also in memory of the program, and each byte that is changed on the
// device is found in its tensor.
func TestVerify(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 6))
	want := []tensor{
		random(r, "a", checkpoint.BF16, 300, 1000), random(r, "none", checkpoint.U8, 0), random(r, "odd", checkpoint.U8, 3),
		random(r, "given", checkpoint.F32, 77), random(r, "large", checkpoint.U8, 5<<20+13),
	}
	s := stream(t, softgpu.Lazy)
	c := open(t, write(t, "model.safetensors", safetensorsOf(nil, want...)))
	given, err := ferry.Alloc[byte](s.GPU(), 4*77)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = given.Close() })
	l := load(t, s, c, &checkpoint.Options{Into: map[string]ferry.Memory[byte]{"given": given}})
	done := int64(0)
	verify := func() error {
		done = 0
		return checkpoint.Verify(context.Background(), s, l, func(n, total int64) {
			if n < done || n > total || total != c.Bytes() {
				t.Errorf("progress goes from %d to %d of %d", done, n, total)
			}
			done = n
		})
	}
	if err := verify(); err != nil || done != c.Bytes() {
		t.Errorf("error %v after %d of %d bytes", err, done, c.Bytes())
	}
	for _, w := range want {
		for _, at := range []int{0, len(w.data) / 2, len(w.data) - 1} {
			if len(w.data) == 0 {
				continue
			}
			view, err := checkpoint.Tensor[byte](l, w.name)
			if err != nil {
				t.Fatal(err)
			}
			set := func(b byte) {
				if err := ferry.Fill(s, ferry.Memory[byte](view.Range(at, at+1)), b); err != nil {
					t.Fatal(err)
				}
			}
			set(w.data[at] ^ 16)
			err = verify()
			if e, ok := errors.AsType[*checkpoint.MismatchError](err); !ok || e.Tensor != w.name || e.Device == e.Want {
				t.Errorf("byte %d of %s was changed: error %v", at, w.name, err)
			}
			set(w.data[at])
		}
	}
	if err := verify(); err != nil {
		t.Error(err)
	}
}

// TestVerifyRefuses: what cannot be verified is refused, and an end of ctx or of a file is an error.
func TestVerifyRefuses(t *testing.T) {
	r := rand.New(rand.NewPCG(7, 8))
	path := write(t, "model.safetensors", safetensorsOf(nil, random(r, "a", checkpoint.BF16, 3000), random(r, "b", checkpoint.U8, 9000)))
	s := stream(t, softgpu.Eager)
	c := open(t, path)
	l, ctx := load(t, s, c, nil), context.Background()
	ended, cancel := context.WithCancel(ctx)
	cancel()
	if err := checkpoint.Verify(ended, s, l, nil); !errors.Is(err, context.Canceled) {
		t.Errorf("a context that has ended: %v", err)
	}
	var none context.Context // which never ends
	if err := checkpoint.Verify(none, s, l, nil); err != nil {
		t.Error(err)
	}
	for what, err := range map[string]error{
		"no stream":      checkpoint.Verify(ctx, nil, l, nil),
		"nothing loaded": checkpoint.Verify(ctx, s, nil, nil),
		"another GPU":    checkpoint.Verify(ctx, stream(t, softgpu.Eager), l, nil),
	} {
		if !errors.Is(err, cu.ErrorInvalidValue) || !strings.HasPrefix(err.Error(), "verify checkpoint: ") {
			t.Errorf("%s: %v", what, err)
		}
	}
	if err := os.Truncate(path, 8000); err != nil {
		t.Fatal(err)
	}
	if err := checkpoint.Verify(ctx, s, l, nil); !errors.Is(err, io.ErrUnexpectedEOF) || !strings.Contains(err.Error(), `tensor "b", byte `) {
		t.Errorf("the file has become shorter: %v", err)
	}
}

// panicking is a reader that panics once it is told to.
type panicking struct {
	io.ReaderAt
	now bool
}

func (p *panicking) ReadAt(b []byte, off int64) (int, error) {
	if p.now {
		panic("the reader's")
	}
	return p.ReaderAt.ReadAt(b, off)
}

// TestVerifyPanics: a reader's panic is that of the call, and nothing hangs.
func TestVerifyPanics(t *testing.T) {
	r := rand.New(rand.NewPCG(9, 10))
	text := safetensorsOf(nil, random(r, "a", checkpoint.U8, 100))
	p := &panicking{ReaderAt: bytes.NewReader(text)}
	c, err := checkpoint.OpenReaderAt("a reader", p, int64(len(text)))
	if err != nil {
		t.Fatal(err)
	}
	s := stream(t, softgpu.Eager)
	l := load(t, s, c, nil)
	if err := s.Wait(context.Background()); err != nil {
		t.Fatal(err)
	}
	p.now = true
	defer func() {
		if got := recover(); got != "the reader's" {
			t.Errorf("recovered %v", got)
		}
	}()
	t.Error(checkpoint.Verify(context.Background(), s, l, nil))
}
