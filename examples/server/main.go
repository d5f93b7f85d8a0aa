// The command server is an HTTP server that feeds a GPU, or the software GPU if there is none. POST /gray takes pixels,
// three bytes each, and answers with their brightness, a byte each. GET /debug/vars has the metrics, and GET /health
// says whether the GPU works.
//
//	go run ./examples/server --addr 127.0.0.1:8080
//	head -c 3000000 /dev/urandom | curl --data-binary @- http://127.0.0.1:8080/gray | wc -c
//
// A body goes straight into page-locked memory of a pool, and is copied from there. SIGINT and SIGTERM end the server:
// it finishes its requests, closes everything, and fails if something was lost. With --load it sends requests to
// itself, compares each result, prints the times, and ends:
//
//	go run ./examples/server --load 1000
//
// After a change of gray.cu: go generate ./examples/server.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"log"
	"log/slog"
	"net"
	"net/http"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/ferrygpu/ferry"
)

//go:generate go run github.com/ferrygpu/ferry/cmd/ferry bind gray.cu

func main() {
	var o options
	flag.StringVar(&o.device, "device", "", "the device, such as cuda:1 or soft; empty is FERRY_DEVICE, else a GPU if there is one")
	flag.IntVar(&o.streams, "streams", 8, "the streams, which is how many requests the GPU works on at once")
	flag.IntVar(&o.pixels, "max-pixels", 1<<20, "the most pixels of a request")
	memory := flag.Int("max-memory", 64, "the page-locked memory of all requests, in MiB")
	flag.DurationVar(&o.wait, "wait", time.Second, "how long a request waits for memory or a stream before it gets status 503")
	addr := flag.String("addr", "127.0.0.1:8080", "where to listen")
	drain := flag.Duration("drain", 10*time.Second, "how long requests may take after SIGTERM")
	requests := flag.Int("load", 0, "send this number of requests, print their times, and end")
	clients := flag.Int("clients", 16, "how many clients send them at once")
	flag.Parse()
	o.memory = *memory << 20
	ferry.Log(slog.Default()) // slow page-locking, fallbacks, leaks
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	var err error
	if *requests > 0 {
		err = runLoad(ctx, o, *requests, *clients)
	} else {
		err = run(ctx, o, *addr, *drain)
	}
	if err != nil {
		log.Fatal(err)
	}
}

// run serves until ctx ends.
func run(ctx context.Context, o options, addr string, drain time.Duration) (err error) {
	s, err := newServer(o)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	l, err := net.Listen("tcp", addr)
	if err != nil {
		return err
	}
	log.Printf("%v serves http://%v/gray", s.gpu, l.Addr())
	return serve(ctx, s, l, drain)
}

// runLoad starts a server of its own, and sends requests to it.
func runLoad(ctx context.Context, o options, requests, clients int) (err error) {
	s, err := newServer(o)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	ctx, stop := context.WithCancel(ctx)
	served := make(chan error, 1)
	go func() { served <- serve(ctx, s, l, time.Second) }()
	defer func() { stop(); err = errors.Join(err, <-served) }()
	r, err := load(ctx, "http://"+l.Addr().String(), requests, clients, min(1<<16, o.pixels))
	fmt.Printf("%v: %v\n", s.gpu, r)
	return err
}

// serve serves HTTP until ctx ends. Requests have the time drain to finish. Then their contexts end. A client that
// sends slowly has memory of the pool until ReadTimeout.
func serve(ctx context.Context, s *server, l net.Listener, drain time.Duration) error {
	h := &http.Server{Handler: s, ReadHeaderTimeout: 10 * time.Second, ReadTimeout: time.Minute, WriteTimeout: time.Minute}
	failed := make(chan error, 1)
	go func() { failed <- h.Serve(l) }()
	select {
	case err := <-failed:
		return errors.Join(err, h.Close())
	case <-ctx.Done():
	}
	ending, cancel := context.WithTimeout(context.Background(), drain)
	defer cancel()
	if err := h.Shutdown(ending); err != nil {
		return errors.Join(fmt.Errorf("requests took longer than %v: %w", drain, err), h.Close())
	}
	return nil
}
