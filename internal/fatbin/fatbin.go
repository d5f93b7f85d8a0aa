package fatbin

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"strings"
)

const (
	magic       = 0xba55ed50
	headerBytes = 16
	entryBytes  = 64

	flagOldCompression = 0x1000
	flagLZ4            = 0x2000
	flagZstandard      = 0x8000
)

// maxEntries is more entries than nvcc has architectures.
const maxEntries = 1024

// Kind is what an entry holds.
type Kind uint16

const (
	PTX   Kind = 1
	Cubin Kind = 2
)

func (k Kind) String() string {
	switch k {
	case PTX:
		return "PTX"
	case Cubin:
		return "machine code (cubin)"
	}
	return fmt.Sprintf("code of kind %d", uint16(k))
}

// Entry is the code for one architecture.
type Entry struct {
	Kind  Kind
	Arch  int // 80 for sm_80
	flags uint64
	data  []byte // as stored
	size  uint64 // when decompressed, as the file says
}

// String returns what the entry is: "PTX for sm_80".
func (e *Entry) String() string { return fmt.Sprintf("%v for sm_%d", e.Kind, e.Arch) }

// Is reports whether an image begins as a fatbin.
func Is(image []byte) bool {
	return len(image) >= 4 && binary.LittleEndian.Uint32(image) == magic
}

// Entries returns the entries of a fatbin. They share its memory.
func Entries(image []byte) ([]Entry, error) {
	if !Is(image) || len(image) < headerBytes {
		return nil, fmt.Errorf("the fatbin has %d bytes, fewer than its header", len(image))
	}
	start, size := uint64(binary.LittleEndian.Uint16(image[6:])), binary.LittleEndian.Uint64(image[8:])
	if start < headerBytes || start > uint64(len(image)) || size > uint64(len(image))-start {
		return nil, fmt.Errorf("the fatbin says that it has %d bytes after a header of %d: the image has %d bytes (is it cut off?)", size, start, len(image))
	}
	var list []Entry
	for rest := image[start : start+size]; len(rest) >= entryBytes; {
		if len(list) == maxEntries {
			return nil, fmt.Errorf("the fatbin has more than %d entries", maxEntries)
		}
		e, n, err := entry(rest)
		if err != nil {
			return nil, fmt.Errorf("entry %d of the fatbin: %w", len(list), err)
		}
		list = append(list, e)
		rest = rest[n:]
	}
	return list, nil
}

// entry reads the first entry of b, and returns how many bytes it takes.
func entry(b []byte) (e Entry, n uint64, err error) {
	word := binary.LittleEndian.Uint32
	header, padded, stored := uint64(word(b[4:])), binary.LittleEndian.Uint64(b[8:]), uint64(word(b[16:]))
	e = Entry{Kind: Kind(binary.LittleEndian.Uint16(b)), Arch: int(word(b[28:])), flags: binary.LittleEndian.Uint64(b[40:])}
	if header < entryBytes || header > uint64(len(b)) || padded > uint64(len(b))-header {
		return e, 0, fmt.Errorf("%v: a header of %d bytes and data of %d bytes do not fit in %d bytes", &e, header, padded, len(b))
	}
	e.data = b[header : header+padded]
	if e.compressed() {
		e.size = binary.LittleEndian.Uint64(b[56:])
		if stored > padded {
			return e, 0, fmt.Errorf("%v: %d compressed bytes in data of %d bytes", &e, stored, padded)
		}
		e.data = e.data[:stored]
	}
	return e, header + padded, nil
}

func (e *Entry) compressed() bool {
	return e.flags&(flagOldCompression|flagLZ4|flagZstandard) != 0
}

// Data returns the code, decompressed. PTX is without the zero bytes at its end.
func (e *Entry) Data() (data []byte, err error) {
	switch {
	case e.compressed() && e.size > mostData(len(e.data)):
		err = fmt.Errorf("%d bytes when decompressed from %d, at most %d are read: compile with nvcc --no-compress", e.size, len(e.data), mostData(len(e.data)))
	case e.flags&flagZstandard != 0:
		data, err = zstandard(e.data, int(e.size))
	case e.flags&flagLZ4 != 0:
		data, err = lz4(e.data, int(e.size))
	case e.flags&flagOldCompression != 0:
		err = errors.New("it has the compression of an old nvcc, which is not known: compile without -Xfatbin -compress-all")
	default:
		data = e.data
	}
	if err != nil {
		return nil, fmt.Errorf("%v of the fatbin: %w", e, err)
	}
	if e.Kind == PTX {
		data = bytes.TrimRight(data, "\x00")
	}
	return data, nil
}

// NoPTXError reports a fatbin that has machine code only.
type NoPTXError struct {
	Has []string // the entries, "machine code (cubin) for sm_90"
}

func (e *NoPTXError) Error() string {
	has := "nothing"
	if len(e.Has) > 0 {
		has = strings.Join(e.Has, ", ")
	}
	return fmt.Sprintf("the fatbin has %s, and no PTX: compile with -gencode arch=compute_80,code=compute_80 to include PTX", has)
}

// Choose returns the PTX for a device of architecture arch (90 for sm_90): that for the
// highest architecture up to arch, as the driver does, otherwise that for the lowest above.
// If there is no PTX, the error is a [*NoPTXError].
func Choose(image []byte, arch int) (*Entry, error) {
	list, err := Entries(image)
	if err != nil {
		return nil, err
	}
	var best *Entry
	for i := range list {
		if e := &list[i]; e.Kind == PTX && (best == nil || better(e.Arch, best.Arch, arch)) {
			best = e
		}
	}
	if best == nil {
		none := new(NoPTXError)
		for i := range list {
			none.Has = append(none.Has, list[i].String())
		}
		none.Has = slices.Compact(none.Has)
		return nil, none
	}
	return best, nil
}

// better reports whether PTX for architecture a suits a device of architecture arch better
// than PTX for b.
func better(a, b, arch int) bool {
	if (a <= arch) != (b <= arch) {
		return a <= arch
	}
	return (a > b) == (a <= arch) && a != b
}
