package dates

import (
	"errors"
	"strings"
	"time"
)

// The problems of a text.
var (
	ErrForm = errors.New("not written as the layout says")
	ErrNone = errors.New("no such date or time")
	ErrZone = errors.New("a time zone other than UTC")
)

// Read returns the moment of a text in the layout. Other texts are read as ISO 8601 dates, the form of databases and
// other files: 2024-02-29, optionally with a time after T or a space, and Z or +00 at the end. Fractions of seconds
// are dropped. The error is ErrForm, ErrNone or ErrZone.
func (l *Layout) Read(text string) (Moment, error) {
	p := parts{month: 1, day: 1}
	if rest, fits := p.scan(l.pieces, text); fits && rest == "" {
		return p.moment()
	}
	return ReadISO(text)
}

// ReadISO is [Layout.Read] for ISO 8601 only.
func ReadISO(text string) (Moment, error) {
	p := parts{month: 1, day: 1}
	rest, fits := p.scan(isoDay, text)
	if !fits {
		return 0, ErrForm
	}
	if rest != "" {
		if rest[0] != 'T' && rest[0] != ' ' {
			return 0, ErrForm
		}
		if rest, fits = p.scan(isoClock, rest[1:]); !fits {
			return 0, ErrForm
		}
		if after, fits := p.scan(isoSeconds, rest); fits {
			rest = after
			if fraction := strings.TrimPrefix(rest, "."); fraction != rest {
				rest = strings.TrimLeft(fraction, "0123456789")
			}
		}
	}
	switch {
	case rest == "", rest == "Z", rest == "+00", rest == "+00:00", rest == "+0000":
		return p.moment()
	case rest[0] == '+', rest[0] == '-':
		return 0, ErrZone
	default:
		return 0, ErrForm
	}
}

// HasTime reports whether a text that ReadISO accepts has a time of day.
func HasTime(text string) bool { return len(text) > len("2024-02-29") }

var (
	isoDay = []piece{{field: 'Y', digits: 4}, {between: "-"}, {field: 'M', digits: 2}, {between: "-"},
		{field: 'D', digits: 2}}
	isoClock   = []piece{{field: 'h', digits: 2}, {between: ":"}, {field: 'm', digits: 2}}
	isoSeconds = []piece{{between: ":"}, {field: 's', digits: 2}}
)

// parts are the fields of a moment. Month and day are 1 if a text omits them.
type parts struct{ year, month, day, hour, minute, second int }

// scan reads pieces from the start of a text and returns the rest.
func (p *parts) scan(pieces []piece, text string) (rest string, fits bool) {
	for i := range pieces {
		if pieces[i].field == 0 {
			after, found := strings.CutPrefix(text, pieces[i].between)
			if !found {
				return text, false
			}
			text = after
			continue
		}
		n, digits, most := 0, 0, max(pieces[i].digits, 2)
		for digits < len(text) && digits < most && text[digits] >= '0' && text[digits] <= '9' {
			n = n*10 + int(text[digits]-'0')
			digits++
		}
		if digits == 0 || digits < pieces[i].digits {
			return text, false
		}
		text = text[digits:]
		switch pieces[i].field {
		case 'Y':
			p.year = n
		case 'M':
			p.month = n
		case 'D':
			p.day = n
		case 'h':
			p.hour = n
		case 'm':
			p.minute = n
		default:
			p.second = n
		}
	}
	return text, true
}

// moment converts the parts. It refuses year 0, and dates that time.Date would normalize.
func (p *parts) moment() (Moment, error) {
	t := time.Date(p.year, time.Month(p.month), p.day, p.hour, p.minute, p.second, 0, time.UTC)
	if p.year < 1 || t.Day() != p.day || int(t.Month()) != p.month || p.hour > 23 || p.minute > 59 || p.second > 59 {
		return 0, ErrNone
	}
	return Moment(t.Unix()), nil
}
