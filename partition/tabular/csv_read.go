package tabular

import (
	"bufio"
	"compress/flate"
	"compress/gzip"
	"errors"
	"io"
	"os"
	"runtime"
	"strings"
	"unicode/utf8"

	"github.com/conclave-dp/conclave/partition"
)

// ReadCSV reads a CSV file, plain or gzipped (detected by content), in UTF-8, UTF-16 or the schema's encoding. The
// header must have every column of the schema, in any order; for images these are the pixels and the label. Errors
// are *InputError and *Violations.
func ReadCSV(s *partition.Schema, path string, o Options) (*partition.Table, error) {
	f, err := open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return DecodeCSV(s, f, path, o)
}

func open(path string) (*os.File, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, &partition.InputError{File: path, Problem: "cannot read the table",
			Fix: "check path and permissions", Err: partition.WithoutPath(err)}
	}
	return f, nil
}

// DecodeCSV is ReadCSV from a reader; name is for errors.
func DecodeCSV(s *partition.Schema, r io.Reader, name string, o Options) (*partition.Table, error) {
	d, err := newCSVDecoder(s, r, name, o)
	if err != nil {
		return nil, err
	}
	err = d.rows(func(_ int, p *part, back func()) error {
		if d.table.table.Len() == 0 && d.read > 0 {
			// Estimate the rows of the rest from this piece. A gzipped file is larger; the table then grows.
			d.table.table.Grow(int(float64(p.rows) * (1.02*float64(d.size)/float64(d.read) + 1)))
		}
		d.table.table.Extend(p.cells, p.units)
		d.table.weights = append(d.table.weights, p.weights...)
		back()
		return nil
	})
	if err != nil {
		return nil, err
	}
	return d.table.Table()
}

// csvDecoder reads the rows of a CSV file.
type csvDecoder struct {
	name      string
	delimiter byte
	chunks    *chunks
	first     string // the rest of the chunk with the header
	size      int64  // of the file in bytes, 0 if unknown
	lines     int    // before the rows that are not in the table yet
	read      int    // bytes of text of the rows in the table
	table     *Builder
}

// newCSVDecoder begins a file and reads its header.
func newCSVDecoder(s *partition.Schema, r io.Reader, name string, o Options) (*csvDecoder, error) {
	if err := o.check(s); err != nil {
		return nil, &partition.InputError{File: name, Problem: err.Error()}
	}
	plain, err := openText(s, r, name)
	if err != nil {
		return nil, err
	}
	if buffered, ok := plain.(*bufio.Reader); ok {
		if start, _ := buffered.Peek(4); len(start) == 4 && start[0] == 0 && start[1] == 0 && start[2] == 8 {
			return nil, &partition.InputError{File: name, Problem: "an idx file of images or labels, not a " +
				"table", Fix: "give a CSV file", SchemaFix: "use the schema of these images"}
		}
	}
	d := &csvDecoder{name: name, chunks: newChunks(plain)}
	if f, ok := r.(*os.File); ok {
		if info, err := f.Stat(); err == nil && info.Mode().IsRegular() {
			d.size = info.Size()
		}
	}
	return d, d.header(s, o)
}

// header reads the first line that is not empty, and detects the delimiter.
func (d *csvDecoder) header(s *partition.Schema, o Options) error {
	text := ""
	for strings.Trim(text, "\r\n") == "" {
		d.lines += strings.Count(text, "\n")
		var err error
		if text, err = d.chunks.next(); errors.Is(err, io.EOF) {
			return &partition.InputError{File: d.name, Problem: "the file is empty",
				Fix: "it needs a header line with the schema's column names, and rows"}
		} else if err != nil {
			return d.endError(err, 0)
		}
	}
	bad := partition.CheckFirstLine(text)
	var h *csvHeader
	if bad == nil {
		h, bad = readHeader(s, text)
	}
	if bad != nil {
		bad.File, bad.Line = d.name, d.lines+bad.Line
		return bad
	}
	line := d.lines + h.line
	d.delimiter, d.first = h.delimiter, text[h.end:]
	d.lines += strings.Count(text[:h.end], "\n")
	if d.table, bad = newBuilder(s, d.name, FromCSV, namedColumns(h.names), o); bad != nil {
		bad.Line = line
		return bad
	}
	d.table.plainly(s.CSV.Decimal == "," || s.CSV.Decimal == "" && h.delimiter != ',')
	return nil
}

