package check

// box is what one side of an operation uses: rows of width bytes, pitch bytes apart, and
// layers of rows. Most have one row.
type box struct {
	at, width     uint64
	pitch, rows   uint64
	layer, layers uint64
}

// flat returns n bytes at an address.
func flat(at, n uint64) box { return box{at: at, width: n, rows: 1, layers: 1} }

// end returns the first address behind the box.
func (x *box) end() uint64 {
	return x.at + (x.layers-1)*x.layer + (x.rows-1)*x.pitch + x.width
}

// isFlat reports whether the box has one row.
func (x *box) isFlat() bool { return x.rows == 1 && x.layers == 1 }

// packed returns an equal box of one row, if its rows have no gaps.
func (x box) packed() box {
	if x.rows > 1 && x.pitch == x.width {
		x.width, x.rows = x.width*x.rows, 1
	}
	if x.layers > 1 && x.rows == 1 && x.layer == x.width {
		x.width, x.layers = x.width*x.layers, 1
	}
	return x
}

// mostRows bounds the rows that are compared one by one.
const mostRows = 1 << 16

// hits reports whether two boxes share a byte. Beyond mostRows rows it may miss that.
func (x *box) hits(y *box) bool {
	if x.end() <= y.at || y.end() <= x.at {
		return false
	}
	if x.rows*x.layers > y.rows*y.layers {
		x, y = y, x
	}
	left := mostRows
	for l := range x.layers {
		for r := range x.rows {
			from := x.at + l*x.layer + r*x.pitch
			if y.includes(from, from+x.width) {
				return true
			}
			if left--; left == 0 {
				return false
			}
		}
	}
	return false
}

// includes reports whether a row of x shares a byte with addresses from to end-1.
func (x *box) includes(from, end uint64) bool {
	l := uint64(0)
	if whole := x.at + (x.rows-1)*x.pitch + x.width; from >= whole && x.layer > 0 {
		l = (from-whole)/x.layer + 1 // layers before it end at from or earlier
	}
	for ; l < x.layers && x.at+l*x.layer < end; l++ {
		at := x.at + l*x.layer
		row := uint64(0)
		if from > at && x.pitch > 0 {
			row = min((from-at)/x.pitch, x.rows-1)
		}
		for ; row < x.rows && at+row*x.pitch < end; row++ {
			if at+row*x.pitch+x.width > from {
				return true
			}
		}
	}
	return false
}

// covers reports whether x, in one row, has all bytes of y.
func (x *box) covers(y *box) bool {
	return x.rows == 1 && x.layers == 1 && x.at <= y.at && y.end() <= x.end()
}
