package main

import (
	"fmt"
	"runtime"
	"runtime/debug"

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
