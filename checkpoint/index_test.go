package checkpoint

import (
	"bytes"
	"errors"
	"path/filepath"
	"testing"

	"github.com/ferrygpu/ferry/internal/printable"
	"github.com/ferrygpu/ferry/internal/test/hostile"
)

// readIndexOf reads an index, and demands that the result makes sense: names of files in its folder,
// or an error that a terminal does not obey.
func readIndexOf(t *testing.T, what string, data []byte) {
	t.Helper()
	var shards map[string]map[string]int64
	var err error
	hostile.Check(t, what, func() {
		shards, err = readIndex(&file{name: "index", src: bytes.NewReader(data), size: int64(len(data))})
	})
	if err != nil {
		if _, ok := errors.AsType[*HeaderError](err); !ok || !printable.Is(err.Error()) || len(err.Error()) > 2000 {
			t.Fatalf("%s: %T %q", what, err, err)
		}
		return
	}
	for name, tensors := range shards {
		if filepath.Base(name) != name || !filepath.IsLocal(name) || len(tensors) == 0 {
			t.Fatalf("%s: the file %q has %d tensors", what, name, len(tensors))
		}
	}
}

// TestHostileIndex reads indexes that are made to cost much.
func TestHostileIndex(t *testing.T) {
	if testing.Short() {
		t.Skip("reads inputs of 1 MB")
	}
	for name, text := range hostile.JSON(`{"weight_map":{"a":"b"}`, "metadata") {
		readIndexOf(t, name, []byte(text))
	}
	for name, text := range hostile.JSON(`{"weight_map":{"a":"b"`, "c") {
		readIndexOf(t, "map of "+name, []byte(text))
	}
}

// FuzzIndex reads indexes of shards.
func FuzzIndex(f *testing.F) {
	for _, text := range []string{
		`{"metadata":{"total_size":31,"x":[{}]},"weight_map":{"a":"m-1","b":"m-2"}}`, `{"weight_map":{"a":"../x"}}`, `{"weight_map":{"a":"/x"}}`,
		`{"weight_map":{"a":"\u001b"}}`, `{"weight_map":{}}`, `{"weight_map":{"a":"b"},"weight_map":{}}`, `[]`, `{"weight_map":{"a":"C:x"}}`,
	} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, data []byte) { readIndexOf(t, "index", data) })
}
