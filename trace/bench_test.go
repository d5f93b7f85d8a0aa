package trace_test

import (
	"testing"

	"github.com/ferrygpu/ferry/cu"
	"github.com/ferrygpu/ferry/trace"
)

// nothing is a driver whose calls do nothing, so that what is left is the cost of the
// recording.
type nothing struct{ cu.Driver }

func (nothing) MemcpyHtoDAsync(cu.Context, cu.DevicePtr, cu.HostPtr, uintptr, cu.Stream) error {
	return nil
}
func (nothing) EventQuery(cu.Context, cu.Event) error { return nil }
func (nothing) ThreadExchangeStreamCaptureMode(cu.StreamCaptureMode) (m cu.StreamCaptureMode, e error) {
	return m, nil
}
func (nothing) EventRecord(cu.Context, cu.Event, cu.Stream) error                   { return nil }
func (nothing) EventSynchronize(cu.Context, cu.Event) error                         { return nil }
func (nothing) EventCreate(cu.Context, cu.EventFlags) (cu.Event, error)             { return 1, nil }
func (nothing) StreamCreate(cu.Context, cu.StreamFlags) (cu.Stream, error)          { return 5, nil }
func (nothing) EventElapsedTime(cu.Context, cu.Event, cu.Event) (float32, error)    { return 1, nil }
func (nothing) DeviceGetAttribute(cu.DeviceAttribute, cu.Device) (v int32, e error) { return 0, nil }

// BenchmarkRecord measures what a recording adds to a call, and to a call that queues an
// operation of hardware, without the driver's time for two events.
func BenchmarkRecord(b *testing.B) {
	for _, name := range []string{"call=query", "call=copy"} {
		b.Run(name, func(b *testing.B) {
			r, _ := recorder(b)
			d := r.Wrap(nothing{})
			b.ReportAllocs()
			for b.Loop() {
				if name == "call=query" {
					_ = d.EventQuery(1, 1)
				} else {
					_ = d.MemcpyHtoDAsync(1, 2, nil, 64, 7)
				}
			}
		})
	}
}

// BenchmarkWithout measures a call of a program without FERRY_TRACE: Open gives the
// driver itself, so that there is nothing to measure but the driver.
func BenchmarkWithout(b *testing.B) {
	for _, name := range []string{"driver=direct", "driver=opened"} {
		b.Run(name, func(b *testing.B) {
			var d cu.Driver = soft(b, "h200", 1)
			g := open(b, d)
			defer g.Close()
			if name == "driver=opened" {
				d = g.Driver()
			}
			b.ReportAllocs()
			for b.Loop() {
				if _, err := d.DriverGetVersion(); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// BenchmarkObserve measures what an observer adds to a call, and to a call that queues an operation of
// hardware, as BenchmarkRecord does for a recording in a file. The goroutine has a tag.
func BenchmarkObserve(b *testing.B) {
	for _, name := range []string{"call=query", "call=copy"} {
		b.Run(name, func(b *testing.B) {
			r := must(trace.Start(&trace.Options{Observe: func(*trace.Finished) {}}))(b)
			d := r.Wrap(nothing{})
			defer trace.Tag("request")()
			b.ReportAllocs()
			for b.Loop() {
				if name == "call=query" {
					_ = d.EventQuery(1, 1)
				} else {
					_ = d.MemcpyHtoDAsync(1, 2, nil, 64, 7)
				}
			}
		})
	}
}
