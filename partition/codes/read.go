package codes

import (
	"errors"
	"fmt"
	"io"
	"strings"
	"unicode"
	"unicode/utf8"
)

const (
	// maxBytes bounds the file of a list: the largest classifications in use have some 400,000 codes.
	maxBytes = 64 << 20
	maxCodes = 1 << 20
	maxCode  = 64 // bytes

	delimiters = ",;\t|"
)

var errMany = fmt.Errorf("there are more than %d codes; keep only those of the schema's prefixes", maxCodes)

// Read reads a list of codes: the first column of a CSV file, or one code per line. The delimiter is the first of
// comma, semicolon, tab and | in the first line. Quotes count only at the start of a cell. A first code that
// [isHeader] is skipped. Codes are UTF-8; other columns are ignored. Errors name the problem and the line.
func Read(r io.Reader) ([]string, error) {
	raw, err := io.ReadAll(io.LimitReader(r, maxBytes+1))
	if err != nil {
		return nil, fmt.Errorf("cannot be read: %w", err)
	}
	if len(raw) > maxBytes {
		return nil, fmt.Errorf("the file has more than %d MiB; keep only the codes", maxBytes>>20)
	}
	text := strings.TrimPrefix(string(raw), "\ufeff")
	var all []string
	for line, among := 1, delimiters; text != ""; {
		var first, rest string
		var ok bool
		if first, rest, among, ok = cutRecord(text, among); !ok {
			return nil, fmt.Errorf("line %d has broken quotes; double the quotes in a cell that begins with one", line)
		}
		code, quoted := strings.TrimSpace(first), text[0] == '"'
		switch {
		case code == "":
		case !utf8.ValidString(code):
			return nil, fmt.Errorf("line %d is not UTF-8; save the file as UTF-8", line)
		case len(code) <= maxCode && !quoted && strings.ContainsAny(code, delimiters):
			return nil, fmt.Errorf("line %d has another delimiter than the first line; write all lines alike, or the "+
				"code in quotes", line)
		case len(code) > maxCode || strings.ContainsFunc(code, unicode.IsControl):
			return nil, fmt.Errorf("line %d does not begin with a code of at most %d bytes; put the codes in the "+
				"first column", line, maxCode)
		case len(all) > maxCodes: // with a header
			return nil, errMany
		default:
			all = append(all, strings.Clone(code))
		}
		line += strings.Count(text[:len(text)-len(rest)], "\n")
		text = rest
	}
	if isHeader(all) {
		all = all[1:]
	}
	switch {
	case len(all) == 0:
		return nil, errors.New("there is no code; put the codes in the first column")
	case len(all) > maxCodes:
		return nil, errMany
	}
	return all, nil
}

// cutRecord cuts off a record with its line end, and returns its first cell. Among several delimiters it takes the
// one after that cell, or a comma; a line without a code has none.
func cutRecord(text, among string) (first, rest, delimiter string, ok bool) {
	first, rest, ok = cutCell(text, among)
	switch {
	case rest != "" && rest[0] != '\n':
		among = rest[:1]
	case strings.TrimSpace(first) != "" && len(among) > 1:
		among = ","
	}
	for ok && rest != "" && rest[0] != '\n' {
		_, rest, ok = cutCell(rest[1:], among)
	}
	return first, strings.TrimPrefix(rest, "\n"), among, ok
}

// cutCell cuts off the first cell of a text. rest starts with a delimiter or a line end, or is empty. It is not ok if
// text follows closing quotes, or quotes are not closed.
func cutCell(text, among string) (cell, rest string, ok bool) {
	if text == "" || text[0] != '"' {
		end := strings.IndexAny(text, among+"\n")
		if end < 0 {
			end = len(text)
		}
		return text[:end], text[end:], true
	}
	for at := 1; ; at++ {
		n := strings.IndexByte(text[at:], '"')
		if n < 0 {
			return "", "", false
		}
		if at += n; strings.HasPrefix(text[at+1:], `"`) {
			at++
			continue
		}
		cell, rest = strings.ReplaceAll(text[1:at], `""`, `"`), text[at+1:]
		if strings.HasPrefix(rest, "\r\n") || rest == "\r" {
			rest = rest[1:]
		}
		return cell, rest, rest == "" || strings.Contains(among+"\n", rest[:1])
	}
}

// isHeader reports whether the first code is a column name: code, codes, or a word that starts with ICD, ATC or OPS,
// in any case; or at least three characters without a digit, if all other codes have a digit.
func isHeader(all []string) bool {
	if len(all) == 0 {
		return false
	}
	name := strings.ToLower(all[0])
	for _, begin := range []string{"icd", "atc", "ops"} {
		if strings.HasPrefix(name, begin) {
			return true
		}
	}
	if name == "code" || name == "codes" {
		return true
	}
	for i, code := range all {
		if strings.ContainsAny(code, "0123456789") == (i == 0) {
			return false
		}
	}
	return len(all) > 1 && utf8.RuneCountInString(name) >= 3
}
