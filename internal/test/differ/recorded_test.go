package differ

import "testing"

// TestRecorded runs every kernel on the software GPU and compares with the recorded
// outputs of hardware.
func TestRecorded(t *testing.T) {
	var record Record
	if err := ReadJSON(recordFile, &record); err != nil {
		t.Fatal(err)
	}
	eachModule(t, func(t *testing.T, family, target string) {
		ptx := source(t, family, target)
		b := bench(t, software(t), ptx)
		for _, c := range CasesOf(family) {
			if !c.On(target) {
				continue
			}
			got, err := b.Run(c, c.Inputs(record.Seed))
			if err != nil {
				t.Error(err)
				continue
			}
			r := record.find(c.Kernel, target)
			if r == nil || r.PTX != Sum(ptx) {
				t.Errorf("%s: the PTX has changed since hardware was recorded; record it with: %s", c.Kernel, command)
			} else if err := r.Check(c, got); err != nil {
				t.Error(err)
			}
		}
	})
}

func (r *Record) find(kernel, target string) *Result {
	for i := range r.Results {
		if r.Results[i].Kernel == kernel && r.Results[i].Target == target {
			return &r.Results[i]
		}
	}
	return nil
}
