package quality

import (
	"errors"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/conclave-dp/conclave/internal/pipeline/marginals"
)

// spread makes a model's shares from the real shares of a column.
type spread func(real []float64, column int, rng *rand.Rand) []float64

// spreads are ways in which a model may be wrong.
var spreads = map[string]spread{
	"rows of the same shares":    func(real []float64, _ int, _ *rand.Rand) []float64 { return real },
	"all cells a little wrong":   factors(0.05),
	"all cells wrong":            factors(0.3),
	"one column is another":      another,
	"each other cell is too low": toothed(0.05),
	"each other cell is missing": toothed(0.4),
}

func factors(by float64) spread {
	return func(real []float64, _ int, rng *rand.Rand) (model []float64) {
		for _, p := range real {
			model = append(model, p*math.Exp(by*rng.NormFloat64()))
		}
		return normalized(model)
	}
}

func another(real []float64, column int, rng *rand.Rand) []float64 {
	if column > 0 {
		return real
	}
	return someShares(len(real), rng)
}

func toothed(by float64) spread {
	return func(real []float64, _ int, _ *rand.Rand) (model []float64) {
		for c, p := range real {
			model = append(model, max(0, p+by*float64(2*(c%2)-1)/float64(len(real))))
		}
		return normalized(model)
	}
}

func someShares(cells int, rng *rand.Rand) (p []float64) {
	for range cells {
		p = append(p, math.Exp(rng.NormFloat64()))
	}
	return normalized(p)
}

func normalized(p []float64) []float64 {
	sum := 0.0
	for _, v := range p {
		sum += v
	}
	for i := range p {
		p[i] /= sum
	}
	return p
}

// simulated returns tables of columns of a model's rows and of the real rows, and their mean distance.
func simulated(of spread, noise float64, rng *rand.Rand) (tables []marginals.Table, known estimate, distance float64) {
	const records, rows = 50_000, 6000
	sizes := []int{2, 20, 20, 3, 8, 1, 2, 20, 20, 3, 8}
	for column, cells := range sizes {
		real := someShares(cells, rng)
		model := of(real, column, rng)
		t := marginals.Table{Noise: noise * records, Shares: make([]float64, cells)}
		for range rows {
			t.Shares[pick(model, rng)] += 1. / rows
		}
		for c, p := range real {
			t.Counts = append(t.Counts, records*p+t.Noise*rng.NormFloat64())
			distance += math.Abs(p-t.Shares[c]) / 2 / float64(len(sizes))
		}
		tables = append(tables, t)
	}
	return tables, estimate{records * (1 + 0.002*rng.NormFloat64()), 0.002 * records}, distance
}

// plainDistance counts the noise as difference.
func plainDistance(tables []marginals.Table, records float64) (sum float64) {
	for _, t := range tables {
		for c, count := range t.Counts {
			sum += math.Abs(count/records-t.Shares[c]) / 2 / float64(len(tables))
		}
	}
	return sum
}

// Over many tables, whose differences are spread in several ways, with little and with much noise, the interval
// contains the true distance in at least nine cases of ten. Differences of equal size are no mixture of normal
// ones and the hardest case; there it contains the distance in most cases. The estimate is far closer to it
// than the plain distance.
func TestIntervalsCover(t *testing.T) {
	const times = 6
	all, covered, plain, mine := 0, 0, 0.0, 0.0
	for name, of := range spreads {
		for _, noise := range []float64{0.0005, 0.002, 0.008, 0.03} {
			held := 0
			for seed := range uint64(times) {
				rng := rand.New(rand.NewPCG(seed, math.Float64bits(noise)))
				tables, known, want := simulated(of, noise, rng)
				got, err := distance(tables, known, rng)
				if err != nil {
					t.Fatal(err)
				}
				if got.low > got.middle || got.middle > got.high || got.low < 0 || got.high > 1 {
					t.Fatalf("%s, noise %v: %+v", name, noise, got)
				}
				if got.low <= want && want <= got.high {
					held++
				}
				mine += math.Abs(got.middle - want)
				plain += math.Abs(plainDistance(tables, known.mean) - want)
			}
			if all, covered = all+times, covered+held; 2*held <= times {
				t.Errorf("%s, noise %v: %d of %d intervals have the distance", name, noise, held, times)
			}
		}
	}
	if 10*covered < 9*all {
		t.Errorf("%d of %d intervals have the distance", covered, all)
	}
	t.Logf("%d of %d intervals have the distance; error %.4f, of a plain distance %.4f", covered, all,
		mine/float64(all), plain/float64(all))
	if 5*mine > plain {
		t.Errorf("the mean error is %v, that of a plain distance %v", mine/float64(all), plain/float64(all))
	}
}

// Without class counts the number of units is estimated from the release.
func TestTheNumberOfUnitsIsFound(t *testing.T) {
	covered := 0
	for seed := range uint64(20) {
		rng := rand.New(rand.NewPCG(seed, 3))
		tables, _, want := simulated(factors(0.3), 0.002, rng)
		got, err := distance(tables, estimate{}, rng)
		if err != nil {
			t.Fatal(err)
		}
		if got.low <= want && want <= got.high {
			covered++
		}
	}
	if covered < 17 {
		t.Errorf("%d of 20 intervals have the distance", covered)
	}
}

// The same release gives the same figure.
func TestFiguresAreRepeated(t *testing.T) {
	tables, known, _ := simulated(factors(0.3), 0.002, rand.New(rand.NewPCG(1, 1)))
	var before interval
	for i := range 2 {
		got, err := distance(tables, known, rand.New(rand.NewPCG(2, 2)))
		if err != nil {
			t.Fatal(err)
		}
		if i > 0 && got != before {
			t.Errorf("%+v, then %+v", before, got)
		}
		before = got
	}
}

// If the noise hides the number of records, there is no figure.
func TestNothingIsSaidOfNoise(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 1))
	tables, _, _ := simulated(factors(0.3), 3, rng)
	if _, err := distance(tables, estimate{}, rng); !errors.Is(err, errHidden) {
		t.Errorf("got %v", err)
	}
}
