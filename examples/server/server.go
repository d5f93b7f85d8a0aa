package main

import (
	"context"
	"errors"
	"expvar"
	"fmt"
	"io"
	"log"
	"net/http"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/ferrygpu/ferry"
	"github.com/ferrygpu/ferry/metrics"
)

// options are the limits of a server.
type options struct {
	device  string
	streams int           // requests that the GPU works on at once
	pixels  int           // of a request, at most
	memory  int           // page-locked bytes of all requests, whole pages
	wait    time.Duration // for memory or a stream
}

// server is the handler of all requests. It is safe for concurrent use.
type server struct {
	options
	gpu     *ferry.GPU
	kernels *Gray
	pool    *ferry.PinnedPool
	free    chan *stream // those that no request uses
	vars    *expvar.Map
	figures metrics.Set // of memory; the modules in contrib give them to other systems
	mux     *http.ServeMux
	open    closers

	running sync.RWMutex // each request has it for reading
	closed  bool
}

// stream is a stream with the GPU memory that its requests use, one after the other.
type stream struct {
	*ferry.Stream
	rgb, gray *ferry.Device[byte]
}

// newServer opens the GPU and what all requests share. After an error it closes what it has opened.
func newServer(o options) (*server, error) {
	if o.streams < 1 || o.pixels < 1 || o.memory < 5*o.pixels {
		return nil, fmt.Errorf("%d streams, %d pixels, %d bytes of memory: a server needs a stream, a pixel, and 5 bytes for each",
			o.streams, o.pixels, o.memory)
	}
	s := &server{options: o, free: make(chan *stream, o.streams), vars: new(expvar.Map), mux: http.NewServeMux()}
	if err := s.openAll(); err != nil {
		return nil, errors.Join(err, s.open.Close())
	}
	s.mux.HandleFunc("POST /gray", s.gray)
	s.mux.HandleFunc("GET /health", s.health)
	s.mux.HandleFunc("GET /debug/vars", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, s.vars) })
	s.vars.Set("streams_free", expvar.Func(func() any { return len(s.free) }))
	s.vars.Set("memory", &s.figures)
	return s, nil
}

// openAll opens the GPU and what is on it.
func (s *server) openAll() (err error) {
	if s.gpu, err = ferry.Open(s.device); err != nil {
		return err
	}
	s.open = append(s.open, s.gpu)
	if s.kernels, err = LoadGray(s.gpu); err != nil {
		return err
	}
	s.open = append(s.open, s.kernels)
	if s.pool, err = ferry.NewPinnedPool(s.gpu, &ferry.PinnedPoolOptions{Max: s.memory}); err != nil {
		return err
	}
	s.open = append(s.open, s.pool)
	if err := s.pool.Warm(context.Background(), s.memory); err != nil { // no request waits for the driver
		return err
	}
	for range s.streams {
		if err := s.addStream(); err != nil {
			return err
		}
	}
	return errors.Join(s.figures.AddGPU("", s.gpu), s.figures.AddPinnedPool("requests", s.pool))
}

// addStream makes a stream and its memory.
func (s *server) addStream() (err error) {
	st := new(stream)
	if st.Stream, err = ferry.NewStream(s.gpu, &ferry.StreamOptions{NonBlocking: true}); err != nil {
		return err
	}
	s.open = append(s.open, st.Stream)
	if st.rgb, err = ferry.Alloc[byte](s.gpu, 3*s.pixels); err != nil {
		return err
	}
	s.open = append(s.open, st.rgb)
	if st.gray, err = ferry.Alloc[byte](s.gpu, s.pixels); err != nil {
		return err
	}
	s.open = append(s.open, st.gray)
	s.free <- st
	return nil
}

// Close waits for the requests, and closes what they share. It returns an error if a request has lost something.
func (s *server) Close() (err error) {
	s.running.Lock()
	s.closed = true
	s.running.Unlock()
	if n := len(s.free); n < s.streams {
		err = fmt.Errorf("leak: %d of %d streams did not come back", s.streams-n, s.streams)
	}
	if stats, _ := s.pool.Stats(); stats.Used > 0 {
		err = errors.Join(err, fmt.Errorf("leak: requests did not close %d bytes of page-locked memory", stats.Used))
	}
	return errors.Join(err, s.open.Close())
}

// ServeHTTP counts the request, and its panic, and calls its handler.
func (s *server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.running.RLock()
	defer s.running.RUnlock()
	if s.closed {
		http.Error(w, "the server ends", http.StatusServiceUnavailable)
		return
	}
	s.vars.Add("requests", 1)
	s.vars.Add("requests_running", 1)
	finished := false
	defer func() {
		s.vars.Add("requests_running", -1)
		if !finished {
			s.vars.Add("panics", 1) // package http recovers, and logs the stack
		}
	}()
	s.mux.ServeHTTP(w, r)
	finished = true
}

// gray answers with the brightness of the pixels in the body.
func (s *server) gray(w http.ResponseWriter, r *http.Request) {
	err := s.answer(w, r)
	refused, status := (*refusal)(nil), http.StatusOK
	switch {
	case err == nil:
	case errors.As(err, &refused):
		status = refused.status
		if status == http.StatusServiceUnavailable {
			w.Header().Set("Retry-After", "1")
		}
		http.Error(w, refused.text, status)
	case r.Context().Err() != nil:
		s.vars.Add("canceled", 1) // nobody reads an answer
		return
	default:
		status = http.StatusInternalServerError
		log.Print(err)
		http.Error(w, "the GPU failed; the server's log has why", status)
	}
	s.vars.Add("status_"+strconv.Itoa(status), 1)
}

// health says whether the GPU works. After a fault of a kernel no call does, until the program is started again.
func (s *server) health(w http.ResponseWriter, _ *http.Request) {
	if _, _, err := s.gpu.MemInfo(); err != nil {
		log.Print(err)
		http.Error(w, "the GPU failed; the server's log has why", http.StatusServiceUnavailable)
		return
	}
	fmt.Fprintln(w, "ok")
}

// closers are what is open, in the order in which it was opened.
type closers []io.Closer

// Close closes all, the last one first, and returns all errors.
func (c closers) Close() (err error) {
	for _, x := range slices.Backward(c) {
		err = errors.Join(err, x.Close())
	}
	return err
}
