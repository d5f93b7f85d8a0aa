package compile

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/ferrygpu/ferry/internal/printable"
	"github.com/ferrygpu/ferry/internal/secureenv"
	"github.com/ferrygpu/ferry/internal/toolkit"
)

// oldestClang is the oldest major version of clang that compiles Ferry's header.
const oldestClang = 14

// newestPTX has the newest PTX version that each version of clang writes, times ten.
// They were found by asking clang 14, 15, 16, 19 and 22; LLVM's release notes have the
// others.
var newestPTX = map[int]int{14: 75, 15: 75, 16: 78, 17: 81, 18: 83, 19: 85, 20: 87, 21: 88, 22: 90}

// clang is a clang that writes PTX.
type clang struct {
	path    string
	version string // "19.1.7"
	major   int
	cpus    []arch
	headers lookup
}

func (c *clang) name() string  { return "clang " + c.version }
func (c *clang) archs() []arch { return c.cpus }

// newestPTX returns the newest PTX version that this clang writes, times ten.
func (c *clang) newestPTX() int {
	if v, ok := newestPTX[c.major]; ok {
		return v
	}
	return newestPTX[22] // a newer clang
}

// findClang returns the first clang that compiles for the architecture. Candidates are
// those with the given name or absolute path. Without a name they are "clang" and then the
// others, the newest first. If none compiles for the architecture it returns the first
// that works.
func findClang(ctx context.Context, a arch, name string) (compiler, error) {
	paths, failed, err := clangs(name)
	if err != nil {
		return nil, err
	}
	var first compiler
	for _, path := range paths {
		c, err := probe(ctx, path)
		switch {
		case ctx.Err() != nil:
			return nil, ctx.Err()
		case err != nil:
			failed.Tried = append(failed.Tried, err.Error())
		case checkArch(a, c) == nil:
			return c, nil
		case first == nil:
			first = c
		}
	}
	if first != nil {
		return first, nil
	}
	return nil, failed
}

// clangs lists the paths of all clangs with a name, or of all, the first choice first. The
// second result says that there is none, if all of them fail.
func clangs(name string) (paths []string, failed *NotFoundError, err error) {
	failed = &NotFoundError{}
	dirs := searchDirs()
	switch {
	case filepath.IsAbs(name):
		return []string{name}, failed, nil
	case name != filepath.Base(name) && name != "":
		return nil, nil, fmt.Errorf("clang %s (%s): want an absolute path, or a name on PATH", printable.Value(name), ClangVariable)
	case name != "":
		paths = programs(dirs, regexp.QuoteMeta(name))
	default:
		name = "clang, clang-NN"
		paths = append(programs(dirs, "clang"), toolkit.NewestFirst(programs(dirs, `clang-\d+`))...)
	}
	if len(paths) == 0 {
		failed.Tried = []string{name + ": not in " + strings.Join(dirs, ", ")}
		if len(dirs) == 0 {
			failed.Tried = []string{name + ": PATH has no absolute directory"}
		}
	}
	return paths, failed, nil
}

// systemPath is the PATH of a privileged program, whose user chose the one that is set.
const systemPath = "/usr/local/bin:/usr/bin:/bin"

// searchDirs lists the directories of PATH with absolute paths, and those where LLVM is
// installed outside of it. A privileged program searches those of the system only.
func searchDirs() []string {
	dirs := absolute(secureenv.Get("PATH"))
	if secureenv.Privileged() {
		dirs = absolute(systemPath)
	}
	switch runtime.GOOS {
	case "darwin": // the clang on PATH is Apple's, which cannot write PTX
		dirs = append(dirs, "/opt/homebrew/opt/llvm/bin", "/usr/local/opt/llvm/bin")
	case "windows":
		dirs = append(dirs, `C:\Program Files\LLVM\bin`)
	}
	return dirs
}

// absolute returns the elements of a list such as PATH that are absolute paths. An empty
// element means the working directory.
func absolute(list string) []string {
	return slices.DeleteFunc(filepath.SplitList(list), func(dir string) bool { return !filepath.IsAbs(dir) })
}

// programs lists the executable files whose name matches a pattern, in the order of the
// directories.
func programs(dirs []string, pattern string) (paths []string) {
	form := regexp.MustCompile("^" + pattern + "$")
	seen := map[string]bool{} // directories, because /bin is often a link to /usr/bin
	for _, dir := range dirs {
		real, err := filepath.EvalSymlinks(dir)
		if err != nil || seen[real] {
			continue
		}
		seen[real] = true
		entries, err := os.ReadDir(dir)
		if err != nil {
			continue
		}
		for _, e := range entries {
			name, path := e.Name(), filepath.Join(dir, e.Name())
			if runtime.GOOS == "windows" {
				name = strings.TrimSuffix(strings.ToLower(name), ".exe")
			}
			if form.MatchString(name) && executable(path) {
				paths = append(paths, path)
			}
		}
	}
	return paths
}

// executable reports whether a file can be executed.
func executable(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.Mode().IsRegular() && (runtime.GOOS == "windows" || info.Mode()&0o111 != 0)
}

