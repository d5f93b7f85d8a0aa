// Package dltest writes shared libraries for tests, without a C compiler: libraries with
// functions that return a number, and libraries that a loader refuses. They stand for a
// driver, a stub, and a broken installation.
package dltest

import (
	"bytes"
	"encoding/binary"
	"os"
	"path/filepath"
	"runtime"
	"testing"
)

// Library is a shared library for Linux.
type Library struct {
	Needed    string // the name of a library that it needs, or ""
	Machine   uint16 // the number of the processor in the ELF header; 0 is that of this program
	Functions []Function
}

// Function is a C function. It stores 32-bit numbers where its first pointers point, and
// returns a number.
type Function struct {
	Name   string
	Stores []int32 // at most three
	Result int32
}

// Driver is a library that starts as a CUDA driver of a version, and has no device.
func Driver(version int32) *Library {
	return &Library{Functions: []Function{
		{Name: "cuInit"},
		{Name: "cuDriverGetVersion", Stores: []int32{version}},
		{Name: "cuDeviceGetCount", Stores: []int32{0}},
	}}
}

// Failing is a driver whose functions return a result.
func Failing(result int32) *Library {
	return &Library{Functions: []Function{{Name: "cuInit", Result: result}, {Name: "cuDriverGetVersion", Result: result}}}
}

// Write writes the library to a new file, and returns the path.
func (l *Library) Write(t testing.TB, dir, name string) string {
	t.Helper()
	path := filepath.Join(dir, name)
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, l.Bytes(), 0o755); err != nil {
		t.Fatal(err)
	}
	return path
}

// Sizes and places in the file. The code stands in the first segment and the tables that
// the loader writes in the second, whose place suits every size of a page.
const (
	headerSize  = 64
	segmentSize = 56
	segments    = 4
	symbolSize  = 24
	tablesAt    = 1 << 16
)

// Bytes returns the file.
func (l *Library) Bytes() []byte {
	code, at := l.code()
	names, nameAt := l.names()
	symbols := make([]byte, symbolSize)
	for i := range l.Functions {
		// A global function of section 1, which need not exist.
		symbols = pack(symbols, uint32(nameAt[i]), byte(0x12), byte(0), uint16(1), uint64(headerSize+segments*segmentSize+at[i]), uint64(16))
	}
	count := uint32(len(l.Functions) + 1)
	hash := pack(nil, uint32(1), count, uint32(min(1, len(l.Functions)))) // one bucket, whose chain has all
	for i := range count {
		next := i + 1
		if i == 0 || next == count {
			next = 0
		}
		hash = pack(hash, next)
	}
	symbolsAt := uint64(tablesAt)
	hashAt := symbolsAt + uint64(len(symbols))
	namesAt := hashAt + uint64(len(hash))
	dynamicAt := (namesAt + uint64(len(names)) + 15) &^ 15
	var dynamic []byte
	if l.Needed != "" {
		dynamic = pack(dynamic, uint64(1), uint64(nameAt[len(l.Functions)]))
	}
	dynamic = pack(dynamic, uint64(4), hashAt, uint64(5), namesAt, uint64(6), symbolsAt,
		uint64(10), uint64(len(names)), uint64(11), uint64(symbolSize), uint64(0), uint64(0))
	file := l.header()
	end := dynamicAt + uint64(len(dynamic))
	file = segment(file, 1, 5, 0, uint64(headerSize+segments*segmentSize+len(code)), tablesAt)
	file = segment(file, 1, 6, tablesAt, end-tablesAt, tablesAt)
	file = segment(file, 2, 6, dynamicAt, uint64(len(dynamic)), 8)
	file = segment(file, 0x6474e551, 6, 0, 0, 16) // the stack is not executable
	file = append(file, code...)
	file = append(pad(file, tablesAt), symbols...)
	file = append(append(file, hash...), names...)
	return append(pad(file, int(dynamicAt)), dynamic...)
}

// header returns the header of the ELF file.
func (l *Library) header() []byte {
	machine := l.Machine
	if machine == 0 {
		machine = map[string]uint16{"amd64": 62, "arm64": 183}[runtime.GOARCH]
	}
	file := append([]byte("\x7fELF\x02\x01\x01"), make([]byte, 9)...)
	return pack(file, uint16(3), machine, uint32(1), uint64(0), uint64(headerSize), uint64(0), uint32(0),
		uint16(headerSize), uint16(segmentSize), uint16(segments), uint16(64), uint16(0), uint16(0))
}

// segment appends the entry of a segment, whose address is its place in the file.
func segment(file []byte, kind, flags uint32, at, size, align uint64) []byte {
	return pack(file, kind, flags, at, at, at, size, size, align)
}

// names returns the table of names, and where the name of each function is. The last is
// that of the needed library.
func (l *Library) names() (table []byte, at []int) {
	table = []byte{0}
	for _, f := range l.Functions {
		at = append(at, len(table))
		table = append(append(table, f.Name...), 0)
	}
	return append(append(table, l.Needed...), 0), append(at, len(table))
}

// code returns the instructions, and where those of each function begin.
func (l *Library) code() (code []byte, at []int) {
	for _, f := range l.Functions {
		at = append(at, len(code))
		if runtime.GOARCH == "arm64" {
			code = f.arm64(code)
		} else {
			code = f.amd64(code)
		}
		code = pad(code, (len(code)+15)&^15)
	}
	return code, at
}

func (f *Function) amd64(code []byte) []byte {
	for i, value := range f.Stores {
		code = pack(code, byte(0xc7), []byte{0x07, 0x06, 0x02}[i], value) // mov dword [rdi|rsi|rdx], value
	}
	return pack(code, byte(0xb8), f.Result, byte(0xc3)) // mov eax, result; ret
}

func (f *Function) arm64(code []byte) []byte {
	set := func(register uint32, value int32) { // movz, movk
		code = pack(code, 0x52800000|uint32(value)&0xffff<<5|register, 0x72a00000|uint32(value)>>16<<5|register)
	}
	for i, value := range f.Stores {
		set(9, value)
		code = pack(code, 0xb9000000|uint32(i)<<5|9) // str w9, [xi]
	}
	set(0, f.Result)
	return pack(code, uint32(0xd65f03c0)) // ret
}

// pack appends values as the processor has them.
func pack(to []byte, values ...any) []byte {
	b := bytes.NewBuffer(to)
	for _, v := range values {
		_ = binary.Write(b, binary.LittleEndian, v) // a bytes.Buffer returns no error
	}
	return b.Bytes()
}

// pad appends zeros up to a length.
func pad(to []byte, length int) []byte { return append(to, make([]byte, length-len(to))...) }
