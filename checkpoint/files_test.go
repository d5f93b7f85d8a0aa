package checkpoint_test

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/ferrygpu/ferry/checkpoint"
)

// tensor is a tensor of a file that a test writes.
type tensor struct {
	name  string
	dtype checkpoint.DType
	shape []int64
	data  []byte
}

// random returns a tensor with random bytes.
func random(r *rand.Rand, name string, dtype checkpoint.DType, shape ...int64) tensor {
	n := int64(1)
	for _, d := range shape {
		n *= d
	}
	per, each := dtype.Block()
	data := make([]byte, n/per*each)
	for i := range data {
		data[i] = byte(r.Uint32())
	}
	if shape == nil {
		shape = []int64{}
	}
	return tensor{name, dtype, shape, data}
}

// safetensors returns a file with a header, as the format's text has it, and data.
func safetensors(header string, data []byte) []byte {
	all := binary.LittleEndian.AppendUint64(nil, uint64(len(header)))
	return append(append(all, header...), data...)
}

// safetensorsOf returns a file of tensors. It is written by hand here, and not by package checkpoint.
func safetensorsOf(metadata map[string]string, tensors ...tensor) []byte {
	var fields []string
	if metadata != nil {
		text, _ := json.Marshal(metadata)
		fields = append(fields, `"__metadata__":`+string(text))
	}
	var data []byte
	for _, t := range tensors {
		name, _ := json.Marshal(t.name)
		shape, _ := json.Marshal(t.shape)
		fields = append(fields, fmt.Sprintf(`%s:{"dtype":"%v","shape":%s,"data_offsets":[%d,%d]}`, name, t.dtype, shape, len(data), len(data)+len(t.data)))
		data = append(data, t.data...)
	}
	return safetensors("{"+strings.Join(fields, ",")+"}", data)
}

// write writes a file into the folder of the test and returns its path.
func write(t testing.TB, name string, data []byte) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, data, 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// open opens a checkpoint, and closes it at the end of the test.
func open(t testing.TB, paths ...string) *checkpoint.Checkpoint {
	t.Helper()
	c, err := checkpoint.Open(paths...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	})
	return c
}

// same demands that a checkpoint has these tensors, each with its bytes in the file.
func same(t *testing.T, c *checkpoint.Checkpoint, want []tensor) {
	t.Helper()
	if n := len(c.Tensors()); n != len(want) {
		t.Errorf("%d tensors, want %d", n, len(want))
	}
	for _, w := range want {
		info, ok := c.Lookup(w.name)
		if !ok {
			t.Errorf("no tensor %q", w.name)
			continue
		}
		if info.Name != w.name || info.DType != w.dtype || fmt.Sprint(info.Shape) != fmt.Sprint(w.shape) || info.Bytes != int64(len(w.data)) {
			t.Errorf("got %v, want %v %v of %d bytes", info, w.dtype, w.shape, len(w.data))
		}
		data, err := os.ReadFile(info.File)
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(data[info.Offset:][:info.Bytes], w.data) {
			t.Errorf("%v: the bytes at %d are others", info, info.Offset)
		}
	}
}
