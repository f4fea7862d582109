package masking

import (
	"flag"
	"os/exec"
	"strings"
	"testing"

	"github.com/conclave-dp/conclave/internal/testkit"
	"github.com/conclave-dp/conclave/internal/testkit/mutant"
)

var tryMutants = flag.Bool("mutants", false, "build the package with each of the mistakes that its tests must find")

// mutants are mistakes that would end the privacy of sums, each one change of one file.
var mutants = map[string]struct{ file, right, wrong string }{
	"no noise": {"party.go", "\tAddUp(answer, vector)\n", "\tcopy(answer, vector)\n"},
	"half the share": {"party.go", "\tAddUp(answer, vector)\n",
		"\tfor i := range answer {\n\t\tanswer[i] /= 2\n\t}\n\tAddUp(answer, vector)\n"},
	"an own seed for all attempts":    {"party.go", "own: newSeed(),", "own: [seedBytes]byte{1},"},
	"a pair's seed for all attempts":  {"mask.go", `encode("round").bytes(terms[:])`, `encode("round")`},
	"the attempt is not in the terms": {"terms.go", ".number(t.Fence).number(t.Counter)", ""},
	"a mask left out":                 {"party.go", "\tmasks = append(masks, mask{seed: a.own})\n", ""},
	"seeds of survivors":              {"partners.go", "; !survives {", "; !survives || true {"},
	"a partner too few":               {"partners.go", "t.Group.Quorum + 2) / 2", "t.Group.Quorum + 1) / 2"},
	"partners, if nobody colluded":    {"partners.go", "t.Group.Colluding + len", "len"},
	"partners, if nobody were lost":   {"partners.go", " + len(t.Members) - t.Group.Quorum + 2", " + 2"},
	"partners on one side":            {"partners.go", "min(apart, n-apart) <= reach", "(i-at+n)%n <= reach"},
	"two lists of survivors":          {"party.go", "!slices.Equal(a.survivors, survivors)", "false"},
	"an answer made twice":            {"party.go", "\ta.claimed = true\n", ""},
	"an answer that is not made yet":  {"party.go", "\ta.claimed = true\n", "\ta.claimed, a.masked = true, true\n"},
	"parts with one key stream":       {"mask.go", "uint64(from/2)", "0"},
	"seeds that nobody paid for": {"party.go", "\ta.paying = false\n\tif err != nil {",
		"\ta.paying = false\n\tif false {"},
	"revealed, then charged": {"party.go", "\ta.paying = true\n\treturn a, nil, nil", "\ta.revealed, a.paying = " +
		"&conclavev1.Revealed{Run: run, Round: round, Own: bytes.Clone(a.own[:])}, true\n\treturn a, nil, nil"},
	"one name for all openings":  {"party.go", "a.pay(a.agreed)", "a.pay(a.terms.Question)"},
	"openings without end":       {"party.go", "if reveals > Retries {", "if reveals > 10*Retries {"},
	"an attempt opened too late": {"party.go", "err != nil || now != a", "err != nil || now == nil"},
	"tags unread":                {"party.go", "if !hmac.Equal(", "if false && !hmac.Equal("},
	"the last tag unread":        {"party.go", "if !hmac.Equal(", "if n > 0 && !hmac.Equal("},
	"tags of others than partners unread": {"party.go", "if !hmac.Equal(", "if slices.Contains(a.partners, i) && " +
		"!hmac.Equal("},
	"keys of others than partners unread": {"party.go", "CheckKey(t.Run, t.Spec, t.Group, m); err != nil {",
		"CheckKey(t.Run, t.Spec, t.Group, m); err != nil && slices.Contains(t.partners(t.at(site)), " +
			"t.at(m.GetSite())) {"},
	"tags go both ways":        {"tags.go", `text(from).text(to)`, `text(min(from, to)).text(max(from, to))`},
	"one key for tags":         {"tags.go", `encode("tag").text(from).text(to)`, `encode("round").text(to)`},
	"tags without the attempt": {"tags.go", `.bytes(terms[:])`, ``},
	"tags without the list":    {"tags.go", "\tfor _, site := range survivors {\n\t\te = e.text(site)\n\t}\n", ""},
}

// The tests of this package fail with each mistake:
//
//	go test ./internal/masking -run Mutants -mutants
//
// The mistakes are made in copies of the files, which take their places in a build by -overlay.
func TestMutants(t *testing.T) {
	for name, m := range mutants {
		t.Run(name, func(t *testing.T) {
			mistake := mutant.Mistake{File: m.file, Right: m.right, Wrong: m.wrong}
			mistake.Check(t)
			if !*tryMutants {
				return
			}
			c := exec.CommandContext(testkit.Within(t), "go", "test", "-overlay", mistake.Overlay(t), "-skip",
				"Mutants", ".")
			said, err := c.CombinedOutput()
			if err == nil || !strings.Contains(string(said), "--- FAIL") {
				t.Errorf("no test fails: %v\n%s", err, said)
			}
		})
	}
}
