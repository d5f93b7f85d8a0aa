package api

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"sync"
	"syscall"
	"testing"

	"github.com/ferrygpu/ferry"
	"github.com/ferrygpu/ferry/cu"
	"github.com/ferrygpu/ferry/internal/test/gputest"
	"github.com/ferrygpu/ferry/internal/test/sample"
)

func needsVirtual(t *testing.T) {
	t.Helper()
	gputest.Needs(t, cu.DeviceAttributeVirtualMemoryManagementSupported, cu.DeviceAttributeHandleTypePOSIXFileDescriptorSupported)
}

// granule is how many float32 one step of a growing buffer has.
const granule = 2 << 20 / 4

// wantAllOf checks that all elements of memory have a value.
func wantAllOf(t *testing.T, s *ferry.Stream, what string, d *ferry.Device[float32], want float32) {
	t.Helper()
	check(t, s.Wait(t.Context()))
	for i, got := range must(ferry.Download(d))(t) {
		if got != want {
			t.Fatalf("%s: element %d of %d is %v, want %v", what, i, d.Len(), got, want)
		}
	}
}

// TestGrow: a buffer grows where it is. What it had, and ranges from before, stay valid; copies,
// fills and kernels use all of it; and Close gives everything back.
func TestGrow(t *testing.T) {
	sample.SkipRace(t)
	needsVirtual(t)
	g := openTest(t)
	s := must(ferry.NewStream(g, nil))(t)
	_, inc := load(t, g, "increment")
	growAndClose(t, g, s, inc) // what the driver takes for the first launch stays with it
	free, _, err := g.MemInfo()
	check(t, err)
	growAndClose(t, g, s, inc)
	if now, _, err := g.MemInfo(); err != nil || now != free {
		t.Errorf("%d bytes are free, %v, want %d", now, err, free)
	}
	check(t, s.Close())
}

func growAndClose(t *testing.T, g *ferry.GPU, s *ferry.Stream, inc *ferry.Kernel) {
	t.Helper()
	const first, most = 1000, 5 * granule
	d := must(ferry.AllocVirtual[float32](g, first, &ferry.VirtualOptions{Max: most}))(t)
	part := d.Range(10, 20)
	check(t, ferry.Fill(s, d, 1))
	all, have := d, first
	for i, n := range []int{first, first + 1, granule, granule + 1, 3*granule - 5, most} {
		grown := must(all.Grow(n))(t)
		if grown.Len() != n || grown.Pointer() != d.Pointer() || all.Len() != have || d.Len() != first {
			t.Fatalf("grown to %d: %d elements at %#x; before %d at %#x, at first %d", n, grown.Len(), grown.Pointer(), all.Len(), d.Pointer(), d.Len())
		}
		check(t, ferry.Fill(s, grown.Range(have, n), float32(i)+1))
		check(t, s.Launch(inc, ferry.Cover(n, 256), grown, uint64(n)))
		check(t, ferry.Fill(s, grown, float32(i)+5))
		wantAllOf(t, s, fmt.Sprintf("grown to %d", n), grown, float32(i)+5)
		wantAllOf(t, s, "a range from before", part, float32(i)+5)
		all, have = grown, n
	}
	border := all.Range(granule-3, granule+4)
	check(t, ferry.Fill(s, border, 77))
	wantAllOf(t, s, "a range across a border", border, 77)
	wantAllOf(t, s, "beside it", all.Range(granule+4, 2*granule), 10)
	check(t, d.Close())
	if _, err := all.Grow(most); !errors.Is(err, ferry.ErrClosed) {
		t.Errorf("grow a closed buffer: %v", err)
	}
	wantError(t, ferry.Fill(s, part, 1), ferry.ErrClosed)
	check(t, all.Close()) // the same buffer
}

