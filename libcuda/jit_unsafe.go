package libcuda

import (
	"runtime"
	"sync"
	"unsafe"

	"github.com/ferrygpu/ferry/cu"
)

// Unsafe: The driver keeps the addresses of the log buffers until the compilation ends:
// they are pinned until release.

// jitOptions is the memory of one compilation or link: the arrays that C reads, and the
// buffers of the logs that it writes. The driver keeps the addresses of the buffers until
// the compilation or link ends. pins keeps the buffers at their addresses.
type jitOptions struct {
	names      []cu.JITOption
	values     []uintptr // each is a number, or an address in info or fail
	info, fail []byte
	pins       runtime.Pinner
}

// newJITOptions returns the options as C takes them. release frees their memory.
func newJITOptions(o *cu.JITOptions) *jitOptions {
	if o == nil {
		o = new(cu.JITOptions)
	}
	j := &jitOptions{info: logBuffer(o.InfoLogBytes), fail: logBuffer(o.ErrorLogBytes)}
	j.pins.Pin(&j.info[0])
	j.pins.Pin(&j.fail[0])
	j.add(cu.JITInfoLogBuffer, uintptr(unsafe.Pointer(&j.info[0])))
	j.add(cu.JITInfoLogBufferSizeBytes, uintptr(len(j.info)))
	j.add(cu.JITErrorLogBuffer, uintptr(unsafe.Pointer(&j.fail[0])))
	j.add(cu.JITErrorLogBufferSizeBytes, uintptr(len(j.fail)))
	if o.MaxRegisters != 0 {
		j.add(cu.JITMaxRegisters, uintptr(o.MaxRegisters))
	}
	if o.OptimizationLevel != nil {
		j.add(cu.JITOptimizationLevel, uintptr(*o.OptimizationLevel))
	}
	j.addFlag(cu.JITGenerateDebugInfo, o.DebugInfo)
	j.addFlag(cu.JITGenerateLineInfo, o.LineInfo)
	j.addFlag(cu.JITLogVerbose, o.Verbose)
	j.pins.Pin(&j.names[0])
	j.pins.Pin(&j.values[0])
	return j
}

// logBuffer returns the buffer of a log, which has at least the byte for the final zero.
func logBuffer(bytes uint32) []byte {
	if bytes == 0 {
		bytes = cu.DefaultLogBytes
	}
	return make([]byte, bytes)
}

func (j *jitOptions) add(name cu.JITOption, value uintptr) {
	j.names, j.values = append(j.names, name), append(j.values, value)
}

func (j *jitOptions) addFlag(name cu.JITOption, set bool) {
	if set {
		j.add(name, 1)
	}
}

func (j *jitOptions) release() { j.pins.Unpin() }

// failed returns the error of a failed compilation or link: a [cu.JITError] if there is
// a log. op is what failed, "" for the compilation of PTX.
func (j *jitOptions) failed(err error, op string) error {
	code, ok := isResult(err)
	log := goString(j.fail)
	if log == "" {
		log = goString(j.info)
	}
	if !ok || log == "" {
		return err
	}
	return &cu.JITError{Result: code, Log: log, Op: op}
}

// ModuleLoadData calls cuModuleLoadDataEx; see [cu.Modules].
func (d *Driver) ModuleLoadData(ctx cu.Context, image []byte) (module cu.Module, err error) {
	module, _, err = d.ModuleLoadDataEx(ctx, image, nil)
	return module, err
}

// ModuleLoadDataEx calls cuModuleLoadDataEx; see [cu.Modules]. It copies the image and
// appends a zero byte, which text needs and binaries ignore.
func (d *Driver) ModuleLoadDataEx(ctx cu.Context, image []byte, options *cu.JITOptions) (module cu.Module, log string, err error) {
	if len(image) == 0 {
		return 0, "", cu.ErrorInvalidImage
	}
	text := make([]byte, len(image)+1)
	copy(text, image)
	j := newJITOptions(options)
	defer j.release()
	err = d.bound6(procModuleLoadDataEx, ctx, uintptr(unsafe.Pointer(&module)), uintptr(unsafe.Pointer(&text[0])),
		uintptr(len(j.names)), uintptr(unsafe.Pointer(&j.names[0])), uintptr(unsafe.Pointer(&j.values[0])), 0)
	if err != nil {
		return 0, "", j.failed(err, "")
	}
	return module, goString(j.info), nil
}

