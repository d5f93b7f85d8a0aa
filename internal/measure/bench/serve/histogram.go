package serve

import (
	"math/bits"
	"time"
)

// A histogram counts durations in buckets. A bucket is at most 1/128 of its durations wide.
type histogram struct {
	counts  [buckets]uint64
	longest time.Duration
}

const (
	widthBits = 7  // 2^widthBits buckets for each power of two
	mostBits  = 40 // durations from 2^mostBits ns on share the last bucket: 18 minutes
	buckets   = (mostBits - widthBits + 1) << widthBits
)

// bucketOf returns the bucket of a duration.
func bucketOf(d time.Duration) int {
	v := uint64(max(d, 0))
	shift := max(bits.Len64(v)-widthBits-1, 0)
	return min(shift<<widthBits+int(v>>shift), buckets-1)
}

// upper returns the longest duration of a bucket.
func upper(bucket int) time.Duration {
	shift := max(bucket>>widthBits-1, 0)
	return time.Duration((bucket-shift<<widthBits+1)<<shift - 1)
}

// add counts a duration.
func (h *histogram) add(d time.Duration) {
	h.counts[bucketOf(d)]++
	h.longest = max(h.longest, d)
}

// merge adds the counts of another histogram.
func (h *histogram) merge(other *histogram) {
	for i, n := range other.counts {
		h.counts[i] += n
	}
	h.longest = max(h.longest, other.longest)
}

// quantile returns the duration that a share of all durations does not exceed, rounded up to
// the end of its bucket. It returns 0 if the histogram is empty.
func (h *histogram) quantile(share float64) time.Duration {
	var total, sum uint64
	for _, n := range h.counts {
		total += n
	}
	rank := max(uint64(share*float64(total)+0.999999), 1)
	for i, n := range h.counts {
		if sum += n; sum >= rank {
			return min(upper(i), h.longest)
		}
	}
	return h.longest
}
