package main

import (
	"bytes"
	"encoding/binary"
	"hash/crc32"
	"io"
	"math"
	"os"
)

// blockSize is what a warp of the kernel divides, in bytes.
const blockSize = 4096

// block is the element of the pipeline's input, so that no chunk ends within a block.
type block [blockSize]byte

// castagnoli is the polynomial of the CRC-32C. Its remainder of the bytes before, with all bits inverted, is the
// checksum.
var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// factor multiplies remainders by a power of x: it has the product for each value of each byte of a remainder.
type factor [4][]uint32

// newFactor makes the factor that a number of bytes means. It takes it from the CRC of as many zeros.
func newFactor(n int) *factor {
	f, zeros := new(factor), make([]byte, n)
	for i := range f {
		for value := range uint32(256) {
			f[i] = append(f[i], ^crc32.Update(^(value<<(8*i)), castagnoli, zeros))
		}
	}
	return f
}

// times returns the product with a remainder.
func (f *factor) times(r uint32) uint32 {
	return f[0][r&255] ^ f[1][r>>8&255] ^ f[2][r>>16&255] ^ f[3][r>>24]
}

// combiner is a writer of the remainders of blocks, in their order.
type combiner struct {
	remainder uint32 // of the blocks so far
	block     *factor
}

// newCombiner makes a combiner for no blocks.
func newCombiner() *combiner { return &combiner{math.MaxUint32, newFactor(blockSize)} }

// Write takes remainders, in the byte order of this machine.
func (c *combiner) Write(p []byte) (int, error) {
	for i := 0; i+4 <= len(p); i += 4 {
		c.remainder = c.block.times(c.remainder) ^ binary.NativeEndian.Uint32(p[i:])
	}
	return len(p), nil
}

// Sum returns the checksum of all blocks so far.
func (c *combiner) Sum() uint32 { return ^c.remainder }

// split divides a reader into whole blocks and the rest, which must be read after them. Of a file, several goroutines
// can read the blocks at once.
func split(in io.Reader) (blocks, rest io.Reader, err error) {
	if f, ok := in.(*os.File); ok {
		if info, err := f.Stat(); err == nil && info.Mode().IsRegular() {
			return splitFile(f, info.Size())
		}
	}
	r := &wholeBlocks{in: in}
	return r, &r.rest, nil
}

// splitFile divides a file behind its current offset.
func splitFile(f *os.File, size int64) (blocks, rest io.Reader, err error) {
	begin, err := f.Seek(0, io.SeekCurrent)
	if err != nil {
		return nil, nil, err
	}
	n := max(size-begin, 0) / blockSize * blockSize
	return io.NewSectionReader(f, begin, n), io.NewSectionReader(f, begin+n, math.MaxInt64-begin-n), nil
}

// wholeBlocks reads whole blocks, and keeps the rest.
type wholeBlocks struct {
	in   io.Reader
	rest bytes.Buffer
}

// Read reads whole blocks into p, which a pipeline makes as long as some blocks.
func (r *wholeBlocks) Read(p []byte) (n int, err error) {
	for n < len(p) && err == nil {
		var more int
		more, err = r.in.Read(p[n:])
		n += more
	}
	whole := n / blockSize * blockSize
	r.rest.Write(p[whole:n])
	return whole, err
}
