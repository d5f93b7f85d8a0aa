package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"strings"
	"time"

	"github.com/ferrygpu/ferry"
)

// server answers requests in a process of its own.
type server struct {
	gpus    []*ferry.GPU
	streams []*ferry.Stream
	locked  *ferry.Host[byte] // the data of lockedPath
	path    string
}

// place is a range of a file and the memory that has its bytes.
type place struct {
	off int64
	mem ferry.Memory[byte]
	f16 bool // the memory has the file's bf16 values as f16
}

// methods are what a server measures. Each returns where the data is, for the check, and a function
// that frees it.
var methods = map[string]func(*server, request) (answer, []place, func() error, error){
	"locked":     (*server).copyLocked,
	"copyfrom":   (*server).copyFrom,
	"checkpoint": (*server).loadAll,
	"direct":     (*server).loadDirect,
	"f16":        (*server).loadF16,
	"first":      (*server).loadFirst,
}

// serve answers the requests of in until its end. GPUs are open before the first.
func serve(device string, in io.Reader, out io.Writer) (err error) {
	gpus, err := ferry.OpenAll(device)
	if err != nil {
		return err
	}
	s := &server{gpus: gpus}
	defer func() { err = errors.Join(err, s.close()) }()
	for _, g := range gpus {
		st, err := ferry.NewStream(g, nil)
		if err != nil {
			return err
		}
		s.streams = append(s.streams, st)
	}
	fmt.Fprintln(out, "ready")
	lines := bufio.NewScanner(in)
	for lines.Scan() {
		a, err := s.answer(lines.Text())
		if err != nil {
			fmt.Fprintln(out, "-1", strings.ReplaceAll(err.Error(), "\n", "; "))
			continue
		}
		fmt.Fprintln(out, a)
	}
	return lines.Err()
}

// close frees everything.
func (s *server) close() (err error) {
	err = s.locked.Close()
	for _, st := range s.streams {
		err = errors.Join(err, st.Close())
	}
	for _, g := range s.gpus {
		err = errors.Join(err, g.Close())
	}
	return err
}

// answer measures and checks.
func (s *server) answer(line string) (a answer, err error) {
	r, err := parseRequest(line)
	if err != nil {
		return a, err
	}
	measure := methods[r.method]
	if measure == nil {
		return a, fmt.Errorf("there is no method %q", r.method)
	}
	if r.gpus != toOne && len(s.gpus) < 2 {
		return a, fmt.Errorf("%s: there is one GPU", r.gpus)
	}
	a, places, free, err := measure(s, r)
	if err != nil {
		return a, err
	}
	return a, errors.Join(check(r, places), free())
}

// shares returns the range of the data that each GPU gets.
func (s *server) shares(r request) (from, to []int64) {
	half := r.bytes / 2 / 4096 * 4096
	switch r.gpus {
	case toEach:
		return []int64{0, half}, []int64{half, r.bytes}
	case toAll:
		return []int64{0, 0}, []int64{r.bytes, r.bytes}
	}
	return []int64{0}, []int64{r.bytes}
}

// onAll calls f for each GPU of a request at once, with its range of the data.
func (s *server) onAll(r request, f func(i int, from, to int64) error) error {
	from, to := s.shares(r)
	failed := make(chan error)
	for i := range from {
		go func() { failed <- f(i, from[i], to[i]) }()
	}
	var err error
	for range from {
		err = errors.Join(err, <-failed)
	}
	return err
}

// buffers allocates the memory of each GPU. free frees it.
func (s *server) buffers(r request) (all []*ferry.Device[byte], places []place, free func() error, err error) {
	free = func() (err error) {
		for _, d := range all {
			err = errors.Join(err, d.Close())
		}
		return err
	}
	from, to := s.shares(r)
	for i := range from {
		d, err := ferry.Alloc[byte](s.gpus[i], int(to[i]-from[i]))
		if err != nil {
			return nil, nil, nil, errors.Join(err, free())
		}
		all = append(all, d)
		places = append(places, place{off: r.data + from[i], mem: d})
	}
	return all, places, free, nil
}

