package main

import (
	"context"
	"fmt"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/ferrygpu/ferry/cmd/ferry/internal/fit"
	"github.com/ferrygpu/ferry/internal/outfile"
	"github.com/ferrygpu/ferry/profile"
)

// fitOptions are the flags of "ferry profile fit".
type fitOptions struct {
	base, out string
	rounds    int
	json      bool
}

// newProfileFit returns the command "ferry profile fit".
func newProfileFit(s *session) *cobra.Command {
	o := &fitOptions{}
	c := &cobra.Command{
		Use: "fit FILE... [--base PROFILE] [--out FILE.json] [--rounds N]\n" +
			"                         [--json]",
		Short: "fit a profile to measurements of a machine",
		Long: `Fits a profile to files that "ferry bench --json" wrote on one machine. Runs of
"ferry compare --json" may be among them. It starts from the shipped profile of
the device, and moves the numbers and curves for which measured times clearly
differ: runs on one machine often differ by 25 %, so that much counts as noise.

Only half of the cases is used, by a hash of their names. The errors before and
after are stated for that half and for the other. A fit to a whole run takes a
minute or more.
`,
		Example: "  ferry bench --device cuda --json >mine.json\n  ferry profile fit mine.json --out mine-profile.json\n  ferry compare --device soft:mine-profile.json",
		Args: func(_ *cobra.Command, words []string) error {
			if len(words) == 0 {
				return badUsage("no file of measurements was given")
			}
			return nil
		},
		ValidArgsFunction: completeFiles("json"),
		RunE:              func(c *cobra.Command, words []string) error { return fitProfile(c.Context(), s, o, words) },
	}
	c.Flags().StringVar(&o.base, "base", "", "the `PROFILE` to start from, a name or FILE.json, if none is shipped for the device")
	complete(c, "base", profileNames)
	c.Flags().StringVar(&o.out, "out", "", "write the fitted profile to `FILE.json`")
	c.Flags().IntVar(&o.rounds, "rounds", 1, "how often all numbers and curves are moved: `N`")
	jsonFlag(c, &o.json, "schema "+fit.Schema)
	return c
}

// fitProfile implements "ferry profile fit".
func fitProfile(ctx context.Context, s *session, o *fitOptions, files []string) error {
	if o.rounds < 1 || o.rounds > 10 {
		return badUsage("--rounds %d: want 1 to 10", o.rounds)
	}
	base, err := o.start(files)
	if err != nil {
		return err
	}
	if err := o.checkOut(); err != nil {
		return err
	}
	p := newProgress(s.stderr)
	r, err := fit.Near(ctx, &fit.Options{Base: base, Files: files, Name: o.name(), Rounds: o.rounds, Progress: p.say})
	p.done()
	if err != nil {
		return err
	}
	if o.out != "" {
		if err := outfile.Write(o.out, r.Profile()); err != nil {
			return err
		}
		r.Out = o.out
	}
	return s.writeReport(r, o.json)
}

// start returns the profile that the fit starts from, as a document.
func (o *fitOptions) start(files []string) ([]byte, error) {
	device, err := fit.DeviceOf(files)
	if err != nil {
		return nil, err
	}
	if o.base != "" {
		return readProfile(o.base)
	}
	p := profile.ForDevice(device)
	if p == nil {
		return nil, fmt.Errorf("no shipped profile is of the device %q of %s: give the nearest one with --base (ferry profile list has all)", device, files[0])
	}
	return profile.Text(p.Name)
}

// checkOut returns an error, before the fit, if its result would not be found.
func (o *fitOptions) checkOut() error {
	if o.out != "" && !strings.HasSuffix(o.out, ".json") {
		return badUsage("--out %s: a profile is a .json file, or --device soft:FILE would not find it", o.out)
	}
	return nil
}

// name returns the name of the fitted profile, empty for that of the base.
func (o *fitOptions) name() string {
	if o.out == "" {
		return ""
	}
	return strings.TrimSuffix(filepath.Base(o.out), ".json")
}
