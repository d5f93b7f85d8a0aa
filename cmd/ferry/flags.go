package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/ferrygpu/ferry"
	"github.com/ferrygpu/ferry/internal/hint"
	"github.com/ferrygpu/ferry/internal/nearest"
	"github.com/ferrygpu/ferry/internal/printable"
	"github.com/ferrygpu/ferry/internal/secureenv"
	"github.com/ferrygpu/ferry/profile"
	"github.com/ferrygpu/ferry/softgpu"
)

// deviceFlag adds the --device flag that all commands with a device have.
func deviceFlag(c *cobra.Command, device *string) {
	c.Flags().StringVar(device, "device", "", "which device `D`")
	complete(c, "device", func() []cobra.Completion { return deviceNames() })
}

// jsonFlag adds the --json flag. text says which schema the document has.
func jsonFlag(c *cobra.Command, asJSON *bool, text string) {
	c.Flags().BoolVar(asJSON, "json", false, "one JSON document, "+text)
}

// complete sets the values that a shell proposes for a flag.
func complete(c *cobra.Command, flag string, values func() []cobra.Completion) {
	err := c.RegisterFlagCompletionFunc(flag, func(_ *cobra.Command, _ []string, begun string) ([]cobra.Completion, cobra.ShellCompDirective) {
		return beginning(values(), begun), cobra.ShellCompDirectiveNoFileComp
	})
	if err != nil {
		panic("BUG: " + err.Error())
	}
}

// beginning returns the names that begin with a text.
func beginning(all []string, text string) []string {
	return slices.DeleteFunc(all, func(name string) bool { return !strings.HasPrefix(name, text) })
}

// completeFiles lets a shell propose files with an extension as the command's words.
func completeFiles(extensions ...string) cobra.CompletionFunc {
	return func(*cobra.Command, []string, string) ([]cobra.Completion, cobra.ShellCompDirective) {
		return extensions, cobra.ShellCompDirectiveFilterFileExt
	}
}

// deviceNames returns the devices that a shell proposes, with their descriptions.
func deviceNames() []cobra.Completion {
	all := []cobra.Completion{
		cobra.CompletionWithDesc("cuda", "the first NVIDIA GPU"),
		cobra.CompletionWithDesc("soft", "the software GPU"),
	}
	for _, p := range profileNames() {
		name, title, _ := strings.Cut(p, "\t")
		all = append(all, cobra.CompletionWithDesc("soft:"+name, title))
	}
	return all
}

// profileNames returns the shipped profiles with their descriptions, for a shell.
func profileNames() (all []cobra.Completion) {
	for _, name := range profile.Names() {
		if p, err := profile.Named(name); err == nil {
			all = append(all, cobra.CompletionWithDesc(name, p.Title))
		}
	}
	return all
}

// noWords returns an error if there are words besides the flags. It says what to type instead.
func noWords(c *cobra.Command, words []string) error {
	if len(words) > 0 {
		return badUsage("%q is not expected here%s", words[0], instead(c, words[0]))
	}
	return nil
}

// twoDashes returns the arguments of a command in the form that pflag reads. A flag may
// have one dash, as those of package flag: -device is --device. A flag with one letter may
// have two: --o is -o.
func twoDashes(c *cobra.Command, args []string) (out []string) {
	if c.DisableFlagParsing { // its flags are those of another program
		return args
	}
	flags := c.Flags()
	for i := 0; i < len(args); i++ {
		a := args[i]
		if a == "--" {
			return append(out, args[i:]...)
		}
		name, _, hasValue := strings.Cut(strings.TrimLeft(a, "-"), "=")
		dashes := len(a) - len(strings.TrimLeft(a, "-"))
		f := flags.Lookup(name)
		switch {
		case dashes == 1 && f != nil, dashes == 1 && len(name) > 1 && shorthand(flags, name[:1]) == nil:
			a = "-" + a // also an unknown flag, for one form of error
		case dashes == 2 && f == nil && len(name) == 1:
			f = shorthand(flags, name)
			if f != nil {
				a = a[1:]
			}
		case dashes == 1 && len(name) == 1:
			f = shorthand(flags, name)
		}
		out = append(out, a)
		if f != nil && dashes > 0 && dashes < 3 && !hasValue && f.NoOptDefVal == "" && i+1 < len(args) {
			i++ // its value, which may begin with a dash
			out = append(out, args[i])
		}
	}
	return out
}

