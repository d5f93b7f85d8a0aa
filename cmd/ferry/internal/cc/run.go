package cc

import (
	"bufio"
	"context"
	"crypto/sha256"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/ferrygpu/ferry/cmd/ferry/internal/usercache"
	"github.com/ferrygpu/ferry/compile"
	"github.com/ferrygpu/ferry/internal/clangtool"
)

// programsPart is the part of the user's cache that has programs, and keptPrograms how many.
const (
	programsPart = "cc-programs"
	keptPrograms = 32
)

// programName is the file of a program in its folder, and stampsName that of what it was made of.
const (
	programName = "program"
	stampsName  = "made-of"
)

// Program returns the program of a command line in the cache. It builds it if one of its sources or
// headers, the flags or the compiler have changed. Finding that nothing has changed runs no other
// program, so that a small one starts at once.
func (b *Builder) Program(ctx context.Context, o *Options) (path string, err error) {
	root, err := usercache.Path(programsPart)
	if err != nil {
		return "", err
	}
	key, err := o.key()
	if err != nil {
		return "", err
	}
	path = filepath.Join(root, key, programName)
	there, err := usercache.Find(root, key, programName)
	if err != nil || there && unchanged(filepath.Join(root, key, stampsName)) {
		return path, err
	}
	if err := os.RemoveAll(filepath.Join(root, key)); err != nil {
		return "", err
	}
	err = usercache.Fill(root, key, programName, func(dir string) error { return b.into(ctx, o, dir) })
	_ = usercache.Prune(root, key, keptPrograms)
	return path, err
}

// into builds a program in a folder of the cache.
func (b *Builder) into(ctx context.Context, o *Options, dir string) error {
	own := *o
	own.Output, own.uses = filepath.Join(dir, programName), filepath.Join(dir, "uses")
	if err := b.Build(ctx, &own); err != nil {
		return err
	}
	c, err := clangtool.Find(ctx, o.Arch) // which Build has found
	if err != nil {
		return err
	}
	return writeStamps(filepath.Join(dir, stampsName), own.uses, append([]string{c.Path}, o.Files...))
}

// revision changes with this package, when it makes another program of the same sources.
const revision = 2

// key returns the name of a program's folder: a hash of the command line, of the working directory,
// of where clang is looked for, of Ferry's own headers and runtime, and of revision.
func (o *Options) key() (string, error) {
	here, err := os.Getwd()
	if err != nil {
		return "", err
	}
	sum := sha256.New()
	fmt.Fprintf(sum, "%d %s\n%q %q %q\n", revision, libraryKey("", ""), here, os.Getenv("PATH"), os.Getenv(compile.ClangVariable))
	fmt.Fprintf(sum, "%q %q %q %q %q %q %v %v\n", o.Files, o.Arch, o.both, o.host, o.device, o.link, o.PerThread, o.FastMath)
	return usercache.Key(sum), nil
}

// writeStamps writes what a program was made of: each file with its size and the time of its change.
// uses begins the names of files in which clang lists the headers of a source.
func writeStamps(path, uses string, files []string) error {
	lists, err := filepath.Glob(uses + "*")
	if err != nil {
		return err
	}
	all := files
	for _, list := range lists {
		text, err := os.ReadFile(list)
		if err != nil {
			return err
		}
		all = append(all, listed(string(text))...)
	}
	var b strings.Builder
	seen := map[string]bool{}
	for _, f := range all {
		if !seen[f] {
			seen[f] = true
			stamp, err := stamp(f)
			if err != nil {
				return err
			}
			fmt.Fprintf(&b, "%s %s\n", stamp, f)
		}
	}
	return os.WriteFile(path, []byte(b.String()), 0o600)
}

// stamp returns the size and the time of the last change of a file.
func stamp(path string) (string, error) {
	info, err := os.Stat(path)
	if err != nil {
		return "", err
	}
	return fmt.Sprintf("%d.%d", info.Size(), info.ModTime().UnixNano()), nil
}

// listed returns the files of a rule of make, as clang writes it: a backslash stands before blanks and #.
func listed(rule string) (files []string) {
	_, rule, _ = strings.Cut(rule, ": ")
	rule = strings.NewReplacer("\\\n", " ", `\ `, "\x00", `\#`, "#", "$$", "$").Replace(rule)
	for _, f := range strings.Fields(rule) {
		files = append(files, strings.ReplaceAll(f, "\x00", " "))
	}
	return files
}

// unchanged reports whether all files are as they were when a program was made of them.
func unchanged(stamps string) bool {
	f, err := os.Open(stamps)
	if err != nil {
		return false
	}
	defer f.Close()
	lines := bufio.NewScanner(f)
	for lines.Scan() {
		was, path, _ := strings.Cut(lines.Text(), " ")
		if now, err := stamp(path); err != nil || now != was {
			return false
		}
	}
	return lines.Err() == nil
}
