package hostile

import (
	"bytes"
	"encoding/binary"
	"strings"
)

// Safetensors returns safetensors files of about [Bytes] bytes, by name. All are broken but those
// with the word valid in their names.
func Safetensors() map[string][]byte {
	const info = `{"dtype":"U8","shape":[0],"data_offsets":[0,0]}`
	head := `{"a":{"dtype":"U8","data_offsets":[0,0]`
	texts := JSON(head, "shape")
	for name, text := range JSON(`{"__metadata__":{"format":"pt"`, "x") {
		texts["metadata of "+name] = text
	}
	for name, text := range map[string]string{
		"valid tensors":         fill(`{"b":`+info, `,"#":`+info, "}"),
		"one tensor often":      fill(`{"b":`+info, `,"b":`+info, "}"),
		"tensors without shape": fill(`{"b":`+info, `,"#":{"dtype":"U8"}`, "}"),
		"valid long metadata":   `{"__metadata__":{"x":"` + strings.Repeat("x", Bytes-64) + `"},"a":` + info + "}",
		"many fields of one":    fill(head, `,"a#":1`, `,"shape":[0]}}`),
		"one field of many":     fill(head, `,"a":1`, `,"shape":[0]}}`),
		"many dimensions":       fill(head+`,"shape":[1`, ",1", "]}}"),
		"valid depth often":     fill(head+`,"x":[0`, ","+strings.Repeat("[", 50)+strings.Repeat("]", 50), `],"shape":[0]}}`),
		"tensors that overlap":  fill(`{"b":`+info, `,"#":{"dtype":"U8","shape":[8],"data_offsets":[0,8]}`, "}"),
		"a long dtype":          `{"a":{"dtype":"` + strings.Repeat("F", Bytes) + `"}}`,
		"a long name":           `{"` + strings.Repeat("\\u0001", Bytes/6) + `":` + info + "}",
	} {
		texts[name] = text
	}
	all := map[string][]byte{}
	for name, text := range texts {
		all[name] = append(append(binary.LittleEndian.AppendUint64(nil, uint64(len(text))), text...), make([]byte, 8)...)
		if strings.HasPrefix(name, "valid") {
			all[name] = all[name][:8+len(text)]
		}
	}
	return all
}

// GGUFs returns GGUF files of about [Bytes] bytes, by name.
func GGUFs() map[string][]byte {
	le := binary.LittleEndian
	str := func(s string) []byte { return append(le.AppendUint64(nil, uint64(len(s))), s...) }
	number := func(n uint32) []byte { return le.AppendUint32(nil, n) }
	field := func(key string, kind uint32, value ...byte) []byte {
		return bytes.Join([][]byte{str(key), number(kind), value}, nil)
	}
	array := func(kind uint32, n uint64) []byte { return field("k", 9, append(number(kind), le.AppendUint64(nil, n)...)...) }
	file := func(tensors, fields uint64, body ...[]byte) []byte {
		head := append([]byte("GGUF\x03\x00\x00\x00"), le.AppendUint64(le.AppendUint64(nil, tensors), fields)...)
		return append(head, bytes.Join(body, nil)...)
	}
	rest := Bytes - 64
	info := bytes.Join([][]byte{str("abc"), number(1), le.AppendUint64(nil, 0), number(24), le.AppendUint64(nil, 0)}, nil)
	infos := func(n int) (all []byte) { // of different names
		for i := range n {
			all = append(all, info...)
			copy(all[len(all)-len(info)+8:], []byte{'a' + byte(i%26), 'a' + byte(i/26%26), 'a' + byte(i/676%26)})
		}
		return all
	}
	return map[string][]byte{
		"zeros":                append([]byte("GGUF"), make([]byte, Bytes)...),
		"ones":                 append([]byte("GGUF\x03\x00\x00\x00"), bytes.Repeat([]byte{0xff}, Bytes)...),
		"empty tensors":        file(uint64(rest/24), 0, make([]byte, rest)),
		"empty fields":         file(0, uint64(rest/14), make([]byte, rest)),
		"tensors of few names": file(uint64(rest/len(info)), 0, infos(rest/len(info))),
		"tensors":              file(5000, 0, infos(5000)),
		"one field often":      file(0, uint64(rest/14), bytes.Repeat(field("k", 0, 1), rest/14)),
		"an array of bytes":    file(0, 1, array(0, uint64(rest)), make([]byte, rest)),
		"an array of bools":    file(0, 1, array(7, uint64(rest)), make([]byte, rest)),
		"an array of strings":  file(0, 1, array(8, uint64(rest/8)), make([]byte, rest)),
		"a string too long":    file(0, 1, field("k", 8, le.AppendUint64(nil, 1<<40)...), make([]byte, rest)),
		"a long string":        file(0, 1, field("k", 8, str(strings.Repeat("\xff", rest))...)),
		"long names":           file(10, 0, bytes.Repeat(str(strings.Repeat("\x01", 65000)), 2)),
		"many dimensions":      file(1, 0, str("a"), number(1<<16), make([]byte, rest)),
	}
}
