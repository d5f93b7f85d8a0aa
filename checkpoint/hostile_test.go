package checkpoint_test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"math"
	"runtime"
	"strings"
	"testing"

	"github.com/ferrygpu/ferry/checkpoint"
	"github.com/ferrygpu/ferry/internal/printable"
)

// refused is a file that is refused.
type refused struct {
	file   []byte
	tensor string // that the error is about
	at     int64  // the byte that it names; -1 for any
	text   string // a part of the error
}

// header returns a safetensors file with a header and 16 bytes of data.
func header(text string) []byte { return safetensors(text, make([]byte, 16)) }

// one returns a file with a tensor a.
func one(dtype, shape, offsets string) []byte {
	return header(`{"a":{"dtype":"` + dtype + `","shape":` + shape + `,"data_offsets":` + offsets + `}}`)
}

// whole is a tensor with all 16 bytes.
const whole = `{"dtype":"U8","shape":[16],"data_offsets":[0,16]}`

// hostileSafetensors are files that are refused.
func hostileSafetensors() map[string]refused {
	long := binary.LittleEndian.AppendUint64(nil, 1<<60)
	beyond := append(binary.LittleEndian.AppendUint64(nil, 1000), `{}`...)
	return map[string]refused{
		"nothing":                   {nil, "", 0, "0 bytes, too few"},
		"7 bytes":                   {make([]byte, 7), "", 0, "7 bytes, too few"},
		"header of 2^60":            {append(long, "{}"...), "", 0, "1152921504606846976 bytes, more than 100000000"},
		"header beyond the file":    {beyond, "", 0, "1000 bytes, but only 2 follow"},
		"header above 100 MB":       {append(binary.LittleEndian.AppendUint64(nil, 100_000_001), "{}"...), "", 0, "more than 100000000"},
		"no header":                 {make([]byte, 16), "", 8, "does not begin with '{'"},
		"not JSON":                  {header("[]"), "", 8, "does not begin with '{'"},
		"no end":                    {header(`{"a":` + whole), "", 62, "the header ends here"},
		"more after the end":        {header(`{} {}`), "", 11, "'{' after the end"},
		"depth of 10,000":           {header(`{"a":{"x":` + strings.Repeat("[", 10_000)), "a", 81, "more than 64 objects and lists"},
		"depth of 10,000 objects":   {header(`{"a":{"x":` + strings.Repeat(`{"x":`, 10_000)), "a", 329, "more than 64 objects and lists"},
		"one name twice":            {header(`{"a":` + whole + `,"a":` + whole + `}`), "a", 63, `the name "a" stands here for the second time`},
		"one name, written twice":   {header(`{"a":` + whole + `,"\u0061":` + whole + `}`), "a", 63, `the name "a" stands here for the second time`},
		"dtype twice":               {header(`{"a":{"dtype":"U8","dtype":"I8","shape":[16],"data_offsets":[0,16]}}`), "a", 27, `the name "dtype" stands`},
		"one of many twice":         {header(`{"a":{"1":1,"2":1,"3":1,"4":1,"5":1,"6":1,"7":1,"8":1,"9":1,"10":1,"9":1}}`), "a", 75, `the name "9" stands`},
		"metadata twice":            {header(`{"__metadata__":{},"__metadata__":{},"a":` + whole + `}`), "", 27, `"__metadata__" stands here for the second time`},
		"metadata of numbers":       {header(`{"__metadata__":{"k":1},"a":` + whole + `}`), "", 29, "'1' here, want a string"},
		"metadata that is a list":   {header(`{"__metadata__":[],"a":` + whole + `}`), "", 24, "'[' here, want an object"},
		"a negative offset":         {one("U8", "[16]", "[-1,16]"), "a", 56, "a negative number"},
		"a negative dimension":      {one("U8", "[-16]", "[0,16]"), "a", 36, "a negative number"},
		"offset -0":                 {one("U8", "[16]", "[-0,16]"), "a", 56, "a negative number"},
		"a fraction":                {one("U8", "[16.0]", "[0,16]"), "a", 36, "fraction or an exponent"},
		"an exponent":               {one("U8", "[16]", "[0,16e0]"), "a", 58, "fraction or an exponent"},
		"a zero before":             {one("U8", "[016]", "[0,16]"), "a", 36, "a zero before it"},
		"offset of 2^63":            {one("U8", "[16]", "[0,9223372036854775808]"), "a", 58, "a number above 9223372036854775807"},
		"offset of many digits":     {one("U8", "[16]", "[0,"+strings.Repeat("9", 1000)+"]"), "a", 58, "a number above"},
		"offsets backward":          {one("U8", "[16]", "[16,0]"), "a", 9, "end at 0, before they begin at 16"},
		"one offset":                {one("U8", "[16]", "[0]"), "a", 9, "has 1 numbers, want 2"},
		"three offsets":             {one("U8", "[16]", "[0,16,16]"), "a", 61, "more than 2 numbers"},
		"offsets beyond the file":   {one("U8", "[17]", "[0,17]"), "a", 9, "end behind the file, which has 16"},
		"offsets of another size":   {one("U16", "[16]", "[0,16]"), "a", 9, "U16 [16] has 32 bytes, but its offsets 0 to 16 are 16"},
		"offsets that are unequal":  {one("F4", "[3]", "[0,2]"), "a", 9, "no whole number of bytes"},
		"6 bits that do not fit":    {one("F6_E2M3", "[2]", "[0,2]"), "a", 9, "no whole number of bytes"},
		"a shape that overflows":    {one("U8", "[4294967296,4294967296]", "[0,16]"), "a", 9, "product of its shape [4294967296 4294967296] overflows"},
		"a size that overflows":     {one("F64", "[4611686018427387904]", "[0,16]"), "a", 9, "more than 2^63"},
		"a size that becomes 16":    {one("F64", "[2305843009213693954]", "[0,16]"), "a", 9, "more than 2^63"},
		"65 dimensions":             {one("U8", "["+strings.Repeat("1,", 64)+"16]", "[0,16]"), "a", 164, "more than 64 numbers"},
		"metadata with a key twice": {header(`{"__metadata__":{"k":"","k":""},"a":` + whole + `}`), "", 32, `the name "k" stands`},
		"a dtype of 1 MB":           {one(strings.Repeat("F", 1<<20), "[16]", "[0,16]"), "a", 22, `is not known`},
		"an unknown dtype":          {one("U9", "[16]", "[0,16]"), "a", 22, `the dtype "U9" is not known`},
		"a dtype of the other":      {one("Q4_0", "[16]", "[0,16]"), "a", 22, `the dtype "Q4_0" is not known`},
		"a dtype in lower case":     {one("u8", "[16]", "[0,16]"), "a", 22, `the dtype "u8" is not known`},
		"no dtype":                  {header(`{"a":{"shape":[16],"data_offsets":[0,16]}}`), "a", 9, "lacks one"},
		"no shape":                  {header(`{"a":{"dtype":"U8","data_offsets":[0,16]}}`), "a", 9, "lacks one"},
		"no offsets":                {header(`{"a":{"dtype":"U8","shape":[16]}}`), "a", 9, "lacks one"},
		"a tensor that is a number": {header(`{"a":1}`), "a", 13, "'1' here, want an object"},
		"two share bytes": {header(`{"a":{"dtype":"U8","shape":[10],"data_offsets":[0,10]},"b":{"dtype":"U8","shape":[7],"data_offsets":[9,16]}}`),
			"b", -1, `overlap those of tensor "a"`},
		"two have the same bytes": {header(`{"a":` + whole + `,"b":` + whole + `}`), "b", -1, `overlap those of tensor "a"`},
		"a gap":                   {header(`{"a":{"dtype":"U8","shape":[8],"data_offsets":[0,8]},"b":{"dtype":"U8","shape":[7],"data_offsets":[9,16]}}`), "b", -1, "1 bytes before it"},
		"a gap before":            {one("U8", "[15]", "[1,16]"), "a", -1, "1 bytes before it"},
		"a gap behind":            {one("U8", "[15]", "[0,15]"), "", -1, "the last 1 bytes"},
		"invalid UTF-8":           {header("{\"a\xff\":" + whole + "}"), "", 10, `the string "a\xff" is not UTF-8`},
		"half a letter":           {header(`{"a\ud800":` + whole + `}`), "", 11, `half of a letter (\ud800)`},
		"two first halves":        {header(`{"a\ud800\ud800":` + whole + `}`), "", 11, "do not belong together"},
		"a control character":     {header("{\"a\x1b[31m\":" + whole + "}"), "", 11, `a control character ('\x1b') in a string`},
		"an escaped one":          {header(`{"a\u001b[31m":` + whole + `}`), "a\x1b[31m", 9, `the name "a\x1b[31m" has a control character (U+001B)`},
		"an escaped C1":           {header(`{"a\u009b31m":` + whole + `}`), "a\u009b31m", 9, `has a control character (U+009B)`},
		"a wrong escape":          {header(`{"a\x":` + whole + `}`), "", 11, `the escape \ and 'x'`},
		"a wrong hexadecimal":     {header(`{"\u00g0":` + whole + `}`), "", 12, "four hexadecimal digits"},
		"a wrong word":            {header(`{"a":{"x":nul,"dtype":"U8","shape":[16],"data_offsets":[0,16]}}`), "a", 18, `"nul" is no value of JSON`},
		"infinity":                {header(`{"a":{"x":-inf,"dtype":"U8","shape":[16],"data_offsets":[0,16]}}`), "a", 18, "is no value of JSON"},
		"a comma too many":        {header(`{"a":` + whole + `,}`), "", 63, "'}' here, want a string"},
		"zeros":                   {header(strings.Repeat("\x00", 100)), "", 8, "does not begin with '{'"},
	}
}

