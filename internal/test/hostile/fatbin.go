package hostile

import (
	"encoding/binary"
	"strings"

	"github.com/klauspost/compress/zstd"
)

// Compressions of the entries of a fatbin, as flags of the entry.
const (
	Plain     = 0
	LZ4       = 0x2000
	Zstandard = 0x8000
)

// Entry is an entry of a fatbin with PTX for sm_80.
type Entry struct {
	Compression uint64
	Stored      []byte
	Size        uint64 // when decompressed, as the entry says
}

// Fatbin returns a fatbin.
func Fatbin(entries ...Entry) []byte {
	le := binary.LittleEndian
	var body []byte
	for _, e := range entries {
		head := make([]byte, 64)
		le.PutUint16(head, 1)
		le.PutUint32(head[4:], 64)
		le.PutUint64(head[8:], uint64(len(e.Stored)+7)&^7)
		le.PutUint32(head[16:], uint32(len(e.Stored)))
		le.PutUint32(head[28:], 80)
		le.PutUint64(head[40:], e.Compression)
		le.PutUint64(head[56:], e.Size)
		body = append(append(body, head...), e.Stored...)
		for len(body)%8 != 0 {
			body = append(body, 0)
		}
	}
	out := le.AppendUint32(nil, 0xba55ed50)
	out = le.AppendUint16(out, 1)
	out = le.AppendUint16(out, 16)
	return append(le.AppendUint64(out, uint64(len(body))), body...)
}

// bomb returns an entry that is head, and then each again and again, size bytes in all.
func bomb(compression uint64, head, each string, size int) Entry {
	if compression == LZ4 {
		return Entry{LZ4, lz4Repeat(head, each, size), uint64(size)}
	}
	text := head + strings.Repeat(each, size/len(each)+1)
	w, err := zstd.NewWriter(nil, zstd.WithEncoderConcurrency(1), zstd.WithWindowSize(1<<20))
	if err != nil {
		panic("BUG: " + err.Error())
	}
	return Entry{Zstandard, w.EncodeAll([]byte(text[:size]), nil), uint64(size)}
}

// lz4Repeat returns a block of LZ4 that is head, and then each again and again, size bytes
// in all: the literals, and one match that overlaps itself.
func lz4Repeat(head, each string, size int) []byte {
	literals := head + each
	out := lz4Length([]byte{0xff}, len(literals))
	out = append(append(out, literals...), byte(len(each)), byte(len(each)>>8))
	return lz4Length(out, size-len(literals)-4)
}

// lz4Length appends a length of which 15 is in the token.
func lz4Length(b []byte, n int) []byte {
	for n -= 15; n >= 255; n -= 255 {
		b = append(b, 255)
	}
	return append(b, byte(n))
}

// Fatbins returns fatbins of at most [Bytes] bytes, by name: with very many entries, or
// with entries that are much larger when decompressed.
func Fatbins() map[string][]byte {
	most := 12 * Bytes // that are decompressed
	out := map[string][]byte{
		"many entries": Fatbin(make([]Entry, Bytes/64-1)...),
	}
	for name, compression := range map[string]uint64{"LZ4": LZ4, "Zstandard": Zstandard} {
		for what, text := range map[string][2]string{
			"of zeros":         {"", strings.Repeat("\x00", 64)},
			"of blanks":        {ptxHead, strings.Repeat(" ", 64)},
			"of lines":         {ptxHead, strings.Repeat("\n", 64)},
			"of instructions":  {kernelHead, "mov.b32 %r1,%r2;"},
			"of returns":       {kernelHead, "ret;ret;ret;ret;"},
			"of operands":      {kernelHead + "call f,(%r1", ",%r1,%r2,%r3"},
			"of values":        {ptxHead + ".global .b8 a[] = {1", ",1,1,1,1,1"},
			"of addresses":     {ptxHead + ".global .b8 t[4];\n.global .u64 a[] = {t", ",t,t,t,t,t"},
			"of errors":        {ptxHead, "x y z; x y z;"},
			"of one variable":  {ptxHead, ".global .u32 a;\n"},
			"of one parameter": {ptxHead + ".entry k(.param .u32 a", ",.param .u32 a"},
			"of one name":      {ptxHead + ".global .u32 ", strings.Repeat("x", 64)},
			"of one comment":   {ptxHead + "/*", strings.Repeat("x", 64)},
			"of one function":  {ptxHead, ".func f(){ret;}\n"},
			"of declarations":  {ptxHead, ".extern .func f(.param .b32 a);\n"},
			"of files":         {ptxHead, ".file 1 \"x\"\n"},
			"of names":         {ptxHead + ".alias a,b;\n.global .u32 x", ",x"},
			"of targets":       {kernelHead + "L: .branchtargets L", ",L,L,L,L"},
			"of blocks":        {kernelHead, "{.reg .b32 %x;}"},
		} {
			if compression == Zstandard && what != "of zeros" && what != "of returns" {
				continue // the text is what costs, and the packer is slow
			}
			out[name+" "+what] = Fatbin(bomb(compression, text[0], text[1], most))
		}
		out[name+" of too much"] = Fatbin(bomb(compression, ptxHead, strings.Repeat(" ", 64), 64<<20))
		out[name+" larger than it says"] = Fatbin(Entry{compression, bomb(compression, "", strings.Repeat("x", 64), most).Stored, 100})
		out[name+" smaller than it says"] = Fatbin(Entry{compression, bomb(compression, "", strings.Repeat("x", 64), 100).Stored, uint64(most)})
		out[name+" of a huge size"] = Fatbin(Entry{compression, bomb(compression, "", strings.Repeat("x", 64), 100).Stored, 1 << 63})
	}
	return out
}
