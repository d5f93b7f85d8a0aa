package main

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/ferrygpu/ferry"
	"github.com/ferrygpu/ferry/cmd/ferry/internal/doctor"
	"github.com/ferrygpu/ferry/internal/measure/info"
)

// TestInfoOfMachine: what the doctor found around a device of hardware, in each width.
func TestInfoOfMachine(t *testing.T) {
	g, err := ferry.Open("soft:h200")
	if err != nil {
		t.Fatal(err)
	}
	defer g.Close()
	r, err := info.About(g)
	if err != nil {
		t.Fatal(err)
	}
	r.Machine = facts(&doctor.Report{Checks: []doctor.Check{
		{Name: "gpu", State: doctor.OK, Found: "NVIDIA H200"},
		{Name: "iommu", State: doctor.Warning, Found: "translates (DMA-FQ), group 12", Cost: "bare-metal copies between GPUs over PCI Express are not supported with it"},
		{Name: "mig", State: doctor.OK, Found: "off"},
		{Name: "confidential", State: doctor.Skipped, Found: "NVML does not say"},
		{Name: "locked-memory", State: doctor.Warning, Found: "limit of 8 MiB", Cost: "mlock, io_uring and RDMA fail beyond 8 MiB"},
		{Name: "container", State: doctor.Warning, Found: "gVisor: its own kernel passes the driver's calls on (nvproxy)", Cost: "each call to the driver takes longer"},
		{Name: "wsl", State: doctor.OK, Found: "no", Cost: "none"},
	}})
	piped := r.Page().Text(0)
	all := "== piped\n" + piped
	for _, columns := range []int{60, 80, 120} {
		text := r.Page().Text(columns)
		checkColumns(t, columns, text, piped)
		all += fmt.Sprintf("== %d columns\n%s", columns, text)
	}
	golden(t, filepath.Join("columns", "info-machine.txt"), all)
	doc, err := r.JSON()
	if err != nil || !strings.Contains(string(doc), `{"name":"wsl","state":"ok","found":"no"}`) || strings.Contains(string(doc), "NVML") {
		t.Errorf("error %v, document %s", err, doc)
	}
}
