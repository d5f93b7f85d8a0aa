package variables

import (
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"

	"github.com/ferrygpu/ferry/internal/hint"
	"github.com/ferrygpu/ferry/internal/nearest"
	"github.com/ferrygpu/ferry/internal/printable"
	"github.com/ferrygpu/ferry/internal/secureenv"
)

// Variable is an environment variable with what it does.
type Variable struct{ Name, Text string }

// Ferry are the variables of Ferry, by subject.
var Ferry = []Variable{
	{"FERRY_DEVICE", "the device, where no other is asked for: ferry help devices"},
	{"FERRY_LIBCUDA", "the absolute path of NVIDIA's driver library; then no other is tried"},
	{"FERRY_SCHEDULE", "the order of operations on the software GPU: eager, lazy, random or random:SEED (eager)"},
	{"FERRY_KERNEL_LIMIT", "a time after which a kernel ends on the software GPU, such as 10s (no limit)"},
	{"FERRY_LAUNCH_BLOCKING", "with 1 each launch on the software GPU waits for its kernel, as with CUDA_LAUNCH_BLOCKING"},
	{"FERRY_CHECK", "the checks: races and memory, with a comma between them, or 1 for both"},
	{"FERRY_CHECK_REPORT", "the file to which checks write what they find, for ferry check"},
	{"FERRY_FAULT", "lets calls of the driver fail: CALL:N:CODE, or seed:N for one of 64"},
	{"FERRY_LEAKS", "with 1 a program says on standard error what it has not closed"},
	{"FERRY_TRACE", "the file of a recording; %p stands for the number of the process"},
	{"FERRY_TRACE_LIMIT", "the largest size of that file in bytes (1 GiB)"},
	{"FERRY_CLANG", "a clang: its name on PATH, or its absolute path"},
	{"FERRY_NVRTC", "the absolute path of libnvrtc; then no other is tried"},
	{"FERRY_NVJITLINK", "the absolute path of libnvJitLink; then no other is tried"},
	{"FERRY_NCCL", "the absolute path of libnccl; then no other is tried"},
	{"FERRY_NCCL_PORT", "the port at which rank 0 listens (MASTER_PORT + 1)"},
	{"FERRY_NCCL_TOKEN", "a secret that all ranks share; without it they meet on one machine only"},
	{"FERRY_NCCL_VERIFY", "with 1 ranks compare what they were asked for before each operation"},
	{"FERRY_QUIET", "with 1 no hint is written to standard error"},
}

// Others are the variables of other programs and libraries that Ferry follows.
var Others = []Variable{
	{"CUDA_VISIBLE_DEVICES", "the devices that a program sees, and their order"},
	{"CUDA_LAUNCH_BLOCKING", "with 1 each launch waits for its kernel"},
	{"CUDA_LOG_FILE", "where libcuda.so.1 of ferry lib writes what its errors mean: stdout, stderr or a file"},
	{"CUDA_PATH, CUDA_HOME", "the folder of a CUDA toolkit"},
	{"VIRTUAL_ENV, CONDA_PREFIX", "a folder of Python's packages, which may have NVIDIA's libraries"},
	{"LD_LIBRARY_PATH", "folders of libraries"},
	{"CC", "the C compiler of ferry lib"},
	{"XDG_CACHE_HOME", "the folder of caches, of ferry lib and ferry cc --run (~/.cache)"},
	{"RANK, WORLD_SIZE", "with LOCAL_RANK, MASTER_ADDR and MASTER_PORT the ranks of package nccl, as torchrun sets them; those of Open MPI, MPICH, Slurm and Kubernetes count, too"},
	{"NCCL_NVLS_ENABLE", "NCCL's setting, which must be the same on all ranks"},
	{"COLUMNS", "the width of texts, if the output is a terminal"},
	{"NO_COLOR", "if it is set, no output has colours"},
}

// internal matches the variables of Ferry's own tests, benchmarks and examples, and those that
// Kubernetes sets in each container for a service with the name ferry.
var internal = regexp.MustCompile(`^FERRY_(TEST_.*|REQUIRE_.*|CUTEST_.*|.*_CHILD|.*_TEST|` +
	`COMMIT|FULL|SEED|STRICT|STORM|OFFSET|OTHERS|OTHERS_LIMIT|PYTHON|CUBLAS|CUFFT|UPDATE|SCREENSHOTS|GPUVERIFY|MATH_POINTS|DIFFER_SEED|` +
	`ADVISE_OUT|ADVISE_DEVICE|CALLS_JSON|LIBCUDA_ARM64|TRACE_PROCESSOR|WAIT_WARNING|RANDOM_TASK|` +
	`SERVICE_.*|PORT|PORT_.*)$`)

// Unknown returns the names of an environment that begin like those of Ferry, but are none.
func Unknown(environ []string) (names []string) {
	for _, text := range environ {
		name, _, _ := strings.Cut(text, "=")
		known := slices.ContainsFunc(Ferry, func(v Variable) bool { return v.Name == name })
		if strings.HasPrefix(name, "FERRY_") && !known && !internal.MatchString(name) {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// mostNamed is how many unknown variables a message names.
const mostNamed = 4

// Message returns what a program says about variables that Ferry does not know, "" for none.
func Message(unknown []string) string {
	var all []string
	for _, v := range Ferry {
		all = append(all, v.Name)
	}
	var parts []string
	for _, name := range unknown[:min(len(unknown), mostNamed)] {
		parts = append(parts, fmt.Sprintf("%s (nearest: %s)", printable.Name(name), nearest.Names(name, all, 1)[0]))
	}
	switch more := len(unknown) - len(parts); {
	case len(parts) == 0:
		return ""
	case more > 0:
		parts = append(parts, fmt.Sprintf("and %d more", more))
	}
	return fmt.Sprintf("no variable of Ferry: %s; ferry help environment lists all (%s=1 suppresses this line)", strings.Join(parts, ", "), hint.QuietVariable)
}

// hintKind is the hint about variables that Ferry does not know.
const hintKind hint.Kind = "variables"

// Warn names the variables in the environment that Ferry does not know, once in a process. A
// privileged program says nothing of its user's variables. Warn is safe for concurrent use.
func Warn() {
	if text := here(); text != "" {
		hint.Say(hintKind, "%s", text)
	}
}

// Take returns what Warn would say, without the process. Warn then says nothing.
func Take() string {
	hint.Silence(hintKind)
	if hint.Quiet() {
		return ""
	}
	return here()
}

// here returns the message for the environment of this process.
func here() string {
	if secureenv.Privileged() {
		return ""
	}
	return Message(Unknown(os.Environ()))
}
