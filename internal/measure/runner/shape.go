package runner

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/ferrygpu/ferry/cu"
)

// ParseShape parses the extent of a grid or a block: X, X,Y or X,Y,Z. Each number is at
// least 1. A number that is left out is 1.
func ParseShape(text string) (cu.Dim3, error) {
	words := strings.Split(text, ",")
	if len(words) > 3 {
		return cu.Dim3{}, fmt.Errorf("%q has %d numbers; write X, X,Y or X,Y,Z", text, len(words))
	}
	extent := [3]uint32{1, 1, 1}
	for i, word := range words {
		n, err := strconv.ParseUint(strings.TrimSpace(word), 10, 32)
		if err != nil || n == 0 {
			return cu.Dim3{}, fmt.Errorf("%q: %c is %q, not a number from 1 to %d", text, "XYZ"[i], word, uint32(1<<32-1))
		}
		extent[i] = uint32(n)
	}
	return cu.Dim3{X: extent[0], Y: extent[1], Z: extent[2]}, nil
}

// ShapeText returns a shape in the form of the command line.
func ShapeText(d cu.Dim3) string {
	switch {
	case d.Z > 1:
		return fmt.Sprintf("%d,%d,%d", d.X, d.Y, d.Z)
	case d.Y > 1:
		return fmt.Sprintf("%d,%d", d.X, d.Y)
	}
	return strconv.FormatUint(uint64(d.X), 10)
}

// Memory is the kind of memory of a run's buffers.
type Memory uint8

const (
	DeviceMemory  Memory = iota // on the device; inputs and outputs are copied
	MappedMemory                // page-locked on the host; the kernel accesses it over the link
	ManagedMemory               // managed memory, which moves on demand
)

var memoryNames = [...]string{"device", "mapped", "managed"}

// String returns the word for the --memory flag.
func (m Memory) String() string { return memoryNames[m] }

// ParseMemory parses the word of the --memory flag.
func ParseMemory(word string) (Memory, error) {
	for i, name := range memoryNames {
		if word == name {
			return Memory(i), nil
		}
	}
	return 0, fmt.Errorf("%q is not a kind of memory (%s)", word, strings.Join(memoryNames[:], ", "))
}
