package checkpoint

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"strings"
	"sync"

	"github.com/ferrygpu/ferry/checkpoint/internal/scan"
	"github.com/ferrygpu/ferry/internal/nearest"
	"github.com/ferrygpu/ferry/internal/printable"
	"github.com/ferrygpu/ferry/internal/refusal"
)

// Info is what the header of a file says about one tensor.
type Info struct {
	Name   string
	DType  DType
	Shape  []int64 // the dimension that varies slowest first; none for a scalar; not to be changed
	File   string  // the file that has it, as it was opened
	Offset int64   // of its first byte in the file
	Bytes  int64   // how many bytes it has in the file

	file *file
}

// Elements returns the number of elements.
func (t Info) Elements() int64 {
	n, _ := count(t.Shape)
	return n
}

// String returns a description: "lm_head.weight: BF16 [128256 4096], 1002.0 MiB".
func (t Info) String() string {
	return fmt.Sprintf("%s: %v %v, %s", printable.Name(t.Name), t.DType, t.Shape, refusal.Size(uintptr(t.Bytes)))
}

// HeaderError is the error of a file that is not what its format demands.
type HeaderError struct {
	File   string // as it was opened
	Tensor string // "" if the error is about no single tensor
	Offset int64  // in the file, of what is wrong
	Reason string
	Err    error // why the file could not be read, or nil
}

// Error returns the text: `model.safetensors: tensor "a": byte 17: a negative number, want 0 or
// more`. Names of which a terminal would obey a part are quoted.
func (e *HeaderError) Error() string {
	var b strings.Builder
	b.WriteString(printable.Path(e.File))
	if e.Tensor != "" {
		b.WriteString(": tensor " + printable.Value(e.Tensor))
	}
	fmt.Fprintf(&b, ": byte %d: %s", e.Offset, printable.Line(e.Reason))
	if e.Err != nil {
		fmt.Fprintf(&b, ": %v", printable.Error(e.Err))
	}
	return b.String()
}

// Unwrap returns the error of the file.
func (e *HeaderError) Unwrap() error { return e.Err }

// file is a file of a checkpoint.
type file struct {
	name string
	src  io.ReaderAt
	size int64
	os   *os.File // src if that is a file, else nil
}

// close closes the file, if the checkpoint has opened it.
func (f *file) close() error {
	if f.os == nil {
		return nil
	}
	return f.os.Close()
}

// fault makes a HeaderError of an error about a tensor, or about none.
func (f *file) fault(tensor string, err error) error {
	if err == nil {
		return nil
	}
	if _, ok := errors.AsType[*HeaderError](err); ok {
		return err
	}
	e := &HeaderError{File: f.name, Tensor: tensor}
	if at, ok := errors.AsType[*scan.Error](err); ok {
		e.Offset, e.Reason, e.Err = at.Offset, at.Text, at.Err
	} else {
		e.Reason = err.Error()
	}
	return e
}

// faultOfNames makes a HeaderError of the error of an object whose fields are names of tensors.
func (f *file) faultOfNames(err error) error {
	name := ""
	if at, ok := errors.AsType[*scan.Error](err); ok && at.Twice != metadataName {
		name = at.Twice
	}
	return f.fault(name, err)
}

// faultf returns an error about a tensor and a byte.
func (f *file) faultf(tensor string, offset int64, format string, args ...any) error {
	return &HeaderError{File: f.name, Tensor: tensor, Offset: offset, Reason: fmt.Sprintf(format, args...)}
}

// Checkpoint is the tensors of a model, in one file or in several. Its methods are safe for
// concurrent use.
type Checkpoint struct {
	files    []*file
	tensors  []Info
	indexed  sync.Once
	byName   map[string]int // see index
	metadata map[string]any

	mu     sync.Mutex
	closed bool
}

// Tensors returns all tensors: those of one file after those of another, in the order of their
// bytes.
func (c *Checkpoint) Tensors() []Info {
	if c == nil {
		return nil
	}
	return slices.Clone(c.tensors)
}

// Lookup returns the tensor of a name.
func (c *Checkpoint) Lookup(name string) (Info, bool) {
	if c == nil {
		return Info{}, false
	}
	i, ok := c.index()[name]
	if !ok {
		return Info{}, false
	}
	return c.tensors[i], true
}

// index returns where in c.tensors each name is. The first call makes it: a program may need none.
func (c *Checkpoint) index() map[string]int {
	c.indexed.Do(func() {
		c.byName = make(map[string]int, len(c.tensors))
		for i := range c.tensors {
			c.byName[c.tensors[i].Name] = i
		}
	})
	return c.byName
}

// Metadata returns what the files say besides tensors, by key. A value of safetensors is a string.
// One of GGUF is a string, a bool, an int8 to uint64, a float32, a float64, or a slice of one of
// these; strings of GGUF need not be UTF-8. The slices are not to be changed. Of several files
// that have one key, the first counts.
func (c *Checkpoint) Metadata() map[string]any {
	if c == nil {
		return nil
	}
	return maps.Clone(c.metadata)
}

