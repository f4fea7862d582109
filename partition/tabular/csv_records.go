package tabular

import (
	"strings"
)

// records splits a text that starts and ends at a record boundary: RFC 4180, with lines that end in \n or \r\n,
// and without empty lines. A \r\n in quotes becomes \n.
type records struct {
	text      string
	delimiter byte
	quoted    bool // the text contains a quote
	at        int  // offset of the unread text
	begin     int  // offset of the last record returned
	fields    []string
	starts    []int // of the fields
}

func newRecords(text string, delimiter byte) *records {
	return &records{text: text, delimiter: delimiter, quoted: strings.IndexByte(text, '"') >= 0}
}

// next returns the fields of the next record, valid until the next call. more is false after the last record and
// at broken quotes; ok tells the two apart.
func (r *records) next() (fields []string, more, ok bool) {
	for r.at < len(r.text) {
		r.begin = r.at
		end, after := r.line()
		if end == r.at {
			r.at = after
			continue
		}
		r.fields, r.starts = r.fields[:0], r.starts[:0]
		if r.quoted && strings.IndexByte(r.text[r.at:end], '"') >= 0 {
			ok := r.quotedRecord()
			return r.fields, ok, ok
		}
		r.plainRecord(end)
		r.at = after
		return r.fields, true, true
	}
	return nil, false, true
}

// line returns where the current line ends, without its line break, and where the next one starts.
func (r *records) line() (end, after int) {
	end, after = len(r.text), len(r.text)
	if n := strings.IndexByte(r.text[r.at:], '\n'); n >= 0 {
		end, after = r.at+n, r.at+n+1
	}
	if end > r.at && r.text[end-1] == '\r' {
		end--
	}
	return end, after
}

// plainRecord splits a line without quotes.
func (r *records) plainRecord(end int) {
	text, start := r.text[:end], r.at
	for i := start; i < len(text); i++ {
		if text[i] == r.delimiter {
			r.fields, r.starts = append(r.fields, text[start:i]), append(r.starts, start)
			start = i + 1
		}
	}
	r.fields, r.starts = append(r.fields, text[start:]), append(r.starts, start)
}

// quotedRecord reads a record with quotes, of one or more lines, and fails if quotes are broken.
func (r *records) quotedRecord() bool {
	for {
		r.starts = append(r.starts, r.at)
		var field string
		if r.at < len(r.text) && r.text[r.at] == '"' {
			var closed bool
			if field, closed = r.quotedField(); !closed {
				return false
			}
		} else {
			end, _ := r.line()
			if n := strings.IndexByte(r.text[r.at:end], r.delimiter); n >= 0 {
				end = r.at + n
			}
			if field = r.text[r.at:end]; strings.IndexByte(field, '"') >= 0 {
				return false
			}
			r.at = end
		}
		r.fields = append(r.fields, field)
		if r.at < len(r.text) && r.text[r.at] == r.delimiter {
			r.at++
			continue
		}
		end, after := r.line()
		if end != r.at { // there is text after the closing quote
			return false
		}
		r.at = after
		return true
	}
}

// quotedField reads a field from its opening quote to after its closing one.
func (r *records) quotedField() (field string, closed bool) {
	r.at++
	start, doubled := r.at, false
	for {
		n := strings.IndexByte(r.text[r.at:], '"')
		if n < 0 {
			return "", false
		}
		r.at += n + 1
		if r.at == len(r.text) || r.text[r.at] != '"' {
			break
		}
		doubled = true
		r.at++
	}
	field = r.text[start : r.at-1]
	if doubled {
		field = strings.ReplaceAll(field, `""`, `"`)
	}
	return strings.ReplaceAll(field, "\r\n", "\n"), true
}

// lineOf is the line of the text, from 1, where the last record returned, or one of its fields, starts.
func (r *records) lineOf(field int) int {
	start := r.begin
	if field < len(r.starts) {
		start = r.starts[field]
	}
	return 1 + strings.Count(r.text[:start], "\n")
}
