package compile

import (
	"bytes"
	"fmt"
	"slices"
	"sync"
	"unsafe"
)

// pointer returns an argument as a pointer.
func pointer(arg uintptr) unsafe.Pointer { return *(*unsafe.Pointer)(unsafe.Pointer(&arg)) }

func setInt(arg uintptr, v int)      { *(*int32)(pointer(arg)) = int32(v) }
func setWord(arg uintptr, v uintptr) { *(*uintptr)(pointer(arg)) = v }

// setBytes writes bytes to memory that has just enough room for them.
func setBytes(arg uintptr, b []byte) { copy(unsafe.Slice((*byte)(pointer(arg)), len(b)), b) }

// cTexts reads an array of C strings.
func cTexts(arg uintptr, n int) (all []string) {
	for i := range n {
		p := *(*uintptr)(unsafe.Add(pointer(arg), i*int(unsafe.Sizeof(arg))))
		all = append(all, longString(p))
	}
	return all
}

// longString reads a C string of any length.
func longString(arg uintptr) string {
	var b []byte
	for i := 0; ; i++ {
		c := *(*byte)(unsafe.Add(pointer(arg), i))
		if c == 0 {
			return string(b)
		}
		b = append(b, c)
	}
}

// errorText is a C string that stays in place.
var errorText = append([]byte("NVRTC_ERROR_OF_THE_TEST"), 0)

// fakeNVRTC stands for libnvrtc. It compiles nothing; it answers with its fields.
type fakeNVRTC struct {
	major, minor int
	archs        []int
	fail         map[string]int32 // results of functions
	lacks        string           // a function that it does not have
	log, ptx     string
	logSize      uintptr       // if not 0, what nvrtcGetProgramLogSize says
	hold         chan struct{} // if not nil, compiling waits for it

	mu        sync.Mutex
	source    string
	name      string
	headers   map[string]string
	options   []string
	live      map[uintptr]bool // programs that were not destroyed
	created   uintptr
	compiling int
}

func newFake() *fakeNVRTC {
	return &fakeNVRTC{major: 13, minor: 1, archs: []int{75, 80, 90, 100}, ptx: ".version 9.1\n", live: map[uintptr]bool{}}
}

// open returns the compiler with this library.
func (l *fakeNVRTC) open() (*nvrtc, error) { return newNVRTC("/fake/libnvrtc.so.13", l.call) }

func (l *fakeNVRTC) call(name string, args ...uintptr) (uintptr, error) {
	if name == l.lacks {
		return 0, fmt.Errorf("undefined symbol: %s", name)
	}
	if code, ok := l.fail[name]; ok && name != "nvrtcCompileProgram" {
		return uintptr(7)<<32 | uintptr(code), nil // only 32 bits are the result
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	switch name {
	case "nvrtcVersion":
		setInt(args[0], l.major)
		setInt(args[1], l.minor)
	case "nvrtcGetNumSupportedArchs":
		setInt(args[0], len(l.archs))
	case "nvrtcGetSupportedArchs":
		for i, a := range l.archs {
			setInt(args[0]+uintptr(4*i), a)
		}
	case "nvrtcGetErrorString":
		return uintptr(unsafe.Pointer(&errorText[0])), nil
	case "nvrtcCreateProgram":
		l.create(args)
	default:
		return l.ofProgram(name, args)
	}
	return 0, nil
}

func (l *fakeNVRTC) create(args []uintptr) {
	l.created++
	l.live[l.created] = true
	setWord(args[0], l.created)
	l.source, l.name = longString(args[1]), longString(args[2])
	texts, names := cTexts(args[4], int(args[3])), cTexts(args[5], int(args[3]))
	l.headers = map[string]string{}
	for i, name := range names {
		l.headers[name] = texts[i]
	}
}

// ofProgram does what takes a program. The lock is held.
func (l *fakeNVRTC) ofProgram(name string, args []uintptr) (uintptr, error) {
	const invalidProgram = 4
	program := args[0]
	if name == "nvrtcDestroyProgram" {
		program = *(*uintptr)(pointer(program))
	}
	if !l.live[program] {
		return invalidProgram, nil
	}
	switch name {
	case "nvrtcDestroyProgram":
		delete(l.live, program)
	case "nvrtcCompileProgram":
		l.options = cTexts(args[2], int(args[1]))
		if l.hold != nil {
			l.compiling++
			l.mu.Unlock()
			<-l.hold
			l.mu.Lock()
		}
		return uintptr(l.fail[name]), nil
	case "nvrtcGetProgramLogSize":
		setWord(args[1], max(l.logSize, uintptr(len(l.log)+1)))
	case "nvrtcGetProgramLog":
		setBytes(args[1], append([]byte(l.log), 0))
	case "nvrtcGetPTXSize":
		setWord(args[1], uintptr(len(l.ptx)+1))
	case "nvrtcGetPTX":
		setBytes(args[1], append([]byte(l.ptx), 0))
	default:
		return 0, fmt.Errorf("undefined symbol: %s", name)
	}
	return 0, nil
}

// fakeLinker stands for libnvJitLink. Its functions have the names of a version.
type fakeLinker struct {
	suffix  string // "_12_0" for __nvJitLinkCreate_12_0, or "" for nvJitLinkCreate
	fail    map[string]int32
	log     string
	cubin   string
	options []string
	inputs  []string // kind, name and data of each
	live    int
}

func (l *fakeLinker) call(name string, args ...uintptr) (uintptr, error) {
	base := name
	if l.suffix != "" {
		b, ok := bytes.CutPrefix([]byte(name), []byte("__"))
		b, versioned := bytes.CutSuffix(b, []byte(l.suffix))
		if !ok || !versioned {
			return 0, fmt.Errorf("undefined symbol: %s", name)
		}
		base = string(b)
	}
	if code, ok := l.fail[base]; ok {
		return uintptr(code), nil
	}
	switch base {
	case "nvJitLinkCreate":
		l.live++
		setWord(args[0], 77)
		l.options = cTexts(args[2], int(args[1]))
	case "nvJitLinkDestroy":
		l.live--
	case "nvJitLinkAddData":
		data := unsafe.Slice((*byte)(pointer(args[2])), args[3])
		l.inputs = append(l.inputs, fmt.Sprintf("%d %s %q", args[1], longString(args[4]), slices.Clone(data)))
	case "nvJitLinkComplete":
	case "nvJitLinkGetErrorLogSize", "nvJitLinkGetInfoLogSize":
		setWord(args[1], uintptr(len(l.log)+1))
	case "nvJitLinkGetErrorLog", "nvJitLinkGetInfoLog":
		setBytes(args[1], append([]byte(l.log), 0))
	case "nvJitLinkGetLinkedCubinSize":
		setWord(args[1], uintptr(len(l.cubin)))
	case "nvJitLinkGetLinkedCubin":
		setBytes(args[1], []byte(l.cubin))
	default:
		return 0, fmt.Errorf("undefined symbol: %s", name)
	}
	return 0, nil
}
