package codes

import (
	"bufio"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"strings"
	"unicode/utf8"
)

const (
	// maxBytes bounds a list's file: the largest classifications in use have some 400,000 codes.
	maxBytes = 64 << 20
	maxCodes = 1 << 20
	maxCode  = 64 // bytes
)

// Read reads a list of codes: the first column of a CSV file in UTF-8 with commas, semicolons or tabs, or a code a
// line. A first code "code", in any case, is a header. Errors say what is wrong and in which line.
func Read(r io.Reader) ([]string, error) {
	limited := &io.LimitedReader{R: r, N: maxBytes + 1}
	text := bufio.NewReaderSize(limited, 1<<16)
	if mark, _ := text.Peek(3); string(mark) == "\ufeff" {
		_, _ = text.Discard(3)
	}
	rows := csv.NewReader(text)
	rows.Comma, rows.FieldsPerRecord, rows.LazyQuotes, rows.ReuseRecord = separator(text), -1, true, true
	var all []string
	for {
		record, err := rows.Read()
		if limited.N <= 0 {
			return nil, fmt.Errorf("the file has more than %d MiB; keep the codes alone", maxBytes>>20)
		}
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, fmt.Errorf("cannot be read as CSV: %w", err)
		}
		code := strings.TrimSpace(record[0])
		line, _ := rows.FieldPos(0)
		switch {
		case code == "", len(all) == 0 && strings.EqualFold(code, "code"):
			continue
		case !utf8.ValidString(code):
			return nil, fmt.Errorf("line %d is not UTF-8; save the file as UTF-8", line)
		case len(code) > maxCode || strings.ContainsAny(code, "\r\n"):
			return nil, fmt.Errorf("line %d does not begin with a code of at most %d bytes; put the codes in the "+
				"first column", line, maxCode)
		case len(all) == maxCodes:
			return nil, fmt.Errorf("there are more than %d codes; keep those of the schema's prefixes", maxCodes)
		}
		all = append(all, strings.Clone(code))
	}
	if len(all) == 0 {
		return nil, errors.New("there is no code; put the codes in the first column")
	}
	return all, nil
}

// separator is the first of comma, semicolon and tab in the first line, a comma where there is none.
func separator(text *bufio.Reader) rune {
	start, _ := text.Peek(4096)
	line, _, _ := strings.Cut(string(start), "\n")
	if at := strings.IndexAny(line, ",;\t"); at >= 0 {
		return rune(line[at])
	}
	return ','
}
