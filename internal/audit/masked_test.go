package audit

import (
	"flag"
	"os/exec"
	"path/filepath"
	"regexp"
	"testing"

	"github.com/conclave-dp/conclave/internal/testkit"
	"github.com/conclave-dp/conclave/internal/testkit/mutant"
)

// alone is the masked case where all sites but one collude, though the runs withstand none: of four shares of the
// noise one is left, half of the standard deviation that is paid for, and no mask.
func alone(t *testing.T, o Options) *scenario {
	t.Helper()
	s := testkit.Value(scenarios([]string{"masked"}, o.budget()))[0]
	s.masked = &masked{honest: []string{movedSite}, colluders: 3}
	s.units = [2]int64{movedUnits, movedUnits + 3}
	return s
}

// The audit takes masks and noise off as sites do that collude: where more of them collude than the run withstands,
// real nodes' answers show everything, and the total shows more than is paid for. Of 200 simulated audits of 300 runs
// 187 found half of the noise, so that nine overlook it with a chance below 1e-9.
func TestMoreCollude(t *testing.T) {
	if testing.Short() {
		t.Skip("a hundred masked runs of four sites")
	}
	o := DefaultOptions()
	o.Runs, o.Confidence = 40, 0.99 // masks that are gone show at once
	due := map[View]bool{ViewAnswers: true}
	if *full {
		o.Runs, due[ViewColluders] = 300, true
	}
	for range 9 {
		results, err := run(t.Context(), []*scenario{alone(t, o)}, o)
		testkit.Must(t, err)
		for _, r := range results {
			t.Logf("%s: claim %.3f, bound %.3f, %.1f s", r.Name(), r.Epsilon, r.LowerBound.Epsilon, r.Seconds)
			if r.Violation {
				delete(due, r.View)
			}
		}
		if len(due) == 0 {
			return
		}
	}
	t.Errorf("nothing was found in %v", due)
}

var tryMutants = flag.Bool("mutants", false, "build the program with mistakes in its masks, which the audit must find")

// mutants are mistakes in what nodes do, each one change of one file, and the view which shows it.
var mutants = map[string]struct {
	mutant.Mistake
	shows View
}{
	"half the noise share": {mutant.Mistake{File: "../../gnmax/share.go", Right: "SetInt64(int64(honest))",
		Wrong: "SetInt64(int64(4*honest))"}, ViewColluders},
	"no masks of pairs": {mutant.Mistake{File: "../masking/party.go",
		Right: "\tfor _, i := range a.partners {\n\t\tmasks = append(",
		Wrong: "\tfor _, i := range a.partners[:0] {\n\t\tmasks = append("}, ViewAnswers},
}

// The command finds each mistake; half of the noise it overlooks once in 200 times.
//
//	go test ./internal/audit -run Mutants -mutants
//
// The mistakes are made in copies of the files, which take their places in a build by -overlay.
func TestMutants(t *testing.T) {
	for name, m := range mutants {
		t.Run(name, func(t *testing.T) {
			m.Check(t)
			if !*tryMutants {
				return
			}
			program := filepath.Join(t.TempDir(), "conclave")
			build := exec.CommandContext(t.Context(), "go", "build", "-overlay", m.Overlay(t), "-o", program,
				"../../cmd/conclave")
			if said, err := build.CombinedOutput(); err != nil {
				t.Fatalf("%v\n%s", err, said)
			}
			said, err := exec.CommandContext(t.Context(), program, "audit", "--mechanism", "masked", "--runs", "500",
				"--confidence", "0.99").CombinedOutput()
			t.Logf("%s", said)
			found := regexp.MustCompile(`(?m)^masked-` + string(m.shows) + ` .*VIOLATION`).Match(said)
			if err == nil || !found {
				t.Errorf("it is overlooked in %s: %v", m.shows, err)
			}
		})
	}
}
