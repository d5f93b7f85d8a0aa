package runner

import (
	"fmt"
	"io"
	"math"
	"os"

	"github.com/ferrygpu/ferry/internal/workers"
)

// source generates the bytes of an argument chunk by chunk, so that a buffer can be
// larger than the host's memory.
type source struct {
	arg   *Arg
	next  int      // the next element
	state uint64   // fromRandom
	file  *os.File // fromFile
}

// open returns a source that begins at the first element. parameter is the argument's
// number. It makes two random buffers of one run different.
func (a *Arg) open(seed uint64, parameter int) (*source, error) {
	s := &source{arg: a, state: mix(seed + gamma*uint64(parameter+1))}
	if a.from != fromFile {
		return s, nil
	}
	var err error
	if s.file, err = os.Open(a.path); err != nil {
		return nil, fmt.Errorf("argument %q: %w", a.Text, err)
	}
	return s, nil
}

// Generate returns the bytes of an argument. parameter is the argument's number, from 0.
func (a *Arg) Generate(seed uint64, parameter int) ([]byte, error) {
	n, err := a.Size()
	if err != nil {
		return nil, err
	}
	src, err := a.open(seed, parameter)
	if err != nil {
		return nil, err
	}
	defer src.close()
	data := make([]byte, n)
	return data, src.read(data)
}

func (s *source) close() {
	if s.file != nil {
		_ = s.file.Close() // the file was only read
	}
}

// read fills data, which holds whole elements, with the next bytes.
func (s *source) read(data []byte) error {
	a, first := s.arg, s.next
	n := len(data) / a.Type.Size()
	s.next += n
	switch a.from {
	case fromValues:
		copy(data, a.values[first*a.Type.Size():])
	case fromFile:
		if got, err := io.ReadFull(s.file, data); err != nil {
			return fmt.Errorf("argument %q: read %s: %d bytes from byte %d on, not %d: %w",
				a.Text, a.path, got, first*a.Type.Size(), len(data), err)
		}
	case fromZeros:
		clear(data)
	case fromIota:
		workers.For(n, func(i, end int) { fillIota(data, a.Type, first, i, end) })
	case fromRandom, fromWhole:
		if a.limits != nil {
			workers.For(n, func(i, end int) {
				a.limits.fill(data, a.Type, a.from == fromWhole, s.state+gamma*uint64(first), i, end)
			})
			break
		}
		workers.For(n, func(i, end int) { fillRandom(data, a.Type, s.state+gamma*uint64(first), i, end) })
	}
	return nil
}

// Size returns the length of the buffer, or of the scalar, in bytes. For a file it asks the file system.
func (a *Arg) Size() (int, error) {
	if a.from != fromFile {
		return a.count * a.Type.Size(), nil
	}
	info, err := os.Stat(a.path)
	if err != nil {
		return 0, fmt.Errorf("argument %q: %w", a.Text, err)
	}
	size := info.Size()
	switch {
	case !info.Mode().IsRegular():
		return 0, fmt.Errorf("argument %q: %s is not a regular file", a.Text, a.path)
	case size == 0:
		return 0, fmt.Errorf("argument %q: %s is empty; an argument has at least 1 byte", a.Text, a.path)
	case size%int64(a.Type.Size()) != 0:
		return 0, fmt.Errorf("argument %q: %s has %d bytes, not a multiple of the %d of a %s",
			a.Text, a.path, size, a.Type.Size(), a.Type)
	case size > math.MaxInt:
		return 0, fmt.Errorf("argument %q: %s has %d bytes, more than this process can address", a.Text, a.path, size)
	}
	return int(size), nil
}

// fillIota writes base, base+1, ... Integers wrap around, floats round to nearest.
func fillIota(data []byte, t Type, base, first, end int) {
	switch t {
	case F16:
		for i := first; i < end; i++ {
			PutElement(data, F16, i, uint64(halfLayout.narrow(float64(base+i))))
		}
	case BF16:
		for i := first; i < end; i++ {
			PutElement(data, BF16, i, uint64(brainLayout.narrow(float64(base+i))))
		}
	case F32:
		for i := first; i < end; i++ {
			PutElement(data, F32, i, uint64(math.Float32bits(float32(base+i))))
		}
	case F64:
		for i := first; i < end; i++ {
			PutElement(data, F64, i, math.Float64bits(float64(base+i)))
		}
	default:
		for i := first; i < end; i++ {
			PutElement(data, t, i, uint64(base+i))
		}
	}
}

// gamma and mix define SplitMix64. Number i, from 0, of the generator with state s is
// mix(s + gamma*(i+1)). The state of the buffer for parameter p is
// mix(seed + gamma*(p+1)). No number depends on the number before, so goroutines can
// generate parts of a buffer concurrently.
const gamma = 0x9e3779b97f4a7c15

func mix(z uint64) uint64 {
	z = (z ^ z>>30) * 0xbf58476d1ce4e5b9
	z = (z ^ z>>27) * 0x94d049bb133111eb
	return z ^ z>>31
}

// fillRandom writes numbers from the top bits of the generator's numbers. Integers and
// bit patterns cover the whole range. Floats are k/2^p below 1, where p is the precision
// of the type, so that each is exact. The precision is 11 for f16, 8 for bf16, 24 for
// f32, 53 for f64.
func fillRandom(data []byte, t Type, state uint64, first, end int) {
	z := state + gamma*uint64(first)
	switch t {
	case F16:
		for i := first; i < end; i++ {
			z += gamma
			PutElement(data, F16, i, uint64(halfLayout.narrow(float64(mix(z)>>53)/(1<<11))))
		}
	case BF16:
		for i := first; i < end; i++ {
			z += gamma
			PutElement(data, BF16, i, uint64(brainLayout.narrow(float64(mix(z)>>56)/(1<<8))))
		}
	case F32:
		for i := first; i < end; i++ {
			z += gamma
			PutElement(data, F32, i, uint64(math.Float32bits(float32(mix(z)>>40)/(1<<24))))
		}
	case F64:
		for i := first; i < end; i++ {
			z += gamma
			PutElement(data, F64, i, math.Float64bits(float64(mix(z)>>11)/(1<<53)))
		}
	default:
		unused := 64 - 8*t.Size()
		for i := first; i < end; i++ {
			z += gamma
			PutElement(data, t, i, mix(z)>>unused)
		}
	}
}
