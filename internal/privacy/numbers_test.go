package privacy

import (
	"math"
	"testing"
)

// closeTo fails unless got is within a relative tolerance of want.
func closeTo(t *testing.T, what string, got, want, tolerance float64) {
	t.Helper()
	if math.IsNaN(got) || math.Abs(got-want) > tolerance*math.Abs(want) {
		t.Errorf("%s = %.17g, want %.17g within %g (relative)", what, got, want, tolerance)
	}
}

// The wanted figures were computed from the formulas in the comments with 60
// decimal digits.
func TestGaussianDPNumbers(t *testing.T) {
	for _, c := range []struct{ mu, delta, epsilon float64 }{
		{0.001, 1e-5, 0.00193872496986011},
		{1e-5, 1e-12, 4.8819950635304925e-5},
		{0.25, 1e-5, 0.92634150399822944},
		{1, 1e-12, 7.2384944201788584},
		{1.9, 1e-5, 9.3868160020714952},
		{30, 1e-12, 660.13635674607303},
		{40, 1e-5, 969.64559193241359},
		{60, 1e-6, 2084.2431708603206},
	} {
		closeTo(t, "epsilon", gdpEpsilon(c.mu, c.delta), c.epsilon, 1e-9)
		closeTo(t, "mu", gdpMu(c.epsilon, c.delta), c.mu, 1e-8)
	}
	if got := gdpEpsilon(1e-7, 1e-5); got != 0 {
		t.Errorf("epsilon of a mu whose total variation is below delta = %v, want 0", got)
	}
	if got := gdpEpsilon(math.Inf(1), 1e-5); !math.IsInf(got, 1) {
		t.Errorf("epsilon of infinite mu = %v, want +Inf", got)
	}
	if got := gdpEpsilon(math.NaN(), 1e-5); !math.IsInf(got, 1) {
		t.Errorf("epsilon of mu NaN = %v, want +Inf", got)
	}
}

// Where the subtraction in gdpDelta loses most, and where it loses nothing: never below the truth except in the last
// digits. Deltas as above, with 80 digits.
func TestGaussianDeltaIsNeverBelow(t *testing.T) {
	for _, c := range []struct{ epsilon, mu, delta float64 }{
		{0.000338208, 0.000114204, 4.9988176283282926651e-8},
		{0.000524549, 0.000176861, 7.6225568541947047729e-8},
		{0.00154721, 0.000393714, 3.8346392218010133314e-9},
		{0.00154323, 0.000132363, 1.1551558097841617446e-36},
		{0.00100049, 0.00011086, 1.0805598892363789473e-24},
		{0.00116012, 0.000138211, 3.7732533728153200628e-22},
		{601.623, 24.7919, 5.6469491070299816349e-33},
		{262.539, 15.4443, 5.416554929375282479e-21},
		{0.00851988, 0.136712, 0.050558844034754017909},
		{186.491, 19.3532, 0.49553404516578244833},
		{1.4577, 2.87932, 0.71371649982220510865},
	} {
		if got := gdpDelta(c.epsilon, c.mu); got < c.delta*(1-1e-13) || got > c.delta*(1+1e-9) {
			t.Errorf("delta at %g of mu %g is %.17g, want %.17g or a little more", c.epsilon, c.mu, got, c.delta)
		}
	}
}

func TestPureNumbers(t *testing.T) {
	for _, c := range []struct{ epsilon, mu float64 }{
		{1e-9, 1.2533141373155003e-9},
		{0.01, 0.012533118959649839},
		{0.5, 0.62389259209850819},
		{1.9999, 2.3578560179554185},
		{2, 2.3579614856472497},
		{2.5, 2.8669904674765064},
		{10, 7.8279143936218665},
		{50, 19.349650567224713},
		{1000, 89.231495463938806},
	} {
		closeTo(t, "mu", pureMu(c.epsilon), c.mu, 1e-12)
	}
	for _, c := range []struct{ epsilon, alpha, rdp float64 }{
		{1e-9, 2, 1e-18},
		{0.01, 1.001, 5.0049582085853347e-5},
		{0.1, 32, 0.079272192282484464},
		{1, 1.5, 0.62733264704949932},
		{0.5, 1e6, 0.49999952592254174},
		{3, 7, 2.991902108071043},
		{700, 3, 700},
		{1e-6, 1e6, 4.3378088346676017e-7},
	} {
		closeTo(t, "rdp", pureRDP(c.epsilon, c.alpha), c.rdp, 1e-11)
	}
}

func TestOrders(t *testing.T) {
	grid := Orders()
	grid[0] = math.NaN() // a copy: must not reach the accountant
	for i, alpha := range Orders() {
		if !(alpha > 1) || math.IsInf(alpha, 0) {
			t.Fatalf("order %d is %v", i, alpha)
		}
		if i > 0 && alpha <= Orders()[i-1] {
			t.Fatalf("orders are not ascending at %d", i)
		}
	}
}

// The grid must not lose more than its comment says.
func TestOrdersAreDenseEnough(t *testing.T) {
	for _, rho := range []float64{1e-8, 1e-6, 1e-4, 0.01, 0.3, 1, 10, 1e3, 1e5} {
		sigma := math.Sqrt(1 / (2 * rho))
		events := []Event{{Kind: Gaussian, Sigma: sigma, Sensitivity: 1, Count: 1}}
		for _, delta := range []float64{1e-12, 1e-5} {
			best := math.Inf(1)
			for above := 1e-4; above < 1e7; above *= 1.001 {
				alpha := 1 + above
				best = min(best, rho*alpha+math.Log1p(-1/alpha)-(math.Log(delta)+math.Log(alpha))/above)
			}
			if got := rdpEpsilon(events, delta); got > best*1.0005 && best > 1e-4 {
				t.Errorf("rho %g, delta %g: epsilon %g on the grid, %g off it", rho, delta, got, best)
			}
		}
	}
}