// hostileGGUFs are files that are refused.
func hostileGGUFs() map[string]refused {
	at := func(what string, n uint64) *gguf { // a count that is a lie
		g := newGGUF()
		if what == "tensors" {
			g.tensors = n
		} else {
			g.fields = n
		}
		return g
	}
	version := func(v uint32) []byte { g := newGGUF(); g.version = v; return g.bytes() }
	field := func(kind uint32, value ...byte) []byte { return newGGUF().field("k", kind, value...).bytes() }
	array := func(kind uint32, n uint64) []byte { return field(9, append(u32(kind), u64(n)...)...) }
	info := func(kind uint32, offset uint64, dims ...uint64) []byte {
		g := newGGUF().info("a", kind, offset, dims...)
		g.data = make([]byte, 64)
		return g.bytes()
	}
	short := newGGUF().info("a", 24, 0, 64)
	short.data, short.shortened = make([]byte, 64), 1
	two := newGGUF().info("a", 24, 0, 40).info("b", 24, 32, 32)
	two.data = make([]byte, 64)
	twice := newGGUF().info("a", 24, 0, 32).info("a", 24, 32, 32)
	twice.data = make([]byte, 64)
	return map[string]refused{
		"the magic alone":           {[]byte("GGUF"), "", 4, "the header ends here"},
		"version 1":                 {version(1), "", 4, "version 1 of GGUF: Ferry reads versions 2 and 3"},
		"version 4":                 {version(4), "", 4, "version 4 of GGUF"},
		"big-endian":                {version(3 << 24), "", 4, "this GGUF file is big-endian"},
		"big-endian of version 2":   {version(2 << 24), "", 4, "this GGUF file is big-endian"},
		"2^63 tensors":              {at("tensors", 1<<63).bytes(), "", 8, "9223372036854775808 tensors"},
		"2^64-1 tensors":            {at("tensors", math.MaxUint64).bytes(), "", 8, "18446744073709551615 tensors"},
		"3 tensors":                 {at("tensors", 3).bytes(), "", 8, "3 tensors, but the 16 bytes that follow in the file can have 0"},
		"2^63 fields":               {at("fields", 1<<63).bytes(), "", 16, "9223372036854775808 fields of metadata"},
		"a key of 2^60 bytes":       {append(newGGUF().field("k", 4).bytes()[:24], append(u64(1<<60), make([]byte, 64)...)...), "", 24, "a string of 1152921504606846976 bytes, but only"},
		"a key of 65536 bytes":      {newGGUF().field(strings.Repeat("k", 1<<16), 4, u32(1)...).bytes(), "", 24, "a string of 65536 bytes, but at most 65535"},
		"a string of 2^60 bytes":    {field(8, append(u64(1<<60), make([]byte, 64)...)...), "", 37, `the key "k": a string of 1152921504606846976 bytes`},
		"an array of 2^60":          {array(4, 1<<60), "", 41, "1152921504606846976 elements of an array"},
		"an array of 2^63 bytes":    {array(0, 1<<63), "", 41, "9223372036854775808 elements of an array"},
		"2^60 strings":              {array(8, 1<<60), "", 41, "1152921504606846976 strings of an array"},
		"an array of arrays":        {array(9, 1), "", 37, "an array of elements of type 9"},
		"a value of type 13":        {field(13, make([]byte, 64)...), "", 33, "a value of type 13"},
		"an empty key":              {newGGUF().field("", 4, u32(1)...).bytes(), "", 24, `the key "" is empty`},
		"a key twice":               {newGGUF().field("k", 4, u32(1)...).field("k", 4, u32(1)...).bytes(), "", 41, `the key "k" is empty, or stands here for the second time`},
		"a key that is no UTF-8":    {newGGUF().field("k\xff", 4, u32(1)...).bytes(), "", 24, `the key "k\xff" is not UTF-8`},
		"a key with an escape":      {newGGUF().field("k\x1b", 4, u32(1)...).bytes(), "", 24, "a control character (U+001B)"},
		"an alignment of 3":         {newGGUF().field("general.alignment", 4, u32(3)...).bytes(), "", -1, `general.alignment is "3" (uint32)`},
		"an alignment of 0":         {newGGUF().field("general.alignment", 4, u32(0)...).bytes(), "", -1, "general.alignment is \"0\""},
		"an alignment in words":     {newGGUF().field("general.alignment", 8, str("x")...).bytes(), "", -1, `general.alignment is "x" (string)`},
		"9 dimensions":              {info(24, 0, 1, 1, 1, 1, 1, 1, 1, 1, 1), "a", 33, "9 dimensions, more than 8"},
		"2^32-1 dimensions":         {append(newGGUF().info("a", 24, 0).bytes()[:33], append(u32(math.MaxUint32), make([]byte, 64)...)...), "a", 33, "4294967295 dimensions"},
		"a dimension of 2^63":       {info(24, 0, 1<<63), "a", 37, "dimension 0 is 9223372036854775808"},
		"a shape that overflows":    {info(24, 0, 1<<32, 1<<32), "a", 24, "the product of its shape [4294967296 4294967296] overflows"},
		"a size that overflows":     {info(28, 0, 1<<62), "a", 24, "more than 2^63 bytes"},
		"an offset of 2^63":         {info(24, 1<<63, 32), "a", 49, "its offset 9223372036854775808 is above"},
		"an offset of 2^63-32":      {info(24, 1<<63-32, 32), "a", 24, "end behind the file"},
		"an unaligned offset":       {info(24, 31, 32), "a", 24, "its offset 31 is no multiple of 32"},
		"an offset behind":          {info(24, 64, 1), "a", 24, "end behind the file"},
		"an unknown type":           {info(43, 0, 32), "a", 45, "type 43 of ggml is not known"},
		"a removed type":            {info(31, 0, 32), "a", 45, "type 31 of ggml is not known, or ggml has removed it"},
		"half a block":              {info(2, 0, 16), "a", 24, "no multiple of 32, the elements of a block of Q4_0"},
		"rows of half a block":      {info(2, 0, 16, 2), "a", 24, "no multiple of 32"},
		"a name that is no UTF-8":   {newGGUF().info("a\xff", 24, 0, 0).bytes(), "", 24, `name of a tensor "a\xff" is not UTF-8`},
		"a name with an escape":     {newGGUF().info("a\x9b\x1b[2J", 24, 0, 0).bytes(), "", 24, `is not UTF-8`},
		"a name with a bell":        {newGGUF().info("a\a", 24, 0, 0).bytes(), "", 24, `the name "a\a" has a control character (U+0007)`},
		"a file that is short":      {short.bytes(), "a", 24, "end behind the file"},
		"two that share bytes":      {two.bytes(), "b", -1, `overlap those of tensor "a"`},
		"one name twice":            {twice.bytes(), "a", 57, "stands here for the second time"},
		"split.no behind the end":   {newGGUF().field("split.no", 2, 3, 0).field("split.count", 2, 3, 0).bytes(), "", -1, "split.no is 3, but split.count 3"},
		"split.count to a terminal": {newGGUF().field("split.count", 8, str("\x10"+strings.Repeat("y", 5000))...).bytes(), "", -1, `split.count is "\x10yyyyyy`},
		"two splits in words":       {newGGUF().field("split.count", 8, str("x")...).field("split.no", 8, str("y")...).bytes(), "", -1, `split.no is "y" (string)`},
		"split.count in words":      {newGGUF().field("split.count", 8, str("x")...).bytes(), "", -1, `split.count is "x" (string)`},
	}
}

