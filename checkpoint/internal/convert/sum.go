package convert

import "encoding/binary"

// The hash is a sum modulo 2^64 of a term for each word of 8 bytes, little-endian, and one for the
// number of bytes. Zeros follow the last word if it is short. So the words can be added in any order,
// by all threads of a GPU. A term depends on the word's position, and is another one for every other
// word there.

// mixed is a bijection: any bit of x changes each bit of the result about every other time. It is
// the last step of the random generator SplitMix64.
func mixed(x uint64) uint64 {
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}

// step is what the position adds to a word, for each word before it.
const step = 0x9e3779b97f4a7c15

// lengthTerm is what the number of bytes adds to the hash: nothing for none.
func lengthTerm(bytes uint64) uint64 { return mixed(bytes * 0xd6e8feb86659fd93) }

// Sum returns the hash of bytes that [Kernels.Hash] computes on a GPU.
func Sum(b []byte) uint64 {
	var d Digest
	d.Write(b)
	return d.Sum64()
}

// Digest computes the hash of bytes that come one after another. The zero Digest has none yet. It is
// not safe for concurrent use.
type Digest struct {
	sum   uint64  // of the whole words
	bytes uint64  // so far
	word  [8]byte // begins with the bytes%8 bytes of the last word
}

// Write adds bytes. It returns no error.
func (d *Digest) Write(b []byte) (int, error) {
	n := len(b)
	if short := int(d.bytes % 8); short > 0 {
		taken := copy(d.word[short:], b)
		d.bytes += uint64(taken)
		if b = b[taken:]; short+taken < 8 {
			return n, nil
		}
		d.sum += mixed(binary.LittleEndian.Uint64(d.word[:]) + d.bytes/8*step)
	}
	d.words(b[:len(b)/8*8])
	rest := b[len(b)/8*8:]
	d.bytes += uint64(copy(d.word[:], rest))
	return n, nil
}

// words adds whole words, where a word begins.
func (d *Digest) words(b []byte) {
	sum, at := d.sum, d.bytes/8*step
	d.bytes += uint64(len(b))
	s := uint64(step)
	for ; len(b) >= 32; b = b[32:] { // the multiplications of four words overlap
		x := mixed(binary.LittleEndian.Uint64(b) + at + s)
		y := mixed(binary.LittleEndian.Uint64(b[8:]) + at + 2*s)
		z := mixed(binary.LittleEndian.Uint64(b[16:]) + at + 3*s)
		w := mixed(binary.LittleEndian.Uint64(b[24:]) + at + 4*s)
		sum += x + y + z + w
		at += 4 * s
	}
	for ; len(b) >= 8; b = b[8:] {
		at += step
		sum += mixed(binary.LittleEndian.Uint64(b) + at)
	}
	d.sum = sum
}

// Sum64 returns the hash of all bytes so far.
func (d *Digest) Sum64() uint64 {
	sum := d.sum + lengthTerm(d.bytes)
	if short := d.bytes % 8; short > 0 {
		var word [8]byte
		copy(word[:], d.word[:short])
		sum += mixed(binary.LittleEndian.Uint64(word[:]) + (d.bytes/8+1)*step)
	}
	return sum
}
