package main

import (
	"context"
	"encoding/json"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/ferrygpu/ferry/cmd/ferry/internal/softlib"
	"github.com/ferrygpu/ferry/internal/layout"
)

// newLib returns the command "ferry lib".
func newLib(s *session) *cobra.Command {
	var dir string
	var races, asJSON bool
	c := &cobra.Command{
		Use:   "lib [--race] [-o DIR] [--json]",
		Short: "build libcuda.so.1 on the software GPU, for any program",
		Long: `Builds libcuda.so.1, a CUDA driver that is the software GPU, and prints the
folder that has it. Programs of all languages that use the driver's C interface
run on it without a GPU: C, C++, Go and Python. The variables of Ferry work as
in Go programs: FERRY_DEVICE, FERRY_SCHEDULE, FERRY_CHECK, FERRY_TRACE,
FERRY_FAULT. A program that is linked with libcudart of the CUDA toolkit does
not run: that needs private tables of NVIDIA's driver.

It needs Go, a C compiler (the one of CC, else gcc, else clang), and Linux with
glibc. Ferry's sources come from where this ferry was compiled, a checkout or
the module cache, else by go mod download.

The first build takes a minute. Libraries are kept in the folder ferry/libcuda
of the user's cache (XDG_CACHE_HOME, else ~/.cache), at most four. A change of
the sources, of Go or of the compiler makes another, and removes the one that
was not used for longest. With -o all is copied to DIR, which stays, and DIR is
printed. libcuda.so beside the library is a link, for -lcuda, and the folder
headers/compat has a cuda.h of Ferry's.

With --race it is the library for programs that are built with -fsanitize=thread
(ferry cc --race). It tells their race detector what the device does.

ferry check, trace and explain -- PROGRAM with --device soft do all that
themselves.
`,
		Example: "  LD_LIBRARY_PATH=\"$(ferry lib)\" ./program\n  cc program.c -I\"$(ferry lib)/headers/compat\" -L\"$(ferry lib)\" -lcuda\n  ferry check --device soft -- ./program\n  ferry lib -o build",
		Args:    noWords,
		RunE:    func(c *cobra.Command, _ []string) error { return buildLib(c.Context(), s, dir, races, asJSON) },
	}
	c.Flags().StringVarP(&dir, "output", "o", "", "copy the library to the folder `DIR`")
	c.Flags().BoolVar(&races, "race", false, "the library for programs that are built with -fsanitize=thread")
	jsonFlag(c, &asJSON, "schema "+libSchema)
	return c
}

const libSchema = "ferry.lib/1"

// libReport is the output of "ferry lib".
type libReport struct {
	Schema   string `json:"schema"`
	Folder   string `json:"folder"` // for LD_LIBRARY_PATH
	Library  string `json:"library"`
	Built    bool   `json:"built"` // by this run; else it was in the cache
	Compiler string `json:"compiler"`
	Source   string `json:"source"` // the folder of Ferry's module
}

// Page returns the folder, which a shell can use as it is: in one line, also on a narrow terminal.
func (r *libReport) Page() *layout.Page {
	p := new(layout.Page)
	p.Exact(r.Folder + "\n")
	return p
}

// JSON returns the report as a document.
func (r *libReport) JSON() ([]byte, error) { return json.Marshal(r) }

// buildLib implements "ferry lib".
func buildLib(ctx context.Context, s *session, dir string, races, asJSON bool) error {
	l, err := s.softLibrary(ctx, races)
	if err != nil {
		return err
	}
	r := &libReport{libSchema, l.Folder, l.Path(), l.Built, l.Compiler, l.Source}
	if dir != "" {
		if err := l.CopyTo(dir); err != nil {
			return err
		}
		r.Folder, err = filepath.Abs(dir)
		r.Library = filepath.Join(r.Folder, softlib.Name)
	}
	return firstError(err, s.writeReport(r, asJSON))
}

// softLibrary returns the library, and says so before it builds one. races chooses the one for programs
// that have a race detector.
func (s *session) softLibrary(ctx context.Context, races bool) (*softlib.Library, error) {
	return softlib.Builder{Say: func(text string) { s.say("ferry: %s\n", text) }, Races: races}.Build(ctx)
}
