package main

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/ferrygpu/ferry/cmd/ferry/internal/profiles"
	"github.com/ferrygpu/ferry/internal/inputfile"
	"github.com/ferrygpu/ferry/profile"
)

// newProfile returns the command "ferry profile".
func newProfile(s *session) *cobra.Command {
	return newGroup("profile list|show|check|fit", "show the machines that the software GPU can be, and check them",
		`A profile is a machine as data: what its device can do, and how long its link,
engines and driver calls take. The software GPU predicts times from it. The
device soft:NAME is the machine of a profile.
`,
		newProfileList(s), newProfileShow(s), newProfileCheck(s), newProfileFit(s))
}

// newProfileList returns the command "ferry profile list".
func newProfileList(s *session) *cobra.Command {
	var asJSON bool
	c := &cobra.Command{
		Use:   "list [--json]",
		Short: "list the profiles that Ferry ships",
		Long: `Lists the profiles that Ferry ships. The last columns count the figures of each
by their sources: measured, from a datasheet, reported by others, derived from
such figures, or guessed.
`,
		Example: "  ferry profile list",
		Args:    noWords,
		RunE: func(*cobra.Command, []string) error {
			l, err := profiles.Shipped()
			if err != nil {
				return err
			}
			return s.writeReport(l, asJSON)
		},
	}
	jsonFlag(c, &asJSON, "schema ferry.profiles/1")
	return c
}

// newProfileShow returns the command "ferry profile show".
func newProfileShow(s *session) *cobra.Command {
	var asJSON bool
	c := &cobra.Command{
		Use:   "show NAME|FILE.json [--json]",
		Short: "show the figures of a profile and their sources",
		Long: `Shows the figures of a profile that Ferry ships, or of a file. The document
docs/generated/profile.md describes each field.
`,
		Example: "  ferry profile show h200\n  ferry profile show h200 --json >mine.json",
		Args: func(c *cobra.Command, words []string) error {
			if len(words) == 0 {
				return badUsage("no profile was given")
			}
			return noWords(c, words[1:])
		},
		ValidArgsFunction: func(*cobra.Command, []string, string) ([]cobra.Completion, cobra.ShellCompDirective) {
			return profileNames(), cobra.ShellCompDirectiveDefault
		},
		RunE: func(_ *cobra.Command, words []string) error {
			text, err := readProfile(words[0])
			if err != nil {
				return err
			}
			p, err := profile.Parse(text)
			if err != nil {
				return fmt.Errorf("%s: %w", words[0], err)
			}
			return s.writeReport(&profiles.Page{Profile: p, Document: text}, asJSON)
		},
	}
	jsonFlag(c, &asJSON, "schema "+profile.Schema+", as --device soft:FILE.json reads it")
	return c
}

// readProfile returns the document of a shipped profile or of a file.
func readProfile(name string) ([]byte, error) {
	if strings.HasSuffix(name, ".json") {
		return inputfile.Read(name, inputfile.Document)
	}
	text, err := profile.Text(name)
	if err != nil {
		return nil, unknownProfile(name)
	}
	return text, nil
}

// newProfileCheck returns the command "ferry profile check".
func newProfileCheck(s *session) *cobra.Command {
	o := &benchOptions{}
	c := &cobra.Command{
		Use:   "check FILE... [--device D] [--only TEXT] [--json]",
		Short: "compare the predictions of a profile with measurements",
		Long: `Compares the times of a device with those in files that "ferry bench --json"
wrote, or with the medians of several files. It measures the half of the cases
that profiles are not fitted to. Give the profile with --device: soft:NAME or
soft:FILE.json. It is "ferry bench --against" under another name.
`,
		Example: "  ferry profile check mine.json --device soft:h200",
		Args: func(_ *cobra.Command, words []string) error {
			if len(words) == 0 {
				return badUsage("no file of measurements was given")
			}
			return nil
		},
		ValidArgsFunction: completeFiles("json"),
		RunE: func(c *cobra.Command, words []string) error {
			o.against = words
			return benchmark(c.Context(), s, o)
		},
	}
	onlyFlag(c, &o.only)
	jsonFlag(c, &o.json, "schema ferry.accuracy/1")
	deviceFlag(c, &o.device)
	return c
}
