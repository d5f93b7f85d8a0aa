package sweep

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"os"
	"slices"

	"github.com/ferrygpu/ferry"
	"github.com/ferrygpu/ferry/checkpoint"
)

// checkpoints loads tensors as they are, converts them where they stand and by staging memory, and
// saves them.
func checkpoints(ctx context.Context, g *ferry.GPU, b *base) error {
	file := modelFile()
	c, err := checkpoint.OpenReaderAt("model", bytes.NewReader(file), int64(len(file)))
	c, ok := take(&b.user, c, err)
	if !ok {
		return nil
	}
	for to, want := range map[checkpoint.DType][]byte{checkpoint.NoDType: {0x80, 0x3f}, checkpoint.F16: {0, 0x3c}, checkpoint.F32: {0, 0, 0x80, 0x3f}} {
		l, err := checkpoint.Load(ctx, b.s, c, &checkpoint.Options{To: to})
		l, ok := take(&b.user, l, err)
		if !ok {
			return nil
		}
		p, _ := l.Lookup("ones")
		got, err := ferry.Download(p.Memory)
		if err != nil {
			return err
		}
		if !slices.Equal(got, bytes.Repeat(want, n)) {
			return fmt.Errorf("wrong data: %d bytes as %v", len(got), to)
		}
		if err := checkpoint.Save(ctx, os.DevNull, b.s, []checkpoint.SaveTensor{{Name: "x", DType: p.As, Shape: p.Shape, Memory: p.Memory}}, nil); err != nil {
			return err
		}
	}
	return nil
}

// modelFile returns a safetensors file with n ones of type BF16.
func modelFile() []byte {
	head := fmt.Sprintf(`{"ones":{"dtype":"BF16","shape":[%d],"data_offsets":[0,%d]}}`, n, 2*n)
	return slices.Concat(binary.LittleEndian.AppendUint64(nil, uint64(len(head))), []byte(head), bytes.Repeat([]byte{0x80, 0x3f}, n))
}
