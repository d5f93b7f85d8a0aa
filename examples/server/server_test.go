package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/ferrygpu/ferry"
	"github.com/ferrygpu/ferry/cu"
	"github.com/ferrygpu/ferry/fault"
	"github.com/ferrygpu/ferry/internal/test/compiletest"
	"github.com/ferrygpu/ferry/kerneltest"
)

// small are options for tests. The wait is longer than a test takes.
func small() options {
	device := os.Getenv(ferry.SpecVariable)
	if device == "" {
		device = "soft"
	}
	return options{device: device, streams: 3, pixels: 4096, memory: 4 << 20, wait: time.Minute}
}

// start starts a server, and closes it after the test, which must have lost nothing.
func start(t *testing.T, o options) *server {
	t.Helper()
	s, err := newServer(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

// listen serves HTTP until the end of the test.
func listen(t *testing.T, s *server) (url string) {
	t.Helper()
	h := httptest.NewServer(s)
	t.Cleanup(h.Close)
	return h.URL
}

func pixels(n int) []byte {
	data := make([]byte, 3*n)
	_, _ = rand.NewChaCha8([32]byte{byte(n)}).Read(data)
	return data
}

// wantRight sends a request, and demands the right answer.
func wantRight(t *testing.T, url string, n int) {
	t.Helper()
	if _, err := send(context.Background(), http.DefaultClient, url, pixels(n)); err != nil {
		t.Errorf("%d pixels: %v", n, err)
	}
}

// until waits until something is so.
func until(t *testing.T, what string, is func() bool) {
	t.Helper()
	for end := time.Now().Add(time.Minute); !is(); time.Sleep(100 * time.Microsecond) {
		if time.Now().After(end) {
			t.Fatal("after a minute: not ", what)
		}
	}
}

func (s *server) metric(name string) string {
	if v := s.vars.Get(name); v != nil {
		return v.String()
	}
	return "0"
}

// TestMany: many clients at once, more than there are streams, with requests of different sizes.
func TestMany(t *testing.T) {
	s := start(t, small())
	url := listen(t, s)
	var wg sync.WaitGroup
	for i := range 12 {
		wg.Go(func() {
			for _, n := range []int{1 + i, 255, 256, 257, 4096 - i} {
				wantRight(t, url, n)
			}
		})
	}
	wg.Wait()
	if got := s.metric("status_200"); got != "60" {
		t.Errorf("%s right answers, want 60; %v", got, s.vars)
	}
	a, err := http.Get(url + "/debug/vars")
	if err != nil {
		t.Fatal(err)
	}
	defer a.Body.Close()
	if text, err := io.ReadAll(a.Body); err != nil || !strings.Contains(string(text), `"streams_free": 3`) || !strings.Contains(string(text), "ferry_pool_used_bytes") {
		t.Errorf("metrics %s, error %v", text, err)
	}
}

// TestRefused: what clients do wrong.
func TestRefused(t *testing.T) {
	url := listen(t, start(t, small()))
	for status, body := range map[int]io.Reader{
		http.StatusBadRequest:            bytes.NewReader(make([]byte, 4)),
		http.StatusRequestEntityTooLarge: bytes.NewReader(make([]byte, 3*4097)),
		http.StatusLengthRequired:        io.MultiReader(strings.NewReader("abc")),
	} {
		a, err := http.Post(url+"/gray", "", body)
		if err != nil {
			t.Fatal(err)
		}
		_ = a.Body.Close()
		if a.StatusCode != status {
			t.Errorf("status %s, want %d", a.Status, status)
		}
	}
	for _, o := range []options{{}, {streams: 1, pixels: 1000, memory: 4000}, {device: "none", streams: 1, pixels: 10, memory: 50}} {
		if s, err := newServer(o); err == nil {
			t.Errorf("options %+v make a server", o)
			_ = s.Close()
		}
	}
}

// ask returns the status and the text of an answer.
func ask(s *server, method, path string, body []byte) (int, string) {
	a := httptest.NewRecorder()
	s.ServeHTTP(a, httptest.NewRequest(method, path, bytes.NewReader(body)))
	return a.Code, a.Body.String()
}

// TestFails: a launch fails, and the next one works.
func TestFails(t *testing.T) {
	t.Setenv(fault.Variable, "cuLaunchKernel:1:CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES")
	s := start(t, small())
	if status, text := ask(s, http.MethodPost, "/gray", pixels(5)); status != http.StatusInternalServerError || !strings.HasPrefix(text, "the GPU failed") {
		t.Errorf("status %d, %s", status, text)
	}
	if status, text := ask(s, http.MethodPost, "/gray", pixels(5)); status != http.StatusOK || text != string(onCPU(pixels(5))) {
		t.Errorf("status %d, %q", status, text)
	}
	if status, text := ask(s, http.MethodGet, "/health", nil); status != http.StatusOK || text != "ok\n" {
		t.Errorf("status %d, %q", status, text)
	}
}

// TestLost: after a fault that loses the context, the server says so, and Close does, too.
func TestLost(t *testing.T) {
	t.Setenv(fault.Variable, "cuLaunchKernel:1:CUDA_ERROR_ILLEGAL_ADDRESS")
	s, err := newServer(small())
	if err != nil {
		t.Fatal(err)
	}
	if status, text := ask(s, http.MethodPost, "/gray", pixels(5)); status != http.StatusInternalServerError {
		t.Errorf("status %d, %s", status, text)
	}
	if status, text := ask(s, http.MethodGet, "/health", nil); status != http.StatusServiceUnavailable || !strings.HasPrefix(text, "the GPU failed") {
		t.Errorf("status %d, %s", status, text)
	}
	if err := s.Close(); !errors.Is(err, cu.ErrorIllegalAddress) || strings.Contains(err.Error(), "leak:") {
		t.Errorf("error %v, want %v", err, cu.ErrorIllegalAddress)
	}
}

// block lets a stream wait until the test calls release.
func block(t *testing.T, s *server) (release func()) {
	t.Helper()
	st, wait := <-s.free, make(chan struct{})
	if err := st.HostFunc(func() { <-wait }); err != nil {
		t.Fatal(err)
	}
	s.free <- st
	release = sync.OnceFunc(func() { close(wait) })
	t.Cleanup(release)
	return release
}

// TestCanceled: the client goes while the GPU uses the buffer of its request. The next requests are right.
func TestCanceled(t *testing.T) {
	o := small()
	o.streams = 1
	s := start(t, o)
	url := listen(t, s)
	release := block(t, s)
	ctx, cancel := context.WithCancel(context.Background())
	answered := make(chan error)
	go func() {
		_, err := send(ctx, http.DefaultClient, url, pixels(1000))
		answered <- err
	}()
	until(t, "a request with the stream", func() bool { return s.metric("pixels") == "1000" && len(s.free) == 0 })
	cancel()
	if err := <-answered; !errors.Is(err, context.Canceled) {
		t.Errorf("error %v, want %v", err, context.Canceled)
	}
	until(t, "canceled", func() bool { return s.metric("canceled") == "1" && len(s.free) == 1 })
	release()
	wantRight(t, url, 1000)
	wantRight(t, url, 77)
}

// panicking is a body that panics when it is read.
type panicking struct{}

func (panicking) Read([]byte) (int, error) { panic("planned") }

// panickingWriter is an answer that panics when it is written.
type panickingWriter struct{ httptest.ResponseRecorder }

func (*panickingWriter) Write([]byte) (int, error) { panic("planned") }

// panickingContext panics when somebody waits for it who has a stream.
type panickingContext struct {
	context.Context
	s *server
}

func (c panickingContext) Done() <-chan struct{} {
	if len(c.s.free) < c.s.streams {
		panic("planned")
	}
	return nil
}

// TestPanic: handlers that panic lose no buffer and no stream, also if there are more of them than streams. They panic
// with a buffer, and with a stream as well whose work is in flight.
func TestPanic(t *testing.T) {
	s := start(t, small())
	for range 5 {
		for i, body := range []io.Reader{panicking{}, bytes.NewReader(pixels(500)), bytes.NewReader(pixels(500))} {
			func() {
				defer func() {
					if p := recover(); p != "planned" {
						t.Errorf("the handler panics with %v", p)
					}
				}()
				q := httptest.NewRequest(http.MethodPost, "/gray", body)
				q.ContentLength = 1500
				if i == 2 {
					q = q.WithContext(panickingContext{context.Background(), s})
				}
				s.ServeHTTP(&panickingWriter{}, q)
			}()
		}
	}
	if got := s.metric("panics"); got != "15" || s.metric("requests_running") != "0" {
		t.Errorf("%s panics, want 15; %v", got, s.vars)
	}
	wantRight(t, listen(t, s), 500)
}

// TestBusy: requests that wait too long for a stream or for memory get status 503, and those after them are served.
func TestBusy(t *testing.T) {
	o := small()
	o.wait = 10 * time.Millisecond
	s := start(t, o)
	url := listen(t, s)
	wantBusy := func(what string) {
		t.Helper()
		status, err := send(context.Background(), http.DefaultClient, url, pixels(4096))
		if status != http.StatusServiceUnavailable || !strings.Contains(fmt.Sprint(err), what) {
			t.Errorf("status %d, error %v, want 503 and %q", status, err, what)
		}
	}
	var taken []*stream
	for range o.streams {
		taken = append(taken, <-s.free)
	}
	wantBusy("all 3 streams")
	for _, st := range taken {
		s.free <- st
	}
	wantRight(t, url, 4096)
	all := takeAll(s)
	wantBusy("all memory")
	for _, h := range all {
		if err := h.Close(); err != nil {
			t.Error(err)
		}
	}
	wantRight(t, url, 4096)
}

// TestWaits: requests wait for memory and for a stream. They get both when others give them back.
func TestWaits(t *testing.T) {
	s := start(t, small())
	url := listen(t, s)
	all := takeAll(s)
	st := []*stream{<-s.free, <-s.free, <-s.free}
	answered := make(chan error)
	for range 4 {
		go func() {
			_, err := send(context.Background(), http.DefaultClient, url, pixels(4096))
			answered <- err
		}()
	}
	until(t, "four requests", func() bool { return s.metric("requests_running") == "4" })
	for _, h := range all {
		if err := h.Close(); err != nil {
			t.Error(err)
		}
	}
	until(t, "four requests with memory", func() bool { return s.metric("pixels") == "16384" })
	s.free <- st[0]
	for range 4 {
		if err := <-answered; err != nil {
			t.Error(err)
		}
	}
	s.free <- st[1]
	s.free <- st[2]
}

// TestCanceledWait: a client that goes while its request waits for memory is no refusal.
func TestCanceledWait(t *testing.T) {
	s := start(t, small())
	all := takeAll(s)
	ctx, cancel := context.WithCancel(context.Background())
	answered := make(chan struct{})
	go func() {
		s.ServeHTTP(httptest.NewRecorder(), httptest.NewRequest(http.MethodPost, "/gray", bytes.NewReader(pixels(4096))).WithContext(ctx))
		close(answered)
	}()
	until(t, "a request", func() bool { return s.metric("requests_running") == "1" })
	cancel()
	<-answered
	if s.metric("canceled") != "1" {
		t.Errorf("no request was canceled: %v", s.vars)
	}
	for _, h := range all {
		if err := h.Close(); err != nil {
			t.Error(err)
		}
	}
}

// takeAll takes buffers of the largest request until the pool has no more.
func takeAll(s *server) (all []*ferry.Host[byte]) {
	for {
		h := new(ferry.Host[byte])
		if h.Alloc(s.pool, 4*s.pixels) != nil {
			return all
		}
		all = append(all, h)
	}
}

// TestShutdown: a server that ends under load answers what it has begun, and loses nothing.
func TestShutdown(t *testing.T) {
	s := start(t, small())
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan error)
	go func() { ended <- serve(ctx, s, l, time.Minute) }()
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for {
				status, err := send(context.Background(), http.DefaultClient, "http://"+l.Addr().String(), pixels(2000))
				switch {
				case status == 0: // nobody listens
					return
				case err != nil:
					t.Error(err)
				}
			}
		})
	}
	answers := func() (n int) {
		if v := s.vars.Get("status_200"); v != nil {
			n, _ = strconv.Atoi(v.String())
		}
		return n
	}
	until(t, "20 answers", func() bool { return answers() >= 20 })
	stop()
	if err := <-ended; err != nil {
		t.Error(err)
	}
	wg.Wait()
	if s.metric("canceled") != "0" || s.metric("unread") != "0" {
		t.Errorf("requests were cut off: %v", s.vars)
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	a := httptest.NewRecorder()
	if s.ServeHTTP(a, httptest.NewRequest(http.MethodPost, "/gray", bytes.NewReader(pixels(5)))); a.Code != http.StatusServiceUnavailable {
		t.Errorf("a closed server answers with status %d", a.Code)
	}
}

