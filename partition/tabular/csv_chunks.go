package tabular

import (
	"bytes"
	"errors"
	"io"
)

// Tests have less of both.
var (
	// chunkBytes is how much a goroutine reads at a time.
	chunkBytes = 1 << 20
	// maxRecordBytes bounds what is kept of a record that does not end, as one whose quotes are never closed.
	maxRecordBytes = 64 << 20
)

var errLongRecord = errors.New("a record of more than 64 MiB")

// chunks cuts a text into pieces that end where a record does: at a line end outside quotes. Quotes come in pairs
// between two such ends, so that counting them is enough; what stands behind broken ones is never used.
type chunks struct {
	from   io.Reader
	buffer []byte
	have   int   // bytes in the buffer that were not given
	end    error // what ended the text; io.EOF for its end
}

func newChunks(r io.Reader) *chunks { return &chunks{from: r, buffer: make([]byte, chunkBytes)} }

// next gives the next piece, or what ended the text: io.EOF, errLongRecord, or why it cannot be read.
func (c *chunks) next() (string, error) {
	for {
		for c.end == nil && c.have < len(c.buffer) {
			var n int
			n, c.end = c.from.Read(c.buffer[c.have:])
			c.have += n
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

// lastRecordEnd is behind the last line end outside quotes of a text that begins outside of them, 0 for none.
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
