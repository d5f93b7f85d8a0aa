package checkpoint_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"os"
	"path/filepath"
	"strings"

	"github.com/ferrygpu/ferry"
	"github.com/ferrygpu/ferry/checkpoint"
)

// A checkpoint is saved, listed, planned and loaded as another type.
func Example() {
	if err := example(context.Background()); err != nil {
		log.Fatal(err)
	}
	// Output:
	// bias: F32 [4], 16 bytes
	// head.weight: BF16 [2 4], 16 bytes
	// 1 tensor: 16 bytes in 1 read to 16 bytes of device memory
	// [1 1.5 2 3 1 1.5 2 3]
}

func example(ctx context.Context) error {
	dir, err := os.MkdirTemp("", "checkpoint")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	path := filepath.Join(dir, "model.safetensors")
	gpu, err := ferry.Open("soft")
	if err != nil {
		return err
	}
	defer gpu.Close()
	stream, err := ferry.NewStream(gpu, nil)
	if err != nil {
		return err
	}
	defer stream.Close()

	head, err := ferry.Upload(gpu, []uint16{0x3f80, 0x3fc0, 0x4000, 0x4040, 0x3f80, 0x3fc0, 0x4000, 0x4040}) // the bits of bfloat16
	if err != nil {
		return err
	}
	defer head.Close()
	err = checkpoint.Save(ctx, path, stream, []checkpoint.SaveTensor{
		{Name: "bias", DType: checkpoint.F32, Shape: []int64{4}, Memory: ferry.View[byte](ferry.Pageable([]float32{1, 2, 3, 4}))},
		{Name: "head.weight", DType: checkpoint.BF16, Shape: []int64{2, 4}, Memory: ferry.View[byte](head)},
	}, map[string]string{"format": "pt"})
	if err != nil {
		return err
	}
	return loadExample(ctx, stream, path)
}

func loadExample(ctx context.Context, stream *ferry.Stream, path string) error {
	c, err := checkpoint.Open(path)
	if err != nil {
		return err
	}
	defer c.Close()
	for _, t := range c.Tensors() {
		fmt.Println(t)
	}
	options := &checkpoint.Options{Tensors: []string{"head.*"}}
	plan, err := c.Plan(nil, options)
	if err != nil {
		return err
	}
	fmt.Println(plan)

	options.To = checkpoint.F32
	weights, err := checkpoint.Load(ctx, stream, c, options)
	if err != nil {
		return err
	}
	defer weights.Close()
	head, err := checkpoint.Tensor[float32](weights, "head.weight")
	if err != nil {
		return err
	}
	values, err := ferry.Download[float32](head)
	fmt.Println(values)
	return err
}

func ExampleHeaderError() {
	file := "\x40\x00\x00\x00\x00\x00\x00\x00" + `{"a":{"dtype":"F32","shape":[-1],"data_offsets":[0,4]}}         ` + "data"
	_, err := checkpoint.OpenReaderAt("model.safetensors", strings.NewReader(file), int64(len(file)))
	if wrong, ok := errors.AsType[*checkpoint.HeaderError](err); ok {
		fmt.Println(wrong.Tensor, wrong.Offset)
	}
	fmt.Println(err)
	// Output:
	// a 37
	// open checkpoint: model.safetensors: tensor "a": byte 37: a negative number, want 0 or more
}