// links has the options of the links in progress, because the driver writes to their logs
// until the link is destroyed. It is no part of a Driver: a link that is never destroyed stays,
// and the garbage collector ends a process in which it finds pinned memory that is not used.
var links = linkTable{live: map[liveLink]*jitOptions{}}

type linkTable struct {
	mu   sync.Mutex
	live map[liveLink]*jitOptions
}

type liveLink struct {
	d    *Driver
	link cu.LinkState
}

// add adds a new link. The link that had its handle before ended with its context.
func (t *linkTable) add(l liveLink, j *jitOptions) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if old := t.live[l]; old != nil {
		old.release()
	}
	t.live[l] = j
}

// restore adds a link that could not be destroyed. If its handle has a new link by now, the old
// one has ended.
func (t *linkTable) restore(l liveLink, j *jitOptions) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.live[l] != nil {
		j.release()
		return
	}
	t.live[l] = j
}

// find returns the options of a link, nil if there is no such link.
func (t *linkTable) find(l liveLink) *jitOptions {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.live[l]
}

// remove returns the options of a link and forgets it.
func (t *linkTable) remove(l liveLink) *jitOptions {
	t.mu.Lock()
	defer t.mu.Unlock()
	j := t.live[l]
	delete(t.live, l)
	return j
}

// linkOp is the operation in errors of the linker.
const linkOp = "link"

// LinkCreate calls cuLinkCreate; see [cu.Linking].
func (d *Driver) LinkCreate(ctx cu.Context, options *cu.JITOptions) (link cu.LinkState, err error) {
	j := newJITOptions(options)
	err = d.bound6(procLinkCreate, ctx, uintptr(len(j.names)), uintptr(unsafe.Pointer(&j.names[0])),
		uintptr(unsafe.Pointer(&j.values[0])), uintptr(unsafe.Pointer(&link)), 0, 0)
	if err != nil {
		j.release()
		return 0, j.failed(err, linkOp)
	}
	links.add(liveLink{d, link}, j)
	return link, nil
}

// LinkAddData calls cuLinkAddData; see [cu.Linking]. It copies the data and appends a
// zero byte. The byte counts as data of PTX only, as the driver demands.
func (d *Driver) LinkAddData(ctx cu.Context, link cu.LinkState, kind cu.JITInputType, data []byte, name string) error {
	j := links.find(liveLink{d, link})
	switch {
	case j == nil:
		return cu.ErrorInvalidHandle
	case len(data) == 0:
		return cu.ErrorInvalidImage
	}
	text := make([]byte, len(data)+1)
	copy(text, data)
	size := len(data)
	if kind == cu.JITInputPTX {
		size++
	}
	label := append([]byte(name), 0)
	err := d.bound11(procLinkAddData, ctx, uintptr(link), uintptr(kind), uintptr(unsafe.Pointer(&text[0])), uintptr(size),
		uintptr(unsafe.Pointer(&label[0])), 0, 0, 0, 0, 0, 0)
	runtime.KeepAlive(j)
	if err != nil {
		return j.failed(err, linkOp+" "+name)
	}
	return nil
}

// LinkComplete calls cuLinkComplete; see [cu.Linking]. The driver owns the image until
// the link is destroyed, so it is copied.
func (d *Driver) LinkComplete(ctx cu.Context, link cu.LinkState) (image []byte, log string, err error) {
	j := links.find(liveLink{d, link})
	if j == nil {
		return nil, "", cu.ErrorInvalidHandle
	}
	var at unsafe.Pointer
	var size uintptr
	err = d.bound3(procLinkComplete, ctx, uintptr(link), uintptr(unsafe.Pointer(&at)), uintptr(unsafe.Pointer(&size)))
	runtime.KeepAlive(j)
	if err != nil {
		return nil, "", j.failed(err, linkOp)
	}
	return append([]byte(nil), unsafe.Slice((*byte)(at), size)...), goString(j.info), nil
}

// LinkDestroy calls cuLinkDestroy; see [cu.Linking]. After an error the link can be destroyed again.
func (d *Driver) LinkDestroy(ctx cu.Context, link cu.LinkState) error {
	l := liveLink{d, link}
	j := links.remove(l)
	if j == nil {
		return cu.ErrorInvalidHandle
	}
	if err := d.bound1(procLinkDestroy, ctx, uintptr(link)); err != nil {
		links.restore(l, j)
		return err
	}
	j.release()
	return nil
}
