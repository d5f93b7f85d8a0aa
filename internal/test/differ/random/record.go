package random

import "github.com/ferrygpu/ferry/internal/test/differ"

// Schema is the version of [Corpus] as JSON.
const Schema = "ferry.random/1"

// Corpus has the results of programs on hardware.
type Corpus struct {
	Schema string `json:"schema"`
	differ.Machine
	Threads  int      `json:"threads"` // that run each program
	Fresh    Fresh    `json:"fresh"`
	Programs []Result `json:"programs"`
}

// Fresh describes the other programs in the run that recorded the corpus.
type Fresh struct {
	Seed     uint64  `json:"seed"` // of the first program
	Programs int     `json:"programs"`
	Wrong    int     `json:"wrong"`   // programs with a difference
	Seconds  float64 `json:"seconds"` // for all programs, with the corpus
	Kinds    []Kind  `json:"kinds"`   // of all wrong programs, with the corpus
}

// Kind groups programs with the same error.
type Kind struct {
	Program string   `json:"program"`       // shrunk, without operands
	Why     string   `json:"why,omitempty"` // the explanation, if it is known
	Seeds   []uint64 `json:"seeds"`
	Plain   int      `json:"plain"` // for how many hardware agrees with the software GPU without optimisation
}

// Result is one program: hashes of its text and of its output.
type Result struct {
	Seed   uint64 `json:"seed"`
	Text   string `json:"text"`
	Output string `json:"output"`
}
