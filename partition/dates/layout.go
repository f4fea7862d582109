package dates

import (
	"errors"
	"fmt"
	"strings"
	"time"
)

// Layout is how a table spells dates and times.
type Layout struct {
	text   string
	pieces []piece
	finest Resolution
}

// piece is a field of digits or, if field is 0, the text between fields.
type piece struct {
	field   byte // Y, M, D, h, m or s
	digits  int  // 0 allows one or two
	between string
}

// fields are the fields of a moment, coarsest first; the last one present sets what is counted.
const fields = "YMDhms"

var finest = [len(fields)]Resolution{Year, Month, Day, Hour, Minute, Second}

// ParseLayout parses a layout such as DD.MM.YYYY or "YYYY-MM-DD hh:mm". Its fields are YYYY, MM, DD, hh, mm and ss,
// and M and D without a leading zero. Between fields there may be T, Z and any character that is neither letter nor
// digit. A field requires all coarser ones. Errors say what is wrong and what to do.
func ParseLayout(text string) (Layout, error) {
	l := Layout{text: text}
	seen := 0 // one bit per field
	for i := 0; i < len(text); {
		letter, n := text[i], 1
		for i+n < len(text) && text[i+n] == letter {
			n++
		}
		at := strings.IndexByte(fields, letter)
		switch {
		case at < 0 && (letter <= ' ' && letter != ' ' || letter > '~'):
			return l, errors.New("there is a character that is not plain ASCII; use YYYY, MM, DD, hh, mm, ss, and " +
				"dots, dashes, slashes, colons or spaces between them")
		case at < 0 && letter != 'T' && letter != 'Z' && alphanumeric(letter):
			return l, fmt.Errorf("%q is unknown; use YYYY, MM or M, DD or D, hh, mm and ss", letter)
		case at < 0:
			l.pieces = append(l.pieces, piece{between: text[i : i+n]})
		case letter == 'Y' && n == 2:
			return l, errors.New("two-digit years have no century; write four-digit years in the table, and YYYY here")
		case seen&(1<<at) != 0:
			return l, fmt.Errorf("%s appears twice; keep only one (MM: months, mm: minutes)", text[i:i+n])
		case letter == 'Y' && n != 4, letter != 'Y' && n > 2, n == 1 && letter != 'M' && letter != 'D':
			return l, fmt.Errorf("%s is unknown; use YYYY, MM or M, DD or D, hh, mm and ss", text[i:i+n])
		default:
			if last := len(l.pieces) - 1; last >= 0 && l.pieces[last].field != 0 && l.pieces[last].digits == 0 {
				return l, fmt.Errorf("%c without a leading zero is directly before another field, and its end is "+
					"ambiguous; use %[1]c%[1]c, or a separator", l.pieces[last].field)
			}
			digits := n
			if n == 1 {
				digits = 0
			}
			l.pieces, seen = append(l.pieces, piece{field: letter, digits: digits}), seen|1<<at
		}
		i += n
	}
	if seen&(seen+1) != 0 || seen == 0 {
		return l, errors.New("a field needs all coarser ones; use YYYY, then add MM, DD, hh, mm, ss as needed, in " +
			"any order")
	}
	for i := range finest {
		if seen&(1<<i) != 0 {
			l.finest = finest[i]
		}
	}
	return l, nil
}

func alphanumeric(b byte) bool {
	return b >= '0' && b <= '9' || b >= 'a' && b <= 'z' || b >= 'A' && b <= 'Z'
}

// String is the parsed text of the layout.
func (l *Layout) String() string { return l.text }

// Tells reports whether texts in the layout distinguish the units of a resolution.
func (l *Layout) Tells(r Resolution) bool {
	switch r {
	case Week:
		r = Day
	case Quarter:
		r = Month
	}
	return !l.finest.Coarser(r)
}

// Append writes a moment from year 1 to 9999.
func (l *Layout) Append(b []byte, at Moment) []byte {
	t := time.Unix(int64(at), 0).UTC()
	for i := range l.pieces {
		p := &l.pieces[i]
		n := 0
		switch p.field {
		case 'Y':
			n = t.Year()
		case 'M':
			n = int(t.Month())
		case 'D':
			n = t.Day()
		case 'h':
			n = t.Hour()
		case 'm':
			n = t.Minute()
		case 's':
			n = t.Second()
		default:
			b = append(b, p.between...)
			continue
		}
		if p.digits == 4 {
			b = append(b, byte('0'+n/1000), byte('0'+n/100%10))
			n %= 100
		}
		if p.digits > 0 || n > 9 {
			b = append(b, byte('0'+n/10))
		}
		b = append(b, byte('0'+n%10))
	}
	return b
}
