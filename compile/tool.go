package compile

import (
	"context"
	"slices"

	"github.com/ferrygpu/ferry/internal/clangtool"
	"github.com/ferrygpu/ferry/internal/secureenv"
)

func init() { clangtool.Find, clangtool.Headers = findTool, toolHeaders }

// findTool is [clangtool.Find].
func findTool(ctx context.Context, architecture string) (*clangtool.Clang, error) {
	a, err := parseArch(architecture)
	if err != nil {
		return nil, err
	}
	found, err := findClang(ctx, a, secureenv.Get(ClangVariable))
	if err != nil {
		return nil, err
	}
	if err := checkArch(a, found); err != nil {
		return nil, err
	}
	c := found.(*clang)
	lowest, _ := lowestPTX(a)
	return &clangtool.Clang{Path: c.path, Version: c.version, Arch: a.String(), PTX: lowest, NewerPTX: c.newerPTX}, nil
}

// newerPTX is [clangtool.Clang.NewerPTX].
func (c *clang) newerPTX(log string, version int) int {
	if newer := neededPTX(log, version, c.newestPTX()); newer > version {
		return newer
	}
	return 0
}

// toolHeaders is [clangtool.Headers].
func toolHeaders(ctx context.Context, path string) (flags []string, err error) {
	c, err := probe(ctx, path)
	if err != nil {
		return nil, err
	}
	s, err := c.system(ctx)
	if err != nil {
		return nil, err
	}
	return slices.Clone(s.flags), nil
}
