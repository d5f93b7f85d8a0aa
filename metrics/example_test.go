package metrics_test

import (
	"expvar"
	"fmt"
	"log"

	"github.com/ferrygpu/ferry"
	"github.com/ferrygpu/ferry/metrics"
)

// A server publishes the figures of its GPU at /debug/vars, and reads one itself.
func ExampleSet() {
	gpu, err := ferry.Open("soft")
	if err != nil {
		log.Fatal(err)
	}
	defer gpu.Close()
	host, err := ferry.AllocHost[byte](gpu, 4096, nil)
	if err != nil {
		log.Fatal(err)
	}
	defer host.Close()
	set := new(metrics.Set)
	if err := set.AddGPU("", gpu); err != nil {
		log.Fatal(err)
	}
	expvar.Publish("ferry", set)

	for _, v := range set.Read() {
		if v.Path == "page_locked" && v.Value > 0 {
			fmt.Println(v.Name(), v.Value)
		}
	}
	// Output:
	// ferry_page_locked_bytes{gpu="soft:h200",kind="allocated"} 4096
}
