package checkpoint

import (
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"

	"github.com/ferrygpu/ferry/checkpoint/internal/scan"
	"github.com/ferrygpu/ferry/internal/printable"
	"github.com/ferrygpu/ferry/internal/refusal"
)

// index opens the shards that an index of safetensors names: a JSON document whose field
// weight_map has the file of each tensor.
func (o *opener) index(path string) error {
	ix, err := openRegular(path)
	if err != nil {
		return err
	}
	defer ix.close()
	if ix.size > maxHeader {
		return refusal.Invalid("index %s has %d bytes, more than %d", printable.Path(path), ix.size, maxHeader)
	}
	shards, err := readIndex(ix)
	if err != nil {
		return err
	}
	for _, name := range slices.Sorted(maps.Keys(shards)) {
		if err := o.path(filepath.Join(filepath.Dir(path), name), &wanted{ix, shards[name]}); err != nil {
			return fmt.Errorf("shard %s of index %s: %w", printable.Value(name), printable.Path(path), err)
		}
	}
	return nil
}

// readIndex returns for each shard the names of its tensors, with their offsets in the index.
func readIndex(f *file) (shards map[string]map[string]int64, err error) {
	j := scan.JSON{Reader: scan.NewReader(f.src, 0, f.size)}
	err = j.Object(func(field string, _ int64) error {
		if field != "weight_map" {
			return j.Skip()
		}
		shards = map[string]map[string]int64{}
		return f.faultOfNames(j.Object(func(tensor string, at int64) error {
			return f.fault(tensor, addToShard(shards, tensor, at, &j))
		}))
	})
	if err == nil {
		err = j.End()
	}
	if err == nil && len(shards) == 0 {
		err = scan.ErrorAt(0, "no field weight_map with the files of tensors: an index of safetensors has one")
	}
	return shards, f.fault("", err)
}

// addToShard takes the name of the file that has a tensor.
func addToShard(shards map[string]map[string]int64, tensor string, at int64, j *scan.JSON) error {
	if err := checkName(tensor, at); err != nil {
		return err
	}
	shard, err := j.String()
	if err != nil {
		return err
	}
	if err := checkShard(shard, at); err != nil {
		return err
	}
	if shards[shard] == nil {
		shards[shard] = map[string]int64{}
	}
	shards[shard][tensor] = at
	return nil
}

// checkShard refuses all but names of files in the folder of the index.
func checkShard(name string, at int64) error {
	if err := checkName(name, at); err != nil {
		return err
	}
	if name == "" || strings.ContainsAny(name, `/\`) || !filepath.IsLocal(name) || name == "." {
		return scan.ErrorAt(at, "its file is %s, want the name of a file in the folder of the index", printable.Value(name))
	}
	return nil
}

// split is the part that a GGUF file is of a split one.
type split struct {
	f                   *file
	no, parts, tensors  int64
	here, at, countedAt int64 // tensors of this file, and where its header says no and tensors
}

// splitOf returns what part a file is. Other files are the only part.
func splitOf(f *file, h *header) (split, error) {
	s := split{f: f, parts: 1, here: int64(len(h.tensors)), at: h.at["split.count"], countedAt: h.at["split.tensors.count"]}
	for _, x := range []struct {
		key string
		to  *int64
	}{{"split.no", &s.no}, {"split.count", &s.parts}, {"split.tensors.count", &s.tensors}} {
		value, ok := h.metadata[x.key]
		if !ok || h.at == nil {
			continue
		}
		n, ok := wholeNumber(value)
		if !ok {
			return s, f.faultf("", h.at[x.key], "%s is %s (%T), want a whole number from 0", x.key, printable.Value(fmt.Sprint(value)), value)
		}
		*x.to = n
	}
	if s.parts = max(s.parts, 1); s.no >= s.parts {
		return s, f.faultf("", s.at, "split.no is %d, but split.count %d", s.no, s.parts)
	}
	return s, nil
}

// wholeNumber returns a value of metadata that counts.
func wholeNumber(value any) (n int64, ok bool) {
	switch v := value.(type) {
	case uint8:
		n = int64(v)
	case uint16:
		n = int64(v)
	case int16:
		n = int64(v)
	case uint32:
		n = int64(v)
	case int32:
		n = int64(v)
	case uint64:
		n = int64(v)
	case int64:
		n = v
	default:
		return 0, false
	}
	return n, n >= 0
}

// restOfSplit opens the other parts if the only file is the first part, and checks that all parts
// are there.
func (o *opener) restOfSplit() error {
	if len(o.splits) == 1 && o.splits[0].parts > 1 {
		first := o.splits[0]
		if first.no != 0 {
			return first.f.faultf("", first.at, "this is part %d of %d: open the first, or name all", first.no+1, first.parts)
		}
		for no := int64(1); no < first.parts; no++ {
			path, err := partPath(first, no)
			if err == nil {
				err = o.path(path, nil)
			}
			if err != nil {
				return fmt.Errorf("part %d of %d: %w", no+1, first.parts, err)
			}
		}
	}
	return o.checkSplits()
}

// partPath returns the path of a part beside the first: NAME-00002-of-00003.gguf.
func partPath(first split, no int64) (string, error) {
	end := fmt.Sprintf("-00001-of-%05d.gguf", first.parts)
	stem, ok := strings.CutSuffix(first.f.name, end)
	if !ok {
		return "", first.f.faultf("", first.at, "this is the first of %d parts, but its name does not end in %s: name all parts", first.parts, end)
	}
	return fmt.Sprintf("%s-%05d-of-%05d.gguf", stem, no+1, first.parts), nil
}

// checkSplits demands that of each split file all parts are there once, with all tensors.
func (o *opener) checkSplits() error {
	var parts []split
	for _, s := range o.splits {
		if s.parts > 1 {
			parts = append(parts, s)
		}
	}
	if len(parts) == 0 {
		return nil
	}
	first, have, tensors := parts[0], map[int64]*file{}, int64(0)
	for _, s := range parts {
		if s.parts != first.parts || s.tensors != first.tensors {
			return s.f.faultf("", s.at, "part %d of %d with %d tensors does not belong to %s, which is one of %d parts with %d",
				s.no+1, s.parts, s.tensors, printable.Path(first.f.name), first.parts, first.tensors)
		}
		if f := have[s.no]; f != nil {
			return s.f.faultf("", s.at, "file %s is part %d, too", printable.Path(f.name), s.no+1)
		}
		have[s.no] = s.f
		tensors += s.here
	}
	if int64(len(have)) < first.parts {
		return first.f.faultf("", first.at, "%d parts of %d are here: name all", len(have), first.parts)
	}
	if first.countedAt > 0 && tensors != first.tensors {
		return first.f.faultf("", first.countedAt, "split.tensors.count is %d, but the parts have %d tensors", first.tensors, tensors)
	}
	return nil
}
