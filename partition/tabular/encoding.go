package tabular

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"unicode/utf8"

	"golang.org/x/text/encoding/charmap"
	"golang.org/x/text/encoding/unicode"

	"github.com/conclave-dp/conclave/partition"
)

// openText returns the plain text of a file as UTF-8. It detects gzip and UTF-16 by content, and decodes
// windows-1252 if the schema allows it and the file is not UTF-8.
func openText(s *partition.Schema, r io.Reader, name string) (io.Reader, error) {
	latin1 := false
	if s.CSV.Encoding == partition.Latin1 {
		seeker, err := rewindable(r)
		if err != nil {
			return nil, readError(name, err)
		}
		plain, err := partition.OpenPlain(seeker, name)
		if err != nil {
			return nil, err
		}
		utf16 := isUTF16(plain)
		valid, err := allUTF8(plain)
		if err != nil {
			return nil, readError(name, err)
		}
		if _, err := seeker.Seek(0, io.SeekStart); err != nil {
			return nil, readError(name, err)
		}
		latin1, r = !valid && !utf16, seeker
	}
	plain, err := partition.OpenPlain(r, name)
	switch {
	case err != nil:
		return nil, err
	case latin1:
		return charmap.Windows1252.NewDecoder().Reader(plain), nil
	case isUTF16(plain):
		order := unicode.LittleEndian
		if start, _ := plain.Peek(1); start[0] == 0 || start[0] == 0xfe {
			order = unicode.BigEndian
		}
		return unicode.UTF16(order, unicode.UseBOM).NewDecoder().Reader(plain), nil
	}
	return plain, nil
}

// rewindable returns a reader that can be read twice. Input that is not a file is kept in memory.
func rewindable(r io.Reader) (io.ReadSeeker, error) {
	if seeker, ok := r.(io.ReadSeeker); ok {
		if _, err := seeker.Seek(0, io.SeekCurrent); err == nil {
			return seeker, nil
		}
	}
	all, err := io.ReadAll(r)
	return bytes.NewReader(all), err
}

// isUTF16 detects UTF-16 by its byte order mark, or else by the zero bytes in the first two letters.
func isUTF16(plain *bufio.Reader) bool {
	start, _ := plain.Peek(4)
	if len(start) >= 2 && (start[0] == 0xff && start[1] == 0xfe || start[0] == 0xfe && start[1] == 0xff) {
		return true
	}
	printable := func(b byte) bool { return b >= ' ' && b < 0x7f || b == '\r' || b == '\n' }
	return len(start) == 4 && (start[0] == 0 && start[2] == 0 && printable(start[1]) && printable(start[3]) ||
		start[1] == 0 && start[3] == 0 && printable(start[0]) && printable(start[2]))
}

// allUTF8 reads to the end, or to the first text that is not UTF-8.
func allUTF8(r io.Reader) (bool, error) {
	buffer, kept := make([]byte, 1<<16), 0
	for {
		n, err := r.Read(buffer[kept:])
		text := buffer[:kept+n]
		if kept = 0; !errors.Is(err, io.EOF) {
			kept = begunRune(text)
		}
		if whole := text[:len(text)-kept]; !utf8.Valid(whole) {
			return false, nil
		}
		copy(buffer, text[len(text)-kept:])
		if errors.Is(err, io.EOF) {
			return true, nil
		}
		if err != nil {
			return false, err
		}
	}
}

// begunRune is the number of bytes at the end of a text that begin an incomplete character.
func begunRune(text []byte) int {
	for n := 1; n < utf8.UTFMax && n <= len(text); n++ {
		if last := text[len(text)-n:]; utf8.RuneStart(last[0]) {
			if utf8.FullRune(last) {
				return 0
			}
			return n
		}
	}
	return 0
}
