package checkpoint_test

import (
	"bytes"
	"encoding/binary"
	"slices"

	"github.com/ferrygpu/ferry/checkpoint"
)

// ggml is the number that ggml has for a type.
var ggml = map[checkpoint.DType]uint32{
	checkpoint.F32: 0, checkpoint.F16: 1, checkpoint.Q4_0: 2, checkpoint.Q4_1: 3, checkpoint.Q5_0: 6, checkpoint.Q5_1: 7,
	checkpoint.Q8_0: 8, checkpoint.Q8_1: 9, checkpoint.Q2_K: 10, checkpoint.Q3_K: 11, checkpoint.Q4_K: 12, checkpoint.Q5_K: 13,
	checkpoint.Q6_K: 14, checkpoint.Q8_K: 15, checkpoint.IQ2_XXS: 16, checkpoint.IQ2_XS: 17, checkpoint.IQ3_XXS: 18,
	checkpoint.IQ1_S: 19, checkpoint.IQ4_NL: 20, checkpoint.IQ3_S: 21, checkpoint.IQ2_S: 22, checkpoint.IQ4_XS: 23,
	checkpoint.I8: 24, checkpoint.I16: 25, checkpoint.I32: 26, checkpoint.I64: 27, checkpoint.F64: 28, checkpoint.IQ1_M: 29,
	checkpoint.BF16: 30, checkpoint.TQ1_0: 34, checkpoint.TQ2_0: 35, checkpoint.MXFP4: 39, checkpoint.NVFP4: 40,
	checkpoint.Q1_0: 41, checkpoint.Q2_0: 42,
}

// gguf writes a GGUF file. It is written by the format's text, and not by package checkpoint.
type gguf struct {
	version   uint32
	tensors   uint64 // what the header says
	fields    uint64
	metadata  []byte
	infos     []byte
	alignment int
	data      []byte
	shortened int // bytes that are missing at the end
}

func newGGUF() *gguf {
	return &gguf{version: 3, alignment: 32}
}

func u32(n uint32) []byte { return binary.LittleEndian.AppendUint32(nil, n) }
func u64(n uint64) []byte { return binary.LittleEndian.AppendUint64(nil, n) }

// str returns a string of GGUF.
func str(s string) []byte { return append(u64(uint64(len(s))), s...) }

// field adds a field of metadata: its type, and the bytes of its value.
func (g *gguf) field(key string, kind uint32, value ...byte) *gguf {
	g.fields++
	g.metadata = slices.Concat(g.metadata, str(key), u32(kind), value)
	return g
}

// info adds the description of a tensor. The dimensions are those of the file: the first varies fastest.
func (g *gguf) info(name string, kind uint32, offset uint64, dims ...uint64) *gguf {
	g.tensors++
	g.infos = slices.Concat(g.infos, str(name), u32(uint32(len(dims))))
	for _, d := range dims {
		g.infos = append(g.infos, u64(d)...)
	}
	g.infos = slices.Concat(g.infos, u32(kind), u64(offset))
	return g
}

// add adds a tensor with its data.
func (g *gguf) add(t tensor) *gguf {
	var dims []uint64
	for _, d := range slices.Backward(t.shape) {
		dims = append(dims, uint64(d))
	}
	g.data = append(g.data, make([]byte, -len(g.data)&(g.alignment-1))...)
	g.info(t.name, ggml[t.dtype], uint64(len(g.data)), dims...)
	g.data = append(g.data, t.data...)
	return g
}

// bytes returns the file.
func (g *gguf) bytes() []byte {
	all := bytes.Join([][]byte{[]byte("GGUF"), u32(g.version), u64(g.tensors), u64(g.fields), g.metadata, g.infos}, nil)
	all = append(all, make([]byte, -len(all)&(g.alignment-1))...)
	all = append(all, g.data...)
	return all[:len(all)-g.shortened]
}