// TestGrowBesideWork: a buffer grows while work on it is in flight, and several goroutines grow it
// at once. No element of what it had changes.
func TestGrowBesideWork(t *testing.T) {
	needsVirtual(t)
	g := openTest(t)
	s := must(ferry.NewStream(g, nil))(t)
	const most = 16 * granule
	d := must(ferry.AllocVirtual[float32](g, granule, &ferry.VirtualOptions{Max: most}))(t)
	check(t, ferry.Fill(s, d, 3))
	open := gate(t, s)
	check(t, ferry.Fill(s, d.Range(0, 100), 4))
	var all sync.WaitGroup
	for i := range 8 {
		all.Go(func() {
			n := (i + 2) * granule
			grown, err := d.Grow(n)
			if err != nil || grown.Len() != n {
				t.Errorf("grow to %d: %v, %v", n, grown, err)
			}
		})
	}
	all.Wait()
	open()
	wantAllOf(t, s, "written meanwhile", d.Range(0, 100), 4)
	wantAllOf(t, s, "written before", d.Range(100, granule), 3)
	grown := must(d.Grow(9 * granule))(t)
	check(t, ferry.Fill(s, grown, 6))
	wantAllOf(t, s, "grown", grown, 6)
	closeAll(t, grown, s)
}

// TestGrowRefused: what cannot grow is refused and stays as it was, also when the device has no
// memory left.
func TestGrowRefused(t *testing.T) {
	needsVirtual(t)
	g := openTest(t)
	s := must(ferry.NewStream(g, nil))(t)
	_, total, err := g.MemInfo()
	check(t, err)
	d := must(ferry.AllocVirtual[float32](g, 100, &ferry.VirtualOptions{Max: int(total)}))(t)
	check(t, ferry.Fill(s, d, 8))
	plain := must(ferry.Alloc[float32](g, 100))(t)
	fixed := must(ferry.AllocVirtual[float32](g, 100, nil))(t)
	shared := must(ferry.AllocVirtual[float32](g, 100, &ferry.VirtualOptions{Share: true}))(t)
	for name, k := range map[string]struct {
		d    *ferry.Device[float32]
		n    int
		is   error
		part string
	}{
		"nil":                      {nil, 1, cu.ErrorInvalidValue, "no buffer given"},
		"a range":                  {d.Range(0, 100), 200, cu.ErrorInvalidValue, "it is a range"},
		"fewer":                    {d, 99, cu.ErrorInvalidValue, "it has 100: use Range"},
		"negative":                 {d, -1, cu.ErrorInvalidValue, "it has 100: use Range"},
		"more than Max":            {d, int(total) + 1, cu.ErrorInvalidValue, "it can have"},
		"memory of Alloc":          {plain, 101, cu.ErrorInvalidValue, "it can have 100"},
		"without Max":              {fixed, 101, cu.ErrorInvalidValue, "it can have 100"},
		"with Share":               {shared, 101, cu.ErrorInvalidValue, "it can have 100"},
		"more than the device has": {d, int(total)/4 + 16*granule, cu.ErrorOutOfMemory, "free"},
	} {
		_, err := k.d.Grow(k.n)
		if !errors.Is(err, k.is) {
			t.Errorf("%s: %v, want %v", name, err, k.is)
		}
		wantError(t, err, k.is, k.part)
	}
	for _, same := range []*ferry.Device[float32]{plain, fixed, shared, d} {
		if again := must(same.Grow(100))(t); again.Len() != 100 || again.Pointer() != same.Pointer() {
			t.Errorf("grow %v to what it has: %v", same, again)
		}
	}
	wantAllOf(t, s, "after refused calls", d, 8)
	for _, o := range []ferry.VirtualOptions{{Max: 99}, {Max: -1}, {Max: 200, Share: true}} {
		_, err := ferry.AllocVirtual[float32](g, 100, &o)
		wantError(t, err, cu.ErrorInvalidValue, "Max")
	}
	empty := must(ferry.AllocVirtual[float32](g, 0, &ferry.VirtualOptions{Max: 1000}))(t)
	grown := must(empty.Grow(1000))(t)
	check(t, ferry.Fill(s, grown, 2))
	wantAllOf(t, s, "grown from nothing", grown, 2)
	closeAll(t, empty, d, plain, fixed, shared, s)
}

