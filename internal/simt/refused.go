package simt

import (
	"slices"

	"github.com/ferrygpu/ferry/ptx"
)

// Refusal is why some operations do not run.
type Refusal struct {
	Ops    []string
	Reason string
}

// Refused says why families of instructions do not run. An instruction that is in
// neither this list nor the table of forms is none that the ISA had when this was
// written.
var Refused = []Refusal{
	{[]string{"tex", "tld4", "txq", "istypep", "suld", "sust", "sured", "suq"}, "textures and surfaces are not supported"},
	{[]string{"wgmma"}, "asynchronous matrix operations of sm_90a are not supported"},
	{[]string{"tcgen05"}, "tensor memory of sm_100a is not supported"},
	{[]string{"mapa", "getctarank", "multimem", "clusterlaunchcontrol"}, "clusters and multicast are not supported"},
	{[]string{"tensormap", "cp"}, "bulk and tensor copies are not supported"},
	{[]string{
		"vadd", "vsub", "vabsdiff", "vmin", "vmax", "vshl", "vshr", "vmad", "vset", "vadd2", "vsub2", "vavrg2", "vabsdiff2", "vmin2", "vmax2",
		"vset2", "vadd4", "vsub4", "vavrg4", "vabsdiff4", "vmin4", "vmax4", "vset4",
	}, "video instructions are not supported"},
}

// refusal is why an instruction that is not run at all is not.
func refusal(in *ptx.Instr) string {
	for _, r := range Refused {
		if slices.Contains(r.Ops, in.Op) {
			return r.Reason
		}
	}
	return "the software GPU does not have this instruction"
}
