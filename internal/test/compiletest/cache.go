package compiletest

import (
	"bytes"
	"compress/gzip"
	"context"
	"crypto/sha256"
	"encoding/gob"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/ferrygpu/ferry/compile"
	"github.com/ferrygpu/ferry/kernels"
)

// CacheVariable is the environment variable that names the folder of [Source] and [Output].
// Empty means ferry-test in the user's folder for caches; "off" means that nothing is kept.
const CacheVariable = "FERRY_TEST_CACHE"

// prefix begins the names of files in the folder.
const prefix = "ferry-"

// maxCache is how many bytes the folder has at most, besides what processes add at once.
var maxCache int64 = 64 << 20

// Source is [compile.Source] with a memory: what clang wrote for a source is read from a
// folder the next time. Compiler, options, the source, what it includes, Ferry's headers and
// package compile decide whether it is the same. Errors and results of NVRTC are not kept.
// Source is safe for concurrent use, by processes too.
func Source(ctx context.Context, name string, source []byte, o *compile.Options) (*compile.Result, error) {
	key, placed, known := sourceKey(ctx, name, source, o)
	r := new(compile.Result)
	if known && load(key, r) {
		return r, nil
	}
	r, err := compile.Source(ctx, name, source, o)
	if known && err == nil && (placed || r.Log == "") {
		store(key, r)
	}
	return r, err
}

// Output runs a clang of the absolute path with a source on its standard input, and returns
// what it writes to standard output. It keeps that as Source does. The arguments name no
// files but Ferry's headers, whose text decides as well; shown replaces temporary names in
// them.
func Output(ctx context.Context, clang string, args []string, source []byte, shown *strings.Replacer) (out []byte, log string, err error) {
	h := newHash()
	known := h.clang(clang)
	for _, a := range args {
		h.add("argument", []byte(shown.Replace(a)))
	}
	h.add("source", source)
	key := h.sum()
	if known && load(key, &out) {
		return out, "", nil
	}
	cmd := exec.CommandContext(ctx, clang, args...)
	var written, messages bytes.Buffer
	cmd.Stdin, cmd.Stdout, cmd.Stderr = bytes.NewReader(source), &written, &messages
	if err = cmd.Run(); err == nil && known {
		store(key, written.Bytes())
	}
	return written.Bytes(), messages.String(), err
}

// sourceKey returns the key of a compilation. known is false if something else decides its
// result too. placed reports whether the name is in the key. The name does not matter where
// only messages have it, so that sources in temporary folders are found again.
func sourceKey(ctx context.Context, name string, source []byte, o *compile.Options) (key string, placed, known bool) {
	var options compile.Options
	if o != nil {
		options = *o
	}
	clang, is := usedClang(ctx, options)
	if !is || len(options.Include) > 0 {
		return "", false, false
	}
	h := newHash()
	if !h.clang(clang) || !h.compilePackage() || !h.included(filepath.Dir(name), source, 0) {
		return "", false, false
	}
	if placed = options.LineInfo || placeNames.Match(h.Bytes()); placed {
		h.add("name", []byte(name))
	}
	h.add("options", fmt.Appendf(nil, "%+v", options))
	return h.sum(), placed, true
}

// placeNames matches what puts the name of a source into its PTX.
var placeNames = regexp.MustCompile(`__(BASE_)?FILE__|FILE_NAME__|source_location|builtin_FILE|assert`)

// usedClang returns the path of the clang that compiles with these options, or false if it
// is not one, or not known without compiling.
func usedClang(ctx context.Context, o compile.Options) (path string, is bool) {
	if filepath.IsAbs(o.Compiler) {
		return o.Compiler, !strings.Contains(filepath.Base(o.Compiler), "nvrtc")
	}
	if o.Compiler != "" || os.Getenv(compile.ClangVariable) != "" || !onlyClang() {
		return "", false
	}
	paths := clangs()
	if len(paths) != 1 { // package compile chooses
		return "", false
	}
	return paths[0], true
}

// onlyClang reports whether package compile chooses a clang by itself: there is no NVRTC.
// An architecture that no compiler knows makes it say what it found.
var onlyClang = sync.OnceValue(func() bool {
	_, err := compile.Source(context.Background(), "none.cu", nil, &compile.Options{Arch: "sm_999"})
	unknown, is := errors.AsType[*compile.ArchError](err)
	return is && strings.HasPrefix(unknown.Compiler, "clang")
})

// clangs returns the paths of every clang in the search path, each once.
func clangs() (paths []string) {
	form := regexp.MustCompile(`^clang(-\d+)?$`)
	for _, dir := range filepath.SplitList(os.Getenv("PATH")) {
		entries, _ := os.ReadDir(dir)
		for _, e := range entries {
			if path, err := filepath.EvalSymlinks(filepath.Join(dir, e.Name())); err == nil && form.MatchString(e.Name()) {
				paths = append(paths, path)
			}
		}
	}
	slices.Sort(paths)
	return slices.Compact(paths)
}

// hash collects what decides a result.
type hash struct{ bytes.Buffer }

func newHash() *hash {
	h := &hash{}
	h.add("headers", headers())
	return h
}

// add adds a named text.
func (h *hash) add(name string, text []byte) {
	fmt.Fprintf(h, "%s %d\n%s\n", name, len(text), text)
}

// clang adds the path of a program, its size and when it was written.
func (h *hash) clang(path string) bool {
	info, err := os.Stat(path)
	if err == nil {
		h.add("clang", fmt.Appendf(nil, "%s %d %d", path, info.Size(), info.ModTime().UnixNano()))
	}
	return err == nil
}

