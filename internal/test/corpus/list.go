package main

import (
	"bufio"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// project is a public project at a commit, and those of its files that are in the list.
type project struct {
	name, url, commit string
	limit             int      // how many files are chosen at most
	include           []string // folders for #include, relative to the project
	note              string   // how the files were chosen
	files             []file
}

// file is a file of the list with the arguments of its compilation.
type file struct {
	path string
	args []string // -I FOLDER and -D MACRO in one word each; folders are relative to the project
}

// readList reads a list. Its lines are
//
//	project NAME URL COMMIT LIMIT [-IFOLDER...]
//	PATH [-IFOLDER...] [-DMACRO...]
//	# a comment
//
// The comments before the first project are returned as head, one after a project is its note.
func readList(name string) (head string, all []*project, err error) {
	f, err := os.Open(name)
	if err != nil {
		return "", nil, err
	}
	defer f.Close()
	for s := bufio.NewScanner(f); s.Scan(); {
		line := s.Text()
		words := strings.Fields(line)
		switch {
		case len(words) == 0:
		case words[0] == "#" && all == nil:
			head += line + "\n"
		case words[0] == "#":
			all[len(all)-1].note = strings.Join(words[1:], " ")
		case words[0] == "project":
			p, err := readProject(words[1:])
			if err != nil {
				return "", nil, fmt.Errorf("%s: %q: %w", name, line, err)
			}
			all = append(all, p)
		case all == nil:
			return "", nil, fmt.Errorf("%s: %q stands before the first project", name, line)
		default:
			p := all[len(all)-1]
			p.files = append(p.files, file{path: words[0], args: words[1:]})
		}
	}
	return head, all, nil
}

// readProject reads the words of a line after "project".
func readProject(words []string) (*project, error) {
	if len(words) < 4 {
		return nil, fmt.Errorf("a name, an address, a commit and a number are needed")
	}
	p := &project{name: words[0], url: words[1], commit: words[2]}
	if _, err := fmt.Sscan(words[3], &p.limit); err != nil {
		return nil, fmt.Errorf("%q is no number of files", words[3])
	}
	for _, w := range words[4:] {
		p.include = append(p.include, strings.TrimPrefix(w, "-I"))
	}
	return p, nil
}

// writeList writes a list in the form that readList reads.
func writeList(name, head string, all []*project) error {
	var b strings.Builder
	b.WriteString(head)
	for _, p := range all {
		fmt.Fprintf(&b, "\nproject %s %s %s %d", p.name, p.url, p.commit, p.limit)
		for _, dir := range p.include {
			b.WriteString(" -I" + dir)
		}
		b.WriteString("\n# " + p.note + "\n")
		for _, f := range p.files {
			b.WriteString(strings.Join(append([]string{f.path}, f.args...), " ") + "\n")
		}
	}
	return os.WriteFile(name, []byte(b.String()), 0o666)
}

// options splits the arguments of a file of a project whose checkout is in root.
func (f *file) options(root string) (include, define []string) {
	for _, a := range f.args {
		if dir, ok := strings.CutPrefix(a, "-I"); ok {
			include = append(include, filepath.Join(root, filepath.FromSlash(dir)))
		} else {
			define = append(define, strings.TrimPrefix(a, "-D"))
		}
	}
	return include, define
}