// TestDrainEnds: a request that takes longer than the server waits is cut off, and the server closes all the same.
func TestDrainEnds(t *testing.T) {
	o := small()
	o.streams = 1
	s := start(t, o)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	release := block(t, s)
	ctx, stop := context.WithCancel(context.Background())
	ended, answered := make(chan error), make(chan error)
	go func() { ended <- serve(ctx, s, l, time.Millisecond) }()
	go func() {
		_, err := send(context.Background(), http.DefaultClient, "http://"+l.Addr().String(), pixels(10))
		answered <- err
	}()
	until(t, "a request with the stream", func() bool { return s.metric("pixels") == "10" && len(s.free) == 0 })
	stop()
	if err := <-ended; !errors.Is(err, context.DeadlineExceeded) || !strings.Contains(err.Error(), "longer than 1ms") {
		t.Errorf("error %v, want that requests took too long", err)
	}
	if err := <-answered; err == nil {
		t.Error("the request has an answer")
	}
	until(t, "canceled", func() bool { return s.metric("canceled") == "1" })
	release()
}

// TestLeak: Close reports a stream and a buffer that a handler keeps.
func TestLeak(t *testing.T) {
	s, err := newServer(small())
	if err != nil {
		t.Fatal(err)
	}
	st := <-s.free
	var lost ferry.Host[byte]
	if err := lost.Alloc(s.pool, 100); err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err == nil || !strings.Contains(err.Error(), "1 of 3 streams") || !strings.Contains(err.Error(), "did not close 256 bytes") {
		t.Errorf("error %v, want a stream and a buffer", err)
	}
	s.free <- st
	if err := lost.Close(); err != nil {
		t.Error(err)
	}
}

