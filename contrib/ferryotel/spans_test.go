package ferryotel_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"go.opentelemetry.io/otel/codes"
	sdk "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	oteltrace "go.opentelemetry.io/otel/trace"

	"github.com/ferrygpu/ferry"
	"github.com/ferrygpu/ferry/contrib/ferryotel"
	"github.com/ferrygpu/ferry/kernels"
	"github.com/ferrygpu/ferry/pipeline"
	"github.com/ferrygpu/ferry/trace"
)

// observed starts a recorder of spans, and opens a GPU whose operations are observed.
func observed(t *testing.T, calls time.Duration) (*tracetest.SpanRecorder, oteltrace.Tracer, *ferry.GPU) {
	t.Helper()
	recorder := tracetest.NewSpanRecorder()
	provider := sdk.NewTracerProvider(sdk.WithSpanProcessor(recorder))
	ferryotel.Observe(&ferryotel.SpanOptions{Provider: provider, Calls: calls})
	t.Cleanup(func() { trace.Observe(nil) })
	gpu, err := ferry.Open("soft")
	check(t, err)
	return recorder, provider.Tracer("test"), gpu
}

// children returns the spans below one.
func children(recorder *tracetest.SpanRecorder, parent oteltrace.SpanContext) (all []sdk.ReadOnlySpan) {
	for _, s := range recorder.Ended() {
		if s.Parent().SpanID() == parent.SpanID() && s.Parent().TraceID() == parent.TraceID() {
			all = append(all, s)
		}
	}
	return all
}

// attributeOf returns an attribute of a span as text.
func attributeOf(s sdk.ReadOnlySpan, key string) string {
	for _, a := range s.Attributes() {
		if string(a.Key) == key {
			return a.Value.String()
		}
	}
	return ""
}