// compilePackage adds the Go code of package compile, which makes flags and results.
func (h *hash) compilePackage() bool {
	h.add("compile", compileCode())
	return len(compileCode()) > 0
}

// quoted matches what may include a file beside the source, and anyInclude all includes.
var (
	quoted     = regexp.MustCompile(`(?m)^[ \t]*#[ \t]*include[ \t]*"([^"\n]*)"`)
	anyInclude = regexp.MustCompile(`\binclude(_next)?\b|__has_include|#[ \t]*embed`)
	angled     = regexp.MustCompile(`(?m)^[ \t]*#[ \t]*include[ \t]*<[^>\n]*>`)
)

// maxDepth is how deep files may include each other.
const maxDepth = 10

// included adds a text and the files of a folder that it includes. It returns false if the
// text includes in a way that needs a preprocessor.
func (h *hash) included(dir string, text []byte, depth int) bool {
	h.add("text", text)
	names := quoted.FindAllSubmatch(text, -1)
	if depth > maxDepth || len(anyInclude.FindAll(text, -1)) != len(names)+len(angled.FindAll(text, -1)) {
		return false
	}
	for _, m := range names {
		path := filepath.Join(dir, filepath.FromSlash(string(m[1])))
		more, err := os.ReadFile(path)
		h.add("file", []byte(m[1]))
		switch {
		case errors.Is(err, fs.ErrNotExist): // one of Ferry's headers
		case err != nil || !h.included(filepath.Dir(path), more, depth+1):
			return false
		}
	}
	return true
}

func (h *hash) sum() string {
	sum := sha256.Sum256(h.Bytes())
	return hex.EncodeToString(sum[:])
}

// headers returns a hash of Ferry's headers.
var headers = sync.OnceValue(func() []byte {
	h := sha256.New()
	_ = fs.WalkDir(kernels.Headers, ".", func(name string, d fs.DirEntry, err error) error {
		text, _ := fs.ReadFile(kernels.Headers, name)
		fmt.Fprintf(h, "%s %d\n%s", name, len(text), text)
		return err
	})
	return h.Sum(nil)
})

// compileCode returns a hash of the Go files of package compile, or nothing if they are not
// above the working directory.
var compileCode = sync.OnceValue(func() []byte {
	dir, err := os.Getwd()
	if err != nil {
		return nil
	}
	for ; ; dir = filepath.Dir(dir) {
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
			break
		}
		if dir == filepath.Dir(dir) {
			return nil
		}
	}
	files, _ := filepath.Glob(filepath.Join(dir, "compile", "*.go"))
	h := sha256.New()
	for _, file := range files {
		if strings.HasSuffix(file, "_test.go") {
			continue
		}
		text, err := os.ReadFile(file)
		if err != nil {
			return nil
		}
		fmt.Fprintf(h, "%s %d\n%s", filepath.Base(file), len(text), text)
	}
	return append(h.Sum(nil), byte(len(files)))
})

// folder returns the folder of the cache, or "" for none.
func folder() string {
	switch named := os.Getenv(CacheVariable); named {
	case "off":
		return ""
	case "":
		user, err := os.UserCacheDir()
		if err != nil {
			return ""
		}
		return filepath.Join(user, "ferry-test")
	default:
		return named
	}
}

// load reads a result. It returns false if there is none, or if its file is not whole.
func load(key string, result any) bool {
	dir := folder()
	if dir == "" {
		return false
	}
	path := filepath.Join(dir, prefix+key)
	packed, err := os.ReadFile(path)
	if err != nil {
		return false
	}
	z, err := gzip.NewReader(bytes.NewReader(packed))
	if err != nil {
		return false
	}
	var text bytes.Buffer
	if _, err := text.ReadFrom(z); err != nil || gob.NewDecoder(&text).Decode(result) != nil {
		return false
	}
	_ = os.Chtimes(path, time.Time{}, time.Now()) // it was used, see prune
	return true
}

// store keeps a result. A test does not fail if that fails: the next one compiles again.
func store(key string, result any) {
	dir := folder()
	var packed bytes.Buffer
	z, _ := gzip.NewWriterLevel(&packed, gzip.BestSpeed)
	if dir == "" || errors.Join(gob.NewEncoder(z).Encode(result), z.Close(), os.MkdirAll(dir, 0o700)) != nil {
		return
	}
	f, err := os.CreateTemp(dir, prefix+"new-")
	if err != nil {
		return
	}
	_, err = f.Write(packed.Bytes())
	if errors.Join(err, f.Close()) != nil || os.Rename(f.Name(), filepath.Join(dir, prefix+key)) != nil {
		os.Remove(f.Name())
	}
	prune(dir)
}

// prune removes those of the cache's files that were not used for the longest time, until three quarters of
// maxCache are left. It does nothing if there are no more bytes than maxCache.
func prune(dir string) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return
	}
	var files []fs.FileInfo
	var size int64
	for _, e := range entries {
		if info, err := e.Info(); err == nil && info.Mode().IsRegular() && strings.HasPrefix(e.Name(), prefix) {
			files = append(files, info)
			size += info.Size()
		}
	}
	if size <= maxCache {
		return
	}
	slices.SortFunc(files, func(a, b fs.FileInfo) int { return a.ModTime().Compare(b.ModTime()) })
	for _, f := range files {
		if size <= maxCache/4*3 {
			break
		}
		if os.Remove(filepath.Join(dir, f.Name())) == nil {
			size -= f.Size()
		}
	}
}
