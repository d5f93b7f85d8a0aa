package fatbin

import (
	"bytes"
	"errors"
	"fmt"
	"io"

	"github.com/klauspost/compress/zstd"
)

// An entry is decompressed to maxData bytes at most. Above smallData bytes, it has at most
// maxRatio times its stored bytes: a small file must not become so much PTX that the parser
// needs seconds for it. Files of 100 to 300 KB of PTX have ratios of
// 4 to 16; at 16 a file of 1 MB takes 565 MiB to load.
const (
	maxData   = 64 << 20
	smallData = 12 << 20
	maxRatio  = 12
)

// mostData returns how many bytes an entry of some stored bytes may have.
func mostData(stored int) uint64 {
	return uint64(min(maxData, max(smallData, maxRatio*stored)))
}

// maxWindow is the most memory that Zstandard data may ask for to refer back to.
const maxWindow = 16 << 20

// zstandard decompresses frames of Zstandard to size bytes.
func zstandard(src []byte, size int) ([]byte, error) {
	r, err := zstd.NewReader(bytes.NewReader(src), zstd.WithDecoderConcurrency(1), zstd.WithDecoderLowmem(true), zstd.WithDecoderMaxWindow(maxWindow))
	if err != nil {
		return nil, fmt.Errorf("decompress Zstandard: %w", err)
	}
	defer r.Close()
	dst, err := io.ReadAll(io.LimitReader(r, int64(size)+1))
	switch {
	case err != nil:
		return nil, fmt.Errorf("decompress Zstandard: %w", err)
	case len(dst) != size:
		return nil, wrongSize(len(dst), size)
	}
	return dst, nil
}

func wrongSize(got, want int) error {
	if got > want {
		return fmt.Errorf("there is more decompressed data than the %d bytes that the file says", want)
	}
	return fmt.Errorf("there are %d bytes of decompressed data, and the file says %d", got, want)
}

var errLZ4 = errors.New("decompress LZ4: the data is damaged")

// lz4 decompresses a block of LZ4 to size bytes. A block is a list of sequences: a token,
// whose halves are the number of literals and the length of a match less 4, the literals,
// and the distance of the match in 2 bytes. A half of 15 continues in further bytes. The
// last sequence has no match.
func lz4(src []byte, size int) ([]byte, error) {
	dst := make([]byte, 0, min(size, 4*len(src)))
	for len(src) > 0 {
		token := int(src[0])
		literals, rest, ok := lz4Length(token>>4, src[1:])
		if !ok || literals > len(rest) {
			return nil, errLZ4
		}
		dst = append(dst, rest[:literals]...)
		if src = rest[literals:]; len(src) == 0 {
			break
		}
		if len(src) < 2 {
			return nil, errLZ4
		}
		distance := int(src[0]) | int(src[1])<<8
		var match int
		if match, src, ok = lz4Length(token&15, src[2:]); !ok || distance == 0 || distance > len(dst) {
			return nil, errLZ4
		}
		match += 4
		if match > size-len(dst) {
			return nil, wrongSize(size+1, size)
		}
		dst = repeat(dst, distance, match)
	}
	if len(dst) != size {
		return nil, wrongSize(len(dst), size)
	}
	return dst, nil
}

// lz4Length reads the rest of a length whose first part is in a token.
func lz4Length(n int, src []byte) (length int, rest []byte, ok bool) {
	if n < 15 {
		return n, src, true
	}
	for len(src) > 0 {
		b := int(src[0])
		n, src = n+b, src[1:]
		if b != 255 {
			return n, src, true
		}
	}
	return 0, nil, false
}

// repeat appends n bytes from distance bytes before the end of dst. They may overlap.
func repeat(dst []byte, distance, n int) []byte {
	for n > 0 {
		from := dst[len(dst)-distance:]
		k := min(n, len(from))
		dst = append(dst, from[:k]...)
		n -= k
	}
	return dst
}
