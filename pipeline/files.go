package pipeline

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"reflect"

	"github.com/ferrygpu/ferry/internal/filerange"
	"github.com/ferrygpu/ferry/internal/refusal"
)

// openRead sets the fields for reading at any offset, if the reader can seek and reports a
// size. Otherwise the reader is read in order.
func (p *endpoint) openRead(at io.ReaderAt) error {
	seek, ok := p.read.(io.Seeker)
	if !ok {
		return nil
	}
	base, err := seek.Seek(0, io.SeekCurrent)
	if err != nil {
		return nil
	}
	last, err := endOf(seek, base)
	if err != nil || last <= base { // a device file reports size 0, and is read in order
		return err
	}
	p.readAt, p.seek, p.base, p.last = at, seek, base, last
	p.n, p.torn = int(last-base)/p.size, int(last-base)%p.size
	return nil
}

// endOf returns the size of what can be read, or 0 if that is not known. It does not move the
// offset of a regular file, which others may use, nor that of a type with the Stat of one.
func endOf(seek io.Seeker, base int64) (int64, error) {
	if f, ok := seek.(interface{ Stat() (os.FileInfo, error) }); ok {
		if about, err := f.Stat(); err == nil && about.Mode().IsRegular() {
			return about.Size(), nil
		}
	}
	last, err := seek.Seek(0, io.SeekEnd)
	if _, back := seek.Seek(base, io.SeekStart); back != nil {
		return 0, fmt.Errorf("seek back to byte %d: %w", base, back)
	}
	if err != nil {
		return 0, nil
	}
	return last, nil
}

// openWrite sets the fields for writing at any offset, if the writer can seek and accepts an
// empty WriteAt. A file that is open for appending does not.
func (p *endpoint) openWrite(at io.WriterAt) {
	seek, ok := p.write.(io.Seeker)
	if !ok {
		return
	}
	base, err := seek.Seek(0, io.SeekCurrent)
	if err == nil {
		_, err = at.WriteAt(nil, base)
	}
	if err == nil {
		p.writeAt, p.seek, p.base = at, seek, base
	}
}

// sameFile reports whether two endpoints read or write one file at any offset.
func (p *endpoint) sameFile(o *endpoint) bool {
	return p.seek != nil && o.seek != nil && reflect.TypeOf(p.seek) == reflect.TypeOf(o.seek) && reflect.ValueOf(p.seek).Comparable() && p.seek == o.seek
}

// pairFiles checks that outputs do not overwrite what others write, or what is read later.
func (j *job) pairFiles() error {
	for i := range j.out {
		for k := range j.in {
			if j.out[i].sameFile(&j.in[k]) && j.out[i].size != j.in[k].size {
				return refusal.Invalid("output %d is the file of input %d: their elements have %d and %d bytes", i, k, j.out[i].size, j.in[k].size)
			}
		}
		for k := range i {
			if j.out[i].sameFile(&j.out[k]) {
				return refusal.Invalid("output %d is the file of output %d", i, k)
			}
		}
	}
	return nil
}

// mostMoves is how often a job begins anew because others move the offsets of its files.
const mostMoves = 1000

// takeJob makes the job of a Run, and takes the ranges of its files. giveBack ends that.
func takeJob(p *Pipeline) (*job, error) {
	for range mostMoves {
		j, err := newJob(p)
		if err != nil {
			return nil, err
		}
		moved, err := j.takeAll()
		if err != nil {
			return nil, err
		}
		if !moved {
			return j, nil
		}
	}
	return nil, errors.New("others move the offset of a file all the time: give each its own file")
}

// takeAll is take, and gives back what it has taken if that does not serve, also after a panic of a
// Seek of the program.
func (j *job) takeAll() (moved bool, err error) {
	serves := false
	defer func() {
		if !serves {
			err = refusal.Join(err, j.giveBack(0))
		}
	}()
	moved, err = j.take()
	serves = err == nil && !moved
	return moved, err
}

// take takes the ranges of the files, if the number of elements is known. moved reports
// whether a file has fewer elements after the range than it had when the job was made.
func (j *job) take() (moved bool, err error) {
	if j.total == endless || j.total == 0 {
		return false, nil
	}
	for p := range j.all {
		if p.seek == nil || p.taken != 0 {
			continue
		}
		size := 0
		for o := range j.all {
			if o.sameFile(p) || o == p {
				size = max(size, o.size)
			}
		}
		if int64(j.total) > (math.MaxInt64-p.base)/int64(size) {
			return false, refusal.Invalid("%d elements of %d bytes are more than a file can have", j.total, size)
		}
		bytes := int64(j.total) * int64(size)
		at, err := filerange.Take(p.seek, bytes)
		if err != nil {
			return false, fmt.Errorf("take %s of a file: %w", refusal.Size(uintptr(bytes)), err)
		}
		for o := range j.all {
			if o.sameFile(p) || o == p {
				o.base, o.taken = at, at+bytes
				moved = moved || o.readAt != nil && o.offset(j.total) > o.last
			}
		}
	}
	return moved, nil
}

// tookChunk notes that an output whose number of elements is not known has taken some bytes.
func (p *endpoint) tookChunk(at, bytes int64) {
	if p.taken == 0 {
		p.base, p.taken = at, at
	}
	p.apart = p.apart || at != p.taken
	p.taken = at + bytes
}

// giveBack gives back what was taken of the files after n elements.
func (j *job) giveBack(n int) error {
	var all []error
	for p := range j.all {
		if p.taken != 0 && !p.apart {
			all = append(all, filerange.GiveBack(p.seek, p.taken, p.offset(n)))
		}
	}
	return refusal.Join(all...)
}

// offset returns where an element begins in a file, in bytes.
func (p *endpoint) offset(element int) int64 { return p.base + int64(element)*int64(p.size) }

// takeOutputs finds where the chunk belongs in the outputs that are files.
func (c *inflightChunk) takeOutputs(ctx context.Context) bool {
	j := c.run.job
	for i := range c.outs {
		p, b := &j.out[i], &c.outs[i]
		switch {
		case p.writeAt == nil:
		case j.total != endless:
			b.at = p.offset(c.chunk.First)
		default:
			at, bytes, seek := int64(0), int64(c.chunk.Len)*int64(p.size), p.seek
			err := c.call(ctx, func() (err error) { at, err = filerange.Take(seek, bytes); return err })
			if err != nil {
				return c.fail(fmt.Sprintf("write output %d", i), err)
			}
			p.tookChunk(at, bytes)
			b.at = at
		}
	}
	return true
}
