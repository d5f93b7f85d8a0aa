// Package linkimage is the format of what the software GPU's linker makes, where a linker of hardware
// makes machine code:
//
//	a line that names the format, most registers of a thread, number of inputs, then for each
//	input the length of its name, the name, the length of its PTX, the PTX
//
// All numbers are unsigned varints. The inputs are linked again when the image is loaded. So an image
// is bytes like any other: a program can keep it in a file.
package linkimage

import (
	"bytes"
	"encoding/binary"
)

// Magic is how images begin. A letter and the end of the line follow: 1, or p for an image that is
// linked without optimisation.
const Magic = "\x00ferry linked PTX "

// HeaderBytes is the length of the line.
const HeaderBytes = len(Magic) + len("1\n")

// Image is the contents of an image.
type Image struct {
	Plain        bool // without optimisation
	MaxRegisters uint64
	Inputs       []Input
}

// Input is PTX that was linked.
type Input struct {
	Name string
	Text []byte
}

// Is reports whether b begins as an image does.
func Is(b []byte) bool {
	if len(b) < HeaderBytes || !bytes.HasPrefix(b, []byte(Magic)) {
		return false
	}
	kind := string(b[len(Magic):HeaderBytes])
	return kind == "1\n" || kind == "p\n"
}

// Encode returns the image.
func (im *Image) Encode() []byte {
	b := []byte(Magic + "1\n")
	if im.Plain {
		b[len(Magic)] = 'p'
	}
	b = binary.AppendUvarint(b, im.MaxRegisters)
	b = binary.AppendUvarint(b, uint64(len(im.Inputs)))
	for _, in := range im.Inputs {
		b = append(binary.AppendUvarint(b, uint64(len(in.Name))), in.Name...)
		b = append(binary.AppendUvarint(b, uint64(len(in.Text))), in.Text...)
	}
	return b
}

// Decode returns the contents of b, or false if it is no whole image. The PTX shares memory with b.
func Decode(b []byte) (*Image, bool) {
	if !Is(b) {
		return nil, false
	}
	r := &reader{rest: b[HeaderBytes:]}
	im := &Image{Plain: b[len(Magic)] == 'p', MaxRegisters: r.number()}
	n := r.number()
	for i := uint64(0); i < n && !r.bad; i++ {
		im.Inputs = append(im.Inputs, Input{string(r.bytes()), r.bytes()})
	}
	return im, !r.bad && len(r.rest) == 0
}

// reader reads an image. After an error it reads zeros.
type reader struct {
	rest []byte
	bad  bool
}

func (r *reader) number() uint64 {
	v, n := binary.Uvarint(r.rest)
	if n <= 0 {
		r.bad, r.rest = true, nil
		return 0
	}
	r.rest = r.rest[n:]
	return v
}

func (r *reader) bytes() []byte {
	n := r.number()
	if n > uint64(len(r.rest)) {
		r.bad, r.rest = true, nil
		return nil
	}
	b := r.rest[:n]
	r.rest = r.rest[n:]
	return b
}
