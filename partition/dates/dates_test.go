package dates_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/conclave-dp/conclave/internal/testkit"
	_ "github.com/conclave-dp/conclave/internal/testkit/draws" // the same seed in every run
	"github.com/conclave-dp/conclave/partition/dates"
)

func layout(t testing.TB, text string) *dates.Layout {
	t.Helper()
	l, err := dates.ParseLayout(text)
	testkit.Must(t, err)
	return &l
}

func moment(year, month, day, hour, minute, second int) dates.Moment {
	return dates.Moment(time.Date(year, time.Month(month), day, hour, minute, second, 0, time.UTC).Unix())
}

func TestRead(t *testing.T) {
	leap := moment(2024, 2, 29, 0, 0, 0)
	for _, tc := range []struct {
		layout, text string
		want         dates.Moment
		err          error
	}{
		{"YYYY-MM-DD", "2024-02-29", leap, nil},
		{"DD.MM.YYYY", "29.02.2024", leap, nil},
		{"D.M.YYYY", "29.2.2024", leap, nil},
		{"D.M.YYYY", "29.02.2024", leap, nil},
		{"MM/DD/YYYY", "02/29/2024", leap, nil},
		{"YYYYMMDD", "20240229", leap, nil},
		{"YYYY-MM", "2024-02", moment(2024, 2, 1, 0, 0, 0), nil},
		{"YYYY", "2024", moment(2024, 1, 1, 0, 0, 0), nil},
		{"DD.MM.YYYY hh:mm", "29.02.2024 23:59", moment(2024, 2, 29, 23, 59, 0), nil},
		{"YYYY-MM-DDThh:mm:ssZ", "2024-02-29T23:59:58Z", moment(2024, 2, 29, 23, 59, 58), nil},
		// Forms from databases and other files are read, whatever the layout.
		{"DD.MM.YYYY", "2024-02-29", leap, nil},
		{"DD.MM.YYYY", "2024-02-29 00:00:00", leap, nil},
		{"YYYYMMDD", "2024-02-29T13:07", moment(2024, 2, 29, 13, 7, 0), nil},
		{"YYYYMMDD", "2024-02-29 13:07:09.123456+00", moment(2024, 2, 29, 13, 7, 9), nil},
		{"YYYYMMDD", "2024-02-29T13:07:09Z", moment(2024, 2, 29, 13, 7, 9), nil},
		{"YYYYMMDD", "0001-01-01", moment(1, 1, 1, 0, 0, 0), nil},
		{"YYYY-MM-DD", "2024-02-29 13:07:09+01", 0, dates.ErrZone},
		{"YYYY-MM-DD", "2024-02-29T13:07-05:00", 0, dates.ErrZone},
		{"YYYY-MM-DD", "2023-02-29", 0, dates.ErrNone},
		{"YYYY-MM-DD", "2024-02-30", 0, dates.ErrNone},
		{"YYYY-MM-DD", "0000-01-01", 0, dates.ErrNone},
		{"DD.MM.YYYY", "00.02.2024", 0, dates.ErrNone},
		{"DD.MM.YYYY", "01.00.2024", 0, dates.ErrNone},
		{"DD.MM.YYYY", "01.13.2024", 0, dates.ErrNone},
		{"YYYY-MM-DD hh:mm", "2024-02-29 24:00", 0, dates.ErrNone},
		{"YYYY-MM-DD hh:mm", "2024-02-29 12:60", 0, dates.ErrNone},
		{"YYYY-MM-DD", "2024-02-29 12:00:60", 0, dates.ErrNone},
		// The layout takes precedence, so this is not 13 February.
		{"YYYY-DD-MM", "2024-02-13", 0, dates.ErrNone},
		{"DD.MM.YYYY", "29.2.2024", 0, dates.ErrForm},
		{"DD.MM.YYYY", "29.02.24", 0, dates.ErrForm},
		{"YYYY-MM-DD", "2024-02-29 ", 0, dates.ErrForm},
		{"YYYY-MM-DD", "2024-02-29x", 0, dates.ErrForm},
		{"YYYY-MM-DD", "12024-02-29", 0, dates.ErrForm},
		{"YYYY-MM-DD", "", 0, dates.ErrForm},
	} {
		got, err := layout(t, tc.layout).Read(tc.text)
		if got != tc.want || !errors.Is(err, tc.err) {
			t.Errorf("%q in %s: %d, %v; want %d, %v", tc.text, tc.layout, got, err, tc.want, tc.err)
		}
	}
}

