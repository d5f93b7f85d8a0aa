package ptx

import "strings"

// specials has the special registers of the PTX ISA. The value is true if the
// register has components.
var specials = map[string]bool{
	"%tid": true, "%ntid": true, "%ctaid": true, "%nctaid": true,
	"%clusterid": true, "%nclusterid": true, "%cluster_ctaid": true, "%cluster_nctaid": true,
	"%laneid": false, "%warpid": false, "%nwarpid": false, "%smid": false, "%nsmid": false, "%gridid": false,
	"%is_explicit_cluster": false, "%cluster_ctarank": false, "%cluster_nctarank": false,
	"%lanemask_eq": false, "%lanemask_le": false, "%lanemask_lt": false, "%lanemask_ge": false, "%lanemask_gt": false,
	"%clock": false, "%clock_hi": false, "%clock64": false,
	"%globaltimer": false, "%globaltimer_lo": false, "%globaltimer_hi": false,
	"%total_smem_size": false, "%aggr_smem_size": false, "%dynamic_smem_size": false,
	"%reserved_smem_offset_begin": false, "%reserved_smem_offset_end": false, "%reserved_smem_offset_cap": false,
	"%reserved_smem_offset_0": false, "%reserved_smem_offset_1": false,
	"%current_graph_exec": false,
}

// numberedSpecials are special registers with a number, from 0 to last.
var numberedSpecials = []struct {
	prefix, suffix string
	last           int
}{
	{"%envreg", "", 31}, {"%pm", "", 7}, {"%pm", "_64", 7},
}

// isSpecial reports whether a name, with or without a component, is a special
// register.
func isSpecial(base, component string) bool {
	if vector, ok := specials[base]; ok {
		return component == "" || vector && componentIndex(component) >= 0
	}
	if component != "" || base[0] != '%' {
		return false
	}
	for _, s := range numberedSpecials {
		middle, ok := strings.CutPrefix(base, s.prefix)
		middle, ok2 := strings.CutSuffix(middle, s.suffix)
		if ok && ok2 && middle != "" {
			if k := rangeNumber(middle); k >= 0 && k <= s.last {
				return true
			}
		}
	}
	return false
}
