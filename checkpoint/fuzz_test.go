package checkpoint_test

import (
	"bytes"
	"errors"
	"math/rand/v2"
	"testing"

	"github.com/ferrygpu/ferry/checkpoint"
	"github.com/ferrygpu/ferry/internal/printable"
	"github.com/ferrygpu/ferry/internal/test/hostile"
)

// openBytes opens a file, and demands that the result makes sense: a checkpoint whose tensors lie
// within the file, and do not share bytes, or an error that a terminal does not obey.
func openBytes(t *testing.T, what string, data []byte) {
	var c *checkpoint.Checkpoint
	var err error
	hostile.Check(t, what, func() {
		c, err = checkpoint.OpenReaderAt("file", bytes.NewReader(data), int64(len(data)))
	})
	if (c == nil) == (err == nil) {
		t.Fatalf("%s: checkpoint %v, error %v", what, c, err)
	}
	if err != nil {
		if _, ok := errors.AsType[*checkpoint.HeaderError](err); !ok || !printable.Is(err.Error()) || len(err.Error()) > 2000 {
			t.Fatalf("%s: %T %q", what, err, err)
		}
		return
	}
	end := int64(0)
	for _, x := range c.Tensors() {
		per, each := x.DType.Block()
		if x.Offset < end || x.Bytes < 0 || x.Offset+x.Bytes > int64(len(data)) || x.Elements()%per != 0 || x.Elements()/per*each != x.Bytes {
			t.Fatalf("%s: %v at %d of %d bytes, after %d", what, x, x.Offset, len(data), end)
		}
		if found, ok := c.Lookup(x.Name); !ok || found.Offset != x.Offset {
			t.Fatalf("%s: %v is not found by its name", what, x)
		}
		end = x.Offset + x.Bytes
	}
}

// TestHostile opens files that are made to cost much.
func TestHostile(t *testing.T) {
	if testing.Short() {
		t.Skip("reads a hundred inputs of 1 MB")
	}
	for name, data := range hostile.Safetensors() {
		openBytes(t, name, data)
	}
	for name, data := range hostile.GGUFs() {
		openBytes(t, name, data)
	}
}

// FuzzSafetensors opens files with any header.
func FuzzSafetensors(f *testing.F) {
	for _, x := range hostileSafetensors() {
		if len(x.file) >= 8 && len(x.file) < 4096 {
			f.Add(x.file[8:], uint16(16))
		}
	}
	r := rand.New(rand.NewPCG(7, 8))
	for d := range safetensorsTypes {
		x := random(r, "a", d, 8)
		f.Add(safetensorsOf(map[string]string{"k": "v"}, x)[8:], uint16(len(x.data)))
	}
	f.Fuzz(func(t *testing.T, text []byte, data uint16) { // the data are the last bytes of text
		n := max(len(text)-int(data), 0)
		openBytes(t, "safetensors", safetensors(string(text[:n]), text[n:]))
	})
}

// FuzzGGUF opens files that begin as GGUF does.
func FuzzGGUF(f *testing.F) {
	for _, x := range hostileGGUFs() {
		if len(x.file) < 4096 {
			f.Add(x.file)
		}
	}
	r := rand.New(rand.NewPCG(9, 10))
	for d := range ggml {
		per, _ := d.Block()
		f.Add(newGGUF().field("k", 8, str("v")...).field("l", 9, append(u32(4), u64(0)...)...).add(random(r, "a", d, per)).bytes())
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		openBytes(t, "GGUF", append([]byte("GGUF"), data[min(4, len(data)):]...))
	})
}
