package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"net/http"
	"time"

	"github.com/ferrygpu/ferry"
	"github.com/ferrygpu/ferry/cu"
)

// refusal is an error with the status that the client gets.
type refusal struct {
	status int
	text   string
}

func (r *refusal) Error() string { return r.text }

func refuse(status int, format string, args ...any) error {
	return &refusal{status, fmt.Sprintf(format, args...)}
}

// answer reads the pixels of a request, and writes their brightness. One buffer has both, so no request has memory and
// waits for more. Deferred calls give the buffer back, also if the handler panics. When the client is gone, the GPU may
// still use the buffer: the pool knows, and gives it to no other request before that ends.
func (s *server) answer(w http.ResponseWriter, r *http.Request) error {
	ctx := r.Context()
	n, err := s.count(r)
	if err != nil {
		return err
	}
	var buffer ferry.Host[byte]
	if err := s.alloc(ctx, &buffer, 4*n); err != nil {
		return err
	}
	defer func() {
		if err := buffer.Close(); err != nil {
			log.Print(err)
		}
	}()
	rgb, gray := buffer.Range(0, 3*n), buffer.Range(3*n, 4*n)
	body, err := rgb.SliceContext(ctx)
	if err != nil {
		return err
	}
	if _, err := io.ReadFull(r.Body, body); err != nil {
		return refuse(http.StatusBadRequest, "read a body of %d bytes: %v", len(body), err)
	}
	s.vars.Add("pixels", int64(n))
	if err := s.compute(ctx, rgb, gray, n); err != nil {
		return err
	}
	result, err := gray.ReadSliceContext(ctx)
	if err != nil {
		return err
	}
	w.Header().Set("Content-Type", "application/octet-stream")
	if _, err := w.Write(result); err != nil {
		s.vars.Add("unread", 1) // the client is gone
	}
	return nil
}

// count returns the number of pixels of a request.
func (s *server) count(r *http.Request) (int, error) {
	switch n := r.ContentLength; {
	case n < 0:
		return 0, refuse(http.StatusLengthRequired, "the request does not say how long its body is")
	case n > int64(3*s.pixels):
		return 0, refuse(http.StatusRequestEntityTooLarge, "%d bytes: at most %d pixels of 3 bytes are allowed", n, s.pixels)
	case n == 0 || n%3 != 0:
		return 0, refuse(http.StatusBadRequest, "%d bytes are no pixels of 3 bytes", n)
	default:
		return int(n / 3), nil
	}
}

// alloc takes page-locked memory from the pool. It waits if requests have all of it. Package http sees that a client is
// gone only when the body was read, so the wait must have an end.
func (s *server) alloc(ctx context.Context, buffer *ferry.Host[byte], n int) error {
	wait, cancel := context.WithTimeout(ctx, s.wait)
	defer cancel()
	err := buffer.AllocContext(wait, s.pool, n)
	if errors.Is(err, cu.ErrorOutOfMemory) && ctx.Err() == nil {
		return refuse(http.StatusServiceUnavailable, "all memory is in use for %v", s.wait)
	}
	return err
}

// take takes a stream. It waits if requests have all of them.
func (s *server) take(ctx context.Context) (*stream, error) {
	timer := time.NewTimer(s.wait)
	defer timer.Stop()
	select {
	case st := <-s.free:
		return st, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	case <-timer.C:
		return nil, refuse(http.StatusServiceUnavailable, "all %d streams are in use for %v", s.streams, s.wait)
	}
}

// compute has the GPU compute the brightness of n pixels, and waits for it. If ctx ends first, the work goes on. Work of
// the next request in that stream begins after it.
func (s *server) compute(ctx context.Context, rgb, gray *ferry.Host[byte], n int) error {
	st, err := s.take(ctx)
	if err != nil {
		return err
	}
	defer func() { s.free <- st }()
	if err := ferry.Copy(st.Stream, st.rgb.Range(0, 3*n), rgb); err != nil {
		return err
	}
	if err := s.kernels.Gray(st.Stream, ferry.Cover(n, 256), int32(n), st.rgb, st.gray); err != nil {
		return err
	}
	if err := ferry.Copy(st.Stream, gray, st.gray.Range(0, n)); err != nil {
		return err
	}
	return st.Wait(ctx)
}
