package dl

import (
	"encoding/binary"
	"fmt"
	"io"
	"os"
	"runtime"
)

// The numbers of processors in the header of an ELF file.
var elfMachines = map[string]uint16{"amd64": 62, "arm64": 183}

// elfHeader is how much of the header of an ELF file has its processor.
const elfHeader = 20

// otherMachine says that a library is for another processor than this program. It returns
// "" if it is not, or if that cannot be read. The loader says only that there is no file.
func otherMachine(path string) string {
	f, err := os.Open(path)
	if err != nil {
		return ""
	}
	defer f.Close()
	header := make([]byte, elfHeader)
	if _, err := io.ReadFull(f, header); err != nil || string(header[:4]) != "\x7fELF" {
		return ""
	}
	machine := binary.LittleEndian.Uint16(header[18:])
	if machine == elfMachines[runtime.GOARCH] {
		return ""
	}
	for name, number := range elfMachines {
		if number == machine {
			return fmt.Sprintf("is for %s, and this program is for %s", name, runtime.GOARCH)
		}
	}
	return fmt.Sprintf("is for another processor (ELF machine %d), and this program is for %s", machine, runtime.GOARCH)
}