// probeLimit is how long a clang may take to say its version.
const probeLimit = 20 * time.Second

// probes has what is known about files: *clang or error by [probeKey].
var probes sync.Map

// probeKey is one version of a file.
type probeKey struct {
	path     string
	size     int64
	modified time.Time
}

// probe asks a file whether it is a clang that writes PTX. It asks each file once. The
// error begins with the path.
func probe(ctx context.Context, path string) (*clang, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, fmt.Errorf("clang: %w", printable.Error(err))
	}
	key := probeKey{path, info.Size(), info.ModTime()}
	if known, ok := probes.Load(key); ok {
		c, _ := known.(*clang)
		err, _ := known.(error)
		return c, err
	}
	c, err := ask(ctx, path)
	switch {
	case ctx.Err() != nil:
		return nil, ctx.Err()
	case err != nil:
		err = fmt.Errorf("%s: %w", path, err)
		probes.Store(key, err)
		return nil, err
	}
	probes.Store(key, c)
	return c, nil
}

var (
	versionForm = regexp.MustCompile(`(?m)^(.*\b)?clang version ((\d+)[\d.]*)`)
	cpuForm     = regexp.MustCompile(`\bsm_(\d+)([af]?)\b`)
)

// ask runs clang to learn its version and architectures.
func ask(ctx context.Context, path string) (*clang, error) {
	ctx, stop := context.WithTimeout(ctx, probeLimit)
	defer stop()
	version, err := output(ctx, path, "--version")
	if err != nil {
		return nil, err
	}
	m := versionForm.FindStringSubmatch(version)
	if m == nil {
		return nil, errors.New("is not clang: --version prints no version of clang")
	}
	c := &clang{path: path, version: strings.TrimRight(m[2], "."), major: atoi(m[3])}
	targets, err := output(ctx, path, "--print-targets")
	if err != nil || !strings.Contains(targets, "nvptx64") {
		return nil, fmt.Errorf("%sclang %s has no NVPTX backend", m[1], c.version)
	}
	if c.major < oldestClang {
		return nil, fmt.Errorf("clang %s is too old, want %d or newer", c.version, oldestClang)
	}
	cpus, err := output(ctx, path, "--target=nvptx64-nvidia-cuda", "--print-supported-cpus")
	if err != nil {
		return nil, err
	}
	for _, cpu := range cpuForm.FindAllStringSubmatch(cpus, -1) {
		if a := (arch{atoi(cpu[1]), cpu[2]}); c.writes(a) {
			c.cpus = append(c.cpus, a)
		}
	}
	if len(c.cpus) == 0 {
		return nil, fmt.Errorf("clang %s lists no architecture of NVIDIA's GPUs", c.version)
	}
	return c, nil
}

// oldestArch is the oldest architecture that Ferry compiles for.
const oldestArch = 50

// writes reports whether the PTX versions of this clang have the architecture. The family
// architectures, such as sm_100f, are known to the backend but not to CUDA C++ (clang 22).
func (c *clang) writes(a arch) bool {
	version, known := lowestPTX(a)
	return a.number >= oldestArch && a.suffix != "f" && known && version <= c.newestPTX()
}

// output runs clang and returns what it prints.
func output(ctx context.Context, path string, args ...string) (string, error) {
	var out limited
	cmd := command(ctx, path, args...)
	cmd.Stdout, cmd.Stderr = &out, &out
	if err := cmd.Run(); err != nil {
		if ctx.Err() != nil {
			return "", fmt.Errorf("%s does not answer: %w", args[len(args)-1], ctx.Err())
		}
		return "", fmt.Errorf("%s: %w", args[len(args)-1], err)
	}
	return out.String(), nil
}

// command prepares a run of clang, without what the environment adds to its command line,
// and without the working directory in its search paths.
func command(ctx context.Context, path string, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, path, args...)
	cmd.Env = environment(os.Environ())
	cmd.WaitDelay = time.Second // for a child of a script that keeps the pipes open
	return cmd
}

// environment returns the variables of a run of clang. A privileged program gives it none of
// its user's.
func environment(from []string) (env []string) {
	if secureenv.Privileged() {
		return []string{"PATH=" + systemPath, "LC_ALL=C"}
	}
	for _, v := range from {
		name, value, _ := strings.Cut(v, "=")
		switch name {
		case "CPATH", "C_INCLUDE_PATH", "CPLUS_INCLUDE_PATH", "OBJC_INCLUDE_PATH", "CCC_OVERRIDE_OPTIONS", "QA_OVERRIDE_GCC3_OPTIONS":
			continue
		case "PATH", "LD_LIBRARY_PATH":
			if value = strings.Join(absolute(value), string(filepath.ListSeparator)); value == "" {
				continue
			}
			v = name + "=" + value
		}
		env = append(env, v)
	}
	return append(env, "LC_ALL=C")
}

func atoi(digits string) int {
	n, _ := strconv.Atoi(digits)
	return n
}
