package entry

import (
	"encoding/binary"
	"errors"
	"os"
	"runtime"
	"sync"
	"time"
	"unsafe"

	"github.com/ferrygpu/ferry/cu"
	"github.com/ferrygpu/ferry/internal/linkimage"
)

// Unsafe: Images have no length in C. Their headers, or the zero byte behind text, say how much
// memory of the program is read. Buffers of logs are the program's, which keeps them as the manual
// demands.

// Beginnings of images.
const (
	magicFatbin  = 0xba55ed50
	magicWrapper = 0x466243b1 // what nvcc puts around a fatbin in a program
	magicELF     = 0x464c457f
)

// image returns the bytes of an image of PTX, a fatbin or machine code.
func image(p unsafe.Pointer) ([]byte, error) {
	if isNull(p) {
		return nil, cu.ErrorInvalidValue
	}
	first := unsafe.Slice((*byte)(p), 1)
	if first[0] == 0 {
		if n := sizeOfLinked(p); n > 0 {
			return list[byte](p, n), nil
		}
	}
	if first[0] != 0x50 && first[0] != 0xb1 && first[0] != 0x7f {
		return text(p), nil
	}
	switch binary.LittleEndian.Uint32(unsafe.Slice((*byte)(p), 4)) {
	case magicWrapper:
		return image(pointerAt((*uint64)(unsafe.Add(p, 8))))
	case magicFatbin:
		header := unsafe.Slice((*byte)(p), 16)
		return list[byte](p, uint64(binary.LittleEndian.Uint16(header[6:]))+binary.LittleEndian.Uint64(header[8:])), nil
	case magicELF:
		return list[byte](p, sizeOfELF(unsafe.Slice((*byte)(p), 64))), nil
	}
	return text(p), nil
}

// text returns the bytes before a zero byte.
func text(p unsafe.Pointer) []byte {
	n := 0
	for *(*byte)(unsafe.Add(p, n)) != 0 {
		n++
	}
	return unsafe.Slice((*byte)(p), n)
}

// sizeOfLinked returns the size of an image of the linker, or 0 if it is none.
func sizeOfLinked(p unsafe.Pointer) uint64 {
	n := 0
	for ; n < len(linkimage.Magic); n++ {
		if *(*byte)(unsafe.Add(p, n)) != linkimage.Magic[n] {
			return 0
		}
	}
	n = linkimage.HeaderBytes
	number := func() (v uint64) {
		for shift := 0; shift < 64; shift += 7 {
			b := *(*byte)(unsafe.Add(p, n))
			n++
			if v |= uint64(b&0x7f) << shift; b < 0x80 {
				break
			}
		}
		return min(v, most)
	}
	number()                 // of registers
	for range 2 * number() { // a name and a text of each input
		n += int(number())
	}
	return uint64(n)
}

// sizeOfELF returns where the last of the tables of a file ends, which linkers put at its end.
func sizeOfELF(header []byte) uint64 {
	word, half := binary.LittleEndian.Uint64, binary.LittleEndian.Uint16
	programs := word(header[32:]) + uint64(half(header[54:]))*uint64(half(header[56:]))
	sections := word(header[40:]) + uint64(half(header[58:]))*uint64(half(header[60:]))
	return max(programs, sections, uint64(len(header)))
}

// jit is what a program asks of the compiler, and where it wants the logs.
type jit struct {
	cu.JITOptions
	info, fail         unsafe.Pointer // buffers, or nil
	infoBytes          *uint64        // their sizes in the program's list, which become the bytes of the logs
	failBytes          *uint64
	infoRoom, failRoom uint32
	wall               *uint64 // becomes the time of the compiler, or nil
}

// wallTime is CU_JIT_WALL_TIME, a result: milliseconds as a float in the first bytes of the value.
// CU_JIT_THREADS_PER_BLOCK is one too: code for blocks of every size is for those of the value.
const wallTime cu.JITOption = 2

// spent gives the program the time since start.
func (j *jit) spent(start time.Time) {
	if j.wall != nil {
		*(*float32)(unsafe.Pointer(j.wall)) = float32(time.Since(start).Seconds() * 1000)
	}
}

// number is the value of an option that is a number.
func number(v *uint64) uint32 { return uint32(*v) }

