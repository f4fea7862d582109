package partition

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"errors"
	"io"
)

// OpenPlain undoes gzip and drops a byte order mark. name is for errors, which are
// *InputError; data that is broken further in shows when it is read.
func OpenPlain(r io.Reader, name string) (*bufio.Reader, error) {
	buffered := bufio.NewReaderSize(r, 1<<16)
	start, err := buffered.Peek(2)
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, &InputError{File: name, Problem: "cannot read the table",
			Fix: "check that it is a file that can be read", Err: WithoutPath(err)}
	}
	if bytes.Equal(start, []byte{0x1f, 0x8b}) {
		unzipped, err := gzip.NewReader(buffered)
		if err != nil {
			return nil, &InputError{File: name, Problem: "broken gzip data at the start", Fix: FixGzip, Err: err}
		}
		buffered = bufio.NewReaderSize(unzipped, 1<<16)
	}
	// What is wrong further in shows when the rows are read.
	if mark, _ := buffered.Peek(len(byteOrderMark)); string(mark) == byteOrderMark {
		_, _ = buffered.Discard(len(mark))
	}
	return buffered, nil
}

// FixGzip is what to do about broken gzip data.
const FixGzip = "copy or compress the file again"
