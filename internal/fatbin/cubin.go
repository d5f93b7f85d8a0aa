package fatbin

import (
	"bytes"
	"encoding/binary"
	"fmt"
)

// machineCUDA is the machine of ELF files with code for NVIDIA GPUs (EM_CUDA).
const machineCUDA = 190

// IsELF reports whether an image begins as an ELF file, as cubins and host objects do.
func IsELF(image []byte) bool { return bytes.HasPrefix(image, []byte("\x7fELF")) }

// DescribeELF returns what an ELF file holds: "machine code for sm_90 (a cubin)".
func DescribeELF(image []byte) string {
	if len(image) < 52 || image[4] != 2 || binary.LittleEndian.Uint16(image[18:]) != machineCUDA {
		return "a program or an object for a host (ELF)"
	}
	arch := binary.LittleEndian.Uint32(image[48:]) & 0xff
	if image[8] >= 8 { // since this version of the ABI the second byte has the architecture
		arch = binary.LittleEndian.Uint32(image[48:]) >> 8 & 0xff
	}
	return fmt.Sprintf("machine code for sm_%d (a cubin)", arch)
}

// IsHostELF reports whether an image is an ELF file for a host. It may have device code in
// it, as objects of nvcc have.
func IsHostELF(image []byte) bool {
	return IsELF(image) && len(image) >= 20 && binary.LittleEndian.Uint16(image[18:]) != machineCUDA
}

// IsArchive reports whether an image begins as an archive of objects, a library.
func IsArchive(image []byte) bool { return bytes.HasPrefix(image, []byte("!<arch>\n")) }
