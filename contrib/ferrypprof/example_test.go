package ferrypprof_test

import (
	"fmt"
	"log"
	"net/http"
	"net/http/httptest"

	"github.com/google/pprof/profile"

	"github.com/ferrygpu/ferry"
	"github.com/ferrygpu/ferry/contrib/ferrypprof"
	"github.com/ferrygpu/ferry/metrics"
)

// A server shows which places of it have page-locked and device memory.
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
	gpu.RecordPlaces(true)
	http.Handle("/debug/pprof/ferry", ferrypprof.Handler(set))

	weights, err := ferry.Alloc[float32](gpu, 1000)
	if err != nil {
		log.Fatal(err)
	}
	defer weights.Close()
	w := httptest.NewRecorder()
	http.DefaultServeMux.ServeHTTP(w, httptest.NewRequest("GET", "/debug/pprof/ferry", nil))
	p, err := profile.Parse(w.Body)
	if err != nil {
		log.Fatal(err)
	}
	for _, s := range p.Sample {
		fmt.Println(s.Value, s.Label["kind"], s.Location[0].Line[0].Function.Name)
	}
	// Output:
	// [1 4000 1 4000] [device] github.com/ferrygpu/ferry/contrib/ferrypprof_test.Example
}