// allocated returns how many bytes were ever allocated.
func allocated() uint64 {
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.TotalAlloc
}

// TestHostileHeaders demands that each file is refused with the tensor and the byte, before much is
// allocated.
func TestHostileHeaders(t *testing.T) {
	for format, cases := range map[string]map[string]refused{"safetensors": hostileSafetensors(), "GGUF": hostileGGUFs()} {
		for name, w := range cases {
			before := allocated()
			c, err := checkpoint.OpenReaderAt("m\x1b", bytes.NewReader(w.file), int64(len(w.file)))
			if n := allocated() - before; n > 128<<10+20*uint64(len(w.file)) {
				t.Errorf("%s, %s: %d bytes allocated for a file of %d", format, name, n, len(w.file))
			}
			e, ok := errors.AsType[*checkpoint.HeaderError](err)
			if c != nil || !ok {
				t.Errorf("%s, %s: %v, %v", format, name, c, err)
				continue
			}
			if e.Tensor != w.tensor || w.at >= 0 && e.Offset != w.at || !strings.Contains(err.Error(), w.text) || e.File != "m\x1b" {
				t.Errorf("%s, %s: tensor %q, byte %d, %v\nwant tensor %q, byte %d, %s", format, name, e.Tensor, e.Offset, err, w.tensor, w.at, w.text)
			}
			if !printable.Is(err.Error()) || len(err.Error()) > 1000 {
				t.Errorf("%s, %s: a terminal obeys %q", format, name, err)
			}
		}
	}
}

