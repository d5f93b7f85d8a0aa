package compile

import (
	"context"
	"os"
	"path/filepath"
)

// Options are the options of a compilation. The zero value, or nil, is the default.
type Options struct {
	// Arch is the GPU architecture that the PTX is for: "sm_80", which is the default.
	// GPUs of this architecture and newer ones run it.
	Arch string
	// Compiler is "nvrtc", "clang", or the absolute path of a libnvrtc or clang. Empty
	// means NVRTC if there is one, else clang.
	Compiler string
	// Include has directories for #include. The directory of a source file is always searched.
	Include []string
	// Define has macros: "NAME" or "NAME=VALUE".
	Define []string
	// LineInfo adds source lines to the PTX, for fault reports and profilers.
	LineInfo bool
	// FastMath lets the compiler use approximate and less exact arithmetic
	// (--use_fast_math).
	FastMath bool
}

// Result is the output of a compilation.
type Result struct {
	PTX      []byte
	Warnings []Diagnostic // in the order of the compiler
	Log      string       // what the compiler printed, unchanged
	Compiler string       // name and version: "clang 19.1.7", "NVRTC 13.0"
	Arch     string       // "sm_80"
}

// Source compiles source. name is its file name for messages, and includes are relative to
// its directory. Errors in the source are an [*Error]; if there is no compiler, the error
// is a [*NotFoundError].
func Source(ctx context.Context, name string, source []byte, o *Options) (*Result, error) {
	if o == nil {
		o = &Options{}
	}
	return compileClang(ctx, name, source, o)
}

// File is [Source] for a file.
func File(ctx context.Context, path string, o *Options) (*Result, error) {
	source, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	return Source(ctx, filepath.ToSlash(path), source, o)
}