// shorthand returns the flag with a name of one letter, or nil.
func shorthand(flags *pflag.FlagSet, letter string) *pflag.Flag {
	if letter[0] >= 0x80 {
		return nil
	}
	return flags.ShorthandLookup(letter)
}

// flagError returns the usage error for an error of pflag.
func flagError(c *cobra.Command, err error) error {
	if e, ok := errors.AsType[*pflag.NotExistError](err); ok {
		return badUsage("flag provided but not defined: %s; %s", dashed(e.GetSpecifiedName()), nearest.Ask(e.GetSpecifiedName(), flagNames(c)))
	}
	if e, ok := errors.AsType[*pflag.ValueRequiredError](err); ok {
		return badUsage("flag needs an argument: %s", dashed(e.GetSpecifiedName()))
	}
	if e, ok := errors.AsType[*pflag.InvalidValueError](err); ok {
		kind := map[string]string{"bool": "boolean value", "duration": "value"}[e.GetFlag().Value.Type()]
		if kind == "" {
			kind = "value"
		}
		return badUsage("invalid %s %q for flag %s: %v", kind, e.GetValue(), dashed(e.GetFlag().Name), e.Unwrap())
	}
	return badUsage("%v", err)
}

// dashed returns the name of a flag with its dashes.
func dashed(name string) string {
	if len(name) == 1 {
		return "-" + name
	}
	return "--" + name
}

// flagNames returns the flags of a command with their dashes.
func flagNames(c *cobra.Command) (all []string) {
	c.Flags().VisitAll(func(f *pflag.Flag) { all = append(all, "--"+f.Name) })
	return all
}

// open opens a device by its name. If the software GPU replaces a missing GPU, it adds
// a warning. When ctx is done, kernels and the clock of a software GPU stop.
func (s *session) open(ctx context.Context, name string) (*ferry.GPU, error) {
	if err := checkProfile(name); err != nil {
		return nil, err
	}
	hint.Silence(hint.Fallback) // the warning below has the same content
	g, err := ferry.Open(name)
	if err == nil && g.Fallback() != nil && !hint.Quiet() {
		s.warnings = append(s.warnings, fmt.Sprintf("no NVIDIA GPU could be opened%s, so %s is used (--device cuda reports what was tried)", hint.Because(g.Fallback()), g))
	}
	if err == nil {
		if soft := softgpu.Of(g.Driver()); soft != nil {
			context.AfterFunc(ctx, func() { soft.Interrupt(ctx.Err()) })
		}
	}
	return g, err
}

// checkProfile returns an error with the nearest names if a device is a software GPU with
// an unknown profile. An empty name is that of FERRY_DEVICE.
func checkProfile(device string) error {
	if device == "" {
		device = secureenv.Device()
	}
	name, isSoft := strings.CutPrefix(device, "soft:")
	name, _, _ = strings.Cut(name, "*")
	if !isSoft || name == "" || strings.HasSuffix(name, ".json") || slices.Contains(profile.Names(), name) {
		return nil
	}
	return fmt.Errorf("open %s: %w", printable.Value(device), unknownProfile(name))
}

// unknownProfile returns the error for a profile that Ferry does not ship.
func unknownProfile(name string) error {
	return fmt.Errorf("no profile %s; %s Run ferry profile list for all, or give the path of a .json file", printable.Value(name), nearest.Ask(name, profile.Names()))
}
