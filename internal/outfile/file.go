package outfile

import (
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"unicode/utf8"

	"github.com/ferrygpu/ferry/internal/printable"
)

// File is a file that is being written. The contents are at its path after [File.Commit]. It is
// not safe for concurrent use.
type File struct {
	name string // as the user wrote it
	to   target
	f    *os.File // beside the target, or the target if that is a descriptor; nil when done
}

// Create begins to write the file of a path. Until Commit the path has what it had before.
func Create(path string) (*File, error) {
	to, err := find(path)
	if err == nil {
		err = to.writable()
	}
	if err != nil {
		return nil, fmt.Errorf("write %s: %w", printable.Path(path), err)
	}
	f := &File{name: path, to: to}
	switch to.descriptor {
	case aFile:
		f.f, err = beside(to.path)
	case nullDevice:
		f.f, err = os.OpenFile(os.DevNull, os.O_WRONLY, 0)
	default:
		f.f, err = duplicate(to.descriptor, path)
	}
	if err != nil {
		return nil, fmt.Errorf("write %s: %w", printable.Path(path), cause(err))
	}
	return f, nil
}

// writable returns an error for a target that the user may not write. It changes nothing.
func (t *target) writable() error {
	switch {
	case t.descriptor >= 0:
		return openForWriting(t.descriptor)
	case t.info == nil:
		return nil
	case isMount(t.path):
		return errors.New("another file is mounted here (docker run -v FILE, mount --bind), so no new file can take its place: mount its folder, or write to /dev/stdout")
	}
	f, err := os.OpenFile(t.path, os.O_WRONLY, 0)
	if err != nil {
		return cause(err)
	}
	return f.Close()
}

// longestBase is how many bytes of a name the file beside it has in its own name, so that a long
// name stays within the limit of the file system.
const longestBase = 100

// shortBase returns the name of a file without its folder, cut to at most longestBase bytes. It
// does not cut inside a letter of UTF-8: some file systems refuse half a letter.
func shortBase(path string) string {
	base := filepath.Base(path)
	if len(base) <= longestBase {
		return base
	}
	n := longestBase
	for n > longestBase-utf8.UTFMax && !utf8.RuneStart(base[n]) {
		n--
	}
	return base[:n]
}

// beside creates a file in the folder of a path, which is hidden and has a name of its own.
func beside(path string) (*os.File, error) {
	for {
		name := filepath.Join(filepath.Dir(path), "."+shortBase(path)+"-"+rand.Text()[:8])
		f, err := os.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o666)
		if errors.Is(err, fs.ErrPermission) {
			return nil, fmt.Errorf("its folder refuses a new file: %w; the file is written beside, then renamed", cause(err))
		}
		if !errors.Is(err, fs.ErrExist) {
			return f, err
		}
	}
}

// Write adds to the contents.
func (f *File) Write(p []byte) (int, error) {
	if f.f == nil {
		return 0, fmt.Errorf("write %s: %w", printable.Path(f.name), os.ErrClosed)
	}
	n, err := f.f.Write(p)
	if err != nil {
		err = fmt.Errorf("write %s: %w", printable.Path(f.name), cause(err))
	}
	return n, err
}

// Commit puts the contents at the path. After an error the path has what it had before. If the
// contents were whole, the error says where they are.
func (f *File) Commit() error {
	if err := f.finish(); err != nil {
		return err
	}
	return f.replace()
}

// finish completes the file beside the target. After an error that file is gone.
func (f *File) finish() error {
	if f.f == nil {
		return fmt.Errorf("write %s: %w", printable.Path(f.name), os.ErrClosed)
	}
	var err error
	if f.to.descriptor == aFile {
		err = complete(f.f, f.to.info)
	}
	if err = errors.Join(err, f.f.Close()); err != nil {
		f.Discard()
		return fmt.Errorf("write %s: %w", printable.Path(f.name), cause(err))
	}
	return nil
}

// complete gives a new file the permissions and the owner of the file that it replaces, and
// waits until the disk has it.
func complete(f *os.File, old fs.FileInfo) error {
	if err := keepMode(f, old); err != nil {
		return err
	}
	if err := f.Sync(); err != nil && !errors.Is(err, errors.ErrUnsupported) && !noSync(err) {
		return err
	}
	return nil
}

// keepMode gives a new file the permissions and the owner of an old one; nil for none.
func keepMode(f *os.File, old fs.FileInfo) error {
	if old == nil {
		return nil
	}
	mode := old.Mode().Perm()
	if !keepOwner(f, old) {
		mode = mode&^0o070 | mode&0o007<<3 // another group gets what all have
	}
	return f.Chmod(mode)
}

// replace renames the finished file. If that fails, the file stays: its contents are whole.
func (f *File) replace() error {
	if f.f == nil || f.to.descriptor != aFile {
		f.f = nil
		return nil
	}
	next := f.f.Name()
	f.f = nil
	if err := rename(next, f.to.path); err != nil {
		return fmt.Errorf("write %s: %w; its new contents are in %s", printable.Path(f.name), err, printable.Path(next))
	}
	return nil
}

// rename puts a finished file at a path, if that is free or has a regular file.
func rename(from, to string) error {
	if info, err := os.Lstat(to); err == nil && !info.Mode().IsRegular() {
		return fmt.Errorf("another program has put %s there", kindOrFolder(info.Mode()))
	}
	if err := os.Rename(from, to); err != nil {
		return cause(err)
	}
	syncFolder(filepath.Dir(to))
	return nil
}

