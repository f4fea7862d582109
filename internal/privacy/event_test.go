package privacy

import (
	"encoding/json"
	"errors"
	"math"
	"testing"

	"pgregory.net/rapid"

	"github.com/conclave-dp/conclave/internal/testkit"
)

var validEvents = []Event{
	{Kind: Gaussian, Sigma: 2, Sensitivity: 1, Count: 3},
	{Kind: GNMax, Sigma: 40, Count: 320},
	{Kind: ConfidentGNMax, Threshold: 150, Sigma1: 60, Sigma2: 40, Asked: 10, Answered: 4},
	{Kind: ConfidentGNMax, Sigma1: 60, Sigma2: 40, Asked: 10},
	{Kind: LNMax, Lambda: 0.05, Count: 1},
	{Kind: Laplace, Epsilon: 0.1, Count: 1},
	{Kind: Exponential, Epsilon: 0.1, Count: 7},
}

func TestEventValidate(t *testing.T) {
	for _, e := range validEvents {
		if err := e.Validate(); err != nil {
			t.Errorf("%+v: %v", e, err)
		}
	}
	nan, inf := math.NaN(), math.Inf(1)
	for _, c := range []struct {
		field string
		e     Event
	}{
		{"kind", Event{}},
		{"kind", Event{Kind: "gausian", Sigma: 1, Sensitivity: 1, Count: 1}},
		{"sigma", Event{Kind: Gaussian, Sensitivity: 1, Count: 1}},
		{"sigma", Event{Kind: Gaussian, Sigma: -1, Sensitivity: 1, Count: 1}},
		{"sigma", Event{Kind: GNMax, Sigma: nan, Count: 1}},
		{"sigma", Event{Kind: GNMax, Sigma: inf, Count: 1}},
		{"sensitivity", Event{Kind: Gaussian, Sigma: 1, Count: 1}},
		{"sensitivity", Event{Kind: Gaussian, Sigma: 1, Sensitivity: inf, Count: 1}},
		{"sensitivity", Event{Kind: GNMax, Sigma: 1, Sensitivity: 1, Count: 1}},
		{"sensitivity", Event{Kind: GNMax, Sigma: 1, Sensitivity: nan, Count: 1}},
		{"lambda", Event{Kind: LNMax, Count: 1}},
		{"lambda", Event{Kind: LNMax, Lambda: -0.1, Count: 1}},
		{"lambda", Event{Kind: Laplace, Epsilon: 1, Lambda: 1, Count: 1}},
		{"epsilon", Event{Kind: Laplace, Count: 1}},
		{"epsilon", Event{Kind: Exponential, Epsilon: nan, Count: 1}},
		{"sigma1", Event{Kind: ConfidentGNMax, Sigma2: 1, Asked: 1}},
		{"sigma2", Event{Kind: ConfidentGNMax, Sigma1: 1, Asked: 1}},
		{"threshold", Event{Kind: ConfidentGNMax, Threshold: -1, Sigma1: 1, Sigma2: 1, Asked: 1}},
		{"threshold", Event{Kind: ConfidentGNMax, Threshold: nan, Sigma1: 1, Sigma2: 1, Asked: 1}},
		{"threshold", Event{Kind: GNMax, Threshold: 1, Sigma: 1, Count: 1}},
		{"asked", Event{Kind: ConfidentGNMax, Sigma1: 1, Sigma2: 1}},
		{"asked", Event{Kind: ConfidentGNMax, Sigma1: 1, Sigma2: 1, Asked: -1}},
		{"answered", Event{Kind: ConfidentGNMax, Sigma1: 1, Sigma2: 1, Asked: 1, Answered: 2}},
		{"answered", Event{Kind: ConfidentGNMax, Sigma1: 1, Sigma2: 1, Asked: 1, Answered: -1}},
		{"count", Event{Kind: ConfidentGNMax, Sigma1: 1, Sigma2: 1, Asked: 1, Count: 1}},
		{"count", Event{Kind: GNMax, Sigma: 1}},
		{"count", Event{Kind: GNMax, Sigma: 1, Count: -1}},
		{"asked", Event{Kind: GNMax, Sigma: 1, Count: 1, Asked: 1}},
		{"answered", Event{Kind: GNMax, Sigma: 1, Count: 1, Answered: 1}},
	} {
		var field *FieldError
		if err := c.e.Validate(); !errors.As(err, &field) || field.Field != c.field {
			t.Errorf("%+v: error is %v, want one about %s", c.e, err, c.field)
		}
		if _, err := Account([]Event{c.e}, 1e-5); err == nil {
			t.Errorf("%+v: was accounted for", c.e)
		}
		if _, err := c.e.RDP(2); err == nil {
			t.Errorf("%+v: has a divergence", c.e)
		}
	}
}

func TestMerge(t *testing.T) {
	a, b := Event{Kind: GNMax, Sigma: 40, Count: 3}, Event{Kind: LNMax, Lambda: 1, Count: 1}
	c := Event{Kind: ConfidentGNMax, Sigma1: 2, Sigma2: 3, Asked: 5, Answered: 2}
	other := Event{Kind: GNMax, Sigma: 41, Count: 1}
	got := Merge([]Event{a, b, c, a, other, c})
	want := []Event{
		{Kind: GNMax, Sigma: 40, Count: 6}, b,
		{Kind: ConfidentGNMax, Sigma1: 2, Sigma2: 3, Asked: 10, Answered: 4}, other,
	}
	testkit.Same(t, "", want, got)
	huge := Event{Kind: Laplace, Epsilon: 1e-9, Count: math.MaxInt64 - 1}
	if got := Merge([]Event{huge, huge, huge}); len(got) != 3 {
		t.Errorf("counts that do not fit were added up: %+v", got)
	}
}

func TestMergeDoesNotChangeTheClaim(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		events := drawEvents(t, 4)
		events = append(events, events...)
		order := rapid.Permutation(events).Draw(t, "order")
		a, err := Running(events, 1e-5)
		if err != nil {
			t.Fatal(err)
		}
		b, err := Running(Merge(order), 1e-5)
		if err != nil {
			t.Fatal(err)
		}
		if math.Abs(a.Epsilon-b.Epsilon) > 1e-11*a.Epsilon {
			t.Fatalf("%v became %v", a.Epsilon, b.Epsilon)
		}
		alpha := rapid.Float64Range(1.01, 100).Draw(t, "alpha")
		sum := func(events []Event) (total float64) {
			for _, e := range events {
				rho, err := e.RDP(alpha)
				if err != nil {
					t.Fatal(err)
				}
				total += rho
			}
			return total
		}
		if x, y := sum(events), sum(Merge(order)); math.Abs(x-y) > 1e-11*x {
			t.Fatalf("divergence %v became %v", x, y)
		}
	})
}

func TestEventJSON(t *testing.T) {
	raw, err := json.Marshal(validEvents)
	testkit.Must(t, err)
	want := `[{"kind":"gaussian","sigma":2,"sensitivity":1,"count":3},{"kind":"gnmax","sigma":40,"count":320},` +
		`{"kind":"confident-gnmax","threshold":150,"sigma1":60,"sigma2":40,"asked":10,"answered":4},` +
		`{"kind":"confident-gnmax","sigma1":60,"sigma2":40,"asked":10},{"kind":"lnmax","lambda":0.05,"count":1},` +
		`{"kind":"laplace","epsilon":0.1,"count":1},{"kind":"exponential","epsilon":0.1,"count":7}]`
	if string(raw) != want {
		t.Errorf("events are\n%s\nwant\n%s", raw, want)
	}
}
