package ferryprom_test

import (
	"fmt"
	"log"
	"net/http"
	"net/http/httptest"
	"strings"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/ferrygpu/ferry"
	"github.com/ferrygpu/ferry/contrib/ferryprom"
	"github.com/ferrygpu/ferry/metrics"
)

// A server shows the figures of its GPU at /metrics.
func Example() {
	gpu, err := ferry.Open("soft")
	if err != nil {
		log.Fatal(err)
	}
	defer gpu.Close()
	set := new(metrics.Set)
	if err := set.AddGPU("", gpu); err != nil {
		log.Fatal(err)
	}
	prometheus.MustRegister(ferryprom.NewCollector(set))
	http.Handle("/metrics", promhttp.Handler())

	w := httptest.NewRecorder()
	http.DefaultServeMux.ServeHTTP(w, httptest.NewRequest("GET", "/metrics", nil))
	for line := range strings.Lines(w.Body.String()) {
		if strings.HasPrefix(line, "ferry_gpu_info") {
			fmt.Print(line)
		}
	}
	// Output:
	// ferry_gpu_info{gpu="soft:h200",name="NVIDIA H200"} 1
}
