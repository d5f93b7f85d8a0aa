package checkpoint_test

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/ferrygpu/ferry"
	"github.com/ferrygpu/ferry/checkpoint"
	"github.com/ferrygpu/ferry/cu"
)

// TestSave saves loaded tensors of all dtypes, and reads the file back.
func TestSave(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	want := []tensor{random(r, "scalar", checkpoint.F32), random(r, "none", checkpoint.F64, 3, 0), random(r, "big", checkpoint.BF16, 700, 1001), random(r, `a "name"\`+"語", checkpoint.U8, 3)}
	for d := range safetensorsTypes {
		want = append(want, random(r, fmt.Sprintf("x.%v", d), d, 5, 4))
	}
	metadata := map[string]string{"format": "pt", "b": "<\n\x01>"}
	c := open(t, write(t, "in.safetensors", safetensorsOf(metadata, want...)))
	for _, schedule := range schedules {
		s := stream(t, schedule)
		l := load(t, s, c, nil)
		var tensors []checkpoint.SaveTensor
		for _, p := range l.Tensors() {
			tensors = append(tensors, checkpoint.SaveTensor{Name: p.Name, DType: p.As, Shape: p.Shape, Memory: p.Memory})
		}
		path := filepath.Join(t.TempDir(), "out.safetensors")
		if err := checkpoint.Save(t.Context(), path, s, tensors, metadata); err != nil {
			t.Fatal(err)
		}
		again := open(t, path)
		same(t, again, want)
		if got := again.Metadata(); !reflect.DeepEqual(got, c.Metadata()) {
			t.Errorf("metadata %v", got)
		}
		for _, x := range again.Tensors() {
			if per, each := x.DType.Block(); per == 1 && x.Offset%each != 0 {
				t.Errorf("%v stands at %d, which its elements are not aligned to", x, x.Offset)
			}
		}
		loaded(t, load(t, s, again, nil), want)
	}
}

// TestSaveNothing saves no tensors.
func TestSaveNothing(t *testing.T) {
	s, path := stream(t, 0), filepath.Join(t.TempDir(), "out")
	if err := checkpoint.Save(t.Context(), path, s, nil, nil); err != nil {
		t.Fatal(err)
	}
	c := open(t, path)
	l := load(t, s, c, nil)
	if len(c.Tensors()) != 0 || len(l.Tensors()) != 0 || l.Bytes() != 0 {
		t.Errorf("%v, %v", c, l)
	}
}

// TestSaveRefuses saves what a file cannot have. The file stays as it was.
func TestSaveRefuses(t *testing.T) {
	s := stream(t, 0)
	memory, err := ferry.Alloc[byte](s.GPU(), 8)
	if err != nil {
		t.Fatal(err)
	}
	defer memory.Close()
	path := write(t, "a", []byte("before"))
	x := checkpoint.SaveTensor{Name: "a", DType: checkpoint.U8, Shape: []int64{8}, Memory: memory}
	edit := func(f func(x *checkpoint.SaveTensor)) []checkpoint.SaveTensor {
		y := x
		f(&y)
		return []checkpoint.SaveTensor{y}
	}
	for want, tensors := range map[string][]checkpoint.SaveTensor{
		`tensor "a": two tensors have this name`:           {x, x},
		`tensor "__metadata__": a tensor cannot have`:      edit(func(x *checkpoint.SaveTensor) { x.Name = "__metadata__" }),
		`tensor "a\xff": a tensor cannot have`:             edit(func(x *checkpoint.SaveTensor) { x.Name = "a\xff" }),
		`tensor "a\x1b": its name has a control character`: edit(func(x *checkpoint.SaveTensor) { x.Name = "a\x1b" }),
		`safetensors has no dtype Q4_0`:                    edit(func(x *checkpoint.SaveTensor) { x.DType = checkpoint.Q4_0 }),
		`safetensors has no dtype no dtype`:                edit(func(x *checkpoint.SaveTensor) { x.DType = 0 }),
		`safetensors has no dtype DType(200)`:              edit(func(x *checkpoint.SaveTensor) { x.DType = 200 }),
		`U8 [7] has 7 bytes, but 8 bytes of device buffer`: edit(func(x *checkpoint.SaveTensor) { x.Shape = []int64{7}; x.Memory = memory.Range(0, 8) }),
		`a negative dimension`:                             edit(func(x *checkpoint.SaveTensor) { x.Shape = []int64{-2, -4} }),
		`or a product that overflows`:                      edit(func(x *checkpoint.SaveTensor) { x.Shape = []int64{1 << 33, 1 << 33} }),
		`65 dimensions, more than 64`:                      edit(func(x *checkpoint.SaveTensor) { x.Shape = append(make([]int64, 64), 8) }),
		`3 elements of F4 are no whole number of bytes`:    edit(func(x *checkpoint.SaveTensor) { x.DType, x.Shape = checkpoint.F4, []int64{3} }),
		`no memory given (nil)`:                            edit(func(x *checkpoint.SaveTensor) { x.Memory = nil }),
	} {
		err := checkpoint.Save(t.Context(), path, s, tensors, nil)
		if !errors.Is(err, cu.ErrorInvalidValue) || !strings.Contains(err.Error(), want) || !strings.HasPrefix(err.Error(), "save checkpoint "+path+": ") {
			t.Errorf("%v, want %s", err, want)
		}
	}
	if err := checkpoint.Save(t.Context(), path, s, nil, map[string]string{"k": "\xff"}); err == nil {
		t.Error("metadata that is not UTF-8 is saved")
	}
	if err := checkpoint.Save(t.Context(), path, nil, nil, nil); err == nil {
		t.Error("saved without a stream")
	}
	onlyFile(t, path, "before")
}

// onlyFile demands that a folder has only this file, with this text.
func onlyFile(t *testing.T, path, text string) {
	t.Helper()
	files, err := os.ReadDir(filepath.Dir(path))
	got, _ := os.ReadFile(path)
	if err != nil || len(files) != 1 || string(got) != text {
		t.Errorf("%v with %.20q, %v", files, got, err)
	}
}

// TestSaveEnds saves with a context that has ended, memory that is closed, and in a folder that is
// not there.
func TestSaveEnds(t *testing.T) {
	s := stream(t, 0)
	memory, err := ferry.Upload(s.GPU(), make([]byte, 1<<20))
	if err != nil {
		t.Fatal(err)
	}
	x := []checkpoint.SaveTensor{{"a", checkpoint.U8, []int64{1 << 20}, memory}}
	path := write(t, "a", []byte("before"))
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := checkpoint.Save(ctx, path, s, x, nil); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	if err := checkpoint.Save(t.Context(), filepath.Join(path+"x", "b"), s, x, nil); !errors.Is(err, fs.ErrNotExist) {
		t.Error(err)
	}
	if err := memory.Close(); err != nil {
		t.Fatal(err)
	}
	if err := checkpoint.Save(t.Context(), path, s, x, nil); err == nil || !strings.Contains(err.Error(), `tensor "a"`) {
		t.Error(err)
	}
	onlyFile(t, path, "before")
}
