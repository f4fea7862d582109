package proposal

import (
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/conclave-dp/conclave/internal/pattern"
	"github.com/conclave-dp/conclave/partition/dates"
)

// dateFormat is a way to write days, or days with a time of day, as in a schema's format:.
type dateFormat struct {
	format, layout string
	time           bool
	short          bool // days and months have no leading zero
}

// dateFormats are the formats that are recognized in cells. If several fit, none is preferred.
var dateFormats = makeDateFormats()

func makeDateFormats() (all []dateFormat) {
	for _, day := range []string{"YYYY-MM-DD", "DD.MM.YYYY", "DD/MM/YYYY", "MM/DD/YYYY", "DD-MM-YYYY", "MM-DD-YYYY",
		"YYYY/MM/DD", "D.M.YYYY", "D/M/YYYY", "M/D/YYYY"} {
		all = append(all, newDateFormat(day))
		for _, clock := range []string{" hh:mm", " hh:mm:ss", "Thh:mm", "Thh:mm:ss"} {
			all = append(all, newDateFormat(day+clock))
		}
	}
	for _, clock := range []string{" hh:mmZ", " hh:mm:ssZ", "Thh:mmZ", "Thh:mm:ssZ"} {
		all = append(all, newDateFormat("YYYY-MM-DD"+clock))
	}
	return append(all, newDateFormat("YYYYMMDD"))
}

// layouts writes a format as package time does.
var layouts = strings.NewReplacer("YYYY", "2006", "MM", "01", "DD", "02", "hh", "15", "mm", "04", "ss", "05", "M", "1",
	"D", "2")

func newDateFormat(format string) dateFormat {
	return dateFormat{format, layouts.Replace(format), strings.Contains(format, "hh"), !strings.Contains(format, "MM")}
}

// The years that a date may have: eight digits are often something else.
const firstYear, lastYear = 1800, 2199

// fits tells whether a cell has this format.
func (f *dateFormat) fits(cell string) bool {
	if len(cell) < len(f.layout) || len(cell) > len(f.layout)+2 || !f.short && len(cell) > len(f.layout) {
		return false
	}
	t, err := time.Parse(f.layout, cell)
	return err == nil && t.Year() >= firstYear && t.Year() <= lastYear
}

// isoFormat is the format for cells that are days and times of ISO 8601 without a common format, such as with
// +00:00 or parts of seconds: these are read with any format.
const isoFormat = "YYYY-MM-DDThh:mm:ss"

// shortYear is a date with a year of two digits.
var shortYear = pattern.Of(`^(0?[1-9]|[12]\d|3[01])[./-](0?[1-9]|[12]\d|3[01])[./-]\d\d` +
	`( \d\d?:\d\d(:\d\d)?)?$` +
	`|^\d\d-(0[1-9]|1[0-2])-(0[1-9]|[12]\d|3[01])$`)

// otherDates counts cells with dates in none of dateFormats.
type otherDates struct {
	iso, clocks, zoned int // as [dates.ReadISO] reads them; those with a time; those in a time zone other than UTC
	short              int // with years of two digits
}

func (d *otherDates) add(cell string) {
	if shortYear.MatchString(cell) {
		d.short++
	}
	if len(cell) < len(time.DateOnly) || cell[4] != '-' {
		return
	}
	at, err := dates.ReadISO(cell)
	switch year := time.Unix(int64(at), 0).UTC().Year(); {
	case errors.Is(err, dates.ErrZone):
		d.zoned++
	case err == nil && year >= firstYear && year <= lastYear:
		d.iso++
		if dates.HasTime(cell) {
			d.clocks++
		}
	}
}

// times tells whether all cells are days and times of ISO 8601.
func (d *otherDates) times(cells int) bool { return d.iso+d.zoned == cells && d.clocks+d.zoned > 0 }

// allFormats returns the indices of all formats.
func allFormats() []int {
	all := make([]int, len(dateFormats))
	for i := range all {
		all[i] = i
	}
	return all
}

// closest returns the formats with leading zeros among those that fit, if there are any: their cells fit the
// others as well.
func closest(formats []int) []int {
	zeros := slices.DeleteFunc(slices.Clone(formats), func(i int) bool { return dateFormats[i].short })
	if len(zeros) > 0 {
		return zeros
	}
	return formats
}

// keepFormats returns the formats that a cell fits.
func keepFormats(formats []int, cell string) []int {
	return slices.DeleteFunc(formats, func(i int) bool { return !dateFormats[i].fits(cell) })
}

// formatNames describes formats for a comment.
func formatNames(formats []int) string {
	var all []string
	for _, i := range formats {
		all = append(all, dateFormats[i].format)
	}
	return strings.Join(all, " or ")
}

// fromStrftime converts a format of Python's strftime to a schema's; ok is false if a schema has no such
// format.
func fromStrftime(format string) (f dateFormat, ok bool) {
	words := strings.NewReplacer("%Y", "YYYY", "%m", "MM", "%d", "DD", "%H", "hh", "%M", "mm", "%S", "ss")
	return formatNamed(words.Replace(format))
}

// formatNamed finds a format of a schema.
func formatNamed(format string) (f dateFormat, ok bool) {
	i := slices.IndexFunc(dateFormats, func(f dateFormat) bool { return f.format == format })
	if i < 0 {
		return f, false
	}
	return dateFormats[i], true
}

// schemaDate converts a bound, in ISO form or in the format of the column, to a schema's form.
func schemaDate(bound string, format dateFormat) (day string, ok bool) {
	for _, layout := range []string{time.DateOnly, "2006-01-02T15:04", "2006-01-02T15:04:05", "2006-01-02 15:04:05",
		format.layout} {
		t, err := time.Parse(layout, bound)
		if err != nil {
			continue
		}
		if t.Hour() == 0 && t.Minute() == 0 {
			return t.Format(time.DateOnly), true
		}
		return t.Format("2006-01-02T15:04"), true
	}
	return "", false
}
