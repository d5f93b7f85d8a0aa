package main

import (
	"archive/tar"
	"bufio"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// file is a file of the image: where it is from, its path there, and its size.
type file struct {
	From  string `json:"-"`
	Path  string `json:"path"`
	Bytes int64  `json:"bytes"`
}

// counter counts what is written to it.
type counter int64

func (c *counter) Write(p []byte) (int, error) { *c += counter(len(p)); return len(p), nil }

// pack writes the sizes of files, and returns those of a layer that has them: as it is, and
// compressed as registries keep it.
func pack(files []file) (plain, compressed int64, err error) {
	var size, packed counter
	z := gzip.NewWriter(&packed)
	t := tar.NewWriter(io.MultiWriter(&size, z))
	for i := range files {
		if err := files[i].add(t); err != nil {
			return 0, 0, fmt.Errorf("pack %s: %w", files[i].Path, err)
		}
	}
	err = errors.Join(t.Close(), z.Close())
	return int64(size), int64(packed), err
}

// add adds a file to a layer. It follows links, as the image has a file for each name.
func (f *file) add(t *tar.Writer) error {
	data, err := os.ReadFile(f.From)
	if err != nil {
		return err
	}
	f.Bytes = int64(len(data))
	header := tar.Header{Name: strings.TrimPrefix(f.Path, "/"), Mode: 0o755, Size: f.Bytes}
	if err := t.WriteHeader(&header); err != nil {
		return err
	}
	_, err = t.Write(data)
	return err
}

// unpack copies the files below a folder.
func unpack(root string, files []file) error {
	for _, f := range files {
		to := filepath.Join(root, f.Path)
		if err := os.MkdirAll(filepath.Dir(to), 0o755); err != nil {
			return err
		}
		data, err := os.ReadFile(f.From)
		if err != nil {
			return err
		}
		if err := os.WriteFile(to, data, 0o755); err != nil {
			return err
		}
	}
	return nil
}

// sumWheels adds up the sizes of a table: a name, a tab and a number of bytes in each line. Lines
// that begin with # are text.
func sumWheels(path string) (files int, sum int64, err error) {
	f, err := os.Open(path)
	if err != nil {
		return 0, 0, err
	}
	defer f.Close()
	lines := bufio.NewScanner(f)
	for n := 1; lines.Scan(); n++ {
		if strings.HasPrefix(lines.Text(), "#") {
			continue
		}
		name, size, _ := strings.Cut(lines.Text(), "\t")
		bytes, err := strconv.ParseInt(size, 10, 64)
		if err != nil || name == "" || bytes <= 0 {
			return 0, 0, fmt.Errorf("%s:%d: %q has no name and size", path, n, lines.Text())
		}
		files, sum = files+1, sum+bytes
	}
	return files, sum, lines.Err()
}
