package ptx_test

import (
	"os"
	"strings"
	"testing"

	"github.com/ferrygpu/ferry/ptx"
)

// BenchmarkParse parses PTX of a compiler: one file, and copies of one of its kernels with
// a total of one megabyte.
func BenchmarkParse(b *testing.B) {
	text, err := os.ReadFile("testdata/corpus_nvcc.ptx")
	if err != nil {
		b.Fatal(err)
	}
	b.Run("input=corpus_nvcc", func(b *testing.B) { benchmarkParse(b, string(text)) })
	b.Run("input=1MB", func(b *testing.B) { benchmarkParse(b, megabyte(string(text))) })
}

func benchmarkParse(b *testing.B, source string) {
	b.SetBytes(int64(len(source)))
	b.ReportAllocs()
	for b.Loop() {
		if _, err := ptx.Parse("b.ptx", source); err != nil {
			b.Fatal(err)
		}
	}
}

// megabyte repeats the int_ops kernel under new names.
func megabyte(text string) string {
	head, _, _ := strings.Cut(text, "// _ZZ13")
	_, kernel, _ := strings.Cut(text, ".visible .entry int_ops")
	kernel, _, _ = strings.Cut(kernel, "\n}\n")
	kernel = ".visible .entry int_ops" + kernel + "\n}\n"
	var b strings.Builder
	b.WriteString(head)
	for n := 0; b.Len() < 1<<20; n++ {
		b.WriteString(strings.ReplaceAll(kernel, "int_ops", "int_ops"+string(rune('a'+n%26))+strings.Repeat("x", n/26)))
	}
	return b.String()
}