// sharedBuffer shares a new buffer with a value in all elements.
func sharedBuffer(t *testing.T, g *ferry.GPU, s *ferry.Stream, n int, value float32) (*ferry.Device[float32], *os.File) {
	t.Helper()
	d := must(ferry.AllocVirtual[float32](g, n, &ferry.VirtualOptions{Share: true}))(t)
	check(t, ferry.Fill(s, d, value))
	check(t, s.Wait(t.Context()))
	return d, must(ferry.Share(d))(t)
}

// socketPair returns the two ends of a Unix socket that keeps messages apart.
func socketPair(t *testing.T) (ours, theirs *os.File) {
	t.Helper()
	fds, err := syscall.Socketpair(syscall.AF_UNIX, syscall.SOCK_SEQPACKET|syscall.SOCK_CLOEXEC, 0)
	check(t, err)
	return os.NewFile(uintptr(fds[0]), "socket"), os.NewFile(uintptr(fds[1]), "socket")
}

// send sends a descriptor over a Unix socket.
func send(t *testing.T, to, f *os.File) {
	t.Helper()
	check(t, syscall.Sendmsg(int(to.Fd()), []byte("memory"), syscall.UnixRights(int(f.Fd())), nil, 0))
}

// receive returns the descriptor that comes with a message.
func receive(t *testing.T, from *os.File) *os.File {
	t.Helper()
	text, rights := make([]byte, 16), make([]byte, 64)
	_, n, _, _, err := syscall.Recvmsg(int(from.Fd()), text, rights, syscall.MSG_CMSG_CLOEXEC)
	check(t, err)
	messages := must(syscall.ParseSocketControlMessage(rights[:n]))(t)
	if len(messages) != 1 {
		t.Fatalf("%d control messages, want 1", len(messages))
	}
	fds := must(syscall.ParseUnixRights(&messages[0]))(t)
	return os.NewFile(uintptr(fds[0]), "received")
}

const sharedElements = 3*granule/2 + 7

// TestShareWithProcess: a descriptor goes to another process over a Unix socket. Kernels of both
// processes use a page at each end of the memory, and each sees what the other wrote. The memory
// outlives the process that made it.
func TestShareWithProcess(t *testing.T) {
	if inHelper(t) {
		shareWithParent(t)
		return
	}
	needsVirtual(t)
	g := openTest(t)
	s := must(ferry.NewStream(g, nil))(t)
	_, inc := load(t, g, "increment")
	const page = 1024
	d, f := sharedBuffer(t, g, s, sharedElements, 5)
	conn, theirs := socketPair(t)
	cmd := helper(t)
	cmd.ExtraFiles = []*os.File{theirs}
	out := new(gputest.Output)
	cmd.Stdout, cmd.Stderr = out, out
	check(t, cmd.Start())
	check(t, theirs.Close())
	send(t, conn, f)
	check(t, f.Close())
	text := make([]byte, 16)
	n, err := conn.Read(text) // the child has added 1 at each end
	if err != nil || string(text[:n]) != "done" {
		_ = cmd.Wait()
		t.Fatalf("the child says %q, %v: %s", text[:n], err, out)
	}
	for _, end := range []*ferry.Device[float32]{d.Range(0, page), d.Range(sharedElements-page, sharedElements)} {
		wantAllOf(t, s, "written by the child", end, 6)
		check(t, s.Launch(inc, ferry.Cover(page, 256), end, uint64(page)))
	}
	wantAllOf(t, s, "between", d.Range(page, sharedElements-page), 5)
	check(t, s.Wait(t.Context()))
	check(t, d.Close()) // now the child's buffer keeps the memory
	must(conn.Write([]byte("closed")))(t)
	if err := cmd.Wait(); err != nil {
		t.Errorf("the child: %v: %s", err, out)
	}
	closeAll(t, conn, s)
}

