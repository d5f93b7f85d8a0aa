package checkpoint

import (
	"bytes"
	"cmp"
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"unicode/utf8"

	"github.com/ferrygpu/ferry"
	"github.com/ferrygpu/ferry/internal/outfile"
	"github.com/ferrygpu/ferry/internal/printable"
	"github.com/ferrygpu/ferry/internal/refusal"
)

// SaveTensor is a tensor that [Save] writes.
type SaveTensor struct {
	Name   string
	DType  DType              // one of those that safetensors has
	Shape  []int64            // the dimension that varies slowest first
	Memory ferry.Memory[byte] // the bytes; ferry.View makes them of memory of numbers
}

// metadataName is the name in a header that no tensor may have.
const metadataName = "__metadata__"

// Save writes tensors from memory of any kind into a safetensors file, in the order of the stream. It
// returns when the file is on the disk. Until then, and after an error, the path has what it had
// before: the file is written beside it and renamed. Bytes go through the staging ring.
//
// Tensors with larger elements stand first, so that all are aligned to their elements; otherwise
// they keep their order. metadata may be nil. An error names the tensor, and wraps
// cu.ErrorInvalidValue if the tensor is refused, or ctx.Err() if ctx has ended. A nil ctx never ends.
// Save is safe for concurrent use.
func Save(ctx context.Context, path string, s *ferry.Stream, tensors []SaveTensor, metadata map[string]string) error {
	if err := save(ctx, path, s, tensors, metadata); err != nil {
		return fmt.Errorf("save checkpoint %s: %w", printable.Path(path), err)
	}
	return nil
}

func save(ctx context.Context, path string, s *ferry.Stream, tensors []SaveTensor, metadata map[string]string) error {
	if s == nil {
		return refusal.Invalid("no stream given (nil)")
	}
	sorted := slices.Clone(tensors)
	slices.SortStableFunc(sorted, func(a, b SaveTensor) int { return cmp.Compare(b.DType.width(), a.DType.width()) })
	head, err := makeHeader(sorted, metadata)
	if err != nil {
		return err
	}
	f, err := outfile.Create(path)
	if err != nil {
		return err
	}
	defer f.Discard()
	if _, err := f.Write(head); err != nil {
		return err
	}
	if err := write(ctx, f, s, sorted); err != nil {
		return err
	}
	return f.Commit()
}

// write writes the bytes of all tensors.
func write(ctx context.Context, f *outfile.File, s *ferry.Stream, tensors []SaveTensor) error {
	memory := make([]ferry.Memory[byte], len(tensors))
	for i := range tensors {
		memory[i] = tensors[i].Memory
	}
	_, err := ferry.CopyPartsTo(ctx, s, f, memory, nil)
	if p, ok := errors.AsType[*ferry.PartError](err); ok && p.Part < len(tensors) {
		return fmt.Errorf("tensor %s, byte %d: %w", printable.Value(tensors[p.Part].Name), p.Byte, err)
	}
	return err
}

// width returns the bits of an element, of those types that have no blocks of many.
func (d DType) width() int64 {
	elements, bytes := d.Block()
	return 8 * bytes / elements
}

// makeHeader returns the length of the header and the header of a file.
func makeHeader(tensors []SaveTensor, metadata map[string]string) ([]byte, error) {
	w := headerWriter{known: map[string]bool{}}
	if err := w.metadata(metadata); err != nil {
		return nil, err
	}
	for i := range tensors {
		if err := w.tensor(&tensors[i]); err != nil {
			return nil, fmt.Errorf("tensor %s: %w", printable.Value(tensors[i].Name), err)
		}
	}
	if w.text.Len() == 0 {
		w.text.WriteByte('{')
	}
	w.text.WriteByte('}')
	for w.text.Len()%8 != 0 { // so that the tensors begin at a multiple of 8
		w.text.WriteByte(' ')
	}
	if w.text.Len() > maxHeader {
		return nil, refusal.Invalid("the header has %d bytes, more than %d, the most that safetensors allows", w.text.Len(), maxHeader)
	}
	return append(binary.LittleEndian.AppendUint64(nil, uint64(w.text.Len())), w.text.Bytes()...), nil
}

// headerWriter writes the JSON of a header.
type headerWriter struct {
	text  bytes.Buffer
	known map[string]bool
	end   int64 // of the tensors so far
}

// field begins a field: it writes what stands before its value.
func (w *headerWriter) field(name string) {
	open := byte(',')
	if w.text.Len() == 0 {
		open = '{'
	}
	w.text.WriteByte(open)
	w.text.Write(quote(name))
	w.text.WriteByte(':')
}

// quote returns a string as JSON. The string is UTF-8.
func quote(s string) []byte {
	text, _ := json.Marshal(s) // of a string it has no errors
	return text
}

func (w *headerWriter) metadata(m map[string]string) error {
	if len(m) == 0 {
		return nil
	}
	w.field(metadataName)
	for i, key := range slices.Sorted(maps.Keys(m)) {
		if !utf8.ValidString(key) || !utf8.ValidString(m[key]) {
			return refusal.Invalid("metadata %s is not UTF-8", printable.Value(key))
		}
		w.text.WriteByte("{,"[min(i, 1)])
		w.text.Write(slices.Concat(quote(key), []byte{':'}, quote(m[key])))
	}
	w.text.WriteByte('}')
	return nil
}

func (w *headerWriter) tensor(t *SaveTensor) error {
	bytes, err := t.check()
	switch {
	case err != nil:
		return err
	case w.known[t.Name]:
		return refusal.Invalid("two tensors have this name")
	case w.end+bytes < 0:
		return refusal.Invalid("the tensors up to this one have more bytes than can be counted")
	}
	w.known[t.Name] = true
	w.field(t.Name)
	shape, _ := json.Marshal(append([]int64{}, t.Shape...))
	fmt.Fprintf(&w.text, `{"dtype":"%v","shape":%s,"data_offsets":[%d,%d]}`, t.DType, shape, w.end, w.end+bytes)
	w.end += bytes
	return nil
}

// check returns the number of bytes of a tensor, or why a file cannot have it.
func (t *SaveTensor) check() (int64, error) {
	_, known := safetensorsTypes[t.DType.String()]
	n, ok := count(t.Shape)
	bytes, fits := t.DType.size(n)
	switch {
	case !utf8.ValidString(t.Name) || t.Name == metadataName:
		return 0, refusal.Invalid("a tensor cannot have this name: it must be UTF-8, and not %s", metadataName)
	case checkName(t.Name, 0) != nil:
		return 0, refusal.Invalid("its name has a control character, which Open refuses")
	case !known:
		return 0, refusal.Invalid("safetensors has no dtype %v: convert the tensor", t.DType)
	case len(t.Shape) > maxRank:
		return 0, refusal.Invalid("it has %d dimensions, more than %d", len(t.Shape), maxRank)
	case !ok || slices.ContainsFunc(t.Shape, func(d int64) bool { return d < 0 }):
		return 0, refusal.Invalid("its shape %v has a negative dimension, or a product that overflows", t.Shape)
	case !fits:
		return 0, refusal.Invalid("%d elements of %v are no whole number of bytes, or too many", n, t.DType)
	case t.Memory == nil:
		return 0, refusal.Invalid("no memory given (nil)")
	case int64(t.Memory.Size()) != bytes:
		return 0, refusal.Invalid("%v %v has %d bytes, but %v has %d: use a range of that size", t.DType, t.Shape, bytes, t.Memory, t.Memory.Size())
	}
	return bytes, nil
}
