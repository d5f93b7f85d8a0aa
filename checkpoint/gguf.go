package checkpoint

import (
	"encoding/binary"
	"fmt"
	"math"
	"math/bits"
	"slices"
	"unicode/utf8"

	"github.com/ferrygpu/ferry/checkpoint/internal/scan"
	"github.com/ferrygpu/ferry/internal/printable"
)

const (
	ggufMagic     = "GGUF"
	maxKey        = 1<<16 - 1 // bytes of a key, by the format; of a tensor's name, too
	ggufMaxRank   = 8         // dimensions; ggml has 4
	ggufAlignment = 32        // unless the metadata says another one
	alignmentKey  = "general.alignment"

	// The fewest bytes of a field of metadata (the length of its key, a letter, a type and a value)
	// and of a tensor (the length of its name, a rank, a type and an offset).
	minField, minTensor = 8 + 1 + 4 + 1, 8 + 4 + 4 + 8
)

// ggmlTypes are the types of tensors by their number. Those that ggml has removed are not here.
var ggmlTypes = map[uint32]DType{
	0: F32, 1: F16, 2: Q4_0, 3: Q4_1, 6: Q5_0, 7: Q5_1, 8: Q8_0, 9: Q8_1, 10: Q2_K, 11: Q3_K, 12: Q4_K, 13: Q5_K, 14: Q6_K, 15: Q8_K,
	16: IQ2_XXS, 17: IQ2_XS, 18: IQ3_XXS, 19: IQ1_S, 20: IQ4_NL, 21: IQ3_S, 22: IQ2_S, 23: IQ4_XS, 24: I8, 25: I16, 26: I32, 27: I64,
	28: F64, 29: IQ1_M, 30: BF16, 34: TQ1_0, 35: TQ2_0, 39: MXFP4, 40: NVFP4, 41: Q1_0, 42: Q2_0,
}

// isGGUF reports whether a file begins as GGUF does.
func isGGUF(f *file) bool {
	var magic [4]byte
	return f.size >= 4 && scan.NewReader(f.src, 0, 4).Fill(magic[:]) == nil && string(magic[:]) == ggufMagic
}

// readGGUF reads the header of a GGUF file of version 2 or 3: counts, metadata, tensors. Their
// bytes begin at the next multiple of the alignment.
func readGGUF(f *file) (*header, error) {
	p := &gguf{f: f, r: scan.NewReader(f.src, 4, min(f.size, maxHeader))}
	p.header.metadata, p.header.at = map[string]any{}, map[string]int64{}
	if err := p.document(); err != nil {
		return nil, f.fault("", err)
	}
	return &p.header, nil
}

// gguf is a parser of one header.
type gguf struct {
	header
	f *file
	r *scan.Reader
}

func (p *gguf) document() error {
	version, err := p.u32()
	if err != nil {
		return err
	}
	switch {
	case version == bits.ReverseBytes32(2), version == bits.ReverseBytes32(3):
		return p.f.faultf("", 4, "this GGUF file is big-endian (its version is %#x): convert it, Ferry reads little-endian files", version)
	case version != 2 && version != 3:
		return p.f.faultf("", 4, "version %d of GGUF: Ferry reads versions 2 and 3", version)
	}
	tensors, err := p.count("tensors", minTensor)
	if err != nil {
		return err
	}
	fields, err := p.count("fields of metadata", minField)
	if err != nil {
		return err
	}
	for range fields {
		if err := p.field(); err != nil {
			return err
		}
	}
	return p.infos(tensors)
}

// count takes a number of things that have at least each bytes. More than can follow are refused.
func (p *gguf) count(what string, each int64) (int64, error) {
	at := p.r.Offset()
	n, err := p.u64()
	if err != nil {
		return 0, err
	}
	if most := p.r.Left() / each; n > uint64(most) {
		return 0, scan.ErrorAt(at, "%d %s, but the %d bytes that follow %s can have %d at most", n, what, p.r.Left(), p.limit(), most)
	}
	return int64(n), nil
}

// limit says what limits the header.
func (p *gguf) limit() string {
	if p.f.size > maxHeader {
		return fmt.Sprintf("in a header of up to %d", maxHeader)
	}
	return "in the file"
}

func (p *gguf) u32() (uint32, error) {
	var b [4]byte
	err := p.r.Fill(b[:])
	return binary.LittleEndian.Uint32(b[:]), err
}

func (p *gguf) u64() (uint64, error) {
	var b [8]byte
	err := p.r.Fill(b[:])
	return binary.LittleEndian.Uint64(b[:]), err
}