// TestLongFile reads the start of files that say they are huge, from a reader that has zeros for ever.
func TestLongFile(t *testing.T) {
	for name, head := range map[string][]byte{
		"a name of 90 MB":        append(u64(90_000_000), `{"`...),
		"a string of 2^40":       append(newGGUF().field("k", 8, u64(1<<40)...).bytes()[:45], "x"...),
		"a string of 99 MB":      append(newGGUF().field("k", 8, u64(99_000_000)...).bytes()[:45], "x"...),
		"an array of 2^38":       newGGUF().field("k", 9, append(u32(10), u64(1<<38)...)...).bytes()[:49],
		"2^30 tensors":           append([]byte("GGUF\x03\x00\x00\x00"), append(u64(1<<30), u64(0)...)...),
		"2^22 tensors, no names": append([]byte("GGUF\x03\x00\x00\x00"), append(u64(1<<22), u64(0)...)...),
	} {
		before := allocated()
		c, err := checkpoint.OpenReaderAt("m", fewBytes{head}, 1<<50)
		n := allocated() - before
		if _, ok := errors.AsType[*checkpoint.HeaderError](err); c != nil || !ok {
			t.Errorf("%s: %v, %v", name, c, err)
		}
		if n > 1<<20 {
			t.Errorf("%s: %d bytes allocated", name, n)
		}
	}
}

// fewBytes is a reader that has a beginning, then some zeros, and then an error.
type fewBytes struct{ head []byte }

func (f fewBytes) ReadAt(p []byte, off int64) (int, error) {
	clear(p)
	if off < int64(len(f.head)) {
		copy(p, f.head[off:])
	}
	if off+int64(len(p)) > 100_000 {
		return 0, io.ErrNoProgress
	}
	return len(p), nil
}
