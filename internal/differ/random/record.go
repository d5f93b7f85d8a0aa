package random

import "github.com/ferrygpu/ferry/internal/differ"

// Schema is the version of [Corpus] as JSON.
const Schema = "ferry.random/1"

// Corpus is what programs did on hardware.
type Corpus struct {
	Schema string `json:"schema"`
	differ.Machine
	Threads  int      `json:"threads"` // of a program
	Fresh    Fresh    `json:"fresh"`
	Programs []Result `json:"programs"`
}

// Fresh is what else was compared in the run that made the corpus.
type Fresh struct {
	Seed     uint64  `json:"seed"` // of the first program
	Programs int     `json:"programs"`
	Wrong    int     `json:"wrong"`
	Seconds  float64 `json:"seconds"` // of all, the corpus too
	Kinds    []Kind  `json:"kinds"`   // of wrong ones, of the corpus too
}

// Kind is programs that go wrong alike.
type Kind struct {
	Program string   `json:"program"`       // made small, without operands
	Why     string   `json:"why,omitempty"` // if it is known
	Seeds   []uint64 `json:"seeds"`
	Plain   int      `json:"plain"` // how many hardware runs as the software GPU does, compiled without optimisation
}

// Result is one program: hashes of its text and of what it did.
type Result struct {
	Seed   uint64 `json:"seed"`
	Text   string `json:"text"`
	Output string `json:"output"`
}
