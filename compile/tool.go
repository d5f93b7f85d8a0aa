package compile

import (
	"context"
	"errors"

	"github.com/ferrygpu/ferry/internal/secureenv"
)

// Clang is a clang that compiles CUDA C++, for programs that run it themselves.
type Clang struct {
	Path    string
	Version string // "19.1.7"
	Arch    string // that it was found for: "sm_80"
	arch    arch
	clang   *clang
}

// FindClang returns the clang that [Source] would use for an architecture, if it used clang. If
// there is none, the error is a [*NotFoundError]; if it does not know the architecture, an
// [*ArchError].
func FindClang(ctx context.Context, architecture string) (*Clang, error) {
	if ctx == nil {
		return nil, errors.New("find clang: no context given")
	}
	a, err := parseArch(architecture)
	if err != nil {
		return nil, err
	}
	c, err := findClang(ctx, a, secureenv.Get(ClangVariable))
	if err != nil {
		return nil, err
	}
	if err := checkArch(a, c); err != nil {
		return nil, err
	}
	found := c.(*clang)
	return &Clang{found.path, found.version, a.String(), a, found}, nil
}

// PTX returns the lowest version of PTX that the architecture needs, times ten; 0 for a Clang that
// FindClang has not returned.
func (c *Clang) PTX() int {
	if c == nil || c.clang == nil {
		return 0
	}
	version, _ := lowestPTX(c.arch)
	return version
}

// NewerPTX returns the version of PTX that a compilation needs which failed with one, by what clang
// has printed; 0 for another failure.
func (c *Clang) NewerPTX(log string, version int) int {
	if c == nil || c.clang == nil {
		return 0
	}
	if newer := neededPTX(log, version, c.clang.newestPTX()); newer > version {
		return newer
	}
	return 0
}
