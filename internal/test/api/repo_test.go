package api

import (
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/ferrygpu/ferry/internal/test/compiletest"
	"github.com/ferrygpu/ferry/internal/test/sample"
)

// TestDependencies: what must build without purego does not depend on it. purego makes binaries
// dynamic, and can load a library on few systems. TestLayout of internal/gen says who imports it.
func TestDependencies(t *testing.T) {
	if _, err := exec.LookPath("go"); err != nil {
		t.Skip("no go command here")
	}
	pure := []string{"./cu", "./ptx", "./profile", "./kernels", "./softgpu"}
	for _, c := range []struct {
		goos, goarch string
		packages     []string
	}{
		{"js", "wasm", append([]string{".", "./compile", "./internal/dl"}, pure...)},
		{"darwin", "arm64", append([]string{".", "./compile", "./internal/dl"}, pure...)},
		{"windows", "amd64", append([]string{".", "./compile", "./internal/dl"}, pure...)},
		{"linux", "amd64", pure},
		{"linux", "arm64", pure},
	} {
		cmd := exec.Command("go", append([]string{"list", "-deps"}, c.packages...)...)
		cmd.Env = append(os.Environ(), "GOOS="+c.goos, "GOARCH="+c.goarch, "CGO_ENABLED=0")
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Errorf("%s/%s: %v: %s", c.goos, c.goarch, err, out)
			continue
		}
		for line := range strings.Lines(string(out)) {
			if strings.Contains(line, "purego") {
				t.Errorf("%s/%s: %v depend on %s", c.goos, c.goarch, c.packages, line)
			}
		}
	}
}

// TestNoCommandLineLibrary: what programs import does not need the library of the command's
// flags. The command does, so the test would see it.
func TestNoCommandLineLibrary(t *testing.T) {
	sample.SkipRace(t)
	if _, err := exec.LookPath("go"); err != nil {
		t.Skip("no go command here")
	}
	deps := func(packages ...string) string {
		t.Helper()
		out, err := exec.Command("go", append([]string{"list", "-deps"}, packages...)...).Output()
		if err != nil {
			t.Fatal(err)
		}
		return string(out)
	}
	imported := []string{".", "./cu", "./libcuda", "./softgpu", "./ptx", "./profile", "./kernels", "./compile", "./pipeline", "./dlpack", "./kerneltest", "./cutest"}
	for line := range strings.Lines(deps(imported...)) {
		if strings.Contains(line, "spf13") || strings.Contains(line, "mousetrap") {
			t.Errorf("%v depend on %s", imported, line)
		}
	}
	if !strings.Contains(deps("./cmd/ferry"), "github.com/spf13/cobra") {
		t.Error("the command does not use github.com/spf13/cobra, which this test looks for")
	}
}

// TestKernelsPage follows docs/kernels.md in an empty folder, with the clone of Ferry that
// is tested: it binds the kernel, runs the program and the test, and then makes the three
// mistakes whose messages the page shows.
func TestKernelsPage(t *testing.T) {
	if testing.Short() {
		t.Skip("builds programs")
	}
	if _, err := exec.LookPath("go"); err != nil {
		t.Skip("no go command here")
	}
	compiletest.Compile(t, "empty.cu", "", nil)
	text, err := os.ReadFile("docs/kernels.md")
	if err != nil {
		t.Fatal(err)
	}
	page := &page{t: t, text: string(text), dir: t.TempDir()}
	programs, messages := page.blocks("go"), page.blocks("text")
	kernel := page.blocks("cuda")[0]
	page.write("kernels.cu", kernel)
	page.write("main.go", programs[0])
	page.write("main_test.go", programs[1])
	page.newModule()

	page.goCommand(true, "generate")
	if got := page.goCommand(true, "run", "."); got != "[2 4 6 8]\n" {
		t.Errorf("the program prints %q", got)
	}
	page.goCommand(true, "test")

	page.write("kernels.cu", strings.Replace(kernel, "x[i];", "X[i];", 1))
	page.wantText(page.goCommand(false, "tool", "ferry", "compile", "kernels.cu"), messages[0])
	page.write("kernels.cu", strings.Replace(kernel, "i < n", "i + 1 < n", 1))
	page.goCommand(true, "generate")
	page.wantText(page.goCommand(false, "test"), messages[1])
	page.write("kernels.cu", strings.Replace(kernel, "i < n", "i <= n", 1))
	page.goCommand(true, "tool", "ferry", "compile", "--lineinfo", "kernels.cu")
	page.wantText(page.goCommand(false, "tool", "ferry", "run", "kernels.ptx", "--device", "soft", "--kernel", "scale",
		"--grid", "1", "--block", "32", "s32=4", "f32=2", "in:f32=1,2,3,4", "out:f32=[4]"), messages[2])
}

