package checkpoint_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/ferrygpu/ferry/checkpoint"
)

// folder writes files into a new folder and returns it.
func folder(t testing.TB, files map[string][]byte) string {
	t.Helper()
	dir := t.TempDir()
	for name, data := range files {
		if err := os.WriteFile(filepath.Join(dir, name), data, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// sharded returns two shards with an index, and their tensors.
func sharded(r *rand.Rand) (map[string][]byte, []tensor) {
	a := []tensor{random(r, "a", checkpoint.F32, 5), random(r, "b", checkpoint.U8, 3)}
	b := []tensor{random(r, "c", checkpoint.BF16, 2, 2)}
	index := `{"metadata":{"total_size":31,"x":[{}]},"weight_map":{"a":"m-00001-of-00002.safetensors","c":"m-00002-of-00002.safetensors","b":"m-00001-of-00002.safetensors"}}`
	return map[string][]byte{
		"m-00001-of-00002.safetensors": safetensorsOf(map[string]string{"format": "pt"}, a...),
		"m-00002-of-00002.safetensors": safetensorsOf(map[string]string{"format": "tf"}, b...),
		"m.safetensors.index.json":     []byte(index),
	}, slices.Concat(a, b)
}

// TestShards opens shards by their index, by their folder, and one by one.
func TestShards(t *testing.T) {
	files, want := sharded(rand.New(rand.NewPCG(1, 1)))
	dir := folder(t, files)
	in := func(name string) string { return filepath.Join(dir, name) }
	for _, paths := range [][]string{{in("m.safetensors.index.json")}, {dir}, {in("m-00001-of-00002.safetensors"), in("m-00002-of-00002.safetensors")}} {
		c := open(t, paths...)
		same(t, c, want)
		if got := c.Metadata()["format"]; got != "pt" {
			t.Errorf("%v: the metadata is %v, want that of the first file", paths, got)
		}
		if want := fmt.Sprintf("checkpoint %s and 1 more: 3 tensors, 31 bytes", in("m-00001-of-00002.safetensors")); c.String() != want {
			t.Errorf("%v, want %s", c, want)
		}
	}
}

// TestIndexChooses opens an index that leaves a tensor of a shard out.
func TestIndexChooses(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 1))
	a, b, other := random(r, "a", checkpoint.F32, 5), random(r, "b", checkpoint.U8, 3), random(r, "a", checkpoint.F32, 9)
	c := open(t, folder(t, map[string][]byte{
		"x.safetensors": safetensorsOf(nil, a), "y.safetensors": safetensorsOf(nil, b, other),
		"z.safetensors.index.json": []byte(`{"weight_map":{"a":"x.safetensors","b":"y.safetensors"}}`),
	}))
	same(t, c, []tensor{a, b})
}

// TestWrongIndex opens indexes that are refused.
func TestWrongIndex(t *testing.T) {
	files, _ := sharded(rand.New(rand.NewPCG(1, 1)))
	const shard = "m-00001-of-00002.safetensors"
	outside := filepath.Join(t.TempDir(), "x.safetensors")
	if err := os.WriteFile(outside, files[shard], 0o600); err != nil {
		t.Fatal(err)
	}
	quoted, _ := json.Marshal(outside)
	for index, want := range map[string]string{
		`{"weight_map":{"a":"../x"}}`:                              `tensor "a": byte 15: its file is "../x", want the name of a file in the folder`,
		`{"weight_map":{"a":` + string(quoted) + `}}`:              `tensor "a": byte 15: its file is ` + string(quoted),
		`{"weight_map":{"a":"..\\x"}}`:                             `its file is "..\\x", want`,
		`{"weight_map":{"a":".."}}`:                                `its file is "..", want`,
		`{"weight_map":{"a":"."}}`:                                 `its file is ".", want`,
		`{"weight_map":{"a":""}}`:                                  `its file is "", want`,
		`{"weight_map":{"a":"sub/` + shard + `"}}`:                 "want the name of a file in the folder",
		`{"weight_map":{"a":"m\u001b"}}`:                           `tensor "a": byte 15: the name "m\x1b" has a control character`,
		`{"weight_map":{"a\u001b":"m"}}`:                           `tensor "a\x1b": byte 15: the name "a\x1b" has a control character`,
		`{"weight_map":{"a":"` + shard + `","d":"none"}}`:          "none: no such file",
		`{"weight_map":{"a":"` + shard + `","e":"` + shard + `"}}`: `m.safetensors.index.json: tensor "e": byte 50: file `,
		`{"weight_map":{"a":"x","a":"x"}}`:                         `the name "a" stands here for the second time`,
		`{"weight_map":{}}`:                                        "no field weight_map",
		`{"weight_map":{"a":1}}`:                                   "'1' here, want a string",
		`{"metadata":{}}`:                                          "no field weight_map",
		`[]`:                                                       "'[' here, want an object",
		``:                                                         "the header ends here",
		strings.Repeat(`{"x":`, 10_000):                            "more than 64 objects and lists",
	} {
		files["m.safetensors.index.json"] = []byte(index)
		c, err := checkpoint.Open(filepath.Join(folder(t, files), "m.safetensors.index.json"))
		if c != nil || err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%.80s: %v, %v\nwant %s", index, c, err, want)
		}
	}
}

