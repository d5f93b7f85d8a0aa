package ferryotel

import (
	"context"
	"time"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	oteltrace "go.opentelemetry.io/otel/trace"

	"github.com/ferrygpu/ferry/trace"
)

// SpanOptions are the options of [Observe].
type SpanOptions struct {
	// Provider makes the spans. The default is the global one.
	Provider oteltrace.TracerProvider
	// Calls lets calls of the driver that take at least this time be spans, too, such as those that
	// page-lock memory. The default is only calls that fail.
	Calls time.Duration
}

// Observe makes spans of what goroutines queue between [Bind] and its end, on all GPUs that package
// ferry opens from now on: call it before ferry.Open. It replaces the function of [trace.Observe],
// and trace.Observe(nil) ends it. o may be nil.
//
// A span has the name of the kernel, or one such as "[CUDA memcpy HtoD]", and the times on the wall
// clock that trace.Observe documents: on a software GPU they are predictions, and the attribute
// ferry.virtual is true. Operations without times have no span. A span comes some milliseconds after
// its operation has ended, which can be after the end of its parent.
//
// On a software GPU spans end while its driver holds a lock. So use a span processor that only queues
// them, such as sdk/trace's batcher.
func Observe(o *SpanOptions) {
	if o == nil {
		o = &SpanOptions{}
	}
	provider := o.Provider
	if provider == nil {
		provider = otel.GetTracerProvider()
	}
	s := &spans{tracer: provider.Tracer(name), calls: o.Calls}
	trace.Observe(s.finished)
}

// Bind lets what this goroutine queues until end be children of the span in ctx. It does nothing if
// ctx has none. Call end before the goroutine ends:
//
//	defer ferryotel.Bind(ctx)()
//
// A Bind between the two holds until its own end. Goroutines that this one starts are not bound.
func Bind(ctx context.Context) (end func()) {
	if !oteltrace.SpanContextFromContext(ctx).IsValid() {
		return func() {}
	}
	return trace.Tag(parent{ctx})
}

// parent is the tag of a goroutine.
type parent struct{ ctx context.Context }

// spans makes spans of what has finished.
type spans struct {
	tracer oteltrace.Tracer
	calls  time.Duration // of a call that is a span; 0 for none
}

// finished makes a span.
func (s *spans) finished(f *trace.Finished) {
	p, bound := f.Tag.(parent)
	if !bound || !s.wanted(f) {
		return
	}
	_, span := s.tracer.Start(p.ctx, f.Name, oteltrace.WithTimestamp(f.Began), oteltrace.WithAttributes(attributesOf(f)...))
	if f.Err != nil {
		span.RecordError(f.Err, oteltrace.WithTimestamp(f.Ended))
		span.SetStatus(codes.Error, f.Err.Error())
	}
	span.End(oteltrace.WithTimestamp(f.Ended))
}

// wanted reports whether something is a span.
func (s *spans) wanted(f *trace.Finished) bool {
	return !f.IsCall || f.Err != nil || s.calls > 0 && f.Ended.Sub(f.Began) >= s.calls
}

// attributesOf returns what a span says of an operation or a call.
func attributesOf(f *trace.Finished) []attribute.KeyValue {
	all := make([]attribute.KeyValue, 0, 10)
	text := func(key, value string) {
		if value != "" {
			all = append(all, attribute.String(key, value))
		}
	}
	if !f.IsCall {
		all = append(all, attribute.Int("ferry.device", f.Device))
	}
	if f.Stream != trace.NoStream {
		all = append(all, attribute.Int("ferry.stream", f.Stream))
	}
	if f.Bytes > 0 {
		all = append(all, attribute.Int64("ferry.bytes", int64(f.Bytes)))
	}
	text("ferry.engine", f.Engine)
	text("ferry.from", f.From)
	text("ferry.to", f.To)
	text("code.file.path", f.Site.File)
	text("code.function.name", f.Site.Func)
	if f.Site.Line > 0 {
		all = append(all, attribute.Int("code.line.number", f.Site.Line))
	}
	return append(all, attribute.Bool("ferry.virtual", f.Virtual))
}