// text takes a string of at most most bytes.
func (p *gguf) text(most int64) (string, error) {
	at := p.r.Offset()
	n, err := p.u64()
	if err != nil {
		return "", err
	}
	switch {
	case n > uint64(p.r.Left()):
		return "", scan.ErrorAt(at, "a string of %d bytes, but only %d follow %s", n, p.r.Left(), p.limit())
	case n > uint64(most):
		return "", scan.ErrorAt(at, "a string of %d bytes, but at most %d may be here", n, most)
	}
	b, err := p.r.Bytes(int64(n))
	return string(b), err
}

// name takes the name of a tensor or a key.
func (p *gguf) name(what string) (string, error) {
	at := p.r.Offset()
	name, err := p.text(maxKey)
	switch {
	case err != nil:
		return "", err
	case !utf8.ValidString(name):
		return "", scan.ErrorAt(at, "the %s %s is not UTF-8", what, printable.Value(name))
	}
	return name, checkName(name, at)
}

// field takes a field of metadata.
func (p *gguf) field() error {
	at := p.r.Offset()
	key, err := p.name("key")
	if err != nil {
		return err
	}
	if _, twice := p.at[key]; twice || key == "" {
		return scan.ErrorAt(at, "the key %s is empty, or stands here for the second time", printable.Value(key))
	}
	p.at[key] = p.r.Offset()
	value, err := p.value()
	if err != nil {
		return scan.Within("the key "+printable.Value(key), err)
	}
	p.metadata[key] = value
	return nil
}

// Types of values of metadata.
const (
	ggufString = 8
	ggufArray  = 9
)

// value takes the type of a value, and the value.
func (p *gguf) value() (any, error) {
	at := p.r.Offset()
	kind, err := p.u32()
	if err != nil {
		return nil, err
	}
	if kind == ggufArray {
		return p.array()
	}
	if kind == ggufString {
		return p.text(math.MaxInt64)
	}
	read, ok := ggufScalars[kind]
	if !ok {
		return nil, scan.ErrorAt(at, "a value of type %d, which GGUF lacks", kind)
	}
	return read.one(p)
}

// array takes the type of elements, their number, and them.
func (p *gguf) array() (any, error) {
	at := p.r.Offset()
	kind, err := p.u32()
	if err != nil {
		return nil, err
	}
	if kind == ggufString {
		return p.texts()
	}
	read, ok := ggufScalars[kind]
	if !ok {
		return nil, scan.ErrorAt(at, "an array of elements of type %d: Ferry reads arrays of numbers, bools and strings", kind)
	}
	n, err := p.count("elements of an array", read.bytes)
	if err != nil {
		return nil, err
	}
	return read.many(p, n)
}

func (p *gguf) texts() (any, error) {
	n, err := p.count("strings of an array", 8)
	all := []string{}
	for ; n > 0 && err == nil; n-- {
		var s string
		s, err = p.text(math.MaxInt64)
		all = append(all, s)
	}
	return all, err
}

// scalar reads values of one type.
type scalar struct {
	bytes int64
	one   func(p *gguf) (any, error)
	many  func(p *gguf, n int64) (any, error)
}

// scalarOf returns the reader of values of size bytes, which value makes of their bytes.
func scalarOf[T any](size int64, value func(b []byte) T) scalar {
	return scalar{
		bytes: size,
		one: func(p *gguf) (any, error) {
			b, err := p.r.Bytes(size)
			if err != nil {
				return nil, err
			}
			return value(b), nil
		},
		many: func(p *gguf, n int64) (any, error) {
			all := []T{}
			var b [8]byte
			for ; n > 0; n-- {
				if err := p.r.Fill(b[:size]); err != nil {
					return nil, err
				}
				all = append(all, value(b[:size]))
			}
			return all, nil
		},
	}
}

var little = binary.LittleEndian

// ggufScalars are the types of values by their number.
var ggufScalars = map[uint32]scalar{
	0:  scalarOf(1, func(b []byte) uint8 { return b[0] }),
	1:  scalarOf(1, func(b []byte) int8 { return int8(b[0]) }),
	2:  scalarOf(2, little.Uint16),
	3:  scalarOf(2, func(b []byte) int16 { return int16(little.Uint16(b)) }),
	4:  scalarOf(4, little.Uint32),
	5:  scalarOf(4, func(b []byte) int32 { return int32(little.Uint32(b)) }),
	6:  scalarOf(4, func(b []byte) float32 { return math.Float32frombits(little.Uint32(b)) }),
	7:  scalarOf(1, func(b []byte) bool { return b[0] != 0 }),
	10: scalarOf(8, little.Uint64),
	11: scalarOf(8, func(b []byte) int64 { return int64(little.Uint64(b)) }),
	12: scalarOf(8, func(b []byte) float64 { return math.Float64frombits(little.Uint64(b)) }),
}