// page is a document whose programs are run.
type page struct {
	t    *testing.T
	text string
	dir  string
}

// blocks returns the blocks of code in a language.
func (p *page) blocks(language string) (all []string) {
	p.t.Helper()
	for _, part := range strings.Split(p.text, "```"+language+"\n")[1:] {
		block, _, _ := strings.Cut(part, "```\n")
		all = append(all, block)
	}
	if len(all) == 0 {
		p.t.Fatalf("docs/kernels.md has no block of %s", language)
	}
	return all
}

func (p *page) write(name, text string) {
	p.t.Helper()
	if err := os.WriteFile(filepath.Join(p.dir, name), []byte(text), 0o644); err != nil {
		p.t.Fatal(err)
	}
}

// newModule makes the folder a module that uses this clone. It copies Ferry's go.sum, and
// downloads first what the command needs on any system and go mod tidy asks for.
func (p *page) newModule() {
	p.t.Helper()
	root, err := os.Getwd()
	if err != nil {
		p.t.Fatal(err)
	}
	sums, err := os.ReadFile("go.sum")
	if err != nil {
		p.t.Fatal(err)
	}
	p.write("go.sum", string(sums))
	if out, err := exec.Command("go", "mod", "download").CombinedOutput(); err != nil {
		p.t.Fatalf("go mod download: %v\n%s", err, out)
	}
	p.goCommand(true, "mod", "init", "example.com/scale")
	const module = "github.com/ferrygpu/ferry"
	p.goCommand(true, "mod", "edit", "-require", module+"@v0.0.0", "-replace", module+"="+root, "-tool", module+"/cmd/ferry")
	p.goCommand(true, "mod", "tidy")
}

// goCommand runs the go command in the folder, and returns its output. It builds as the tests
// were built, with or without cgo, so that their packages are in the build cache.
func (p *page) goCommand(succeeds bool, args ...string) string {
	p.t.Helper()
	cmd := exec.Command("go", args...)
	cmd.Dir = p.dir
	cmd.Env = append(os.Environ(), "GOFLAGS=", "GOPROXY=off", "GOWORK=off", "FERRY_DEVICE=soft", "FERRY_REQUIRE_GPU=0")
	out, err := cmd.CombinedOutput()
	if (err == nil) != succeeds {
		p.t.Fatalf("go %s: %v\n%s", strings.Join(args, " "), err, out)
	}
	return string(out)
}

// compilerName is what depends on the compiler: its name, lines of PTX, types and registers.
var compilerName = regexp.MustCompile(`, by clang .*|, by NVRTC .*|PTX line \d+|kernels.ptx:\d+: |\.[bf]32|%\w+`)

// wantText checks that the output has each line of a block of the page.
func (p *page) wantText(got, block string) {
	p.t.Helper()
	got = compilerName.ReplaceAllString(got, "")
	for line := range strings.Lines(block) {
		line = strings.TrimSpace(compilerName.ReplaceAllString(line, ""))
		if !strings.Contains(got, line) {
			p.t.Errorf("docs/kernels.md shows the line\n%s\nwhich is not in\n%s", line, got)
		}
	}
}

// opensSockets reports whether a file may import net: ranks that meet over TCP, the command that looks for
// their port, a service that is measured, the example of a server, modules for servers, and programs and tests
// that send descriptors over a Unix socket.
func opensSockets(path string) bool {
	return strings.HasPrefix(path, "nccl/internal/") || strings.HasPrefix(path, "cmd/ferry/internal/ranks/") || strings.HasPrefix(path, "contrib/") ||
		strings.HasPrefix(path, "internal/measure/bench/image/") || strings.HasPrefix(path, "examples/libraries/pytorch/") ||
		strings.HasPrefix(path, "examples/server/") ||
		strings.HasPrefix(path, "dlpack/") && strings.HasSuffix(path, "_test.go")
}

// TestUnsafe: package unsafe is imported only in files named *_unsafe*.go. Each of them that
// is not a test says in a comment that begins with "Unsafe:" which rule makes it right. Only the
// files of opensSockets import package net.
func TestUnsafe(t *testing.T) {
	sample.SkipRace(t)
	found := 0
	err := filepath.WalkDir(".", func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && path != "." && strings.HasPrefix(d.Name(), "."):
			return filepath.SkipDir
		case d.IsDir() || !strings.HasSuffix(path, ".go"):
			return nil
		}
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.ParseComments|parser.SkipObjectResolution)
		if err != nil {
			return nil // a text of a test
		}
		imports, named := false, strings.Contains(d.Name(), "_unsafe")
		for _, i := range file.Imports {
			imports = imports || i.Path.Value == `"unsafe"`
			net := i.Path.Value == `"net"` || strings.HasPrefix(i.Path.Value, `"net/`)
			if net && !opensSockets(filepath.ToSlash(path)) {
				t.Errorf("%s imports %s: only the files of opensSockets may", path, i.Path.Value)
			}
		}
		if imports && !named {
			t.Errorf("%s imports unsafe, and its name lacks _unsafe", path)
		}
		if !named || strings.HasSuffix(path, "_test.go") {
			return nil
		}
		found++
		rule := ""
		for _, c := range file.Comments {
			if text := c.Text(); strings.HasPrefix(text, "Unsafe: ") {
				rule = text
			}
		}
		if len(rule) < 40 {
			t.Errorf("%s does not say which rule makes it right: want a comment \"Unsafe: ...\"", path)
		}
		return nil
	})
	if err != nil || found < 30 {
		t.Errorf("%d files, %v", found, err)
	}
}

