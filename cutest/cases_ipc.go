package cutest

import (
	"encoding/hex"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/ferrygpu/ferry/cu"
)

// Cases of two processes run in both: the first starts the second, which finds in its environment what
// it needs, and takes the other part. They meet by files in a folder.

const ipcDoc = "Driver API: Memory Management, cuIpcGetMemHandle, cuIpcOpenMemHandle, cuIpcCloseMemHandle, cuIpcGetEventHandle, cuIpcOpenEventHandle"

// partnerVariable is the environment variable with what a second process needs: a folder, and
// handles.
const partnerVariable = "FERRY_CUTEST_PARTNER"

// partner is the other process.
type partner struct {
	c       *trial
	dir     string
	handles [][64]byte
	ended   chan struct{} // closed when the second process has ended
}

// first starts the second process, which gets files and handles, and data in a file. Its failure is
// one of the case. The process has ended when the case ends.
func (c *trial) first(data []byte, files []*os.File, handles ...[64]byte) *partner {
	p := &partner{c: c, dir: c.folder(), ended: make(chan struct{})}
	c.ok(os.WriteFile(filepath.Join(p.dir, "data"), data, 0o600), "write data for the second process")
	words := []string{p.dir}
	for _, h := range handles {
		words = append(words, hex.EncodeToString(h[:]))
	}
	go func() {
		defer close(p.ended)
		c.inProcess(check{id: c.id}, filepath.Join(p.dir, "result.json"), []string{partnerVariable + "=" + strings.Join(words, " ")}, files...)
	}()
	c.cleanup(p.wait)
	return p
}

// isSecond returns the first process, in the second one, and nil in the first.
func (c *trial) isSecond() *partner {
	text, ok := os.LookupEnv(partnerVariable)
	if !ok {
		return nil
	}
	words := strings.Fields(text)
	p := &partner{c: c, dir: words[0]}
	for _, word := range words[1:] {
		h, err := hex.DecodeString(word)
		c.ok(err, "handle in the environment")
		p.handles = append(p.handles, [64]byte(h))
	}
	return p
}

// wait waits for the end of the second process.
func (p *partner) wait() {
	p.c.step("the end of the second process")
	<-p.ended
}

// tell lets the other process go on from a point.
func (p *partner) tell(point string) {
	p.c.ok(os.WriteFile(filepath.Join(p.dir, point), nil, 0o600), "tell the other process")
}

// meet waits until the other process has come to a point, or has ended.
func (p *partner) meet(point string) {
	p.c.step("the other process: " + point)
	for {
		if _, err := os.Stat(filepath.Join(p.dir, point)); err == nil {
			return
		}
		select {
		case <-p.ended:
			p.c.fatal("the second process ended before %q", point)
		case <-time.After(time.Millisecond):
		}
	}
}

// data returns what the first process gave to the second.
func (p *partner) data() []byte {
	data, err := os.ReadFile(filepath.Join(p.dir, "data"))
	p.c.ok(err, "read the data")
	return data
}

// sharedHandle returns the handle of memory.
func (c *trial) sharedHandle(p cu.DevicePtr) cu.IpcMemHandle {
	h, err := c.d.IpcGetMemHandle(c.ctx, p)
	c.ok(err, "handle of memory")
	return h
}

// opened opens memory of the other process.
func (c *trial) opened(h cu.IpcMemHandle) cu.DevicePtr {
	p, err := c.d.IpcOpenMemHandle(c.ctx, h, cu.IpcMemLazyEnablePeerAccess)
	c.ok(err, "open memory")
	return p
}

func (c *trial) closeOpened(p cu.DevicePtr) { c.ok(c.d.IpcCloseMemHandle(c.ctx, p), "close memory") }

// interprocess makes an event that processes share, with its handle.
func (c *trial) interprocess() (cu.Event, cu.IpcEventHandle) {
	e := c.event(cu.EventInterprocess | cu.EventDisableTiming)
	h, err := c.d.IpcGetEventHandle(c.ctx, e)
	c.ok(err, "handle of an event")
	return e, h
}