// newJIT reads the options of a program. Those that cannot change what the software GPU does are
// ignored, as a driver ignores what its compiler has no use for.
func newJIT(count uint64, names, values unsafe.Pointer) (*jit, error) {
	j := new(jit)
	if count == 0 {
		return j, nil
	}
	options, at := list[cu.JITOption](names, count), list[uint64](values, count)
	if options == nil || at == nil {
		return nil, cu.ErrorInvalidValue
	}
	for i, o := range options {
		v := &at[i]
		switch o {
		case cu.JITMaxRegisters:
			j.MaxRegisters = number(v)
		case wallTime:
			j.wall = v
		case cu.JITInfoLogBuffer:
			j.info = pointerAt(v)
		case cu.JITInfoLogBufferSizeBytes:
			j.infoBytes, j.infoRoom = v, number(v)
		case cu.JITErrorLogBuffer:
			j.fail = pointerAt(v)
		case cu.JITErrorLogBufferSizeBytes:
			j.failBytes, j.failRoom = v, number(v)
		case cu.JITOptimizationLevel:
			level := number(v)
			j.OptimizationLevel = &level
		case cu.JITGenerateDebugInfo:
			j.DebugInfo = number(v) != 0
		case cu.JITLogVerbose:
			j.Verbose = number(v) != 0
		case cu.JITGenerateLineInfo:
			j.LineInfo = number(v) != 0
		}
	}
	j.InfoLogBytes, j.ErrorLogBytes = j.infoRoom, j.failRoom
	return j, nil
}

// report writes the logs to the buffers of the program.
func (j *jit) report(log string, err error) {
	failed := ""
	if e, ok := errors.AsType[*cu.JITError](err); ok {
		failed = e.Log
	}
	write := func(to unsafe.Pointer, room uint32, bytes *uint64, log string) {
		if isNull(to) || room == 0 {
			return
		}
		_ = put(to, int32(min(room, 1<<30)), log)
		if bytes != nil {
			*bytes = uint64(min(len(log), int(room)-1))
		}
	}
	write(j.info, j.infoRoom, j.infoBytes, log)
	write(j.fail, j.failRoom, j.failBytes, failed)
}

// load loads an image.
func load(d cu.Driver, ctx cu.Context, code []byte, j *jit) (cu.Module, error) {
	start := time.Now()
	module, log, err := d.ModuleLoadDataEx(ctx, code, &j.JITOptions)
	j.spent(start)
	j.report(log, err)
	if err == nil {
		keep(d, module, code)
	}
	return module, err
}

//c:call cuModuleLoadDataEx (*ptr module, ptr image, u32 count, ptr options, ptr values)
func moduleLoadDataEx(d cu.Driver, f *Frame) error {
	code, err := image(f.pointer(0))
	if err != nil {
		return err
	}
	j, err := newJIT(f.In[1], f.pointer(2), f.pointer(3))
	if err != nil {
		return err
	}
	module, err := load(d, cu.Context(f.Ctx), code, j)
	f.Out[0] = uint64(module)
	return err
}

// moduleLoadData loads an image without options.
func moduleLoadData(d cu.Driver, f *Frame) error {
	code, err := image(f.pointer(0))
	if err != nil {
		return err
	}
	module, err := load(d, cu.Context(f.Ctx), code, new(jit))
	f.Out[0] = uint64(module)
	return err
}

//c:call cuModuleLoadData (*ptr module, ptr image)
func moduleLoadImage(d cu.Driver, f *Frame) error { return moduleLoadData(d, f) }

//c:call cuModuleLoadFatBinary (*ptr module, ptr image)
func moduleLoadFatbin(d cu.Driver, f *Frame) error { return moduleLoadData(d, f) }

//c:call cuModuleLoad (*ptr module, str name)
func moduleLoadFile(d cu.Driver, f *Frame) error {
	code, err := os.ReadFile(f.text(0))
	if err != nil {
		return errors.Join(err, cu.ErrorFileNotFound)
	}
	module, err := load(d, cu.Context(f.Ctx), code, new(jit))
	f.Out[0] = uint64(module)
	return err
}

//c:call cuModuleUnload (ptr module)
func moduleUnload(d cu.Driver, f *Frame) error {
	err := d.ModuleUnload(cu.Context(f.Ctx), cu.Module(f.In[0]))
	if err == nil {
		forget(cu.Module(f.In[0]))
	}
	return err
}