// infos takes the descriptions of tensors, and finds where their bytes are.
func (p *gguf) infos(n int64) error {
	alignment, err := p.alignment()
	if err != nil {
		return err
	}
	known := map[string]bool{}
	var at []int64
	for range n {
		at = append(at, p.r.Offset())
		if err := p.info(known); err != nil {
			return err
		}
	}
	data := (p.r.Offset() + alignment - 1) / alignment * alignment
	for i := range p.tensors {
		if err := p.f.fault(p.tensors[i].Name, p.place(&p.tensors[i], data, alignment, at[i])); err != nil {
			return err
		}
	}
	return p.sorted(p.f)
}

// alignment returns what offsets are multiples of.
func (p *gguf) alignment() (int64, error) {
	value, ok := p.metadata[alignmentKey]
	if !ok {
		return ggufAlignment, nil
	}
	n, ok := value.(uint32)
	if !ok || n == 0 || n&(n-1) != 0 {
		return 0, scan.ErrorAt(p.at[alignmentKey], "%s is %s (%T), want a power of two as an uint32", alignmentKey, printable.Value(fmt.Sprint(value)), value)
	}
	return int64(n), nil
}

// info takes the description of a tensor: its name, dimensions, type and offset.
func (p *gguf) info(known map[string]bool) error {
	at := p.r.Offset()
	name, err := p.name("name of a tensor")
	switch {
	case err != nil:
		return err
	case known[name]:
		return p.f.faultf(name, at, "a tensor of this name stands here for the second time")
	}
	known[name] = true
	t := Info{Name: name, File: p.f.name, file: p.f}
	if t.Shape, err = p.shape(); err != nil {
		return p.f.fault(name, err)
	}
	if t.DType, err = p.dtype(); err != nil {
		return p.f.fault(name, err)
	}
	offset, err := p.u64()
	if err == nil && offset > math.MaxInt64 {
		err = scan.ErrorAt(p.r.Offset()-8, "its offset %d is above %d", offset, int64(math.MaxInt64))
	}
	t.Offset = int64(offset)
	p.tensors = append(p.tensors, t)
	return p.f.fault(name, err)
}

// shape takes the dimensions, of which the first varies fastest, and returns them in the other order.
func (p *gguf) shape() ([]int64, error) {
	at := p.r.Offset()
	rank, err := p.u32()
	switch {
	case err != nil:
		return nil, err
	case rank > ggufMaxRank:
		return nil, scan.ErrorAt(at, "%d dimensions, more than %d", rank, ggufMaxRank)
	}
	shape := make([]int64, rank)
	for i := range shape {
		d, err := p.u64()
		switch {
		case err != nil:
			return nil, err
		case d > math.MaxInt64:
			return nil, scan.ErrorAt(p.r.Offset()-8, "dimension %d is %d, above %d", i, d, int64(math.MaxInt64))
		}
		shape[i] = int64(d)
	}
	slices.Reverse(shape)
	return shape, nil
}

func (p *gguf) dtype() (DType, error) {
	at := p.r.Offset()
	n, err := p.u32()
	if err != nil {
		return NoDType, err
	}
	d, ok := ggmlTypes[n]
	if !ok {
		return NoDType, scan.ErrorAt(at, "type %d of ggml is not known, or ggml has removed it", n)
	}
	return d, nil
}

// place checks where the bytes of a tensor are. Its offset counts from data. at is where the
// header describes it.
func (p *gguf) place(t *Info, data, alignment, at int64) error {
	n, ok := count(t.Shape)
	bytes, fits := t.DType.size(n)
	per, _ := t.DType.Block()
	switch {
	case !ok:
		return scan.ErrorAt(at, "the product of its shape %v overflows", t.Shape)
	case !fits, len(t.Shape) > 0 && t.Shape[len(t.Shape)-1]%per != 0:
		return scan.ErrorAt(at, "rows of shape %v are no multiple of %d, the elements of a block of %v, or have more than 2^63 bytes", t.Shape, per, t.DType)
	case t.Offset%alignment != 0:
		return scan.ErrorAt(at, "its offset %d is no multiple of %d, the alignment of the file", t.Offset, alignment)
	case data > p.f.size, t.Offset > p.f.size-data, bytes > p.f.size-data-t.Offset:
		return scan.ErrorAt(at, "its %d bytes from offset %d end behind the file, which has %d bytes, %d of them before the tensors", bytes, t.Offset, p.f.size, data)
	}
	t.Offset, t.Bytes = data+t.Offset, bytes
	return nil
}