func kindOrFolder(m fs.FileMode) string {
	if m.IsDir() {
		return "a folder"
	}
	return kind(m)
}

// syncFolder makes a new name in a folder last. Not all systems can, and the contents are safe
// without it, so an error does not count.
func syncFolder(dir string) {
	if d, err := os.Open(dir); err == nil {
		_ = d.Sync()
		d.Close()
	}
}

// Discard drops the contents. The path has what it had before. After Commit it does nothing.
func (f *File) Discard() {
	if f == nil || f.f == nil {
		return
	}
	f.f.Close()
	if f.to.descriptor == aFile {
		os.Remove(f.f.Name())
	}
	f.f = nil
}

// Check returns an error if the file of a path could not be written, before that is needed. It
// leaves everything as it was.
func Check(path string) error {
	f, err := Create(path)
	f.Discard()
	return err
}

// Write writes a file whole, or leaves what was there.
func Write(path string, data []byte) error { return WriteAll(Contents{path, data}) }

// Contents are a file and what it shall have.
type Contents struct {
	Path string
	Data []byte
}

// WriteAll writes files that belong together. No file is replaced before all are on the disk.
func WriteAll(all ...Contents) error {
	files := make([]*File, 0, len(all))
	defer func() {
		for _, f := range files {
			f.Discard()
		}
	}()
	for i, c := range all {
		for _, other := range all[:i] {
			if Same(other.Path, c.Path) {
				return fmt.Errorf("write %s: it is the same file as %s", printable.Path(c.Path), printable.Path(other.Path))
			}
		}
		f, err := Create(c.Path)
		if err != nil {
			return err
		}
		files = append(files, f)
	}
	for i, f := range files {
		if _, err := f.Write(all[i].Data); err != nil {
			return err
		}
	}
	for _, f := range files {
		if err := f.finish(); err != nil {
			return err
		}
	}
	for _, f := range files {
		if err := f.replace(); err != nil {
			return err
		}
	}
	return nil
}

// Move puts a finished file in the place of the file of a path, as Commit does. The two must be
// in one file system. To a descriptor it copies.
func Move(from, path string) error {
	to, err := find(path)
	if err == nil {
		err = to.writable()
	}
	if err != nil {
		return fmt.Errorf("write %s: %w; its new contents are in %s", printable.Path(path), err, printable.Path(from))
	}
	if to.descriptor != aFile {
		return copyTo(from, path)
	}
	f, err := os.OpenFile(from, os.O_WRONLY, 0)
	if err != nil {
		return fmt.Errorf("write %s: %w", printable.Path(path), err)
	}
	if err = errors.Join(complete(f, to.info), f.Close()); err == nil {
		err = rename(from, to.path)
	}
	if err != nil {
		return fmt.Errorf("write %s: %w; its new contents are in %s", printable.Path(path), cause(err), printable.Path(from))
	}
	return nil
}

// copyTo copies a file to a descriptor, and removes it.
func copyTo(from, path string) error {
	in, err := os.Open(from)
	if err != nil {
		return fmt.Errorf("write %s: %w", printable.Path(path), err)
	}
	defer in.Close()
	out, err := Create(path)
	if err != nil {
		return err
	}
	defer out.Discard()
	if _, err := io.Copy(out, in); err != nil {
		return fmt.Errorf("%w; its contents are in %s", err, printable.Path(from))
	}
	if err := out.Commit(); err != nil {
		return fmt.Errorf("%w; its contents are in %s", err, printable.Path(from))
	}
	return os.Remove(from)
}

// Folder creates a folder for files that [Move] will put in the place of a path, and returns its
// absolute name. It stands beside the file. For a descriptor there is no such folder, and the
// name is "".
func Folder(path string) (string, error) {
	if err := Check(path); err != nil {
		return "", err
	}
	to, err := find(path)
	if err != nil {
		return "", fmt.Errorf("write %s: %w", printable.Path(path), err)
	}
	if to.descriptor != aFile {
		return "", nil
	}
	full, err := filepath.Abs(to.path)
	if err != nil {
		return "", fmt.Errorf("write %s: %w", printable.Path(path), cause(err))
	}
	for {
		dir := filepath.Join(filepath.Dir(full), shortBase(full)+".part-"+rand.Text()[:8])
		switch err := os.Mkdir(dir, 0o700); {
		case err == nil:
			return dir, nil
		case !errors.Is(err, fs.ErrExist):
			return "", fmt.Errorf("write %s: %w", printable.Path(path), cause(err))
		}
	}
}

// Append adds to the end of a file, in one write, and creates it if there is none. Several
// processes may add to one file. A file that is no regular file is refused.
func Append(path string, data []byte) error {
	to, err := find(path)
	if err != nil {
		return fmt.Errorf("write %s: %w", printable.Path(path), err)
	}
	if to.descriptor != aFile {
		f, err := Create(path)
		if err != nil {
			return err
		}
		_, err = f.Write(data)
		return errors.Join(err, f.Commit())
	}
	f, err := os.OpenFile(to.path, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o666)
	if err != nil {
		return fmt.Errorf("write %s: %w", printable.Path(path), cause(err))
	}
	_, err = f.Write(data)
	if err = errors.Join(err, f.Close()); err != nil {
		return fmt.Errorf("write %s: %w", printable.Path(path), cause(err))
	}
	return nil
}
