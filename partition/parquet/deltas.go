package parquet

import (
	"encoding/binary"

	"github.com/parquet-go/parquet-go/encoding/delta"
)

// mostBlock bounds the deltas of a block; writers use 128.
const mostBlock = 1 << 16

// deltasFit reports whether deltas are no more than the values, and returns the length of their bytes. They are in
// blocks of smaller blocks, each of one width, after a header with the number of all: the encoding
// DELTA_BINARY_PACKED of parquet-format. The library makes room for the number in the header.
func deltasFit(raw []byte, values int) (length int, fit bool) {
	at := 0
	number := func() (n uint64) {
		n, read := binary.Uvarint(raw[at:])
		if fit = read > 0; fit {
			at += read
		}
		return n
	}
	var header [4]uint64 // deltas of a block, its smaller blocks, all values, the first value
	for i := range header {
		if header[i] = number(); !fit {
			return 0, false
		}
	}
	block, parts, left := header[0], header[1], header[2]
	if left > uint64(values) || parts == 0 || block == 0 || block > mostBlock || block%parts != 0 {
		return 0, false
	}
	left -= min(left, 1)
	for left > 0 {
		if number(); !fit || uint64(len(raw)-at) < parts { // the smallest delta
			return 0, false
		}
		widths := raw[at : at+int(parts)]
		at += int(parts)
		for _, width := range widths {
			at = min(at+int(block/parts)*int(width)/8, len(raw)) // the last one may be cut
			if left -= min(left, block/parts); left == 0 {
				break
			}
		}
	}
	return at, true
}

// checkPrefixes bounds texts that share prefixes with the texts before them: a few bytes may stand for many.
func checkPrefixes(raw []byte, values int) error {
	var sum int64
	for range 2 { // lengths of prefixes, and of the rest
		length, fit := deltasFit(raw, values)
		if !fit {
			return damaged("a page has more deltas than values")
		}
		lengths, err := new(delta.BinaryPackedEncoding).DecodeInt32(nil, raw[:length])
		if err != nil {
			return decodeError(err)
		}
		for _, n := range lengths {
			if n < 0 {
				return damaged("a text of less than no bytes")
			}
			sum += int64(n)
		}
		raw = raw[length:]
	}
	if sum > maxPage {
		return unsupported("a page of more than %d MiB; write smaller ones", maxPage>>20)
	}
	return nil
}
