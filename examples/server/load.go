package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// report is what a load has measured.
type report struct {
	times []time.Duration // of requests with a right answer, the shortest first
	busy  int             // requests that got status 503
	took  time.Duration
	bytes int // of a body
}

func (r report) String() string {
	if len(r.times) == 0 {
		return fmt.Sprintf("no answers, %d times busy", r.busy)
	}
	return fmt.Sprintf("%d right answers of %d bytes in %v, %d times busy, p50 %v, p99 %v", len(r.times), r.bytes,
		r.took.Round(time.Millisecond), r.busy, r.part(50).Round(time.Microsecond), r.part(99).Round(time.Microsecond))
}

// part returns the time that a percentage of the requests did not exceed.
func (r report) part(percent int) time.Duration {
	return r.times[max((len(r.times)*percent+99)/100-1, 0)]
}

// load sends requests from a number of clients at once, and compares each answer with the CPU's.
func load(ctx context.Context, url string, requests, clients, pixels int) (report, error) {
	client := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: clients}}
	defer client.CloseIdleConnections()
	r, begin := report{bytes: 3 * pixels}, time.Now()
	var (
		wg     sync.WaitGroup
		next   atomic.Int64
		mu     sync.Mutex
		failed error
	)
	for i := range clients {
		wg.Go(func() {
			body := make([]byte, 3*pixels)
			_, _ = rand.NewChaCha8([32]byte{byte(i)}).Read(body)
			for next.Add(1) <= int64(requests) {
				sent := time.Now()
				status, err := send(ctx, client, url, body)
				took := time.Since(sent)
				mu.Lock()
				switch {
				case status == http.StatusServiceUnavailable:
					r.busy++
				case err != nil:
					failed = errors.Join(failed, err)
				default:
					r.times = append(r.times, took)
				}
				stop := failed != nil
				mu.Unlock()
				if stop {
					return
				}
			}
		})
	}
	wg.Wait()
	r.took = time.Since(begin)
	slices.Sort(r.times)
	return r, failed
}

// send sends a request, and compares the answer.
func send(ctx context.Context, client *http.Client, url string, body []byte) (status int, err error) {
	q, err := http.NewRequestWithContext(ctx, http.MethodPost, url+"/gray", bytes.NewReader(body))
	if err != nil {
		return 0, err
	}
	a, err := client.Do(q)
	if err != nil {
		return 0, err
	}
	defer a.Body.Close()
	got, err := io.ReadAll(a.Body)
	switch {
	case err != nil:
		return a.StatusCode, err
	case a.StatusCode != http.StatusOK:
		return a.StatusCode, fmt.Errorf("%s: %s", a.Status, bytes.TrimSpace(got))
	case !bytes.Equal(got, onCPU(body)):
		return a.StatusCode, errors.New("the answer differs from what the CPU computes")
	}
	return a.StatusCode, nil
}

// onCPU returns the brightness of pixels.
func onCPU(rgb []byte) []byte {
	gray := make([]byte, len(rgb)/3)
	for i := range gray {
		r, g, b := int(rgb[3*i]), int(rgb[3*i+1]), int(rgb[3*i+2])
		gray[i] = byte((77*r + 150*g + 29*b + 128) >> 8)
	}
	return gray
}
