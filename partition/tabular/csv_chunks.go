package tabular

import (
	"bytes"
	"errors"
	"io"
)

// firstBytes is the size of the first buffer; most files are smaller than chunkBytes.
const firstBytes = 1 << 16

// Tests set smaller values.
var (
	// chunkBytes is the number of bytes that a goroutine reads at a time.
	chunkBytes = 1 << 20
	// maxRecordBytes bounds an unfinished record in memory, such as one whose quotes are never closed.
	maxRecordBytes = 64 << 20
)

var errLongRecord = errors.New("a record of more than 64 MiB")

// chunks splits a text into pieces that end at the end of a record: a line end outside quotes. Between two such
// ends quotes come in pairs, so counting them is enough. Text after broken quotes is never used.
type chunks struct {
	from   io.Reader
	buffer []byte
	have   int   // bytes in the buffer that were not returned
	end    error // why the text ended; io.EOF at its end
}

func newChunks(r io.Reader) *chunks {
	return &chunks{from: r, buffer: make([]byte, min(firstBytes, chunkBytes))}
}

// next returns the next piece, or why the text ended: io.EOF, errLongRecord, or a read error.
func (c *chunks) next() (string, error) {
	for {
		for c.end == nil && c.have < len(c.buffer) {
			var n int
			n, c.end = c.from.Read(c.buffer[c.have:])
			c.have += n
			if c.end == nil && c.have == len(c.buffer) && c.have < chunkBytes {
				c.buffer = append(c.buffer, make([]byte, min(len(c.buffer), chunkBytes-len(c.buffer)))...)
			}
		}
		cut := lastRecordEnd(c.buffer[:c.have])
		if errors.Is(c.end, io.EOF) {
			cut = c.have
		}
		if cut > 0 {
			piece := string(c.buffer[:cut])
			c.have = copy(c.buffer, c.buffer[cut:c.have])
			return piece, nil
		}
		if c.end != nil {
			return "", c.end
		}
		if len(c.buffer) >= maxRecordBytes {
			return "", errLongRecord
		}
		c.buffer = append(c.buffer, make([]byte, len(c.buffer))...)
	}
}

// lastRecordEnd is the offset after the last line end outside quotes, in a text that starts outside quotes; 0 if
// there is none.
func lastRecordEnd(text []byte) int {
	outside := bytes.Count(text, []byte{'"'})%2 == 0
	for end := len(text); end > 0; {
		at := bytes.LastIndexByte(text[:end], '\n')
		if at < 0 {
			return 0
		}
		if bytes.Count(text[at:end], []byte{'"'})%2 == 1 {
			outside = !outside
		}
		if outside {
			return at + 1
		}
		end = at
	}
	return 0
}
