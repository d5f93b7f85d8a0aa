// Package secureenv reads the environment variables that name code to run or files to
// read and write. In a privileged program they are not set: there the user who starts the
// program has fewer rights than the program, and the variables are that user's. So
// secure_getenv of the C library does. Each variable of Ferry that names code or a file,
// and each search path, is read here; a test of the root package demands that.
//
// A program is privileged if the kernel says so when it starts (AT_SECURE): it has
// set-user-ID or set-group-ID of another user, or file capabilities.
package secureenv

import (
	"os"
	"strings"
)

// Get returns the value of an environment variable, or "" in a privileged program.
func Get(name string) string {
	if Privileged() {
		return ""
	}
	return os.Getenv(name)
}

// DeviceVariable is the environment variable with the name of a device.
const DeviceVariable = "FERRY_DEVICE"

// Device returns the value of FERRY_DEVICE. In a privileged program a value that names a
// file, such as soft:mine.json, counts as not set.
func Device() string {
	name := os.Getenv(DeviceVariable)
	if base, _, _ := strings.Cut(name, "*"); Privileged() && strings.HasSuffix(base, ".json") {
		return ""
	}
	return name
}

// Privileged reports whether this program has more rights than the user who started it.
func Privileged() bool { return privileged }

// Assume replaces the answer of Privileged until the returned function is called. It is for
// tests, which run one after the other.
func Assume(value bool) (restore func()) {
	before := privileged
	privileged = value
	return func() { privileged = before }
}

// privileged is what the kernel said when the program started.
var privileged = atSecure()
