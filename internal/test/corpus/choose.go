package main

import (
	"cmp"
	"context"
	"crypto/sha256"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// seed decides which files of a large project are chosen.
const seed = "ferry"

// choose fills in the files of a project by three rules:
//
//  1. A .cu file that another file of the project includes is a part of that file, and left out.
//  2. A file that needs a header of another library, or one that nobody has, is left out. Its
//     headers are those that clang lists, also through headers of the project (needs).
//  3. Of the rest all are chosen, or limit of them: those with the lowest SHA-256 of the seed, the
//     project and the path.
//
// The folders for #include are the file's own, those of the project's line, and those that the
// makefile beside the file names. Macros are those of that makefile.
func (p *project) choose(ctx context.Context, clang, root string) error {
	all, parts, err := sources(root)
	if err != nil {
		return err
	}
	var left []file
	unknown := map[string]int{}
	included := 0
	for _, name := range all {
		if parts[path.Base(name)] {
			included++
			continue
		}
		f := p.file(root, name)
		foreign, err := f.needs(ctx, clang, root)
		if err != nil {
			return err
		}
		if foreign == "" {
			left = append(left, f)
		} else {
			unknown[foreign]++
		}
	}
	foreign := len(all) - included - len(left)
	p.note = fmt.Sprintf("%d .cu files: %d are parts of others, %d need a foreign header (%s), %d of the other %d are chosen",
		len(all), included, foreign, most(unknown), min(p.limit, len(left)), len(left))
	p.files = p.sample(left)
	return nil
}

// includes matches an #include of a .cu file.
var includes = regexp.MustCompile(`(?m)^[ \t]*#[ \t]*include[ \t]*[<"]([^">]+\.cu)[">]`)

// sources lists the .cu files of a folder, and the names of those that are included.
func sources(root string) (all []string, parts map[string]bool, err error) {
	parts = map[string]bool{}
	err = fs.WalkDir(os.DirFS(root), ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			return err
		}
		switch path.Ext(name) {
		case ".cu":
			all = append(all, name)
		case ".h", ".cuh", ".hpp", ".c", ".cpp", ".cc", ".inl":
		default:
			return nil
		}
		text, err := fs.ReadFile(os.DirFS(root), name)
		for _, m := range includes.FindAllSubmatch(text, -1) {
			parts[path.Base(string(m[1]))] = true
		}
		return err
	})
	return all, parts, err
}

// file returns a file with its arguments.
func (p *project) file(root, name string) file {
	f := file{path: name, args: []string{"-I" + path.Dir(name)}}
	for _, dir := range p.include {
		f.args = append(f.args, "-I"+dir)
	}
	for _, makefile := range []string{"Makefile", "makefile"} {
		text, err := os.ReadFile(filepath.Join(root, path.Dir(name), makefile))
		if err == nil {
			f.args = append(f.args, flagsOf(string(text), root, path.Dir(name))...)
			break
		}
	}
	f.args = slices.Compact(f.args)
	return f
}

var flag1 = regexp.MustCompile(`\s-(I ?|D)([\w./=+-]+)(\s|$)`)

// flagsOf returns the flags -I and -D of a makefile, those of them that name no variable. Flags of
// its debug form are not there, nor folders that do not exist.
func flagsOf(makefile, root, dir string) (flags []string) {
	makefile = strings.ReplaceAll(makefile, "\\\n", " ")
	for line := range strings.Lines(makefile) {
		line, _, _ = strings.Cut(line, "#")
		if strings.Contains(line, "-DDEBUG") {
			continue
		}
		for rest := line; ; {
			m := flag1.FindStringSubmatchIndex(rest)
			if m == nil {
				break
			}
			kind, value := rest[m[2]:m[2]+1], rest[m[4]:m[5]]
			rest = rest[m[5]:]
			if kind == "D" {
				flags = append(flags, "-D"+value)
				continue
			}
			value = path.Join(dir, value)
			if info, err := os.Stat(filepath.Join(root, value)); err == nil && info.IsDir() && !path.IsAbs(value) {
				flags = append(flags, "-I"+value)
			}
		}
	}
	slices.Sort(flags)
	return slices.Compact(flags)
}

// sample returns the files of the list, in order.
func (p *project) sample(left []file) []file {
	key := func(f file) string {
		return fmt.Sprintf("%x", sha256.Sum256([]byte(seed+" "+p.name+" "+f.path)))
	}
	slices.SortFunc(left, func(a, b file) int { return cmp.Compare(key(a), key(b)) })
	left = left[:min(p.limit, len(left))]
	slices.SortFunc(left, func(a, b file) int { return cmp.Compare(a.path, b.path) })
	return left
}

// most names the five keys with the highest counts.
func most(counts map[string]int) string {
	keys := byCount(counts)
	var all []string
	for _, k := range keys[:min(5, len(keys))] {
		all = append(all, fmt.Sprintf("%s %d", k, counts[k]))
	}
	return strings.Join(all, ", ")
}

// byCount returns the keys, that with the highest count first.
func byCount(counts map[string]int) []string {
	var keys []string
	for k := range counts {
		keys = append(keys, k)
	}
	slices.SortFunc(keys, func(a, b string) int {
		return cmp.Or(cmp.Compare(counts[b], counts[a]), cmp.Compare(a, b))
	})
	return keys
}