// TestLoad runs the program's load, and then the server itself until a signal ends it.
func TestLoad(t *testing.T) {
	if err := runLoad(context.Background(), small(), 30, 4); err != nil {
		t.Error(err)
	}
	r := report{times: []time.Duration{1, 2, 3, 4}}
	if r.part(50) != 2 || r.part(99) != 4 || r.part(0) != 1 {
		t.Errorf("p50 %d, p99 %d, p0 %d of 1 to 4", r.part(50), r.part(99), r.part(0))
	}
	ctx, stop := context.WithCancel(context.Background())
	stop()
	if err := run(ctx, small(), "127.0.0.1:0", time.Minute); err != nil {
		t.Error(err)
	}
}

// TestCompiled compiles the source and compares with the committed PTX, bit by bit.
func TestCompiled(t *testing.T) {
	r := compiletest.File(t, "gray.cu", nil)
	kerneltest.Run(t, &kerneltest.Case{
		File: "gray.ptx", Kernel: "gray", Other: r.PTX,
		Args: []string{"s32=N", "in:u8=random[3*N]", "out:u8=[N]"}, Blocks: []int{32, 256},
		Want: func(a *kerneltest.Args) { copy(kerneltest.Slice[byte](a, 2), onCPU(kerneltest.Slice[byte](a, 1))) },
	})
}