func shareWithParent(t *testing.T) {
	g := openTest(t)
	s := must(ferry.NewStream(g, nil))(t)
	_, inc := load(t, g, "increment")
	const page = 1024
	conn := os.NewFile(3, "socket")
	f := receive(t, conn)
	d := must(ferry.Import[float32](g, f, sharedElements))(t)
	check(t, f.Close())
	ends := []*ferry.Device[float32]{d.Range(0, page), d.Range(sharedElements-page, sharedElements)}
	for _, end := range ends {
		wantAllOf(t, s, "written by the parent", end, 5)
		check(t, s.Launch(inc, ferry.Cover(page, 256), end, uint64(page)))
	}
	check(t, s.Wait(t.Context()))
	must(conn.Write([]byte("done")))(t)
	must(conn.Read(make([]byte, 16)))(t)
	for _, end := range ends {
		wantAllOf(t, s, "written by the parent, which has closed its buffer", end, 7)
	}
	closeAll(t, d, conn, s, g)
}

// counted returns how many descriptors the process has. The collector may close those of other tests.
func counted(t *testing.T) int {
	t.Helper()
	return len(must(os.ReadDir("/proc/self/fd"))(t))
}

// TestShareAgainAndAgain: shared and imported buffers leave no descriptors and no memory behind.
func TestShareAgainAndAgain(t *testing.T) {
	needsVirtual(t)
	g := openTest(t)
	s := must(ferry.NewStream(g, nil))(t)
	_, inc := load(t, g, "increment")
	rounds := 200
	if os.Getenv("FERRY_FULL") == "1" {
		rounds = 10000
	}
	const n, page = granule + 100, 1024
	once := func() {
		value := float32(rand.IntN(1000))
		d, f := sharedBuffer(t, g, s, n, value)
		e := must(ferry.Import[float32](g, f, n))(t)
		check(t, f.Close())
		for i, end := range []*ferry.Device[float32]{d.Range(0, page), e.Range(n-page, n)} {
			check(t, s.Launch(inc, ferry.Cover(page, 256), end, uint64(page)))
			other := []*ferry.Device[float32]{e.Range(0, page), d.Range(n-page, n)}[i]
			check(t, s.Wait(t.Context()))
			wantAllOf(t, s, "by the other buffer", other, value+1)
		}
		check(t, d.Close())
		wantAllOf(t, s, "after the first buffer is closed", e.Range(0, page), value+1)
		check(t, e.Close())
	}
	once()
	fds := counted(t)
	free, _, err := g.MemInfo()
	check(t, err)
	for range rounds {
		once()
	}
	now, _, err := g.MemInfo()
	check(t, err)
	if got := counted(t); got > fds || now != free {
		t.Errorf("%d descriptors and %d bytes free after %d rounds, before %d and %d", got, now, rounds, fds, free)
	}
	check(t, s.Close())
}

// TestShareRefused: only a whole buffer that was made for it is shared.
func TestShareRefused(t *testing.T) {
	needsVirtual(t)
	g := openTest(t)
	shared := must(ferry.AllocVirtual[float32](g, 100, &ferry.VirtualOptions{Share: true}))(t)
	for name, d := range map[string]*ferry.Device[float32]{
		"memory of Alloc": must(ferry.Alloc[float32](g, 100))(t),
		"without Share":   must(ferry.AllocVirtual[float32](g, 100, nil))(t),
		"an empty buffer": must(ferry.AllocVirtual[float32](g, 0, &ferry.VirtualOptions{Share: true}))(t),
		"a range":         shared.Range(0, 10),
	} {
		_, err := ferry.Share(d)
		if !errors.Is(err, cu.ErrorInvalidValue) {
			t.Errorf("%s: %v", name, err)
		}
		check(t, d.Close())
	}
	check(t, shared.Close())
	if _, err := ferry.Share(shared); !errors.Is(err, ferry.ErrClosed) {
		t.Errorf("a closed buffer: %v", err)
	}
}

