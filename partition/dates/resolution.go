// Package dates reads and writes dates and times of day as tables spell them, and counts them in units of the calendar.
// It knows no time zone and does not depend on the machine's.
package dates

import (
	"slices"
	"time"
)

// Moment is a number of seconds since the start of 1970, in the Gregorian calendar and without a time zone.
type Moment int64

// Resolution is the unit that moments are counted in.
type Resolution string

// The resolutions, the finest first.
const (
	Second  Resolution = "second"
	Minute  Resolution = "minute"
	Hour    Resolution = "hour"
	Day     Resolution = "day"
	Week    Resolution = "week" // seven days, from any day
	Month   Resolution = "month"
	Quarter Resolution = "quarter"
	Year    Resolution = "year"
)

// Resolutions lists all resolutions, finest first.
var Resolutions = []Resolution{Second, Minute, Hour, Day, Week, Month, Quarter, Year}

// Coarser reports whether units are longer than those of another resolution.
func (r Resolution) Coarser(o Resolution) bool {
	return slices.Index(Resolutions, r) > slices.Index(Resolutions, o)
}

// One is one unit in words: "a day", "an hour".
func (r Resolution) One() string {
	if r == Hour {
		return "an hour"
	}
	return "a " + string(r)
}

// seconds is the length of a unit if it is constant, else 0.
func (r Resolution) seconds() int64 {
	switch r {
	case Second:
		return 1
	case Minute:
		return 60
	case Hour:
		return 60 * 60
	case Day:
		return 24 * 60 * 60
	case Week:
		return 7 * 24 * 60 * 60
	default:
		return 0
	}
}

// months is the length of a unit that has whole months.
func (r Resolution) months() int64 {
	switch r {
	case Month:
		return 1
	case Quarter:
		return 3
	default:
		return 12
	}
}

// Starts reports whether a unit starts at the moment; a week may start on any day.
func (r Resolution) Starts(at Moment) bool {
	if r == Week {
		return Day.Starts(at)
	}
	if s := r.seconds(); s > 0 {
		return int64(at)%s == 0
	}
	return at == start(floor(month(at), r.months())*r.months())
}

// Count is the number of whole units from the start of one to a moment; it is negative for an earlier moment.
func (r Resolution) Count(from, to Moment) int64 {
	if s := r.seconds(); s > 0 {
		return floor(int64(to-from), s)
	}
	return floor(month(to)-month(from), r.months())
}

// Add is the moment that is units after the start of one.
func (r Resolution) Add(from Moment, units int64) Moment {
	if s := r.seconds(); s > 0 {
		return from + Moment(units*s)
	}
	return start(month(from) + units*r.months())
}

// month counts the months from the start of year 0.
func month(at Moment) int64 {
	year, month, _ := time.Unix(int64(at), 0).UTC().Date()
	return int64(year)*12 + int64(month) - 1
}

// start is the first moment of a month.
func start(month int64) Moment {
	return Moment(time.Date(0, time.Month(month+1), 1, 0, 0, 0, 0, time.UTC).Unix())
}

func floor(a, b int64) int64 {
	q := a / b
	if a%b < 0 {
		q--
	}
	return q
}