func TestLayoutsThatAreRefused(t *testing.T) {
	for text, want := range map[string]string{
		"":                 "a field needs all coarser ones",
		"DD.MM.YY":         "two-digit years",
		"DD.MM":            "needs all coarser ones",
		"YYYY-DD":          "needs all coarser ones",
		"YYYY-MM-DD hh:ss": "needs all coarser ones",
		"YYYY-MM-DD MM":    "MM appears twice",
		"YYYYMD":           "M without a leading zero is directly before another field",
		"YYYY-MMM-DD":      "MMM is unknown",
		"YYYYY":            "YYYYY is unknown",
		"YYYY-MM-DD h:mm":  "h is unknown",
		"yyyy-MM-DD":       "'y' is unknown",
		"YYYY-MM-DD\n":     "not plain ASCII",
		"YYYY年MM":          "not plain ASCII",
		"YYYY0":            "'0' is unknown",
	} {
		if _, err := dates.ParseLayout(text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("layout %q: error is %v, want %q", text, err, want)
		}
	}
}

func TestCounting(t *testing.T) {
	for _, tc := range []struct {
		resolution dates.Resolution
		from, to   dates.Moment
		units      int64
	}{
		{dates.Second, moment(2024, 2, 28, 0, 0, 0), moment(2024, 2, 28, 0, 1, 1), 61},
		{dates.Day, moment(2024, 2, 28, 0, 0, 0), moment(2024, 3, 1, 23, 59, 59), 2},
		{dates.Day, moment(1970, 1, 1, 0, 0, 0), moment(1969, 12, 31, 12, 0, 0), -1},
		{dates.Week, moment(2024, 1, 1, 0, 0, 0), moment(2024, 1, 14, 23, 0, 0), 1},
		{dates.Month, moment(2023, 11, 1, 0, 0, 0), moment(2024, 2, 29, 0, 0, 0), 3},
		{dates.Month, moment(2024, 1, 1, 0, 0, 0), moment(2023, 12, 31, 0, 0, 0), -1},
		{dates.Quarter, moment(2023, 10, 1, 0, 0, 0), moment(2024, 3, 31, 0, 0, 0), 1},
		{dates.Year, moment(1, 1, 1, 0, 0, 0), moment(9999, 12, 31, 0, 0, 0), 9998},
	} {
		if got := tc.resolution.Count(tc.from, tc.to); got != tc.units {
			t.Errorf("%s: %d units from %d to %d, want %d", tc.resolution, got, tc.from, tc.to, tc.units)
		}
	}
	if dates.Month.Starts(moment(2024, 2, 2, 0, 0, 0)) || dates.Quarter.Starts(moment(2024, 2, 1, 0, 0, 0)) ||
		dates.Year.Starts(moment(2024, 4, 1, 0, 0, 0)) || dates.Hour.Starts(moment(2024, 4, 1, 0, 30, 0)) ||
		!dates.Week.Starts(moment(2024, 2, 2, 0, 0, 0)) || !dates.Quarter.Starts(moment(1960, 10, 1, 0, 0, 0)) {
		t.Error("starts of units are not found")
	}
}

// The start of a unit survives counting, writing and reading.
func TestRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		r := rapid.SampledFrom(dates.Resolutions).Draw(t, "resolution")
		l, err := dates.ParseLayout(rapid.SampledFrom([]string{"YYYY-MM-DD hh:mm:ss", "D.M.YYYY hh:mm:ss",
			"YYYYMMDDhhmmss", "ssmmhhDDMMYYYY"}).Draw(t, "layout"))
		if err != nil {
			t.Fatal(err)
		}
		from := r.Add(moment(1900, 1, 1, 0, 0, 0), rapid.Int64Range(0, 300).Draw(t, "lower"))
		n := rapid.Int64Range(0, 1000).Draw(t, "units")
		at := r.Add(from, n)
		if !r.Starts(at) || r.Count(from, at) != n || r.Count(from, at-1) != n-1 {
			t.Fatalf("%d %ss after %d is %d, where %d are counted", n, r, from, at, r.Count(from, at))
		}
		text := string(l.Append(nil, at))
		if back, err := l.Read(text); back != at || err != nil {
			t.Fatalf("%d is written %q in %s and read %d, %v", at, text, l.String(), back, err)
		}
	})
}

func FuzzRead(f *testing.F) {
	f.Add("DD.MM.YYYY", "29.02.2024")
	f.Add("YYYYMMDD", "2024-02-29 13:07:09.5+00")
	f.Fuzz(func(t *testing.T, spelled, text string) {
		l, err := dates.ParseLayout(spelled)
		if err != nil {
			return
		}
		at, err := l.Read(text)
		if err != nil {
			return
		}
		if !l.Tells(dates.Second) {
			return
		}
		if back, err := l.Read(string(l.Append(nil, at))); back != at || err != nil {
			t.Errorf("%q is %d and comes back as %d, %v", text, at, back, err)
		}
	})
}
