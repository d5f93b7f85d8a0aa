package runner

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/ferrygpu/ferry/cu"
)

// ParseShape reads the extent of a grid or a block: X, X,Y or X,Y,Z, each at
// least 1; what is left out is 1.
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

// shapeText is a shape as it is written on the command line.
func shapeText(d cu.Dim3) string {
	switch {
	case d.Z > 1:
		return fmt.Sprintf("%d,%d,%d", d.X, d.Y, d.Z)
	case d.Y > 1:
		return fmt.Sprintf("%d,%d", d.X, d.Y)
	}
	return strconv.FormatUint(uint64(d.X), 10)
}

// Memory is where the buffers of a run live.
type Memory uint8

const (
	DeviceMemory  Memory = iota // on the device; inputs and outputs are copied
	MappedMemory                // page-locked on the host; the kernel reaches over the link
	ManagedMemory               // moves to where it is used
)

var memoryNames = [...]string{"device", "mapped", "managed"}

// String is the word of the --memory flag.
func (m Memory) String() string { return memoryNames[m] }

// ParseMemory reads the word of the --memory flag.
func ParseMemory(word string) (Memory, error) {
	for i, name := range memoryNames {
		if word == name {
			return Memory(i), nil
		}
	}
	return 0, fmt.Errorf("%q is not a kind of memory (%s)", word, strings.Join(memoryNames[:], ", "))
}
