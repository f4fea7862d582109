package text

import "testing"

func TestTexts(t *testing.T) {
	for _, c := range []struct{ got, want string }{
		{Grouped(0), "0"}, {Grouped(999), "999"}, {Grouped(1000), "1,000"}, {Grouped(-1234567), "-1,234,567"},
		{Several(1, "round"), "1 round"}, {Several(2000, "round"), "2,000 rounds"}, {Several(0, "round"), "0 rounds"},
		{ShellWord("out/a-1.csv"), "out/a-1.csv"}, {ShellWord("my out"), "'my out'"}, {ShellWord(""), "''"},
		{ShellWord("it's"), `'it'\''s'`},
		{Several(2, "query"), "2 queries"}, {Several(2, "day"), "2 days"}, {Several(1, "query"), "1 query"},
		{Correlation(-0.5), "−0.50"}, {Correlation(0.126), "+0.13"},
		{Percent(0), "0%"}, {Percent(0.0004), "< 0.1%"}, {Percent(0.025), "2.5%"}, {Percent(1), "100%"},
		{Figure(3), "3"}, {Figure(1e-5), "1e-05"}, {Figure(1234.6), "1235"},
		{Shorten("measured_quantity_093", 13), "measured…_093"}, {Shorten("short", 5), "short"},
		{Shorten("äöüßäöüß", 6), "äöü…üß"},
	} {
		if c.got != c.want {
			t.Errorf("%q, want %q", c.got, c.want)
		}
	}
}
