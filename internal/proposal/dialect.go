package proposal

import (
	"bufio"
	"bytes"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"golang.org/x/text/encoding/charmap"
	"golang.org/x/text/encoding/unicode"

	"github.com/conclave-dp/conclave/partition"
	"github.com/conclave-dp/conclave/partition/tabular"
)

// CSV is the dialect of the files, in the words of a schema; the usual values are empty.
type CSV struct {
	Encoding  string // latin1
	Delimiter string // other than a comma
	Decimal   string // a comma
}

// sampleBytes is the size of the sample from which the delimiter is found.
const sampleBytes = 1 << 18

var delimiters = []rune{',', ';', '\t', '|'}

// source is an open CSV file. Cells are as in the file: UTF-8, or one byte a character.
type source struct {
	name      string
	file      *os.File
	raw       *tabular.Raw // for files other than CSV
	csv       *csv.Reader
	delimiter rune
	header    []string
	row       int // of the last record, from 1
}

// open reads the header of a file: Parquet, a sheet of a workbook, or CSV, plain or gzipped, in UTF-8, UTF-16 or a
// superset of Latin-1.
func open(path string) (*source, error) {
	s := &source{name: path, delimiter: delimiters[0]}
	var err error
	if s.raw, err = tabular.OpenRaw(path); err != nil {
		return nil, err
	}
	if s.raw != nil {
		if s.header, err = s.nextRaw(); err == nil && s.header == nil {
			err = s.empty()
		}
		if s.row = 0; err != nil {
			s.close()
			return nil, err
		}
		s.header = slices.Clone(s.header)
		return s, nil
	}
	if s.file, err = os.Open(path); err != nil {
		return nil, s.fail("cannot read the table", "check path and permissions", partition.WithoutPath(err))
	}
	if err := s.begin(); err != nil {
		s.close()
		return nil, err
	}
	return s, nil
}

// begin detects the file's dialect, and reads its header.
func (s *source) begin() error {
	plain, err := partition.OpenPlain(s.file, s.name)
	if err != nil {
		return err
	}
	start, _ := plain.Peek(4)
	if bytes.HasPrefix(start, []byte("PAR1")) {
		return s.fail("a damaged Parquet file", "copy or write it again", nil)
	}
	text := bufio.NewReaderSize(fromUTF16(plain, start), sampleBytes)
	sample, err := text.Peek(sampleBytes)
	if err != nil && !errors.Is(err, io.EOF) {
		return s.readError(err)
	}
	if bad := partition.CheckFirstLine(string(sample)); bad != nil {
		bad.File = s.name
		return bad
	}
	s.delimiter = delimiterOf(sample)
	s.csv = csv.NewReader(text)
	s.csv.Comma, s.csv.ReuseRecord = s.delimiter, true
	header, err := s.csv.Read()
	if errors.Is(err, io.EOF) {
		return s.empty()
	}
	if err != nil {
		return s.readError(err)
	}
	s.header = append(s.header, header...)
	return nil
}

// fromUTF16 decodes text with the byte order mark of UTF-16.
func fromUTF16(r io.Reader, start []byte) io.Reader {
	if bytes.HasPrefix(start, []byte{0xff, 0xfe}) || bytes.HasPrefix(start, []byte{0xfe, 0xff}) {
		return unicode.UTF16(unicode.LittleEndian, unicode.UseBOM).NewDecoder().Reader(r)
	}
	return r
}

// next returns the cells of the next row, which are valid until the following call; nil at the end.
func (s *source) next() ([]string, error) {
	if s.raw != nil {
		return s.nextRaw()
	}
	record, err := s.csv.Read()
	if errors.Is(err, io.EOF) {
		return nil, nil
	}
	s.row++
	if err != nil {
		return nil, s.readError(err)
	}
	return record, nil
}

func (s *source) nextRaw() ([]string, error) {
	cells, err, ok := s.raw.Next()
	if !ok {
		return nil, nil
	}
	s.row++
	return cells, err
}

func (s *source) close() {
	if s.raw != nil {
		s.raw.Close()
		return
	}
	s.file.Close()
}

func (s *source) empty() error {
	return s.fail("the file is empty", "it needs a header line with the column names, and rows", nil)
}

func (s *source) fail(problem, fix string, err error) *partition.InputError {
	return &partition.InputError{File: s.name, Row: s.row, Problem: problem, Fix: fix, Err: err}
}

// removeTitle is the advice for a first line that looks like a title.
const removeTitle = "if the first line is a title, remove the lines above the column names"

// readError rewrites the errors of readers, whose messages contain no cell.
func (s *source) readError(err error) *partition.InputError {
	var parse *csv.ParseError
	switch {
	case errors.Is(err, csv.ErrFieldCount) && len(s.header) == 1 && s.row == 1:
		e := s.fail("the row has more cells than the header", removeTitle, nil)
		if errors.As(err, &parse) {
			e.Line = parse.StartLine
		}
		return e
	case errors.Is(err, csv.ErrFieldCount):
		e := s.fail(fmt.Sprintf("the row does not have the %d cells of the header", len(s.header)),
			"complete or quote the row's cells", nil)
		if errors.As(err, &parse) {
			e.Line = parse.StartLine
		}
		return e
	case errors.As(err, &parse):
		e := s.fail("broken quotes", `put a cell with quotes, delimiters or breaks in "..." and double those in it`,
			nil)
		e.Line = parse.StartLine
		return e
	}
	return s.fail("cannot read the table", "copy the file again", partition.WithoutPath(err))
}

// delimiterOf is the delimiter that gives the header most cells, among those that give all lines of a sample
// the same number. If the lines never agree, only the number of cells counts. Among equals, the comma is first.
func delimiterOf(sample []byte) rune {
	best, bestScore := delimiters[0], 0
	for _, d := range delimiters {
		columns, same := 0, true
		r := csv.NewReader(bytes.NewReader(sample))
		r.Comma, r.FieldsPerRecord, r.LazyQuotes, r.ReuseRecord = d, -1, true, true
		for lines := 0; lines < 1000; lines++ {
			record, err := r.Read()
			if err != nil || columns > 0 && r.InputOffset() == int64(len(sample)) {
				break // the last line of a sample may be cut
			}
			if columns == 0 {
				columns = len(record)
			}
			same = same && len(record) == columns
		}
		score := columns
		if same && columns > 1 {
			score += 1 << 20
		}
		if score > bestScore {
			best, bestScore = d, score
		}
	}
	return best
}

// text is a cell of a file, converted from the encoding.
func (c CSV) text(cell string) string {
	if c.Encoding == "" {
		return cell
	}
	text, err := charmap.Windows1252.NewDecoder().String(cell)
	if err != nil {
		return cell // Windows-1252 has a character for every byte
	}
	return text
}

// dialect determines the dialect of the files from the delimiter and statistics of all cells.
func dialect(delimiter rune, form textForm, profiles []*profile) (CSV, error) {
	var c CSV
	if delimiter != ',' {
		c.Delimiter = string(delimiter)
	}
	if form.invalid > 0 {
		if 2*form.invalid <= form.beyondASCII {
			return c, errors.New("some cells are UTF-8 and others are not; save the file in one encoding")
		}
		c.Encoding = "latin1"
	}
	points, commas := 0, 0
	for _, p := range profiles {
		if p.numbers() {
			points, commas = points+p.point, commas+p.comma
		}
	}
	if commas > points {
		c.Decimal = ","
	}
	return c, nil
}

// cleanName is a column's name without a byte order mark and spaces around it.
func cleanName(name string) string { return strings.TrimSpace(strings.TrimPrefix(name, "\ufeff")) }
