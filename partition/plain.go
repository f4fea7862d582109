package partition

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"errors"
	"io"
	"regexp"
	"strings"
)

// OpenPlain undoes gzip, drops a byte order mark, and refuses files of known other formats. name is for errors, which
// are *InputError. Broken data further inside shows up when it is read.
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
	// Other problems show up when the rows are read.
	if start, _ := buffered.Peek(64); len(start) > 0 {
		if bad := formOf(string(start)); bad != nil {
			bad.File = name
			return nil, bad
		}
	}
	if mark, _ := buffered.Peek(len(byteOrderMark)); string(mark) == byteOrderMark {
		_, _ = buffered.Discard(len(mark))
	}
	return buffered, nil
}

// FixGzip is how to fix broken gzip data.
const FixGzip = "copy or compress the file again"

const (
	unpack     = "unpack it, and name the file in it"
	exportIt   = "open it where it was made, and export the table as CSV, Parquet or .xlsx"
	saveAsUTF8 = "save the file as UTF-8"
)

// forms are files that people mistake for tables, by their first bytes; also must follow them.
var forms = []struct{ start, also, what, fix string }{
	{"\x1f\x8b", "", "gzip data in gzip data", "unpack it once"},
	{"PK\x03\x04", "", "a zip archive", unpack},
	{"7z\xbc\xaf\x27\x1c", "", "a 7z archive", unpack},
	{"Rar!\x1a\x07", "", "a RAR archive", unpack},
	{"BZh", "1AY&SY", "bzip2 data", unpack + "; gzip is read as it is"},
	{"\xfd7zXZ\x00", "", "xz data", unpack + "; gzip is read as it is"},
	{"\x28\xb5\x2f\xfd", "", "zstd data", unpack + "; gzip is read as it is"},
	{"\xff\xfe\x00\x00", "", "text in UTF-32", saveAsUTF8},
	{"\x00\x00\xfe\xff", "", "text in UTF-32", saveAsUTF8},
	{"%PDF-", "", "a PDF file", exportIt},
	{"{\\rtf", "", "a text document (RTF)", exportIt},
	{"\xd0\xcf\x11\xe0", "", "a file of an old Office, such as .xls", "save it as .xlsx or CSV"},
	{"$FL2@(#)", "", "a file of SPSS", exportIt},
	{"$FL3@(#)", "", "a file of SPSS", exportIt},
	{"<stata_dta>", "", "a file of Stata", exportIt},
	{"RDX2\n", "", "a file of R", exportIt},
	{"RDX3\n", "", "a file of R", exportIt},
	{"SQLite format 3\x00", "", "a database of SQLite", exportIt},
	{"ARROW1\x00\x00", "", "an Arrow or Feather file", exportIt},
	{"\x89PNG", "", "an image", exportIt},
	{"\xff\xd8\xff", "", "an image", exportIt},
}

// The start of JSON, XML and HTML, which no header has.
var (
	jsonStart = regexp.MustCompile(`^\s*(\{\s*"|\[\s*[{["])`)
	xmlStart  = regexp.MustCompile(`(?i)^\s*<(\?xml|!doctype|!--|html|table)\b`)
)

// formOf is the problem of a file with a known format that is not a text table, or nil.
func formOf(start string) *InputError {
	for _, f := range forms {
		if strings.HasPrefix(start, f.start) && strings.Contains(start, f.also) {
			return &InputError{Problem: "this is " + f.what, Fix: f.fix}
		}
	}
	switch {
	case jsonStart.MatchString(start):
		return &InputError{Problem: "this is JSON", Fix: "write the table as CSV or Parquet"}
	case xmlStart.MatchString(start):
		return &InputError{Problem: "this is HTML or XML", Fix: exportIt}
	}
	return nil
}

// separatorLine is a line that tells Excel which separator follows.
var separatorLine = regexp.MustCompile(`(?i)^"?sep=.?"?[,;\t|]?$`)

// CheckFirstLine refuses the decoded text of a table whose first non-empty line cannot be a header. The error has no
// file and no cell.
func CheckFirstLine(text string) *InputError {
	begun := strings.TrimLeft(text, "\r\n")
	number := 1 + strings.Count(text[:len(text)-len(begun)], "\n")
	line, _, _ := strings.Cut(begun, "\n")
	line = strings.TrimSuffix(line, "\r")
	strange := func(r rune) bool { return r < ' ' && r != '\t' && r != '\r' }
	switch {
	case strings.IndexByte(line, '\r') >= 0:
		return &InputError{Line: number, Problem: "the lines end with CR only, as on old Macintoshes",
			Fix: "save the file with line ends LF or CRLF"}
	case strings.ContainsFunc(line, strange), strings.Contains(text[:min(len(text), 1024)], "\x00"):
		return &InputError{Problem: "there are control characters, so this is not a text file",
			Fix: "write the table as CSV, Parquet or .xlsx, and check that it is the right file"}
	case separatorLine.MatchString(line):
		return &InputError{Line: number, Problem: "the first line is for Excel (sep=), not a header",
			Fix: "remove that line; the delimiter is detected from the header"}
	}
	return nil
}