// Names of tests in a document, and tables of promises.
var (
	testName     = regexp.MustCompile("`((?:Test|Fuzz)[A-Z][A-Za-z]*)`")
	testInFolder = regexp.MustCompile("`((?:Test|Fuzz)[A-Z][A-Za-z]*)` in `([a-z/]+)`")
	testFunction = regexp.MustCompile(`(?m)^func ((?:Test|Fuzz)\w*)\([tf] `)
	promiseTable = regexp.MustCompile(`(?m)^\| (?:promise|claim) \| test[^\n]*\n\|[-|]+\n((?:\|[^\n]*\n)+)`)
	linkInPage   = regexp.MustCompile(`\]\(#([a-z-]+)\)`)
)

// TestSecurityPage: the tests that SECURITY.md names exist, and each row of its table has one.
func TestSecurityPage(t *testing.T) {
	sample.SkipRace(t)
	checkPromises(t, "SECURITY.md", 12, 30)
}

// TestReliabilityPage: the tests that docs/RELIABILITY.md names exist. Each row of its tables has one,
// or a link to a section with one. Each section has one.
func TestReliabilityPage(t *testing.T) {
	sample.SkipRace(t)
	text := checkPromises(t, "docs/RELIABILITY.md", 16, 50)
	for _, section := range strings.Split(text, "\n## ")[1:] {
		if !testName.MatchString(section) {
			title, _, _ := strings.Cut(section, "\n")
			t.Errorf("the section %q names no test", title)
		}
	}
}

// checkPromises finds the tests that a document names, and those of each promise in its tables. The
// document has at least the given numbers of promises and of tests.
func checkPromises(t *testing.T, path string, promises, tests int) string {
	t.Helper()
	page, err := os.ReadFile(path)
	check(t, err)
	text, folders := string(page), foldersOfTests(t)
	named := testName.FindAllStringSubmatch(text, -1)
	for _, m := range named {
		if len(folders[m[1]]) == 0 {
			t.Errorf("%s: there is no %s", path, m[1])
		}
	}
	for _, m := range testInFolder.FindAllStringSubmatch(text, -1) {
		if !slices.Contains(folders[m[1]], m[2]) {
			t.Errorf("%s: there is no %s in %s, but in %v", path, m[1], m[2], folders[m[1]])
		}
	}
	rows := 0
	for _, table := range promiseTable.FindAllStringSubmatch(text, -1) {
		for row := range strings.Lines(table[1]) {
			rows++
			if by := strings.Split(row, " | ")[1]; !testName.MatchString(by) && !testName.MatchString(sectionOf(text, row)) {
				t.Errorf("%s: no test is named for %q", path, row)
			}
		}
	}
	if rows < promises || len(named) < tests {
		t.Errorf("%s has %d promises and %d names of tests, want at least %d and %d", path, rows, len(named), promises, tests)
	}
	return text
}

// sectionOf returns the section of a document to which a text has a link.
func sectionOf(text, link string) string {
	m := linkInPage.FindStringSubmatch(link)
	if m == nil {
		return ""
	}
	for _, section := range strings.Split(text, "\n## ")[1:] {
		title, _, _ := strings.Cut(section, "\n")
		if strings.ReplaceAll(strings.ToLower(strings.ReplaceAll(title, ",", "")), " ", "-") == m[1] {
			return section
		}
	}
	return ""
}

// foldersOfTests returns the folders that have a test of a name. The root is ".".
func foldersOfTests(t *testing.T) map[string][]string {
	t.Helper()
	folders := map[string][]string{}
	check(t, filepath.WalkDir(".", func(path string, d fs.DirEntry, err error) error {
		if err != nil || !strings.HasSuffix(path, "_test.go") {
			return err
		}
		text, err := os.ReadFile(path)
		for _, m := range testFunction.FindAllSubmatch(text, -1) {
			folders[string(m[1])] = append(folders[string(m[1])], filepath.ToSlash(filepath.Dir(path)))
		}
		return err
	}))
	return folders
}
