package main

import (
	"context"
	"errors"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"github.com/ferrygpu/ferry/checkpoint"
	"github.com/ferrygpu/ferry/cmd/ferry/internal/load"
)

// loadOptions are the flags of "ferry load".
type loadOptions struct {
	device, to   string
	tensors      []string
	verify, plan bool
	json         bool
}

// newLoad returns the command "ferry load".
func newLoad(s *session) *cobra.Command {
	o := &loadOptions{}
	c := &cobra.Command{
		Use: "load FILE... [--tensors GLOB]... [--to DTYPE] [--verify]\n" +
			"                  [--plan] [--device D] [--json]",
		Short: "load a model's tensors onto a device, and say what bounds it",
		Long: `Loads the tensors of safetensors and GGUF files onto a device and frees them. A
FILE is a file, the index of several, or a folder with one of these. It prints
the rate, the page-locked memory, and what bounded the load: the link, the disk,
the CPU, page-locking, or the allocation of device memory.

With --plan only headers are read: it prints what would be loaded, whether it
fits, and how long the link and the CPU would take by the device's profile.

With --to, F32, F16, BF16, F8_E4M3 and F8_E5M2 become each other, and Q4_0,
Q8_0, Q4_K and Q6_K become F32, F16 or BF16. Integers, BOOL, C64 and F8_E8M0
stay. Any other type, such as F64, is an error.

With --verify the GPU computes a hash of each tensor, which is compared with
that of the file's bytes. The exit status is 3 if one differs.
`,
		Example: "  ferry load model.safetensors\n  ferry load model.safetensors.index.json --plan --device soft:h200\n" +
			"  ferry load model.gguf --tensors 'blk.0.*' --to f16 --json",
		Args:              someFiles,
		ValidArgsFunction: completeFiles("safetensors", "gguf", "json"),
		RunE:              func(c *cobra.Command, files []string) error { return loadFiles(c.Context(), s, o, files) },
	}
	c.Flags().StringArrayVar(&o.tensors, "tensors", nil, "only the tensors whose names match `GLOB`, such as 'model.layers.0.*'; may be given again")
	c.Flags().StringVar(&o.to, "to", "", "convert tensors to `DTYPE`: bf16, f16, f32, or from other floats also f8_e4m3 and f8_e5m2")
	complete(c, "to", func() []cobra.Completion { return []string{"bf16", "f16", "f32", "f8_e4m3", "f8_e5m2"} })
	c.Flags().BoolVar(&o.verify, "verify", false, "compare hashes of the device's memory with those of the files")
	c.Flags().BoolVar(&o.plan, "plan", false, "read headers alone, and say what a load would do")
	jsonFlag(c, &o.json, "schema ferry.load/1; times in nanoseconds")
	deviceFlag(c, &o.device)
	return c
}

// someFiles returns an error unless there is a file. It says what to type instead of a device or of
// a file that another command reads.
func someFiles(c *cobra.Command, words []string) error {
	if len(words) == 0 {
		return badUsage("no FILE given")
	}
	for _, word := range words {
		other := fileCommand(word)
		program := strings.HasPrefix(other, "ferry trace -- ") // or a checkpoint that may be executed
		if other != "" && !program && other != "ferry load "+shellWord(word) {
			return badUsage("%q is no checkpoint%s", word, ask(other))
		}
		if _, err := os.Stat(word); err != nil && deviceOf(word) != "" {
			return badUsage("%q is no file%s", word, instead(c, word))
		}
	}
	return nil
}

// job returns what the flags ask for.
func (o *loadOptions) job(files []string) (j load.Job, err error) {
	j = load.Job{Files: files, Tensors: o.tensors, Verify: o.verify}
	if o.to != "" {
		if j.To, err = checkpoint.ParseDType(o.to); err != nil {
			return j, badUsage("--to %s: %v", o.to, err)
		}
	}
	switch {
	case o.plan && o.verify:
		return j, badUsage("--plan and --verify: a plan loads nothing that can be verified")
	case o.verify && o.to != "":
		return j, badUsage("--verify and --to: converted tensors do not have the bytes of the file")
	}
	return j, nil
}

// loadFiles implements "ferry load".
func loadFiles(ctx context.Context, s *session, o *loadOptions, files []string) error {
	j, err := o.job(files)
	if err != nil {
		return err
	}
	g, err := s.open(ctx, o.device)
	if err != nil {
		return err
	}
	p := newProgress(s.stderr)
	j.Progress = func(step string, done, total int64) { p.bar(step, done, total) }
	run := load.Run
	if o.plan {
		run = load.Predict
	}
	r, err := run(ctx, g, j)
	p.done()
	if err != nil {
		return firstError(ctx.Err(), loadError(err), g.Close())
	}
	return firstError(s.writeReport(r, o.json), g.Close())
}

// loadError makes a finding of a tensor that differs.
func loadError(err error) error {
	if _, differs := errors.AsType[*checkpoint.MismatchError](err); differs {
		return found("%v", err)
	}
	return err
}
