package aggregator_test

import (
	"flag"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/conclave-dp/conclave/gnmax"
	"github.com/conclave-dp/conclave/internal/aggregator"
	"github.com/conclave-dp/conclave/internal/audit"
	"github.com/conclave-dp/conclave/internal/privacy"
	"github.com/conclave-dp/conclave/internal/testkit"
)

// full selects every case with every fault, with a thousand runs in each world.
var full = flag.Bool("audit.full", false, "audit all cases with all faults (about a minute)")

// faulty is a mechanism whose answers do not match its charge.
type faulty func(src *gnmax.Source, counts []int64) (gnmax.Answer, error)

func (f faulty) Answer(src *gnmax.Source, counts []int64) (gnmax.Answer, error) {
	return f(src, counts)
}

// decide answers with the exact counts.
func decide(counts []int64) (gnmax.Answer, error) {
	winner := 0
	for class, c := range counts {
		if c > counts[winner] {
			winner = class
		}
	}
	return gnmax.Answer{Answered: true, Winner: winner, Noisy: slices.Clone(counts)}, nil
}

// withoutNoise adds no noise.
func withoutNoise(privacy.Event) gnmax.Mechanism {
	return faulty(func(_ *gnmax.Source, counts []int64) (gnmax.Answer, error) { return decide(counts) })
}

// lessNoise draws noise with only a share of the charged scale.
func lessNoise(share float64) func(privacy.Event) gnmax.Mechanism {
	return func(e privacy.Event) gnmax.Mechanism {
		switch e.Kind {
		case privacy.GNMax:
			return testkit.Value(gnmax.NewGNMax(share*e.Sigma, true))
		case privacy.ConfidentGNMax:
			return testkit.Value(gnmax.NewConfident(e.Threshold, share*e.Sigma1, share*e.Sigma2, true))
		}
		return testkit.Value(gnmax.NewLNMax(e.Lambda/share, true))
	}
}

// sharedNoise adds one draw to all counts of a query.
func sharedNoise(e privacy.Event) gnmax.Mechanism {
	sigma := testkit.Value(gnmax.NewSigma(e.Sigma))
	return faulty(func(src *gnmax.Source, counts []int64) (gnmax.Answer, error) {
		noise, err := src.DiscreteGaussian(sigma)
		if err != nil {
			return gnmax.Answer{}, err
		}
		noisy := make([]int64, len(counts))
		for class, c := range counts {
			noisy[class] = c + noise
		}
		return decide(noisy)
	})
}

// nextToFree charges a neighbouring entry, which costs almost nothing. (The ledger refuses a charge without an
// entry.)
func nextToFree(u privacy.Use) privacy.Use {
	u.Planned++
	return u
}

// oneCharged pays for only the first query of a round.
func oneCharged(u privacy.Use) privacy.Use {
	return privacy.Use{Planned: u.Planned, Queries: 1, Answered: 1}
}

