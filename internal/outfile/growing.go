package outfile

import (
	"errors"
	"fmt"
	"os"

	"github.com/ferrygpu/ferry/internal/printable"
)

// ErrBusy is wrapped by the error of a file that another process lets grow.
var ErrBusy = errors.New("another process writes this file")

// Growing is a file that has its contents at its path while it grows, so that a crash leaves
// what was written. It is not safe for concurrent use.
type Growing struct {
	*os.File
	name string // as the user wrote it
	to   target
	path string // beside the target; "" if that is written itself
}

// Begin begins a file beside the file of a path, which keeps what it has until [Growing.Show].
// Where an open file cannot be renamed, the file itself is emptied.
func Begin(path string) (*Growing, error) {
	to, err := find(path)
	if err == nil {
		err = to.writable()
	}
	if err != nil {
		return nil, fmt.Errorf("write %s: %w", printable.Path(path), err)
	}
	g := &Growing{name: path, to: to}
	switch {
	case to.descriptor != aFile:
		f, err := Create(path)
		if err != nil {
			return nil, err
		}
		g.File = f.f
		return g, nil
	case !renamesOpenFiles:
		g.File, err = os.OpenFile(to.path, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o666)
	default:
		if g.File, err = beside(to.path); err == nil {
			g.path = g.File.Name()
			lock(g.File) // nobody else has this file
		}
	}
	if err != nil {
		return nil, fmt.Errorf("write %s: %w", printable.Path(path), cause(err))
	}
	return g, nil
}

// Write adds to the file. An error has the name that the user wrote.
func (g *Growing) Write(p []byte) (int, error) {
	n, err := g.File.Write(p)
	if err != nil {
		err = fmt.Errorf("write %s: %w", printable.Path(g.name), cause(err))
	}
	return n, err
}

// WriteAt replaces what a part of the file has. On a descriptor it changes nothing and returns
// an error: what is at this offset may be of others.
func (g *Growing) WriteAt(p []byte, at int64) (int, error) {
	if err := g.own(); err != nil {
		return 0, err
	}
	return g.File.WriteAt(p, at)
}

// Truncate cuts the file to a size. On a descriptor it changes nothing and returns an error.
func (g *Growing) Truncate(size int64) error {
	if err := g.own(); err != nil {
		return err
	}
	return g.File.Truncate(size)
}

// own returns an error for a descriptor, to which others may have written and may write.
func (g *Growing) own() error {
	if g.to.descriptor == aFile {
		return nil
	}
	return fmt.Errorf("write %s: a descriptor can only be appended to: %w", printable.Path(g.name), errors.ErrUnsupported)
}

// Show puts the file at its path. If another process lets the file there grow, the error wraps
// [ErrBusy], and the path has what it had.
func (g *Growing) Show() error {
	if g.path == "" {
		return nil
	}
	err := keepMode(g.File, g.to.info)
	if err == nil {
		err = g.replace()
	}
	if err != nil {
		return fmt.Errorf("write %s: %w", printable.Path(g.name), cause(err))
	}
	g.path = ""
	return nil
}

// ShowAs is Show at another path of the same folder.
func (g *Growing) ShowAs(path string) error {
	to, err := find(path)
	if err == nil {
		err = to.writable()
	}
	if err != nil {
		return fmt.Errorf("write %s: %w", printable.Path(path), err)
	}
	g.name, g.to = path, to
	return g.Show()
}

// replace renames the file. Whoever holds the lock of the file at the path may replace it. So of
// two processes that begin at once, one finds the file of the other, and that it is locked.
func (g *Growing) replace() error {
	for {
		old, err := os.OpenFile(g.to.path, os.O_WRONLY|os.O_CREATE, 0o666)
		if err != nil {
			return err
		}
		again, err := g.replaceOpen(old)
		old.Close() // and with it the lock
		if !again {
			return err
		}
	}
}

// replaceOpen renames the file to its path, from which old was opened. again reports that another
// file was put there since.
func (g *Growing) replaceOpen(old *os.File) (again bool, err error) {
	if lock(old) {
		return false, ErrBusy
	}
	is, err := old.Stat()
	if err != nil {
		return false, err
	}
	if now, err := os.Lstat(g.to.path); err != nil || !os.SameFile(is, now) {
		return true, nil
	}
	err = rename(g.path, g.to.path)
	if err != nil && g.to.info == nil {
		os.Remove(g.to.path) // it was made by this call
	}
	return false, err
}

// Drop closes the file. If it was not shown, it is removed.
func (g *Growing) Drop() {
	g.Close()
	if g.path != "" {
		os.Remove(g.path)
	}
}