// garbage is a handle that no driver has made.
func garbage() (h [64]byte) {
	for i := range h {
		h[i] = 0x5a
	}
	return h
}

// handleRefused are the results by which drivers refuse a handle.
var handleRefused = []cu.Result{cu.ErrorInvalidValue, cu.ErrorInvalidHandle, cu.ErrorInvalidContext, cu.ErrorMapFailed, cu.ErrorInvalidDevice, cu.ErrorNotSupported}

// ipcSizes are of memory that shares a granule with other memory, and of memory that does not.
var ipcSizes = []int{4 << 10, 3<<20 + 64}

var ipcChecks = []check{
	{"ipc/memory", "memory that another process opens by its handle is the same memory",
		ipcDoc, needIPC, func(c *trial) {
			if other := c.isSecond(); other != nil {
				for i, n := range ipcSizes {
					p := c.opened(other.handles[i])
					was := c.down(p, n)
					c.same("opened memory", was, other.data()[:n])
					c.launch(0, "inc", n/4, p, uint32(5), uint32(n/4))
					c.same("written by a kernel", c.down(p, n), plus(was, 5))
					c.ok(c.d.MemsetD8(c.ctx, p, 0x41, 8), "fill")
					c.closeOpened(p)
				}
				return
			}
			data := c.random(ipcSizes[1])
			var memory []cu.DevicePtr
			var handles [][64]byte
			for _, n := range ipcSizes {
				p := c.device(n)
				c.up(p, data[:n])
				memory, handles = append(memory, p), append(handles, c.sharedHandle(p))
			}
			c.syncAll()
			beside := c.device(4 << 10) // in the same granule as the first
			c.up(beside, data[:4<<10])
			other := c.first(data, nil, handles...)
			other.wait()
			for i, n := range ipcSizes {
				want := plus(data[:n], 5)
				copy(want, "AAAAAAAA")
				c.same("written by the other process", c.down(memory[i], n), want)
				c.launch(0, "inc", n/4, memory[i], uint32(1), uint32(n/4))
				c.same("written afterwards", c.down(memory[i], n), plus(want, 1))
			}
			c.same("memory beside", c.down(beside, 4<<10), data[:4<<10])
		}},
	{"ipc/open-again", "memory that is opened twice in a context has one address, and lives until it is closed twice",
		ipcDoc, needIPC, func(c *trial) {
			n := ipcSizes[1]
			if other := c.isSecond(); other != nil {
				p, q := c.opened(other.handles[0]), c.opened(other.handles[0])
				c.check(p == q, "addresses %#x and %#x", p, q)
				c.want(c.d.MemFree(c.ctx, p), "free opened memory", handleRefused...)
				c.closeOpened(p)
				c.uses("closed once", p, n)
				c.closeOpened(p)
				c.want(c.d.IpcCloseMemHandle(c.ctx, p), "close once more", handleRefused...)
				p = c.opened(other.handles[0])
				c.uses("opened anew", p, n)
				c.closeOpened(p)
				return
			}
			c.first(nil, nil, c.sharedHandle(c.device(n))).wait()
		}},
	{"ipc/memory-misuse", "a handle is of the start of memory of cuMemAlloc, and is for other processes",
		ipcDoc, needIPC, func(c *trial) {
			p := c.device(4 << 10)
			h := c.sharedHandle(p)
			_, err := c.d.IpcOpenMemHandle(c.ctx, h, cu.IpcMemLazyEnablePeerAccess)
			c.want(err, "open memory in the process that has it", handleRefused...)
			_, err = c.d.IpcOpenMemHandle(c.ctx, garbage(), cu.IpcMemLazyEnablePeerAccess)
			c.want(err, "open a handle that nobody made", handleRefused...)
			inside, err := c.d.IpcGetMemHandle(c.ctx, p+512)
			c.observeError("ipc.handle-of-an-address-inside", err)
			c.observe("ipc.handle-of-an-address-inside-is-of-the-start", inside == h)
			_, err = c.d.IpcGetMemHandle(c.ctx, 0)
			c.want(err, "handle of address 0", cu.ErrorInvalidValue, cu.ErrorInvalidHandle)
			_, err = c.d.IpcGetMemHandle(c.ctx, c.pinned(4<<10, cu.MemHostAllocDeviceMap).dev)
			c.want(err, "handle of page-locked memory", cu.ErrorInvalidValue, cu.ErrorInvalidHandle)
			c.want(c.d.IpcCloseMemHandle(c.ctx, p), "close memory that was not opened", handleRefused...)
			c.uses("the memory afterwards", p, 4<<10)
		}},
	{"ipc/event", "work waits for an event that another process has recorded, and an event shows when it is done",
		ipcDoc, needIPC | needMapHost, func(c *trial) {
			const n = 64 << 10
			if other := c.isSecond(); other != nil {
				p, out, s := c.opened(other.handles[0]), c.device(n), c.stream(cu.StreamNonBlocking)
				e, err := c.d.IpcOpenEventHandle(c.ctx, other.handles[1])
				c.ok(err, "open an event")
				c.want(c.d.EventQuery(c.ctx, e), "query an event that is not done", cu.ErrorNotReady)
				c.ok(c.d.StreamWaitEvent(c.ctx, s, e, 0), "wait in a stream")
				c.ok(c.d.MemcpyDtoDAsync(c.ctx, out, p, n, s), "copy behind the event")
				c.want(c.d.StreamQuery(c.ctx, s), "query a stream that waits", cu.ErrorNotReady)
				other.tell("waiting")
				c.ok(c.d.EventSynchronize(c.ctx, e), "wait for the event")
				c.ok(c.d.EventQuery(c.ctx, e), "query an event that is done")
				c.sync(s)
				c.same("copied behind the event", c.down(out, n), plus(other.data(), 3))
				c.launch(s, "inc", n/4, p, uint32(4), uint32(n/4))
				c.ok(c.d.EventRecord(c.ctx, e, s), "record it here")
				c.ok(c.d.EventSynchronize(c.ctx, e), "wait for it here")
				other.tell("recorded")
				other.meet("seen")
				c.ok(c.d.EventDestroy(c.ctx, e), "destroy the event")
				c.closeOpened(p)
				return
			}
			p, data := c.device(n), c.random(n)
			c.up(p, data)
			e, h := c.interprocess()
			handle := c.sharedHandle(p)
			g, s := c.behind(cu.StreamNonBlocking)
			g.running(s)
			c.launch(s, "inc", n/4, p, uint32(3), uint32(n/4))
			c.ok(c.d.EventRecord(c.ctx, e, s), "record")
			other := c.first(data, nil, handle, h)
			other.meet("waiting")
			g.open()
			c.ok(c.d.EventSynchronize(c.ctx, e), "wait for the event")
			other.meet("recorded")
			c.ok(c.d.EventSynchronize(c.ctx, e), "wait for the event that the other process has recorded")
			c.same("written by the other process before its event", c.down(p, n), plus(data, 7))
			other.tell("seen")
			other.wait()
			c.ok(c.d.EventRecord(c.ctx, e, s), "record once more")
			c.sync(s)
			c.ok(c.d.EventQuery(c.ctx, e), "query")
		}},
	{"ipc/event-misuse", "a handle is of an event that was made for it, and is for other processes",
		ipcDoc, needIPC, func(c *trial) {
			_, err := c.d.IpcGetEventHandle(c.ctx, c.event(cu.EventDisableTiming))
			c.want(err, "handle of an event without CU_EVENT_INTERPROCESS", cu.ErrorInvalidValue, cu.ErrorInvalidHandle)
			e, h := c.interprocess()
			_, err = c.d.IpcOpenEventHandle(c.ctx, h)
			c.want(err, "open an event in the process that has it", handleRefused...)
			_, err = c.d.IpcOpenEventHandle(c.ctx, garbage())
			c.want(err, "open a handle that nobody made", handleRefused...)
			c.ok(c.d.EventRecord(c.ctx, e, 0), "record")
			c.ok(c.d.EventSynchronize(c.ctx, e), "wait")
			c.ok(c.d.EventQuery(c.ctx, e), "query")
		}},
}