// Bytes returns how many bytes all tensors have in the files.
func (c *Checkpoint) Bytes() int64 {
	if c == nil {
		return 0
	}
	n := int64(0)
	for i := range c.tensors {
		n += c.tensors[i].Bytes
	}
	return n
}

// String returns a description: "checkpoint model.safetensors: 291 tensors, 15.0 GiB".
func (c *Checkpoint) String() string {
	if c == nil {
		return "no checkpoint (nil)"
	}
	where := "of no file"
	if len(c.files) > 0 {
		where = printable.Path(c.files[0].name)
	}
	if n := len(c.files); n > 1 {
		where += fmt.Sprintf(" and %d more", n-1)
	}
	return fmt.Sprintf("checkpoint %s: %s, %s", where, amount(len(c.tensors), "tensor"), refusal.Size(uintptr(c.Bytes())))
}

// Close closes the files. A load that reads them fails. It may be called again, and on nil.
func (c *Checkpoint) Close() error {
	if c == nil {
		return nil
	}
	c.mu.Lock()
	closed := c.closed
	c.closed = true
	c.mu.Unlock()
	if closed {
		return nil
	}
	return closeFiles(c.files)
}

// open returns an error if the checkpoint is nil or closed.
func (c *Checkpoint) open() error {
	if c == nil {
		return refusal.Invalid("no checkpoint given (nil)")
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return refusal.Invalid("%v is closed", c)
	}
	return nil
}

func closeFiles(files []*file) error {
	var errs []error
	for _, f := range files {
		errs = append(errs, f.close())
	}
	return refusal.Join(errs...)
}

// amount returns a number of things: "1 tensor", "2 tensors".
func amount(n int, thing string) string {
	if n == 1 {
		return "1 " + thing
	}
	return fmt.Sprintf("%d %ss", n, thing)
}

// unknownType is the error for the name of a type. A long name, which a hostile file may have, is not
// compared with the known ones.
func unknownType(name string, known map[string]DType) error {
	if len(name) > 32 {
		return fmt.Errorf("the dtype %s is not known", printable.Value(name))
	}
	return fmt.Errorf("the dtype %s is not known: %s", printable.Value(name), nearest.Ask(name, slices.Sorted(maps.Keys(known))))
}

// header is what a file says.
type header struct {
	tensors  []Info
	metadata map[string]any
	at       map[string]int64 // where metadata of GGUF stands in the file
}

// sorted sorts tensors by their bytes, and refuses two that share bytes.
func (h *header) sorted(f *file) error {
	if !h.inOrder() {
		h.sort()
	}
	for i := 1; i < len(h.tensors); i++ {
		before, t := &h.tensors[i-1], &h.tensors[i]
		if t.Offset < before.Offset+before.Bytes {
			return f.faultf(t.Name, t.Offset, "its bytes %d to %d overlap those of tensor %s, %d to %d",
				t.Offset, t.Offset+t.Bytes, printable.Value(before.Name), before.Offset, before.Offset+before.Bytes)
		}
	}
	return nil
}

// sort sorts tensors by their offsets, bytes and names. It moves each tensor once, because they are large.
func (h *header) sort() {
	type key struct {
		offset int64
		i      int
	}
	keys := make([]key, len(h.tensors))
	for i := range keys {
		keys[i] = key{h.tensors[i].Offset, i}
	}
	slices.SortFunc(keys, func(a, b key) int {
		if a.offset != b.offset {
			return cmp.Compare(a.offset, b.offset)
		}
		x, y := &h.tensors[a.i], &h.tensors[b.i] // one of them has no bytes, or they overlap
		return cmp.Or(cmp.Compare(x.Bytes, y.Bytes), cmp.Compare(x.Name, y.Name))
	})
	for i := range keys { // the tensor at i goes round through all places that wait for each other
		first, to := h.tensors[i], i
		for from := keys[to].i; from != i; from = keys[to].i {
			h.tensors[to], keys[to].i, to = h.tensors[from], to, from
		}
		h.tensors[to], keys[to].i = first, to
	}
}

// inOrder reports whether each tensor has its bytes behind those of the tensors before it, as most
// writers put them. Tensors without bytes are left to the sort.
func (h *header) inOrder() bool {
	for i := 1; i < len(h.tensors); i++ {
		if h.tensors[i].Offset <= h.tensors[i-1].Offset {
			return false
		}
	}
	return true
}

// checkName refuses a name that holds a control character.
func checkName(name string, at int64) error {
	for i, r := range name {
		if r < ' ' || r >= 0x7f && r < 0xa0 {
			return scan.ErrorAt(at, "the name %s has a control character (%U) at its byte %d", printable.Value(name), r, i)
		}
	}
	return nil
}
