package compile

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/ferrygpu/ferry/internal/printable"
)

// Error is the reason why a source does not compile.
type Error struct {
	File        string
	Compiler    string       // name and version
	Arch        string       // "sm_80"
	Diagnostics []Diagnostic // at most 20 errors, each followed by its notes
	More        int          // errors that are not in Diagnostics
	Log         string       // what the compiler printed, unchanged; at most 4 MiB
}

// Error returns all diagnostics with their lines.
func (e *Error) Error() string {
	if e == nil {
		return "no error"
	}
	var b strings.Builder
	count := e.More
	for _, d := range e.Diagnostics {
		if d.Severity == severityError {
			count++
		}
	}
	if count == 0 {
		return fmt.Sprintf("compile %s: %s failed without naming a place: %s", printable.Path(e.File), e.Compiler, printable.Text(tail(e.Log)))
	}
	fmt.Fprintf(&b, "compile %s: %s, by %s", printable.Path(e.File), countText(count, "error"), e.Compiler)
	for _, d := range e.Diagnostics {
		b.WriteString("\n" + d.String())
		if hint := hint(d.Message); hint != "" {
			b.WriteString("\n" + hint)
		}
	}
	if e.More > 0 {
		fmt.Fprintf(&b, "\nand %d more", e.More)
	}
	return b.String()
}

// lacksHeader reports whether one of the errors is about a header that is not there.
func (e *Error) lacksHeader() bool {
	return slices.ContainsFunc(e.Diagnostics, func(d Diagnostic) bool { return missingHeader(d.Message) != "" })
}

// hint says more about a message, or nothing.
func hint(message string) string {
	if name := missingHeader(message); name != "" {
		return missingHint(name)
	}
	if launchInKernel.MatchString(message) {
		return "a kernel cannot launch kernels: that needs the device runtime of CUDA's toolkit, which Ferry does not have; launch from the host"
	}
	return ""
}

// launchInKernel matches a message about a launch in device code.
var launchInKernel = regexp.MustCompile(`^reference to __global__ function '.*' in __(global|device|host__ __device)__ function`)

// maxTail is how many bytes of a log an error shows.
const maxTail = 2000

// tail returns the end of a log.
func tail(log string) string {
	log = strings.TrimSpace(log)
	if log == "" {
		return "it printed nothing"
	}
	if len(log) > maxTail {
		log = "... " + strings.ToValidUTF8(log[len(log)-maxTail:], "")
	}
	return log
}

// countText returns a number with its noun.
func countText(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}

// NotFoundError says that no compiler was found.
type NotFoundError struct {
	Tried []string // places and commands, each with the reason
}

// Error names what was tried, and how to install a compiler.
func (e *NotFoundError) Error() string {
	if e == nil {
		return "no error"
	}
	return "no compiler for CUDA C++ was found; tried\n  " + strings.Join(e.Tried, "\n  ") + "\n" + installText
}

// installText says how to get a compiler. clang of 14 or newer is enough everywhere.
const installText = `One of the two is enough. To install clang, or NVRTC:
  Debian, Ubuntu   apt install clang          or  apt install libnvrtc12 (non-free, multiverse)
  Fedora, RHEL     dnf install clang          or  dnf install cuda-nvrtc-13-0 (NVIDIA's repository)
  Arch             pacman -S clang            or  pacman -S cuda
  macOS            brew install llvm
  Windows          winget install LLVM.LLVM
  Python's pip                                    pip install nvidia-cuda-nvrtc (Linux)
FERRY_CLANG and FERRY_NVRTC name a clang or a libnvrtc in another place.`
