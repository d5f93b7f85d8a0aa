package compile

import (
	"io/fs"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/ferrygpu/ferry/kernels"
)

const (
	ferryHeader = "ferry.h"      // has everything
	coreHeader  = "ferry/core.h" // has the names of kernels that nvcc gives every source
	// hostHeader has coreHeader and the declarations that host code in the same file needs.
	hostHeader = compatDir + "/cuda_runtime.h"
	compatDir  = "compat"     // has stand-ins for headers of CUDA
	standInDir = "compat/std" // has stand-ins for headers of C and C++
)

// includeFerry matches a line that includes Ferry's header.
var includeFerry = regexp.MustCompile(`(?m)^[ \t]*#[ \t]*include[ \t]*[<"]ferry\.h[>"]`)

// header is one of Ferry's headers with the name that includes it.
type header struct{ name, text string }

// headers lists Ferry's headers. They include each other by these names too, because
// NVRTC has no directories for headers in memory.
func headers() (all []header, err error) {
	err = fs.WalkDir(kernels.Headers, ".", func(file string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		text, err := fs.ReadFile(kernels.Headers, file)
		all = append(all, header{headerName(file), absoluteIncludes(file, string(text))})
		return err
	})
	return all, err
}

// headerName returns the name that includes a file of kernels.Headers.
func headerName(file string) string {
	return strings.TrimPrefix(strings.TrimPrefix(path.Clean(file), standInDir+"/"), compatDir+"/")
}

// quotedInclude matches the name in a line that includes a header by "...".
var quotedInclude = regexp.MustCompile(`(?m)^([ \t]*#[ \t]*include[ \t]*")([^"\n]+)"`)

// absoluteIncludes returns the text of one of Ferry's headers with the names of headers
// instead of paths that are relative to the file.
func absoluteIncludes(file, text string) string {
	return quotedInclude.ReplaceAllStringFunc(text, func(line string) string {
		m := quotedInclude.FindStringSubmatch(line)
		target := path.Join(path.Dir(file), m[2])
		if _, err := fs.Stat(kernels.Headers, target); err != nil {
			return line
		}
		return m[1] + headerName(target) + `"`
	})
}

// isHeader reports whether Ferry has a header of that name.
func isHeader(name string) bool { return headerText(name) != "" }

// shownHeader returns how messages show one of Ferry's headers. file is its path in
// kernels.Headers.
func shownHeader(file string) string { return "<" + headerName(file) + ">" }

// lineDirective returns the directive that gives the next line its file and number.
func lineDirective(name string, line int) string {
	name = strings.NewReplacer(`\`, `\\`, `"`, `\"`).Replace(name)
	return "#line " + strconv.Itoa(line) + ` "` + name + "\"\n"
}

// The messages of clang and NVRTC about a header that is not there.
var missingForms = []*regexp.Regexp{
	regexp.MustCompile(`^'([^']+)' file not found`),
	regexp.MustCompile(`^(?:cannot|could not) open source file "([^"]+)"`),
}

// missingHeader returns the name of the header that a message says is missing, or "".
func missingHeader(message string) string {
	for _, form := range missingForms {
		if m := form.FindStringSubmatch(message); m != nil {
			return m[1]
		}
	}
	return ""
}

// toolkitHeaders match headers of the CUDA toolkit.
var toolkitHeaders = regexp.MustCompile(`^(cub/|thrust/|cuda/|nv/|crt/|cooperative_groups|cutlass/|cute/` +
	`|cu(blas|blasLt|blas_v2|dnn|fft|rand|rand_kernel|sparse|solverDn|solverSp|Complex)\.h$` +
	`|(cuda|cuda_runtime|cuda_runtime_api|cuda_device_runtime_api|cuda_(fp16|fp8|fp6|fp4|bf16|pipeline|pipeline_primitives|awbarrier|texture_types|profiler_api))\.h$` +
	`|(mma|sm_\d\w*|device_launch_parameters|device_functions|device_types|driver_types|vector_types|vector_functions|math_functions|math_constants)\.h$` +
	`|(texture_types|surface_types|surface_functions|channel_descriptor|builtin_types|common_functions|helper_cuda|helper_math|helper_functions)\.h$)`)

// cHeaders match headers of the C and C++ libraries.
var cHeaders = regexp.MustCompile(`^(c?(assert|ctype|errno|float|limits|math|setjmp|signal|stdarg|stdbool|stddef|stdint|stdio|stdlib|string|time)(\.h)?` +
	`|algorithm|array|atomic|bit|chrono|cinttypes|complex|cstring|functional|initializer_list|iostream|iomanip|iterator|limits|list|map|memory|new|numeric` +
	`|optional|random|ratio|set|sstream|fstream|span|string|string_view|thread|tuple|type_traits|unordered_map|utility|variant|vector)$`)

// missingHint says whose a missing header is, and what Ferry has instead.
func missingHint(name string) string {
	whose := name + " is not in the directory of the source nor in one of the include directories (-I)"
	switch {
	case cHeaders.MatchString(name):
		whose = name + " belongs to the C or C++ library of the host"
	case toolkitHeaders.MatchString(name):
		whose = name + " belongs to the CUDA toolkit, which Ferry's headers replace in part"
	}
	return whose + offer(name)
}

// offer says what to use instead of a header, or which headers Ferry has.
func offer(name string) string {
	for _, m := range kernels.MissingHeaders {
		if m.Header == name || strings.HasSuffix(m.Header, "/") && strings.HasPrefix(name, m.Header) {
			return ": " + m.Instead
		}
	}
	return ". Ferry has these headers: " + strings.Join(headerNames(), ", ")
}

// headerNames lists the names of Ferry's headers outside of folders.
func headerNames() (names []string) {
	all, _ := headers()
	for _, h := range all {
		if !strings.Contains(h.name, "/") {
			names = append(names, h.name)
		}
	}
	slices.Sort(names)
	return names
}
