package main

import (
	"fmt"
	"time"
)

// entrant is a way to load a file, by a program.
type entrant struct {
	name, program, method string
}

// The entrants. Names are those of the table.
var (
	ferryRing   = entrant{"ferry checkpoint", "ferry", "checkpoint"}
	ferryDirect = entrant{"ferry checkpoint, O_DIRECT", "ferry", "direct"}
	ferryF16    = entrant{"ferry checkpoint to f16", "ferry", "f16"}
	ferryFirst  = entrant{"ferry one tensor of 8 KiB", "ferry", "first"}
	copyFrom    = entrant{"ferry CopyFrom", "ferry", "copyfrom"}
	locked      = entrant{"page-locked copy", "locked", "locked"}
	ring        = entrant{"C++ two buffers", "c", "ring"}
	ringKept    = entrant{"C++ two buffers, kept", "c", "ring-kept"}
	ringDirect  = entrant{"C++ two buffers, O_DIRECT", "c", "ring-direct"}
	mmapped     = entrant{"C++ mmap and cudaMemcpy", "c", "mmap"}
	direct      = entrant{"C++ cuFile", "c", "cufile"}
	disk        = entrant{"C++ O_DIRECT, no GPU", "c", "disk"}
	loadFile    = entrant{"safetensors load_file", "python", "load_file"}
	safeOpen    = entrant{"safetensors safe_open", "python", "safe_open"}
)

// row is a file, where it goes, and who loads it in turns.
type row struct {
	name, what string
	gpus       string
	file       func(*files) *modelFile
	entrants   []entrant
	goals      []goal
}

// goal is a ratio that an entrant shall reach: the time of the slowest of others divided by its own.
// Without others it is a limit of the time, or of the bytes that are page-locked.
type goal struct {
	entrant entrant
	against []entrant
	atLeast float64
	atMost  time.Duration
	pinned  float64
}

// rows are what is measured, the most important first.
func rows() []row {
	model := func(f *files) *modelFile { return f.model }
	small := func(f *files) *modelFile { return f.small }
	onDisk := func(f *files) *modelFile { return f.disk }
	from := []goal{{entrant: ferryRing, against: []entrant{locked}, atLeast: 0.92}, {entrant: ferryRing, against: []entrant{loadFile}, atLeast: 5},
		{entrant: ferryRing, pinned: 64 << 20}}
	two := []goal{{entrant: ferryRing, against: []entrant{locked, ring}, atLeast: 0.95}}
	return []row{
		{"tmpfs", "a model from memory", toOne, model, []entrant{ferryRing, locked, ring, ringKept, mmapped, direct, loadFile, copyFrom}, from},
		{"f16", "a model from memory, bf16 to f16", toOne, model, []entrant{ferryRing, ferryF16},
			[]goal{{entrant: ferryF16, against: []entrant{ferryRing}, atLeast: 1 / 1.03}}},
		{"first", "one tensor of a model from memory", toOne, model, []entrant{ferryFirst}, []goal{{entrant: ferryFirst, atMost: 50 * time.Millisecond}}},
		{"all", "a model from memory, all to each GPU", toAll, model, []entrant{ferryRing, locked, ring}, two},
		{"each", "a model from memory, half to each GPU", toEach, model, []entrant{ferryRing, locked, ring, copyFrom}, two},
		{"small", "many tensors of 4 KiB from memory", toOne, small, []entrant{ferryRing, locked, ring, mmapped, loadFile}, from},
		{"disk", "a model from a disk", toOne, onDisk, []entrant{ferryRing, ferryDirect, ringDirect, direct, disk},
			[]goal{{entrant: ferryRing, against: []entrant{disk}, atLeast: 0.95}, {entrant: ferryDirect, against: []entrant{disk}, atLeast: 0.95}}},
		{"safe", "a model from memory, by safe_open", toOne, model, []entrant{safeOpen}, nil},
	}
}

func (g goal) String() string {
	if g.pinned > 0 {
		return fmt.Sprintf("%s with at most %.0f MiB page-locked", g.entrant.name, g.pinned/(1<<20))
	}
	if len(g.against) == 0 {
		return fmt.Sprintf("%s within %v", g.entrant.name, g.atMost)
	}
	text := fmt.Sprintf("%s at %.2f of ", g.entrant.name, g.atLeast)
	for i, e := range g.against {
		if i > 0 {
			text += " and "
		}
		text += e.name
	}
	return text
}

// files are the files of a run.
type files struct{ model, small, disk *modelFile }
