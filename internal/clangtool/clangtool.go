// Package clangtool gives "ferry cc" what package compile knows of clang and does not export.
//
// Package compile sets the variables when it is initialised. Those who use them import compile, whose
// errors they handle, so they are set before their code runs. The functions are not part of the public
// API, because only a program that runs clang itself, against Ferry's headers, has a use for them.
package clangtool

import "context"

// A Clang is a clang that compiles CUDA C++ for an architecture.
type Clang struct {
	Path    string
	Version string // "19.1.7"
	Arch    string // "sm_80"
	PTX     int    // the lowest version of PTX that the architecture needs, times ten
	// NewerPTX returns the version of PTX that a compilation needs which failed with one, by what clang
	// has printed; 0 for another failure.
	NewerPTX func(log string, version int) int
}

// Find returns the clang that compile.Source would use for an architecture, if it used clang. If there
// is none, the error is a *compile.NotFoundError; if it does not know the architecture, a
// *compile.ArchError.
var Find func(ctx context.Context, architecture string) (*Clang, error)

// Headers returns the flags with which a clang compiles CUDA C++ against Ferry's headers beside the
// system's C and C++ headers. The error says which of these headers is missing. Kernels compile without
// them, host code does not.
var Headers func(ctx context.Context, path string) (flags []string, err error)