// splits returns a GGUF file in three parts, and the tensors.
func splits(r *rand.Rand) (map[string][]byte, []tensor) {
	files, all := map[string][]byte{}, []tensor{}
	for i := range 3 {
		x := random(r, fmt.Sprintf("t%d", i), checkpoint.Q8_0, 64)
		g := newGGUF().field("split.no", 2, byte(i), 0).field("split.count", 2, 3, 0).field("split.tensors.count", 5, u32(3)...)
		files[fmt.Sprintf("m-0000%d-of-00003.gguf", i+1)] = g.add(x).bytes()
		all = append(all, x)
	}
	return files, all
}

// TestSplits opens the parts of a GGUF file by the first, by the folder, and one by one.
func TestSplits(t *testing.T) {
	files, want := splits(rand.New(rand.NewPCG(1, 1)))
	dir := folder(t, files)
	in := func(i int) string { return filepath.Join(dir, fmt.Sprintf("m-0000%d-of-00003.gguf", i)) }
	for _, paths := range [][]string{{in(1)}, {dir}, {in(3), in(1), in(2)}} {
		same(t, open(t, paths...), want)
	}
	for want, paths := range map[string][]string{
		"this is part 2 of 3: open the first, or name all": {in(2)},
		"2 parts of 3 are here: name all":                  {in(1), in(2)},
		"a tensor of this name, too":                       {in(1), in(2), in(2)},
	} {
		wrong(t, want, paths...)
	}
	missing := folder(t, map[string][]byte{"m-00001-of-00003.gguf": files["m-00001-of-00003.gguf"]})
	wrong(t, "part 2 of 3: open "+filepath.Join(missing, "m-00002-of-00003.gguf"), missing)
	wrong(t, "its name does not end in -00001-of-00003.gguf", write(t, "x.gguf", files["m-00001-of-00003.gguf"]))
	g := newGGUF().field("split.no", 2, 0, 0).field("split.count", 2, 3, 0).field("split.tensors.count", 5, u32(4)...)
	files["m-00001-of-00003.gguf"] = g.bytes()
	wrong(t, "part 2 of 3 with 3 tensors does not belong to", filepath.Join(folder(t, files), "m-00001-of-00003.gguf"))
}

// wrong demands that paths are refused.
func wrong(t *testing.T, want string, paths ...string) {
	t.Helper()
	c, err := checkpoint.Open(paths...)
	if c != nil || err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("%q: %v, %v, want %s", paths, c, err, want)
	}
}

// TestWrongPaths opens what is no checkpoint.
func TestWrongPaths(t *testing.T) {
	file := write(t, "a.safetensors", safetensorsOf(nil, tensor{"a", checkpoint.U8, []int64{1}, []byte{1}}))
	wrong(t, "no path given")
	wrong(t, "no such file", "/nowhere/\x1b")
	wrong(t, `/nowhere/\x1b`, "/nowhere/\x1b")
	wrong(t, "has no checkpoint", t.TempDir())
	wrong(t, "has 2 files *.gguf: name one", folder(t, map[string][]byte{"a.gguf": nil, "b.gguf": nil}))
	wrong(t, `tensor "a"`, file, file)
	wrong(t, "is no regular file, but a device", "/dev/null")
	if _, err := checkpoint.OpenReaderAt("x", nil, 0); err == nil {
		t.Error("a nil reader is opened")
	}
	if _, err := checkpoint.OpenReaderAt("x", bytes.NewReader(nil), -1); err == nil {
		t.Error("a negative size is opened")
	}
}

