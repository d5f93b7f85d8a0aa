package checkpoint_test

import (
	"bytes"
	"io"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/ferrygpu/ferry/checkpoint"
)

// slowStart is a reader whose first bytes arrive after many others.
type slowStart struct {
	io.ReaderAt
	until int64
}

func (r slowStart) ReadAt(p []byte, off int64) (int, error) {
	if off < r.until && len(p) > 64<<10 {
		time.Sleep(50 * time.Millisecond)
	}
	return r.ReaderAt.ReadAt(p, off)
}

// TestConvertLateBytes converts tensors whose bytes arrive after those of later ones. No tensor is
// converted before its bytes are in memory.
func TestConvertLateBytes(t *testing.T) {
	checkpoint.SetPieces(t, 4<<20, 1<<20)
	const n, count = 1 << 19, 48
	numbers := indexes(rand.New(rand.NewPCG(1, 2)), n)
	shape := []int64{n}
	from, to := bits(checkpoint.BF16, numbers), bits(checkpoint.F16, numbers)
	var files, want []tensor
	for i := range count {
		name := string([]byte{'a' + byte(i/26), 'a' + byte(i%26)})
		files = append(files, tensor{name, checkpoint.BF16, shape, from})
		want = append(want, tensor{name, checkpoint.F16, shape, to})
	}
	file := safetensorsOf(nil, files...)
	c, err := checkpoint.OpenReaderAt("m", slowStart{bytes.NewReader(file), 3 << 20}, int64(len(file)))
	if err != nil {
		t.Fatal(err)
	}
	loaded(t, load(t, stream(t, 0), c, &checkpoint.Options{To: checkpoint.F16}), want)
}
