package ferryotel_test

import (
	"context"
	"fmt"
	"log"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"

	"github.com/ferrygpu/ferry"
	"github.com/ferrygpu/ferry/contrib/ferryotel"
	"github.com/ferrygpu/ferry/metrics"
	"github.com/ferrygpu/ferry/trace"
)

// A server exports the figures of its GPU.
func ExampleRegister() {
	gpu, err := ferry.Open("soft")
	if err != nil {
		log.Fatal(err)
	}
	defer gpu.Close()
	set := new(metrics.Set)
	if err := set.AddGPU("", gpu); err != nil {
		log.Fatal(err)
	}
	reader := sdkmetric.NewManualReader() // or one of an exporter
	provider := sdkmetric.NewMeterProvider(sdkmetric.WithReader(reader))
	if _, err := ferryotel.Register(set, provider); err != nil {
		log.Fatal(err)
	}

	var got metricdata.ResourceMetrics
	if err := reader.Collect(context.Background(), &got); err != nil {
		log.Fatal(err)
	}
	first := got.ScopeMetrics[0].Metrics[0]
	fmt.Println(first.Name, first.Data.(metricdata.Gauge[int64]).DataPoints[0].Attributes.Encoded(attribute.DefaultEncoder()))
	// Output:
	// ferry.gpu.info gpu=soft:h200,name=NVIDIA H200
}

// A server's handler sees its copies and kernels as spans below its own.
func ExampleBind() {
	recorder := tracetest.NewSpanRecorder() // or sdktrace.NewBatchSpanProcessor of an exporter
	otel.SetTracerProvider(sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(recorder)))
	defer trace.Observe(nil)
	ferryotel.Observe(nil)
	gpu, err := ferry.Open("soft") // after Observe
	if err != nil {
		log.Fatal(err)
	}
	defer gpu.Close()
	handle := func(ctx context.Context, input []float32) error {
		ctx, span := otel.Tracer("server").Start(ctx, "infer")
		defer span.End()
		defer ferryotel.Bind(ctx)()
		data, err := ferry.Upload(gpu, input)
		if err != nil {
			return fmt.Errorf("upload the input: %w", err)
		}
		return data.Close()
	}
	if err := handle(context.Background(), make([]float32, 1000)); err != nil {
		log.Fatal(err)
	}

	for _, s := range recorder.Ended() {
		fmt.Printf("%s, a child: %v\n", s.Name(), s.Parent().IsValid())
	}
	// Output:
	// [CUDA memcpy HtoD], a child: true
	// infer, a child: false
}
