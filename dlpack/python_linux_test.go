package dlpack_test

import (
	"context"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/ferrygpu/ferry"
	"github.com/ferrygpu/ferry/cu"
	"github.com/ferrygpu/ferry/dlpack"
	"github.com/ferrygpu/ferry/internal/test/gputest"
)

// python starts the other process with an argument, and with a file as its descriptor 3.
func python(t *testing.T, argument string, files ...*os.File) *exec.Cmd {
	t.Helper()
	name, err := exec.LookPath("python3")
	if err != nil {
		t.Skip("no other process to exchange tensors with:", err)
	}
	script := filepath.Join("testdata", "peer.py")
	for _, read := range []string{script, filepath.Join("python", "ferry_dlpack.py")} { // so that go test runs again when one has changed
		must(os.ReadFile(read))(t)
	}
	ctx, stop := context.WithTimeout(context.Background(), 3*time.Minute)
	t.Cleanup(stop)
	c := exec.CommandContext(ctx, name, "-B", script, argument)
	c.ExtraFiles = files
	return c
}

// TestPython: the module of Python, by itself: capsules, deleters, messages, and what is refused.
func TestPython(t *testing.T) {
	out, err := python(t, "unit").CombinedOutput()
	if err != nil {
		t.Fatalf("%v:\n%s", err, out)
	}
	if len(out) > 0 {
		t.Logf("%s", out)
	}
}

// pair returns the two ends of a socket.
func pair(t testing.TB) (a *net.UnixConn, b *os.File) {
	t.Helper()
	fds := must(syscall.Socketpair(syscall.AF_UNIX, syscall.SOCK_STREAM|syscall.SOCK_CLOEXEC, 0))(t)
	f := os.NewFile(uintptr(fds[0]), "socket")
	c := must(net.FileConn(f))(t)
	check(t, f.Close())
	b = os.NewFile(uintptr(fds[1]), "socket of the other process")
	t.Cleanup(func() { c.Close(); b.Close() })
	return c.(*net.UnixConn), b
}

// unixPair is pair with two connections.
func unixPair(t testing.TB) (a, b *net.UnixConn) {
	t.Helper()
	a, f := pair(t)
	c := must(net.FileConn(f))(t)
	t.Cleanup(func() { c.Close() })
	return a, c.(*net.UnixConn)
}

// TestExchangeWithPython: a buffer of Ferry goes to Python, where a library works on it; tensors of
// Python come back, and Ferry's kernels work on them. Each side sees what the other has written.
func TestExchangeWithPython(t *testing.T) {
	gputest.Needs(t, cu.DeviceAttributeVirtualMemoryManagementSupported, cu.DeviceAttributeHandleTypePOSIXFileDescriptorSupported)
	g, _ := openTest(t)
	r := newRig(t, g)
	if os.Getenv(gputest.RequireVariable) == "1" {
		if out, err := python(t, "has torch").CombinedOutput(); err != nil {
			t.Skipf("no PyTorch to work on memory of the GPU:\n%s", out)
		}
	}
	conn, other := pair(t)
	var said strings.Builder
	c := python(t, "3", other)
	c.Stdout, c.Stderr = &said, &said
	check(t, c.Start())
	check(t, other.Close())
	ended := make(chan error, 1)
	go func() { ended <- c.Wait() }()
	t.Cleanup(func() {
		conn.Close()
		if err := <-ended; err != nil || said.Len() > 0 {
			t.Errorf("python3: %v\n%s", err, said.String())
		}
	})
	check(t, conn.SetDeadline(time.Now().Add(3*time.Minute)))
	receive := func(shape ...int) *dlpack.Array[float32] {
		t.Helper()
		a := must(dlpack.Receive[float32](g, conn))(t)
		if !slices.Equal(a.Shape(), shape) {
			t.Fatalf("received shape %v, want %v", a.Shape(), shape)
		}
		return a
	}
	say := func(what string) { must(conn.Write([]byte(what)))(t) }

	x := must(ferry.AllocVirtual[float32](g, 1200, &ferry.VirtualOptions{Share: true}))(t)
	r.fill(x)
	r.add1(x)
	check(t, dlpack.Send(conn, x, []int{30, 40}, nil))
	t.Log("the work of Python is done by", heard(t, conn))
	r.want("after Python", x, 3, 8) // (i+1)*3+5
	r.add1(x)
	say("1")
	back := receive(30, 40)
	r.want("the memory that was sent, received again", back.Memory(), 6, 18)
	r.want("the buffer that was sent", x, 6, 18)
	y := receive(7, 100)
	r.want("memory that Python has allocated", y.Memory(), 7, 0)
	copied := receive(30, 40)
	r.want("a copy of a tensor of a library", copied.Memory(), 11, 0)
	r.add1(y.Memory())
	say("2")
	yAgain := receive(7, 100)
	r.want("after Ferry and Python", yAgain.Memory(), 7, 1)
	say("3")
	for i := range 100 {
		check(t, dlpack.Send(conn, x, []int{1200}, nil))
		again := receive(1200)
		r.want("round", again.Memory(), 6, 18+float32(i)+1)
		check(t, again.Close())
	}
	if got := heard(t, conn); got != "done" {
		t.Errorf("heard %q at the end", got)
	}
	gputest.CloseAll(t, x, back, y, copied, yAgain)
}