// eagerLoading is CU_MODULE_EAGER_LOADING.
const eagerLoading = 1

//c:call cuModuleGetLoadingMode (*u32 mode)
func moduleLoadingMode(_ cu.Driver, f *Frame) error {
	f.Out[0] = eagerLoading
	return nil
}

// links keeps, for each link, where its logs go and the image that it made.
var links = struct {
	sync.Mutex
	live map[cu.LinkState]*linked
}{live: map[cu.LinkState]*linked{}}

type linked struct {
	*jit
	image []byte // what linkComplete made, pinned
	pins  runtime.Pinner
}

func linkOf(link uint64) (*linked, error) {
	links.Lock()
	defer links.Unlock()
	if l := links.live[cu.LinkState(link)]; l != nil {
		return l, nil
	}
	return nil, cu.ErrorInvalidHandle
}

//c:call cuLinkCreate_v2 (u32 count, ptr options, ptr values, *ptr link)
func linkCreate(d cu.Driver, f *Frame) error {
	j, err := newJIT(f.In[0], f.pointer(1), f.pointer(2))
	if err != nil {
		return err
	}
	link, err := d.LinkCreate(cu.Context(f.Ctx), &j.JITOptions)
	if err != nil {
		return err
	}
	links.Lock()
	defer links.Unlock()
	links.live[link] = &linked{jit: j}
	f.Out[0] = uint64(link)
	return nil
}

// linkAddData adds an input. Options of a single input have no effect here.
//
//c:call cuLinkAddData_v2 (ptr link, u32 type, ptr data, size bytes, ptr name, u32 count, ptr options, ptr values)
func linkAddData(d cu.Driver, f *Frame) error {
	name := ""
	if f.In[4] != 0 {
		name = string(text(f.pointer(4)))
	}
	return addToLink(d, f, list[byte](f.pointer(2), f.In[3]), name)
}

func addToLink(d cu.Driver, f *Frame, data []byte, name string) error {
	l, err := linkOf(f.In[0])
	if err != nil {
		return err
	}
	kind := cu.JITInputType(f.In[1])
	if n := len(data); kind == cu.JITInputPTX && n > 0 && data[n-1] == 0 {
		data = data[:n-1] // C counts the zero byte behind the text
	}
	err = d.LinkAddData(cu.Context(f.Ctx), cu.LinkState(f.In[0]), kind, data, name)
	if err != nil {
		l.report("", err)
	}
	return err
}

//c:call cuLinkAddFile_v2 (ptr link, u32 type, ptr path, u32 count, ptr options, ptr values)
func linkAddFile(d cu.Driver, f *Frame) error {
	if f.In[2] == 0 {
		return cu.ErrorInvalidValue
	}
	path := string(text(f.pointer(2)))
	data, err := os.ReadFile(path)
	if err != nil {
		return errors.Join(err, cu.ErrorFileNotFound)
	}
	return addToLink(d, f, data, path)
}

// linkComplete links the inputs. The program gets the address of the image, which is pinned until the
// link is destroyed.
//
//c:call cuLinkComplete (ptr link, *ptr image, ?size bytes)
func linkComplete(d cu.Driver, f *Frame) error {
	l, err := linkOf(f.In[0])
	if err != nil {
		return err
	}
	start := time.Now()
	code, log, err := d.LinkComplete(cu.Context(f.Ctx), cu.LinkState(f.In[0]))
	l.spent(start)
	l.report(log, err)
	if err != nil {
		return err
	}
	l.image = append(code, 0)
	l.pins.Pin(&l.image[0])
	f.Out[0], f.Out[1] = uint64(uintptr(unsafe.Pointer(&l.image[0]))), uint64(len(code))
	return nil
}

//c:call cuLinkDestroy (ptr link)
func linkDestroy(d cu.Driver, f *Frame) error {
	l, err := linkOf(f.In[0])
	if err != nil {
		return err
	}
	if err = d.LinkDestroy(cu.Context(f.Ctx), cu.LinkState(f.In[0])); err == nil {
		links.Lock()
		defer links.Unlock()
		delete(links.live, cu.LinkState(f.In[0]))
		l.pins.Unpin()
	}
	return err
}