// copyLocked measures copies from page-locked memory, which has the data before the time begins.
func (s *server) copyLocked(r request) (a answer, places []place, free func() error, err error) {
	if err := s.lock(r); err != nil {
		return a, nil, nil, err
	}
	all, places, free, err := s.buffers(r)
	if err != nil {
		return a, nil, nil, err
	}
	begin := time.Now()
	err = s.onAll(r, func(i int, from, to int64) error {
		err := ferry.Copy(s.streams[i], all[i], s.locked.Range(int(from), int(to)))
		return errors.Join(err, s.streams[i].Wait(context.Background()))
	})
	a = answer{time.Since(begin), map[string]float64{"pinned": float64(r.bytes)}}
	return a, places, free, err
}

// lock reads the data of a file into page-locked memory, which later requests use.
func (s *server) lock(r request) (err error) {
	if s.path == r.path {
		return nil
	}
	err = s.locked.Close()
	s.locked, s.path = nil, ""
	if err != nil {
		return err
	}
	if s.locked, err = ferry.AllocHost[byte](s.gpus[0], int(r.bytes), nil); err != nil {
		return err
	}
	f, err := os.Open(r.path)
	if err != nil {
		return err
	}
	defer f.Close()
	to := s.locked.Slice()
	err = together(int((r.bytes+fillBlock-1)/fillBlock), func(_ []byte, i int) error {
		off := int64(i) * fillBlock
		_, err := f.ReadAt(to[off:min(off+fillBlock, r.bytes)], r.data+off)
		return err
	})
	if err == nil {
		s.path = r.path
	}
	return err
}

// copyFrom measures CopyFrom, which has one destination for each GPU.
func (s *server) copyFrom(r request) (a answer, places []place, free func() error, err error) {
	begin := time.Now()
	all, places, free, err := s.buffers(r)
	if err != nil {
		return a, nil, nil, err
	}
	err = s.onAll(r, func(i int, from, to int64) error {
		f, err := os.Open(r.path)
		if err != nil {
			return err
		}
		defer f.Close()
		if _, err := f.Seek(r.data+from, io.SeekStart); err != nil {
			return err
		}
		_, err = ferry.CopyFrom(context.Background(), s.streams[i], all[i], f)
		return errors.Join(err, s.streams[i].Wait(context.Background()))
	})
	took := time.Since(begin)
	pinned, wrong := s.pinned()
	return answer{took, map[string]float64{"pinned": pinned}}, places, free, errors.Join(err, wrong)
}

// check compares memory with the file: whole, or in 64 ranges of up to 1 MiB that chance selects.
func check(r request, places []place) error {
	f, err := os.Open(r.path)
	if err != nil {
		return err
	}
	defer f.Close()
	if !r.whole {
		places = some(places)
	}
	var parts []place
	for _, p := range places {
		for off := 0; off < p.mem.Len(); off += fillBlock {
			parts = append(parts, p.part(off, min(off+fillBlock, p.mem.Len())))
		}
	}
	return together(len(parts), func(_ []byte, i int) error { return parts[i].compare(f) })
}

// part returns a range of a place.
func (p place) part(from, to int) place {
	return place{p.off + int64(from), ferry.View[byte](p.mem).Range(from, to), p.f16}
}

// some selects ranges.
func some(places []place) (out []place) {
	for range 64 {
		p := places[rand.IntN(len(places))]
		from := rand.IntN(p.mem.Len()) &^ 1
		to := min(from+rand.IntN(1<<20)&^1, p.mem.Len())
		out = append(out, p.part(from, to))
	}
	return out
}

// compare compares memory with its bytes of the file.
func (p place) compare(f *os.File) error {
	got, err := ferry.Download(p.mem)
	if err != nil {
		return err
	}
	want := make([]byte, len(got))
	if _, err := f.ReadAt(want, p.off); err != nil {
		return err
	}
	if p.f16 {
		toF16(want)
	}
	if !bytes.Equal(got, want) {
		return fmt.Errorf("the bytes of the device from %d on differ from the file's: %d bytes compared", p.off, len(got))
	}
	return nil
}