// rows reads chunks concurrently on all cores, and passes their rows in order to take, with the number of rows
// before them. The part belongs to take until it calls back. Rows after one with a violation are not passed. The
// builder reports what is wrong with the file, except for what stops the reading.
func (d *csvDecoder) rows(take func(first int, p *part, back func()) error) error {
	var begun []*csvChunk // in order
	defer func() {
		for _, c := range begun {
			<-c.done
		}
	}()
	free := make(chan *part, 4*runtime.GOMAXPROCS(0)+4) // more than ever exist
	finish := func() error {
		c := begun[0]
		begun = begun[1:]
		<-c.done
		bad, first, lines := c.bad, d.table.row, d.lines
		d.lines += strings.Count(c.text, "\n")
		d.read += len(c.text)
		back := func() { c.rows.reset(); free <- c.rows }
		if !d.table.count(c.rows, lines) || c.rows.rows == 0 {
			back()
		} else if err := take(first, c.rows, back); err != nil {
			return err
		}
		if bad == nil {
			return nil
		}
		bad.File, bad.Line = d.name, lines+bad.Line
		if bad.Row > 0 {
			bad.Row += first
		}
		return d.table.Broken(bad)
	}
	for text, err := d.first, error(nil); ; text, err = d.chunks.next() {
		if err != nil {
			for len(begun) > 0 {
				if bad := finish(); bad != nil {
					return bad
				}
			}
			if bad := d.endError(err, d.table.row+1); bad != nil {
				return d.table.Broken(bad)
			}
			return nil
		}
		c := &csvChunk{text: text, delimiter: d.delimiter, done: make(chan struct{})}
		select {
		case c.rows = <-free:
		default:
			c.rows = d.table.newPart()
		}
		go c.read()
		if begun = append(begun, c); len(begun) > runtime.GOMAXPROCS(0) {
			if err := finish(); err != nil {
				return err
			}
		}
	}
}

// csvChunk is a piece of a file, read by one goroutine.
type csvChunk struct {
	text      string
	delimiter byte
	rows      *part
	bad       *partition.InputError // why its end was not read, with lines and rows counted within it
	done      chan struct{}         // closed once it is read
}

func (c *csvChunk) read() {
	defer close(c.done)
	text := c.text
	if !utf8.ValidString(text) {
		c.bad = notUTF8(text)
		text = text[:lastRecordEnd([]byte(text[:invalidAt(text)]))]
	}
	r := newRecords(text, c.delimiter)
	for {
		fields, more, ok := r.next()
		switch {
		case !ok:
			c.bad = brokenQuotes(r.lineOf(0))
			c.bad.Row = c.rows.rows + 1
			return
		case !more:
			return
		case len(fields) != len(c.rows.target):
			others := strings.ReplaceAll(delimiters, string(c.delimiter), "")
			c.rows.short(fields, others, func() int { return r.lineOf(0) })
		default:
			c.rows.add(fields, nil, r.lineOf)
		}
	}
}

// endError is why a file ended before the given row, nil at its end.
func (d *csvDecoder) endError(err error, row int) error {
	var bad *partition.InputError
	switch {
	case errors.Is(err, io.EOF):
		return nil
	case errors.Is(err, errLongRecord):
		bad = brokenQuotes(d.lines + 1)
		bad.File, bad.Err = d.name, err
	default:
		bad = readError(d.name, err)
	}
	bad.Row = row
	return bad
}

// readError describes a failure to read a file.
func readError(name string, err error) *partition.InputError {
	e := &partition.InputError{File: name, Problem: "cannot read the table",
		Fix: "check that it is a file that can be read", Err: partition.WithoutPath(err)}
	var corrupt flate.CorruptInputError
	if errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, gzip.ErrChecksum) || errors.Is(err, gzip.ErrHeader) ||
		errors.As(err, &corrupt) {
		e.Problem, e.Fix = "broken gzip data", partition.FixGzip
	}
	return e
}