// heard reads a text of 32 bytes.
func heard(t *testing.T, conn *net.UnixConn) string {
	t.Helper()
	text := make([]byte, 32)
	for got := 0; got < len(text); {
		n, err := conn.Read(text[got:])
		check(t, err)
		got += n
	}
	return strings.TrimRight(string(text), " ")
}

// TestSend: what goes over a socket comes out, with its type and shape, between two GPUs of Ferry.
func TestSend(t *testing.T) {
	gputest.Needs(t, cu.DeviceAttributeVirtualMemoryManagementSupported, cu.DeviceAttributeHandleTypePOSIXFileDescriptorSupported)
	g, _ := openTest(t)
	r := newRig(t, g)
	a, b := unixPair(t)
	check(t, b.SetDeadline(time.Now().Add(time.Minute)))
	x := must(ferry.AllocVirtual[float32](g, 24, &ferry.VirtualOptions{Share: true}))(t)
	vectors := must(ferry.AllocVirtual[[2]uint16](g, 6, &ferry.VirtualOptions{Share: true}))(t)
	r.fill(x)
	gate := make(chan struct{})
	check(t, r.s.HostFunc(func() { <-gate }))
	check(t, ferry.Fill(r.s, x, 3))
	sent := make(chan error)
	go func() { sent <- dlpack.Send(a, x, []int{4, 6}, nil) }()
	select {
	case <-sent:
		t.Error("Send did not wait for work in flight")
	case <-time.After(20 * time.Millisecond):
	}
	close(gate)
	check(t, <-sent)
	before := descriptors(t)
	check(t, dlpack.Send(a, x, []int{4, 6}, nil)) // its descriptor is in the socket
	if n := descriptors(t); n != before {
		t.Errorf("Send leaves %d descriptors, before %d", n, before)
	}
	first := must(dlpack.Receive[float32](g, b))(t)
	check(t, first.Close())
	y := must(dlpack.Receive[float32](g, b))(t)
	if !slices.Equal(y.Shape(), []int{4, 6}) {
		t.Errorf("received shape %v", y.Shape())
	}
	r.want("received", y.Memory(), 0, 3)
	check(t, dlpack.Send(a, vectors, nil, &dlpack.Options{Type: dlpack.BFloat16}))
	z := must(dlpack.Receive[uint16](g, b))(t)
	if !slices.Equal(z.Shape(), []int{6, 2}) {
		t.Errorf("received shape %v", z.Shape())
	}
	gputest.CloseAll(t, x, vectors, y, z)
}