// TestSpans: each request of several at the same time has its own copies and kernel as children, with
// their bytes, memory, line and times, and what no span is bound to has none.
func TestSpans(t *testing.T) {
	recorder, tracer, gpu := observed(t, 0)
	module, err := ferry.Load(gpu, []byte(kernels.PTX), nil)
	check(t, err)
	increment, err := module.Kernel("increment")
	check(t, err)
	request := func(ctx context.Context, n int) (err error) {
		stream, err := ferry.NewStream(gpu, nil)
		host, err2 := ferry.AllocHost[float32](gpu, n, nil)
		data, err3 := ferry.Alloc[float32](gpu, n)
		if err := errors.Join(err, err2, err3); err != nil {
			return err
		}
		defer func() { err = errors.Join(err, host.Close(), data.Close(), stream.Close()) }()
		end := ferryotel.Bind(ctx)
		err = errors.Join(ferry.Copy(stream, data, host), stream.Launch(increment, ferry.Cover(n, 256), data, uint64(n)), ferry.Copy(stream, host, data))
		end()
		return errors.Join(err, ferry.Fill(stream, data, 0), stream.Wait(ctx))
	}
	const requests = 8
	var parents [requests]oteltrace.SpanContext
	var all sync.WaitGroup
	before := time.Now()
	for i := range requests {
		all.Go(func() {
			ctx, span := tracer.Start(context.Background(), fmt.Sprint("request ", i))
			defer span.End()
			parents[i] = span.SpanContext()
			if err := request(ctx, 1000+i); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	check(t, module.Close())
	check(t, gpu.Close())
	for i, parent := range parents {
		names := ""
		for _, s := range children(recorder, parent) {
			names += s.Name() + " "
			if bytes := attributeOf(s, "ferry.bytes"); s.Name() != "increment" && bytes != fmt.Sprint(4*(1000+i)) {
				t.Errorf("request %d: %s has %s bytes, want %d", i, s.Name(), bytes, 4*(1000+i))
			}
			if file := attributeOf(s, "code.file.path"); !strings.HasSuffix(file, "spans_test.go") || attributeOf(s, "code.line.number") == "" {
				t.Errorf("%s is of %q", s.Name(), file)
			}
			if attributeOf(s, "ferry.virtual") != "true" || !s.EndTime().After(s.StartTime()) || s.StartTime().Before(before) {
				t.Errorf("%s is at %v to %v, virtual: %s", s.Name(), s.StartTime(), s.EndTime(), attributeOf(s, "ferry.virtual"))
			}
		}
		if want := "[CUDA memcpy HtoD] increment [CUDA memcpy DtoH] "; names != want {
			t.Errorf("request %d has the operations %q, want %q", i, names, want)
		}
	}
	if n := len(recorder.Ended()); n != 4*requests {
		t.Errorf("there are %d spans, want %d", n, 4*requests)
	}
}

// TestFailedCall: a call that fails is a span with its error, and a long one is a span if the options
// say so.
func TestFailedCall(t *testing.T) {
	for _, calls := range []time.Duration{0, time.Microsecond} {
		recorder, tracer, gpu := observed(t, calls)
		ctx, span := tracer.Start(context.Background(), "request")
		end := ferryotel.Bind(ctx)
		host, err := ferry.AllocHost[byte](gpu, 1<<28, nil)
		check(t, err)
		if err := gpu.Driver().MemFree(gpu.CUContext(), 12345); err == nil {
			t.Error("a wrong address was freed")
		}
		end()
		span.End()
		check(t, host.Close())
		check(t, gpu.Close())
		failed, long := 0, 0
		for _, s := range children(recorder, span.SpanContext()) {
			switch {
			case s.Name() == "cuMemFree" && s.Status().Code == codes.Error && strings.Contains(s.Status().Description, "CUDA_ERROR_INVALID_VALUE"):
				failed++
			case s.Status().Code == codes.Unset && s.EndTime().Sub(s.StartTime()) >= time.Microsecond && attributeOf(s, "ferry.bytes") != "":
				long++
			}
		}
		if failed != 1 || (long > 0) != (calls > 0) {
			t.Errorf("calls of %v: %d failed and %d long spans", calls, failed, long)
		}
	}
}

// TestNoParent: a context without a span binds nothing.
func TestNoParent(t *testing.T) {
	recorder, _, gpu := observed(t, time.Nanosecond)
	defer ferryotel.Bind(context.Background())()
	data, err := ferry.Upload(gpu, make([]byte, 100))
	check(t, err)
	check(t, data.Close())
	check(t, gpu.Close())
	if all := recorder.Ended(); len(all) != 0 {
		t.Errorf("there are %d spans", len(all))
	}
}

// TestWholeTransfers: all operations of a pipeline, of a copy of much pageable memory, of a reader and
// of a batch are children of the span of the goroutine that calls them.
func TestWholeTransfers(t *testing.T) {
	recorder, tracer, gpu := observed(t, 0)
	const n = 24 << 20
	stream, err := ferry.NewStream(gpu, nil)
	check(t, err)
	data, err := ferry.Alloc[byte](gpu, n)
	check(t, err)
	p := pipeline.Pipeline{GPU: gpu, In: []pipeline.End{pipeline.From[byte](bytes.NewReader(make([]byte, n)))},
		Out: []pipeline.End{ferry.Pageable(make([]byte, n))}, InPlace: true, ChunkLen: n / 8,
		Step: func(s *ferry.Stream, c *pipeline.Chunk) error { return nil }}
	for name, f := range map[string]func(context.Context) error{
		"pipeline": func(ctx context.Context) error { _, err := p.Run(ctx); return err },
		"copy": func(ctx context.Context) error {
			return ferry.CopyContext(ctx, stream, data, ferry.Pageable(make([]byte, n)))
		},
		"reader": func(ctx context.Context) error {
			_, err := ferry.CopyFrom(ctx, stream, data, bytes.NewReader(make([]byte, n)))
			return err
		},
		"batch": func(ctx context.Context) error {
			var b ferry.Batch
			return errors.Join(ferry.Fill(&b, data, 1), stream.Submit(&b), stream.Wait(ctx))
		},
	} {
		ctx, span := tracer.Start(context.Background(), name)
		end := ferryotel.Bind(ctx)
		check(t, f(ctx))
		end()
		span.End()
		check(t, gpu.Wait(ctx))
		want := int64(n)
		if name == "pipeline" {
			want = 2 * n
		}
		total := int64(0)
		for _, s := range children(recorder, span.SpanContext()) {
			bytes, err := strconv.ParseInt(attributeOf(s, "ferry.bytes"), 10, 64)
			check(t, err)
			total += bytes
		}
		if total != want {
			t.Errorf("the spans of the %s have %d bytes, want %d", name, total, want)
		}
	}
	check(t, errors.Join(p.Close(), data.Close(), stream.Close(), gpu.Close()))
}
