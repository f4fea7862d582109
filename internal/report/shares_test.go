package report

import (
	"testing"
)

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
		{Round: 5, Queries: 10, Answered: 4, Shares: &Shares{P10: -0.5, P90: 1.5}}}, true)
	if !a.Drawn || a.Counts != "In 2 rounds, 5 of 11 questions were answered." ||
		a.Missing != "Only answers from round 5 on were stored." {
		t.Errorf("%+v", a)
	}
	if a.Outer != "M52.0 12.0H548.0L548.0 206.0H52.0Z" { // noise reaches from -0.5 to 1.5, the whole height
		t.Errorf("the band is %s", a.Outer)
	}
	if a := newAgreement([]Round{{Round: 0, Queries: 1, Answered: 1}}, true); a.Drawn ||
		a.Counts != "In 1 round, the one question was answered." {
		t.Errorf("%+v", a)
	}
	if newAgreement(nil, true) != nil {
		t.Error("no rounds gave a picture")
	}
}

func TestOdds(t *testing.T) {
	for p, want := range map[float64]string{1e-5: "1 in 100,000", 1e-300: "1 in 1e+300", 0.3: "1 in 3"} {
		if got := odds(p); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}
