package kerneltest

import (
	"strings"
	"testing"

	"github.com/ferrygpu/ferry/internal/test/hostile"
)

// FuzzCase reads the arguments of a case, one in a line, and its sizes. What is accepted
// has launches, and arguments that have a size.
func FuzzCase(f *testing.F) {
	for _, seed := range []string{
		"in:f32=random[N]\nout:f32=[N]\ns32=N\nf32=2.5", "inout:u8=iota[N*N]", "in:bf16=whole[N]:-3..4", "struct=f32:1,u8:N",
		"in:f32=@N.bin", "out:f32=[NN]", "u32=NaN", "in:f64=1,N,3", "",
	} {
		f.Add(seed, 33, 256)
	}
	f.Fuzz(func(t *testing.T, text string, size, block int) {
		if strings.Contains(text, "@") || len(text) > hostile.Bytes {
			return // files
		}
		c := &Case{PTX: []byte("x"), Kernel: "k", Args: strings.Split(text, "\n"), Sizes: []int{size}, Blocks: []int{block}}
		hostile.Check(t, "case", func() {
			launches, err := c.launches()
			if (err == nil) != (len(launches) > 0) {
				t.Errorf("%d launches, error %v", len(launches), err)
			}
			for _, l := range launches {
				args, err := c.parse(l.n)
				for i := range args {
					if n, sizeErr := args[i].Size(); err == nil && (sizeErr != nil || n <= 0) {
						t.Errorf("%q: %d bytes, %v", args[i].Text, n, sizeErr)
					}
				}
			}
			c.Sizes = nil
			if sizes, err := c.sizes(); err == nil && len(sizes) == 0 {
				t.Error("no size, and no error")
			}
		})
	})
}
