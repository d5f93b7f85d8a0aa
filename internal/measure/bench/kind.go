package bench

// Kind is the kind of memory of the vectors, and how the step uses it.
type Kind int

// The kinds, in the order of the table. Each comment describes the timed step.
const (
	Pageable          Kind = iota // slices: cuMemcpy of a and b in, kernel, cuMemcpy of c out; each call waits
	Pinned                        // page-locked memory: both copies in, kernel, copy out, submitted to a stream, then one wait
	WriteCombined                 // like Pinned with a and b in write-combined memory; c is pinned
	ZeroCopy                      // the kernel reads and writes page-locked memory over the link
	ZeroCopyIn                    // the kernel reads a and b over the link; c is copied out
	Managed                       // kernel on managed memory that the CPU wrote, then the CPU reads a word of each page of c
	ManagedPrefetched             // prefetch a, b and c to the device, kernel, prefetch c to the host
	KernelAlone                   // the kernel on vectors that are on the device already
	kindCount
)

// The kinds that some machines have, or that are measured on request.
const (
	PageableInKernels Kind = kindCount + iota // the kernel reads and writes slices; only if the device can
	ZeroCopyKernel                            // the kernel of ZeroCopy, between two events; only with Options.Rates
	pointCount
)

var kindTable = [pointCount]struct {
	key    string    // in JSON, before "_ns"
	words  string    // in a sentence
	column [2]string // heading of the table's column
}{
	Pageable:          {"pageable", "pageable", [2]string{"pageable", "cuMemcpy"}},
	Pinned:            {"pinned", "pinned", [2]string{"", "pinned"}},
	WriteCombined:     {"write_combined", "write-combined", [2]string{"write-", "combined"}},
	ZeroCopy:          {"zero_copy", "zero-copy", [2]string{"zero-copy", "in + out"}},
	ZeroCopyIn:        {"zero_copy_in", "zero-copy in", [2]string{"zero-copy", "in"}},
	Managed:           {"managed", "managed", [2]string{"", "managed"}},
	ManagedPrefetched: {"managed_prefetched", "managed prefetched", [2]string{"managed", "prefetch"}},
	KernelAlone:       {"kernel", "kernel alone", [2]string{"kernel", "alone"}},
	PageableInKernels: {"pageable_in_kernels", "pageable in kernels", [2]string{"pageable", "in kernels"}},
	ZeroCopyKernel:    {"zero_copy_kernel", "zero-copy's kernel", [2]string{"zero-copy", "kernel"}},
}

// Kinds returns the kinds that are measured on every machine that has them, in the order of
// the table.
func Kinds() []Kind {
	all := make([]Kind, kindCount)
	for k := range kindCount {
		all[k] = k
	}
	return all
}

// whole reports whether a kind is a whole step, from data of the CPU to a result for it.
func (k Kind) whole() bool { return k != KernelAlone && k != ZeroCopyKernel }

// String returns the kind in words, such as "zero-copy in".
func (k Kind) String() string { return kindTable[k].words }

// Key returns the kind's name in JSON, such as "zero_copy_in".
func (k Kind) Key() string { return kindTable[k].key }