// An audit must find each of these faults through TLS, tally, charge and ledger. The first three leave no randomness
// in what the audit measures: 60 runs prove an epsilon of 1.82 where 1 is claimed. A fault that leaves randomness is
// tried up to five times: all of 1,000 simulated audits found the default one, so an audit misses it with a chance
// below 0.7% (confidence 99.9%), and five audits miss it with a chance below 1e-10.
func TestAuditFindsFaults(t *testing.T) {
	t.Parallel()
	votes := func(replace func(privacy.Event) gnmax.Mechanism) aggregator.Options {
		return aggregator.WithMechanism(aggregator.Options{}, replace)
	}
	type test struct {
		name    string
		options aggregator.Options
		cases   []string // the first is always audited, the others with -audit.full
		runs    int
		epsilon float64
	}
	tests := []test{
		{"no noise", votes(withoutNoise), []string{"gnmax-histogram", "gnmax-winner", "confident-gnmax", "lnmax-winner",
			"lnmax-histogram"}, 60, 1},
		{"no noise on class counts", aggregator.WithExactCounts(aggregator.Options{}), []string{"class-counts"}, 60, 1},
		{"one draw for both counts", votes(sharedNoise), []string{"gnmax-winner", "gnmax-histogram"}, 60, 1},
		{"charged next to nothing", aggregator.WithUse(aggregator.Options{}, nextToFree), []string{"gnmax-histogram"},
			150, 8},
	}
	if testing.Short() {
		tests = tests[:1] // with a race detector each takes half a minute
	}
	if *full {
		tests = append(tests,
			test{"noise of 60%", votes(lessNoise(0.6)), []string{"gnmax-histogram", "lnmax-histogram"}, 1000, 2},
			test{"noise of 50%", votes(lessNoise(0.5)), []string{"confident-gnmax"}, 1000, 2},
			test{"one query of four charged", aggregator.WithUse(aggregator.Options{}, oneCharged),
				[]string{"gnmax-histogram"}, 1000, 2})
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			o := audit.DefaultOptions()
			o.Aggregator, o.Cases, o.Runs = test.options, test.cases[:1], test.runs
			o.Epsilon, o.Confidence = test.epsilon, 0.99
			if *full {
				o.Cases, o.Runs = test.cases, 1000
			}
			for range 5 {
				results, err := audit.Run(t.Context(), o)
				testkit.Must(t, err)
				if len(results) != len(o.Cases) {
					t.Fatalf("%d results of %d cases", len(results), len(o.Cases))
				}
				o.Cases = nil // cases where the fault was missed
				for _, r := range results {
					t.Logf("%s: claim %.3f, bound %.3f, %d/%d and %d/%d, %.1f s", r.Case, r.Epsilon,
						r.LowerBound.Epsilon, r.LowerBound.Seen[0], r.LowerBound.Of[0], r.LowerBound.Seen[1],
						r.LowerBound.Of[1], r.Seconds)
					if !r.Violation {
						o.Cases = append(o.Cases, r.Case)
					}
				}
				if len(o.Cases) == 0 {
					return
				}
			}
			t.Errorf("the audit did not see it in %v", o.Cases)
		})
	}
}

// No shipped code sets the fields that inject the faults above, and no other package can name them.
func TestFaultsAreForTestsAlone(t *testing.T) {
	faults := []string{"faults", "Faults", "Distort", "Undercharge"}
	fset := token.NewFileSet()
	files, err := filepath.Glob("*.go")
	testkit.Must(t, err)
	below, err := filepath.Glob("*/*.go")
	testkit.Must(t, err)
	uses := map[string]int{}
	for _, name := range append(files, below...) {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		file, err := parser.ParseFile(fset, name, nil, parser.SkipObjectResolution)
		testkit.Must(t, err)
		ast.Inspect(file, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.Ident:
				if slices.Contains(faults, n.Name) {
					uses[name+" "+n.Name]++
				}
			case *ast.AssignStmt:
				for _, left := range n.Lhs {
					if s, ok := left.(*ast.SelectorExpr); ok && slices.Contains(faults, s.Sel.Name) {
						t.Errorf("%s sets %s", fset.Position(n.Pos()), s.Sel.Name)
					}
				}
			}
			return true
		})
	}
	// The count for each field covers its declaration, where the server passes it on, and where a charge compares and
	// calls it. A literal that sets the field would add one.
	want := map[string]int{
		"server.go faults": 2, "server.go Faults": 2,
		"round/rounds.go Faults": 3, "round/rounds.go Distort": 1, "round/rounds.go Undercharge": 1,
		"round/charge.go Faults": 4, "round/charge.go Distort": 2, "round/charge.go Undercharge": 2,
	}
	if fmt.Sprint(uses) != fmt.Sprint(want) {
		t.Errorf("the faults are named in %v, want %v", uses, want)
	}
}