// TestImportRefused: a descriptor that is no memory, or of memory that is too small, is refused before
// anything is mapped, and nothing is left behind.
func TestImportRefused(t *testing.T) {
	needsVirtual(t)
	g := openTest(t)
	s := must(ferry.NewStream(g, nil))(t)
	d, f := sharedBuffer(t, g, s, 2*granule, 1)
	folder := must(os.Open(t.TempDir()))(t)
	file := must(os.Create(filepath.Join(t.TempDir(), "file")))(t)
	must(file.Write(make([]byte, 4*granule)))(t)
	r, w, err := os.Pipe()
	check(t, err)
	conn, socket := socketPair(t)
	closed := must(os.Open(os.DevNull))(t)
	check(t, closed.Close())
	null := must(os.Open(os.DevNull))(t)
	free, _, err := g.MemInfo()
	check(t, err)
	fds := counted(t)
	for name, k := range map[string]struct {
		f *os.File
		n int
	}{
		"nil": {nil, 1}, "nil, for nothing": {nil, 0}, "closed": {closed, 1}, "a folder": {folder, 1}, "a pipe": {r, 1}, "a socket": {socket, 1}, "a device": {null, 1},
		"a file": {file, granule}, "a file that is too small": {file, granule + 1}, "memory that is too small": {f, 2*granule + 1}, "memory that is too large": {f, granule}, "far more than the memory": {f, 1 << 40}, "a negative number": {f, -1},
	} {
		e, err := ferry.Import[float32](g, k.f, k.n)
		if !errors.Is(err, cu.ErrorInvalidValue) && !(k.n == 1<<40 && errors.Is(err, cu.ErrorOutOfMemory)) {
			t.Errorf("%s: %v, %v", name, e, err)
		}
	}
	if now, _, err := g.MemInfo(); err != nil || now != free || counted(t) > fds {
		t.Errorf("%d bytes free, %d descriptors, %v; before %d and %d", now, counted(t), err, free, fds)
	}
	e := must(ferry.Import[float32](g, f, 2*granule))(t)
	_, err = ferry.Share(e)
	wantError(t, err, cu.ErrorInvalidValue, "pass on the descriptor")
	third := must(ferry.Import[byte](g, f, 8*granule))(t) // which a third buffer can come from
	check(t, ferry.Fill(s, third, 0))
	check(t, s.Wait(t.Context()))
	wantAllOf(t, s, "cleared by the third buffer", d, 0)
	closeAll(t, d, e, third, f, folder, file, r, w, conn, socket, null, s)
}

// TestVirtualPeers: a GPU with peer access uses virtual memory of another one, also what it grows by;
// one without access is refused.
func TestVirtualPeers(t *testing.T) {
	needsVirtual(t)
	onTwoGPUs(t, func(t *testing.T, a, b *ferry.GPU) {
		s, home := must(ferry.NewStream(a, nil))(t), must(ferry.NewStream(b, nil))(t)
		_, inc := load(t, a, "increment")
		d := must(ferry.AllocVirtual[float32](b, 100, &ferry.VirtualOptions{Max: 3 * granule}))(t)
		check(t, ferry.Fill(home, d, 1))
		check(t, home.Wait(t.Context()))
		launch := func(d *ferry.Device[float32]) error {
			n := d.Len()
			return errors.Join(s.Launch(inc, ferry.Cover(n, 256), d, uint64(n)), s.Wait(t.Context()))
		}
		wantError(t, launch(d), cu.ErrorPeerAccessNotEnabled, "EnablePeer")
		check(t, a.EnablePeer(b))
		check(t, launch(d))
		wantAllOf(t, home, "written by the other GPU", d, 2)
		grown := must(d.Grow(3 * granule))(t)
		check(t, ferry.Fill(home, grown, 4))
		check(t, home.Wait(t.Context()))
		check(t, launch(grown))
		wantAllOf(t, home, "grown, and written by the other GPU", grown, 5)
		near := must(ferry.Alloc[float32](a, 3*granule))(t)
		check(t, ferry.Copy(s, near, grown))
		wantAllOf(t, s, "copied to the other GPU", near, 5)
		closeAll(t, d, near, s, home)
	})
}
