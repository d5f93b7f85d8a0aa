package checkpoint

import (
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/ferrygpu/ferry/internal/printable"
	"github.com/ferrygpu/ferry/internal/refusal"
)

// Open opens checkpoints and reads their headers, not their tensors. A path leads to one of these:
//
//   - a safetensors file, or all of its shards by their index (model.safetensors.index.json)
//   - a GGUF file of version 2 or 3, or the first of the files that gguf-split has made of one,
//     NAME-00001-of-00003.gguf: the others are found beside it
//   - a folder with one of these
//
// Several paths are one checkpoint. Two files must not have tensors of one name. The files stay
// open until [Checkpoint.Close], so that it does not matter if others take their place.
//
// Headers are checked in full: a file that breaks its format is refused with a [*HeaderError]. Work and
// memory are in proportion to the headers that were read, whatever numbers stand in them. What is
// no regular file, such as a named pipe, is refused at once.
func Open(paths ...string) (*Checkpoint, error) {
	o := &opener{c: newCheckpoint()}
	err := o.all(paths)
	if err == nil {
		err = o.c.finish()
	}
	if err != nil {
		return nil, fmt.Errorf("open checkpoint: %w", refusal.Join(err, closeFiles(o.c.files)))
	}
	return o.c, nil
}

// OpenReaderAt is [Open] for one safetensors or GGUF file of size bytes that r reads. The name is
// for errors. r must be safe for concurrent use, as an *os.File is. Close does not close it.
func OpenReaderAt(name string, r io.ReaderAt, size int64) (*Checkpoint, error) {
	o := &opener{c: newCheckpoint()}
	var err error
	switch {
	case r == nil:
		err = refusal.Invalid("no reader given (nil)")
	case size < 0:
		err = refusal.Invalid("%d bytes: the number cannot be negative", size)
	default:
		err = o.add(&file{name: name, src: r, size: size}, nil)
	}
	if err == nil {
		err = o.c.finish()
	}
	if err != nil {
		return nil, fmt.Errorf("open checkpoint: %w", err)
	}
	return o.c, nil
}

func newCheckpoint() *Checkpoint {
	return &Checkpoint{metadata: map[string]any{}}
}

// opener opens files and adds them to a checkpoint.
type opener struct {
	c      *Checkpoint
	splits []split
}

func (o *opener) all(paths []string) error {
	if len(paths) == 0 {
		return refusal.Invalid("no path given")
	}
	for _, path := range paths {
		path, err := inFolder(path)
		if err != nil {
			return err
		}
		if strings.HasSuffix(strings.ToLower(path), ".json") {
			err = o.index(path)
		} else {
			err = o.path(path, nil)
		}
		if err != nil {
			return err
		}
	}
	return o.restOfSplit()
}

// inFolder returns the path of the checkpoint in a folder, or the path itself if it leads to none.
func inFolder(path string) (string, error) {
	info, err := os.Stat(path)
	if err != nil || !info.IsDir() {
		return path, printable.Error(err)
	}
	for _, pattern := range []string{"*.safetensors.index.json", "*.safetensors", "*-00001-of-*.gguf", "*.gguf"} {
		found, err := filepath.Glob(filepath.Join(globQuote(path), pattern))
		switch {
		case err != nil:
			return "", err
		case len(found) > 1:
			return "", refusal.Invalid("folder %s has %d files %s: name one of them", printable.Path(path), len(found), pattern)
		case len(found) == 1:
			return found[0], nil
		}
	}
	return "", refusal.Invalid("folder %s has no checkpoint: no file of it ends in .safetensors.index.json, .safetensors or .gguf", printable.Path(path))
}

// globQuote quotes what filepath.Glob would take for a pattern. Windows has no such quotes.
func globQuote(path string) string {
	if os.PathSeparator == '\\' {
		return path
	}
	return strings.NewReplacer(`\`, `\\`, `*`, `\*`, `?`, `\?`, `[`, `\[`).Replace(path)
}

// path opens a file and adds those of its tensors that are wanted.
func (o *opener) path(path string, w *wanted) error {
	f, err := openRegular(path)
	if err != nil {
		return err
	}
	return o.add(f, w)
}

// openRegular opens a file, and refuses what is no regular one.
func openRegular(path string) (*file, error) {
	f, err := openFile(path)
	if err != nil {
		return nil, printable.Error(err)
	}
	info, err := f.Stat()
	if err == nil && !info.Mode().IsRegular() {
		err = refusal.Invalid("%s is no regular file, but %v", printable.Path(path), kindOf(info.Mode()))
	}
	if err != nil {
		return nil, refusal.Join(printable.Error(err), f.Close())
	}
	return &file{name: path, src: f, size: info.Size(), os: f}, nil
}

// kindOf says what a file is that is not regular.
func kindOf(m os.FileMode) string {
	switch {
	case m.IsDir():
		return "a folder"
	case m&os.ModeNamedPipe != 0:
		return "a named pipe"
	case m&os.ModeSocket != 0:
		return "a socket"
	case m&os.ModeDevice != 0:
		return "a device"
	}
	return m.Type().String()
}

// add reads the header of a file and adds its tensors.
func (o *opener) add(f *file, w *wanted) error {
	o.c.files = append(o.c.files, f)
	read := readSafetensors
	if isGGUF(f) {
		read = readGGUF
	}
	h, err := read(f)
	if err != nil {
		return err
	}
	s, err := splitOf(f, h)
	if err != nil {
		return err
	}
	o.splits = append(o.splits, s)
	o.c.addMetadata(h.metadata)
	return o.c.addTensors(f, h.tensors, w)
}

func (c *Checkpoint) addMetadata(m map[string]any) {
	for key, value := range m {
		if _, ok := c.metadata[key]; !ok {
			c.metadata[key] = value
		}
	}
}

// wanted is the tensors that an index says a file has. nil stands for all that it has.
type wanted struct {
	index *file
	at    map[string]int64 // where the index names a tensor
}

// has reports whether a tensor is wanted.
func (w *wanted) has(name string) bool {
	if w == nil {
		return true
	}
	_, ok := w.at[name]
	return ok
}

// addTensors adds the tensors of a file that are wanted. It returns an error for one that another
// file has, too, and for one that is wanted and not there.
func (c *Checkpoint) addTensors(f *file, tensors []Info, w *wanted) error {
	before := len(c.tensors)
	if before == 0 && w == nil { // a parser refuses two tensors of one name
		c.tensors = tensors
		return nil
	}
	byName := c.index()
	for k := range tensors {
		t := &tensors[k]
		if !w.has(t.Name) {
			continue
		}
		if i, twice := byName[t.Name]; twice {
			return f.faultf(t.Name, t.Offset, "file %s has a tensor of this name, too", printable.Path(c.tensors[i].File))
		}
		byName[t.Name] = len(c.tensors)
		c.tensors = append(c.tensors, *t)
	}
	if w == nil || len(c.tensors)-before == len(w.at) {
		return nil
	}
	for _, name := range slices.Sorted(maps.Keys(w.at)) {
		if i, ok := byName[name]; !ok || i < before { // of another file
			return w.index.faultf(name, w.at[name], "file %s lacks the tensor", printable.Path(f.name))
		}
	}
	return nil
}

// finish checks that all bytes of the tensors can be counted.
func (c *Checkpoint) finish() error {
	sum := int64(0)
	for i := range c.tensors {
		t := &c.tensors[i]
		if sum += t.Bytes; sum < 0 {
			return t.file.faultf(t.Name, t.Offset, "the bytes of all tensors up to this one are more than 2^63")
		}
	}
	return nil
}
