package report

import "testing"

func TestTexts(t *testing.T) {
	for _, c := range []struct{ got, want string }{
		{grouped(0), "0"}, {grouped(999), "999"}, {grouped(1000), "1,000"}, {grouped(-1234567), "-1,234,567"},
		{several(1, "round"), "1 round"}, {several(2000, "round"), "2,000 rounds"}, {several(0, "round"), "0 rounds"},
		{correlation(-0.5), "−0.50"}, {correlation(0.126), "+0.13"},
		{percent(0), "0%"}, {percent(0.0004), "< 0.1%"}, {percent(0.025), "2.5%"}, {percent(1), "100%"},
		{figure(3), "3"}, {figure(1e-5), "1e-05"}, {figure(1234.6), "1235"},
		{shorten("measured_quantity_093", 13), "measured…_093"}, {shorten("short", 5), "short"},
		{shorten("äöüßäöüß", 6), "äöü…üß"},
		{odds(1e-5), "1 in 100,000"}, {odds(1e-300), "1 in 1e+300"}, {odds(0.3), "1 in 3"},
	} {
		if c.got != c.want {
			t.Errorf("%q, want %q", c.got, c.want)
		}
	}
}

func TestSharesOf(t *testing.T) {
	s := SharesOf([]float32{1, 0, 0.5, 0.25, 0.75}, 0.1)
	if *s != (Shares{Noise: 0.1, P10: 0.1, P25: 0.25, P50: 0.5, P75: 0.75, P90: 0.9}) {
		t.Errorf("%+v", *s)
	}
	if one := SharesOf([]float32{0.5}, 0); one.P10 != 0.5 || one.P90 != 0.5 {
		t.Errorf("one share gave %+v", *one)
	}
	if SharesOf(nil, 0.1) != nil {
		t.Error("no shares gave a summary")
	}
}

func TestAgreement(t *testing.T) {
	a := newAgreement([]Round{{Round: 0, Queries: 1, Answered: 1},
		{Round: 5, Queries: 10, Answered: 4, Shares: &Shares{P10: -0.5, P90: 1.5}}})
	if !a.Drawn || a.Counts != "In 2 rounds, 5 of 11 questions were answered." ||
		a.Missing != "Only the answers from round 5 on were kept." {
		t.Errorf("%+v", a)
	}
	if a.Outer != "M52.0 12.0H548.0L548.0 206.0H52.0Z" { // noise reaches from -0.5 to 1.5, the whole height
		t.Errorf("the band is %s", a.Outer)
	}
	if a := newAgreement([]Round{{Round: 0, Queries: 1, Answered: 1}}); a.Drawn ||
		a.Counts != "In 1 round, the one question was answered." {
		t.Errorf("%+v", a)
	}
	if newAgreement(nil) != nil {
		t.Error("no rounds gave a picture")
	}
}