// TestLacks opens an index whose shard lacks a tensor that another file has.
func TestLacks(t *testing.T) {
	x, y := tensor{"x", checkpoint.U8, []int64{1}, []byte{1}}, tensor{"y", checkpoint.U8, []int64{1}, []byte{2}}
	dir := folder(t, map[string][]byte{
		"a.safetensors": safetensorsOf(nil, x), "s.safetensors": safetensorsOf(nil, y), "m.json": []byte(`{"weight_map":{"x":"s.safetensors"}}`),
	})
	wrong(t, `tensor "x": byte 15: file `+filepath.Join(dir, "s.safetensors")+` lacks the tensor`, filepath.Join(dir, "a.safetensors"), filepath.Join(dir, "m.json"))
}

// TestHeaderFails opens a file whose header cannot be read: the error is that of the reader.
func TestHeaderFails(t *testing.T) {
	broken := errors.New("the disk is broken")
	file := safetensorsOf(nil, tensor{"a", checkpoint.U8, []int64{1}, []byte{1}})
	for _, from := range []int64{0, 8} {
		r := &failing{ReaderAt: bytes.NewReader(file), from: from, f: func() error { return broken }}
		r.on.Store(true)
		if c, err := checkpoint.OpenReaderAt("m", r, int64(len(file))); c != nil || !errors.Is(err, broken) {
			t.Errorf("from byte %d: %v, %v", from, c, err)
		}
	}
	if c, err := checkpoint.OpenReaderAt("m", bytes.NewReader(file[:8]), int64(len(file))); c != nil || !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Errorf("a file cut to 8 bytes: %v, %v", c, err)
	}
}

// TestClosed uses a checkpoint that is closed, and none.
func TestClosed(t *testing.T) {
	path := write(t, "a.safetensors", safetensorsOf(nil, tensor{"a", checkpoint.U8, []int64{1}, []byte{1}}))
	c, err := checkpoint.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(c.Close(), c.Close()); err != nil {
		t.Error(err)
	}
	if len(c.Tensors()) != 1 {
		t.Error("a closed checkpoint does not say what it had")
	}
	var none *checkpoint.Checkpoint
	if _, ok := none.Lookup("a"); ok || none.Close() != nil || none.Tensors() != nil || none.Metadata() != nil || none.Bytes() != 0 || none.String() == "" {
		t.Error("nil has something")
	}
}

// counter counts what is read.
type counter struct {
	io.ReaderAt
	bytes, last atomic.Int64
}

func (c *counter) ReadAt(p []byte, off int64) (int, error) {
	c.bytes.Add(int64(len(p)))
	c.last.Store(max(c.last.Load(), off+int64(len(p))))
	return c.ReaderAt.ReadAt(p, off)
}

// sparse is a file of size bytes that begins with head and then has zeros.
type sparse struct {
	head []byte
	size int64
}

func (s sparse) ReadAt(p []byte, off int64) (n int, err error) {
	n = int(max(0, min(int64(len(p)), s.size-off)))
	clear(p[:n])
	if off < int64(len(s.head)) {
		copy(p[:n], s.head[off:])
	}
	if n < len(p) {
		err = io.EOF
	}
	return n, err
}

// TestOpenReadsHeader opens a file of 16 GiB and demands that nothing but its header is read.
func TestOpenReadsHeader(t *testing.T) {
	const n = 16 << 30
	head := safetensors(fmt.Sprintf(`{"a":{"dtype":"U8","shape":[%d],"data_offsets":[0,%d]}}`, n, n), nil)
	r := &counter{ReaderAt: sparse{head, n + int64(len(head))}}
	c, err := checkpoint.OpenReaderAt("big", r, n+int64(len(head)))
	if err != nil {
		t.Fatal(err)
	}
	if a, _ := c.Lookup("a"); a.Bytes != n || r.last.Load() != int64(len(head)) {
		t.Errorf("%v, and byte %d was read: the header has %d", a, r.last.Load(), len(head))
	}
}
