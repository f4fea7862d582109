package proposal

import (
	"errors"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/conclave-dp/conclave/partition/dates"
)

// dateFormat is a way to write days, or days with a time of day, as format: of a schema has it.
type dateFormat struct {
	format, layout string
	time           bool
	short          bool // days and months have no leading zero
}

// dateFormats are those that are told from cells. The first of several that fit is no better than the others.
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

func newDateFormat(format string) dateFormat {
	layout := strings.NewReplacer("YYYY", "2006", "MM", "01", "DD", "02", "hh", "15", "mm", "04", "ss", "05",
		"M", "1", "D", "2").Replace(format)
	return dateFormat{format, layout, strings.Contains(format, "hh"), !strings.Contains(format, "MM")}
}

// The years that a date may have: eight digits are often something else.
const firstYear, lastYear = 1800, 2199

// fits tells whether a cell is written so.
func (f *dateFormat) fits(cell string) bool {
	if len(cell) < len(f.layout) || len(cell) > len(f.layout)+2 || !f.short && len(cell) > len(f.layout) {
		return false
	}
	t, err := time.Parse(f.layout, cell)
	return err == nil && t.Year() >= firstYear && t.Year() <= lastYear
}

// isoFormat is for cells that are days and times of ISO 8601 and have no format in common, as with +00:00 or parts of
// seconds: they are read whatever the format is.
const isoFormat = "YYYY-MM-DDThh:mm:ss"

// shortYear is a date with a year of two digits.
var shortYear = regexp.MustCompile(`^(0?[1-9]|[12]\d|3[01])[./-](0?[1-9]|[12]\d|3[01])[./-]\d\d` +
	`( \d\d?:\d\d(:\d\d)?)?$` +
	`|^\d\d-(0[1-9]|1[0-2])-(0[1-9]|[12]\d|3[01])$`)

// otherDates counts cells that are dates in none of dateFormats.
type otherDates struct {
	iso, clocks, zoned int // as [dates.ReadISO] reads them, those with a time, and those in another zone than UTC
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

// times tells whether all of so many cells are days and times of ISO 8601.
func (d *otherDates) times(cells int) bool { return d.iso+d.zoned == cells && d.clocks+d.zoned > 0 }

// allFormats are the places of all formats.
func allFormats() []int {
	all := make([]int, len(dateFormats))
	for i := range all {
		all[i] = i
	}
	return all
}

// closest are the formats with leading zeros among those that fit, where there are any: cells of these fit the
// others too.
func closest(formats []int) []int {
	zeros := slices.DeleteFunc(slices.Clone(formats), func(i int) bool { return dateFormats[i].short })
	if len(zeros) > 0 {
		return zeros
	}
	return formats
}

// keepFormats are those of formats in which a cell is written.
func keepFormats(formats []int, cell string) []int {
	return slices.DeleteFunc(formats, func(i int) bool { return !dateFormats[i].fits(cell) })
}

// formatNames words formats for a comment.
func formatNames(formats []int) string {
	var all []string
	for _, i := range formats {
		all = append(all, dateFormats[i].format)
	}
	return strings.Join(all, " or ")
}

// fromStrftime is a format of Python's strftime as a schema has it, and ok is false for one that it cannot have.
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

// schemaDate is a bound as a schema has it, from one in ISO form or in the format of the column.
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
