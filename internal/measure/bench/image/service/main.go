// Command service is a small HTTP service that uses a GPU. Command image builds it and
// measures what an image of it holds.
//
//	service [--listen ADDRESS]
//
// It answers a POST of little-endian numbers of type float32 with the same numbers plus 1. It
// writes the address that it listens on to standard output.
package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"

	"github.com/ferrygpu/ferry"
	"github.com/ferrygpu/ferry/kernels"
)

const (
	elementBytes = 4
	maxBytes     = 64 << 20 // of one request
)

func main() {
	listen := flag.String("listen", "127.0.0.1:0", "the `address` to listen on")
	flag.Parse()
	if err := run(*listen, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "service:", err)
		os.Exit(1)
	}
}

// run serves until the listener fails.
func run(address string, stdout io.Writer) error {
	s, err := open()
	if err != nil {
		return err
	}
	defer s.gpu.Close()
	l, err := net.Listen("tcp", address)
	if err != nil {
		return err
	}
	fmt.Fprintln(stdout, l.Addr())
	return http.Serve(l, s)
}

// service is the handler of requests. Each request has a stream and memory of its own.
type service struct {
	gpu    *ferry.GPU
	kernel *ferry.Kernel
}

// open opens a GPU, or the software one, and loads the kernel.
func open() (*service, error) {
	gpu, err := ferry.Open("")
	if err != nil {
		return nil, err
	}
	module, err := ferry.Load(gpu, []byte(kernels.PTX), nil)
	if err != nil {
		return nil, errors.Join(err, gpu.Close())
	}
	kernel, err := module.Kernel("increment")
	if err != nil {
		return nil, errors.Join(err, module.Close(), gpu.Close())
	}
	return &service{gpu, kernel}, nil
}

// ServeHTTP answers one request.
func (s *service) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	n := r.ContentLength
	if n <= 0 || n > maxBytes || n%elementBytes != 0 {
		text := fmt.Sprintf("a body of %d bytes: it must have 4 to %d bytes, and a multiple of 4", n, maxBytes)
		http.Error(w, text, http.StatusBadRequest)
		return
	}
	if err := s.increment(w, r, int(n/elementBytes)); err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
	}
}

// increment reads n numbers of a request, lets the GPU add 1, and writes them.
func (s *service) increment(w io.Writer, r *http.Request, n int) (err error) {
	stream, err := ferry.NewStream(s.gpu, &ferry.StreamOptions{NonBlocking: true})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, stream.Close()) }()
	vec, err := ferry.AllocAsync[float32](stream, n, nil)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, vec.Close()) }()
	if _, err := ferry.CopyFrom(r.Context(), stream, vec, r.Body); err != nil {
		return err
	}
	if err := stream.Launch(s.kernel, ferry.Cover(n, 256), vec, uint64(n)); err != nil {
		return err
	}
	_, err = ferry.CopyTo(r.Context(), stream, w, vec)
	return err
}
