package sitepolicy

import (
	"os"
	"strings"
	"testing"

	"github.com/conclave-dp/conclave/internal/privacy"
	"github.com/conclave-dp/conclave/internal/testkit"
)

// The forecast is exact: that many rounds are answered, and not one more. It writes nothing.
func TestWhatIsForeseenComes(t *testing.T) {
	for _, filter := range []string{"gdp", "rdp"} {
		s := newSite(t)
		s.write(strings.Replace(allowing, "1e-5,", "1e-5, filter: "+filter+",", 1))
		g := s.enforcer()
		f, err := g.Forecast(round("r", 0, 8), 1000, nil)
		testkit.Must(t, err)
		if f.Refusal != nil || f.Waits || f.Fits < 2 || f.Fits >= 1000 {
			t.Fatalf("%s: %+v", filter, f)
		}
		if _, err := os.Stat(s.ledger); err == nil {
			t.Fatal("a ledger was made")
		}
		for i := range f.Fits + 1 {
			_, err := g.Charge(round("r", uint64(i), 8))
			if (err == nil) != (i < f.Fits) {
				t.Fatalf("%s: round %d of %d foreseen: %v", filter, i, f.Fits, err)
			}
		}
		f, err = g.Forecast(round("q", 0, 8), 1000, nil)
		testkit.Must(t, err)
		refusedBy(t, f.Refusal, RuleEpsilon)
	}
	s := newSite(t)
	s.write(strings.Replace(allowing, "automatic", "by-hand", 1))
	f, err := s.enforcer().Forecast(round("r", 0, 8), 1, nil)
	testkit.Must(t, err)
	if !f.Waits || f.Fits != 1 {
		t.Errorf("%+v", f)
	}
	f, err = s.enforcer().Forecast(round("r", 0, 8), 1, []privacy.Event{{Kind: privacy.Laplace, Epsilon: 2, Count: 1}})
	testkit.Must(t, err)
	refusedBy(t, f.Refusal, RuleEpsilon)
	r := round("r", 0, 8)
	r.Spec.Pipeline = "dpgan"
	if f, err = s.enforcer().Forecast(r, 1, nil); err != nil {
		t.Fatal(err)
	}
	refusedBy(t, f.Refusal, RulePipeline)
}