// TestSendRefused: what cannot be sent, and what is no tensor when it comes.
func TestSendRefused(t *testing.T) {
	gputest.Needs(t, cu.DeviceAttributeVirtualMemoryManagementSupported, cu.DeviceAttributeHandleTypePOSIXFileDescriptorSupported)
	g, _ := openTest(t)
	a, b := unixPair(t)
	x := must(ferry.AllocVirtual[float32](g, 24, &ferry.VirtualOptions{Share: true}))(t)
	plain := must(ferry.Alloc[float32](g, 24))(t)
	gputest.WantError(t, dlpack.Send[float32](nil, x, nil, nil), cu.ErrorInvalidValue, "send a buffer", "no socket")
	gputest.WantError(t, dlpack.Send[float32]((*net.UnixConn)(nil), x, nil, nil), cu.ErrorInvalidValue, "no socket")
	gputest.WantError(t, dlpack.Send[float32](a, nil, nil, nil), cu.ErrorInvalidValue, "no buffer")
	gputest.WantError(t, dlpack.Send(a, plain, nil, nil), cu.ErrorInvalidValue, "AllocVirtual with Share")
	none := must(ferry.AllocVirtual[float32](g, 0, &ferry.VirtualOptions{Share: true}))(t)
	gputest.WantError(t, dlpack.Send(a, none, nil, nil), cu.ErrorInvalidValue, "no memory to share")
	gputest.WantError(t, dlpack.Send(a, x, append(slices.Repeat([]int{1}, 64), 24), nil), cu.ErrorInvalidValue, "65 dimensions")
	gputest.WantError(t, dlpack.Send(a, x.Range(0, 3), nil, nil), cu.ErrorInvalidValue, "no whole buffer")
	gputest.WantError(t, dlpack.Send(a, x, []int{5, 5}, nil), cu.ErrorInvalidValue, "has 25 elements")
	gputest.WantError(t, dlpack.Send(a, x, nil, &dlpack.Options{ReadOnly: true}), cu.ErrorInvalidValue, "cannot be read-only")
	gputest.WantError(t, dlpack.Send(a, x, nil, &dlpack.Options{Type: dlpack.Bool}), cu.ErrorInvalidValue, "float32 cannot be bool")
	_, err := dlpack.Receive[float32](g, nil)
	gputest.WantError(t, err, cu.ErrorInvalidValue, "receive a buffer", "no socket")
	_, err = dlpack.Receive[float32](nil, b)
	gputest.WantError(t, err, cu.ErrorInvalidValue, "receive a buffer")

	file := must(os.Open(filepath.Join("testdata", "peer.c")))(t)
	memory := must(ferry.Share(x))(t)
	for _, c := range []struct {
		text  string
		files []*os.File
		part  string
	}{
		{`{`, []*os.File{memory}, "says nothing about a tensor"},
		{`{"dtype":3}`, []*os.File{memory}, "says nothing about a tensor"},
		{`{"dtype":"float31","shape":[3]}`, []*os.File{memory}, `the type "float31" is not known`},
		{`{"dtype":"int32","shape":[24]}`, []*os.File{memory}, "its elements are int32, and float32 was asked for"},
		{`{"dtype":"float32","shape":[-24]}`, []*os.File{memory}, "float32 (-24,): a dimension of (-24,) is negative"},
		{`{"dtype":"float32","shape":[4611686018427387904,4]}`, []*os.File{memory}, "more elements than an address can count"},
		{`{"dtype":"float32","shape":[` + strings.Repeat("1,", 64) + `1]}`, []*os.File{memory}, "65 dimensions"},
		{`{"dtype":"float32","shape":[1073741824]}`, []*os.File{memory}, "elements"},
		{`{"dtype":"float32","shape":[24]}`, []*os.File{file}, "the elements have"},
		{`{"dtype":"float32","shape":[24]}`, nil, "with 0 descriptors"},
		{`{"dtype":"float32","shape":[24]}`, []*os.File{memory, memory}, "with 2 descriptors"},
		{strings.Repeat(" ", 5000), []*os.File{memory}, "a message of 5000 bytes is too long: that of a tensor has at most 4096"},
	} {
		a, b := unixPair(t)
		before := descriptors(t)
		sendRaw(t, a, c.text, c.files...)
		got, err := dlpack.Receive[float32](g, b)
		if got != nil {
			t.Errorf("%s: an array beside an error", c.text)
		}
		if c.part == "the elements have" { // the file is larger, but no memory
			gputest.WantError(t, err, cu.ErrorInvalidValue, "receive a buffer")
		} else {
			gputest.WantError(t, err, cu.ErrorInvalidValue, "receive a buffer", c.part)
		}
		if n := descriptors(t); n != before {
			t.Errorf("%s: %d descriptors, before %d", c.text, n, before)
		}
	}
	c, d := unixPair(t)
	must(c.Write([]byte{0, 0, 0, 9, '{'}))(t)
	check(t, c.Close())
	if _, err := dlpack.Receive[float32](g, d); err == nil || !strings.Contains(err.Error(), "unexpected EOF") {
		t.Errorf("an end within a message: %v", err)
	}
	if _, err := dlpack.Receive[float32](g, d); err == nil || !strings.HasSuffix(err.Error(), ": EOF") {
		t.Errorf("an end: %v", err)
	}
	check(t, b.SetReadDeadline(time.Now().Add(10*time.Millisecond)))
	if _, err := dlpack.Receive[float32](g, b); !os.IsTimeout(err) && !strings.Contains(err.Error(), "timeout") {
		t.Errorf("a deadline: %v", err)
	}
	gputest.CloseAll(t, x, plain, file, memory)
}

// sendRaw sends a text with descriptors, as another program may.
func sendRaw(t *testing.T, conn *net.UnixConn, text string, files ...*os.File) {
	t.Helper()
	var fds []int
	for _, f := range files {
		fds = append(fds, int(f.Fd()))
	}
	n := len(text)
	_, _, err := conn.WriteMsgUnix([]byte{byte(n >> 24), byte(n >> 16), byte(n >> 8), byte(n)}, syscall.UnixRights(fds...), nil)
	check(t, err)
	must(conn.Write([]byte(text)))(t)
}

// descriptors counts the open descriptors of the process.
func descriptors(t *testing.T) int {
	t.Helper()
	return len(must(os.ReadDir("/proc/self/fd"))(t))
}
