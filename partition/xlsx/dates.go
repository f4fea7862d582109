package xlsx

import (
	"math"
	"regexp"
	"strings"
	"time"
)

// look is how a cell's format shows a number.
type look int

const (
	number look = iota
	date
	moment // a date with a time of day
	clock  // a time of day
)

// builtIn returns the look of format numbers that every program knows (ECMA-376, part 1, 18.8.30); 46 is a duration.
func builtIn(id int) look {
	switch {
	case id >= 14 && id <= 17, id >= 27 && id <= 31, id == 36, id >= 50 && id <= 58:
		return date
	case id >= 18 && id <= 21, id >= 32 && id <= 35, id == 45, id == 47:
		return clock
	case id == 22:
		return moment
	}
	return number
}

// notCode matches literal text, colours and conditions of a format.
var notCode = regexp.MustCompile(`"[^"]*"|\\.|_.|\*.|\[[^\]]*\]`)

// duration matches hours, minutes or seconds that may exceed a day.
var duration = regexp.MustCompile(`(?i)\[(h+|m+|s+)\]`)

// lookOf returns the look of a workbook's own format.
func lookOf(code string) look {
	if duration.MatchString(code) {
		return number
	}
	code, _, _ = strings.Cut(strings.ToLower(notCode.ReplaceAllString(code, "")), ";") // the positive section
	days, times := strings.ContainsAny(code, "yd"), strings.ContainsAny(code, "hs")
	switch {
	case days && times:
		return moment
	case days, !times && strings.Contains(code, "m"): // the month, unless next to hours or seconds
		return date
	case times:
		return clock
	}
	return number
}

// readStyles reads how formats of cells show numbers.
func (f *File) readStyles(part string) error {
	var styles struct {
		Formats []struct {
			ID   int    `xml:"numFmtId,attr"`
			Code string `xml:"formatCode,attr"`
		} `xml:"numFmts>numFmt"`
		Cells []struct {
			Format int `xml:"numFmtId,attr"`
		} `xml:"cellXfs>xf"`
	}
	if err := f.decode(part, &styles); err != nil {
		return err
	}
	own := map[int]look{}
	for _, format := range styles.Formats {
		own[format.ID] = lookOf(format.Code)
	}
	for _, cell := range styles.Cells {
		l, known := own[cell.Format]
		if !known {
			l = builtIn(cell.Format)
		}
		f.styles = append(f.styles, l)
	}
	return nil
}

// epoch is true if days are counted from 1904, as in old Macintosh programs, instead of 1900.
type epoch bool

// lastDay is 9999-12-31, the last date, counted from 1900.
const lastDay = 2958465

// dateText is a number of days as a date or time; false if there is no such day.
func (from epoch) dateText(days float64, l look) (text string, ok bool) {
	first := time.Date(1899, 12, 30, 0, 0, 0, 0, time.UTC)
	if from {
		first = time.Date(1904, 1, 1, 0, 0, 0, 0, time.UTC)
	}
	if !(days >= 0 && days < lastDay+1) {
		return "", false
	}
	// A float64 is precise to a date's milliseconds, and no more.
	thousandths := int64(math.Round(days * 86400_000))
	day, rest := thousandths/86400_000, time.Duration(thousandths%86400_000)*time.Millisecond
	if l == clock && day == 0 {
		return first.Add(rest).Format("15:04:05.999"), true
	}
	// The program that all others copy has a day 1900-02-29, which is number 60.
	if !from && (day == 0 || day == 60) {
		return "", false
	}
	if !from && day < 60 {
		day++
	}
	t := first.AddDate(0, 0, int(day)).Add(rest)
	if l == date && rest == 0 {
		return t.Format("2006-01-02"), true
	}
	return t.Format("2006-01-02 15:04:05.999"), true
}
