package xlsx

import (
	"encoding/xml"
	"io"
	"regexp"
	"strconv"
	"strings"
)

// readStrings reads the texts that sheets share.
func (f *File) readStrings(part string) error {
	r, err := f.open(part, maxStrings)
	if err != nil {
		return err
	}
	defer r.close()
	for {
		token, err := r.next()
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
		if start, ok := token.(xml.StartElement); ok && start.Name.Local == "si" {
			text, err := r.text()
			if err != nil {
				return err
			}
			f.strings = append(f.strings, text)
		}
	}
}

// text reads to the end of the current element, and joins its runs of text; phonetic runs (rPh) are skipped.
func (r *reader) text() (string, error) {
	var b strings.Builder
	for depth, spoken, in := 1, 0, false; depth > 0; {
		token, err := r.next()
		if err != nil {
			return "", readError(r.part, err)
		}
		switch t := token.(type) {
		case xml.StartElement:
			depth++
			in = t.Name.Local == "t"
			if t.Name.Local == "rPh" {
				spoken = depth
			}
		case xml.EndElement:
			if depth == spoken {
				spoken = 0
			}
			depth--
			in = false
		case xml.CharData:
			if in && spoken == 0 {
				b.Write(t)
			}
		}
		if b.Len() > maxToken {
			return "", unsupported("%s has a text that is too long", r.part)
		}
	}
	return unescape(b.String()), nil
}

// plain reads to the end of the current element, which has only text.
func (r *reader) plain() (string, error) {
	var b strings.Builder
	for {
		token, err := r.next()
		if err != nil {
			return "", readError(r.part, err)
		}
		switch t := token.(type) {
		case xml.EndElement:
			return b.String(), nil
		case xml.CharData:
			if b.Len()+len(t) > maxToken {
				return "", unsupported("%s has a text that is too long", r.part)
			}
			b.Write(t)
		case xml.StartElement:
			return "", damaged("%s has elements in a value", r.part)
		}
	}
}

var escaped = regexp.MustCompile(`_x[0-9A-Fa-f]{4}_`)

// unescape decodes characters that XML cannot represent: _x000D_ (ECMA-376, part 1, 22.9.2.19).
func unescape(text string) string {
	if !strings.Contains(text, "_x") {
		return text
	}
	return escaped.ReplaceAllStringFunc(text, func(e string) string {
		n, _ := strconv.ParseUint(e[2:6], 16, 16) // its digits were checked before
		return string(rune(n))
	})
}
