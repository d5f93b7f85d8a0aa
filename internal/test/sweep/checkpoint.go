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

// loads loads a tensor of ones and saves it. It is converted to a type, unless that is NoDType: to F16
// where it stands, and to F32 by staging memory. A one has the bytes want.
func loads(to checkpoint.DType, want ...byte) func(context.Context, *ferry.GPU, *base) error {
	return func(ctx context.Context, _ *ferry.GPU, b *base) error {
		file := modelFile()
		c, err := checkpoint.OpenReaderAt("model", bytes.NewReader(file), int64(len(file)))
		c, ok := take(&b.user, c, err)
		if !ok {
			return nil
		}
		l, err := checkpoint.Load(ctx, b.s, c, &checkpoint.Options{To: to})
		l, ok = take(&b.user, l, err)
		if !ok {
			return nil
		}
		p, _ := l.Lookup("ones")
		got := make([]byte, p.Memory.Size())
		if err := ferry.CopyContext(ctx, b.s, ferry.Pageable(got), p.Memory); err != nil {
			return err
		}
		if !slices.Equal(got, bytes.Repeat(want, n)) {
			return fmt.Errorf("wrong data: %d bytes as %v", len(got), to)
		}
		return checkpoint.Save(ctx, os.DevNull, b.s, []checkpoint.SaveTensor{{Name: "x", DType: p.As, Shape: p.Shape, Memory: p.Memory}}, nil)
	}
}

// modelFile returns a safetensors file with n ones of type BF16.
func modelFile() []byte {
	head := fmt.Sprintf(`{"ones":{"dtype":"BF16","shape":[%d],"data_offsets":[0,%d]}}`, n, 2*n)
	return slices.Concat(binary.LittleEndian.AppendUint64(nil, uint64(len(head))), []byte(head), bytes.Repeat([]byte{0x80, 0x3f}, n))
}
