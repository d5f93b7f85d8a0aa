package main

import (
	"fmt"
	"regexp"
	"runtime"
	"runtime/debug"
	"strings"

	"github.com/spf13/cobra"
)

// newVersion returns the command "ferry version".
func newVersion(s *session) *cobra.Command {
	return &cobra.Command{
		Use:     "version",
		Short:   "print the version",
		Long:    "Prints the version of Ferry, which has the commit, of Go, and the system.\n",
		Example: "  ferry version",
		Args:    noWords,
		RunE:    func(*cobra.Command, []string) error { return s.write([]byte(version() + "\n")) },
	}
}

// showRoot shows the overview, or the version for "ferry --version".
func showRoot(c *cobra.Command, s *session) error {
	if ask, err := c.Flags().GetBool("version"); err != nil || ask {
		return firstError(err, s.write([]byte(version()+"\n")))
	}
	return c.Help()
}

// version returns the module's version, which contains the commit, and the toolchain.
func version() string {
	build, ok := debug.ReadBuildInfo()
	if !ok {
		return "ferry (unknown version)"
	}
	return fmt.Sprintf("ferry %s %s %s/%s", build.Main.Version, build.GoVersion, runtime.GOOS, runtime.GOARCH)
}

// moduleVersion returns the module's version.
func moduleVersion() string {
	if build, ok := debug.ReadBuildInfo(); ok {
		return build.Main.Version
	}
	return "(unknown version)"
}

// releaseDate is the day of manual pages if the build does not know that of its commit, as one
// of a tagged version. It is set with each release.
const releaseDate = "2026-11-29"

// pseudoVersion matches the time in the version of a commit without a tag.
var pseudoVersion = regexp.MustCompile(`[-.](\d{4})(\d{2})(\d{2})\d{6}-[0-9a-f]{12}`)

// textDate returns the day of the commit from which this program was built. The same commit
// always has the same manual pages.
func textDate() string {
	build, ok := debug.ReadBuildInfo()
	if !ok {
		return releaseDate
	}
	for _, s := range build.Settings {
		if day, _, ok := strings.Cut(s.Value, "T"); ok && s.Key == "vcs.time" {
			return day
		}
	}
	if m := pseudoVersion.FindStringSubmatch(build.Main.Version); m != nil {
		return strings.Join(m[1:], "-")
	}
	return releaseDate
}
