package bench

// Kind is a kind of memory that the vectors live in, with the way that the step
// uses it.
type Kind int

// The kinds, in the order of the table. Each comment is what the timed step
// contains.
const (
	Pageable          Kind = iota // ordinary slices: copy a and b in, kernel, copy c out, each call waiting
	Pinned                        // page-locked: both copies in, kernel, copy out, queued on a stream, one wait
	WriteCombined                 // as Pinned with a and b in write-combined memory; c is pinned
	ZeroCopy                      // the kernel reads and writes page-locked memory over the link
	ZeroCopyIn                    // the kernel reads a and b over the link; c is copied out
	Managed                       // kernel on managed memory that the CPU wrote, then the CPU reads a word of each page of c
	ManagedPrefetched             // prefetch a, b and c to the device, kernel, prefetch c to the host
	KernelAlone                   // the kernel on vectors that are on the device already
	kindCount
)

var kindTable = [kindCount]struct {
	key    string    // in JSON, before "_ns"
	words  string    // in a sentence
	column [2]string // over the table's column
}{
	Pageable:          {"pageable", "pageable", [2]string{"", "pageable"}},
	Pinned:            {"pinned", "pinned", [2]string{"", "pinned"}},
	WriteCombined:     {"write_combined", "write-combined", [2]string{"write-", "combined"}},
	ZeroCopy:          {"zero_copy", "zero-copy", [2]string{"zero-copy", "in + out"}},
	ZeroCopyIn:        {"zero_copy_in", "zero-copy in", [2]string{"zero-copy", "in"}},
	Managed:           {"managed", "managed", [2]string{"", "managed"}},
	ManagedPrefetched: {"managed_prefetched", "managed prefetched", [2]string{"managed", "prefetch"}},
	KernelAlone:       {"kernel", "kernel alone", [2]string{"kernel", "alone"}},
}

// Kinds are all kinds, in the order of the table.
func Kinds() []Kind {
	all := make([]Kind, kindCount)
	for k := range kindCount {
		all[k] = k
	}
	return all
}

// String is the kind in words, as in "zero-copy in".
func (k Kind) String() string { return kindTable[k].words }

// Key is the kind's name in JSON, as in "zero_copy_in".
func (k Kind) Key() string { return kindTable[k].key }
