package dryrun

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"github.com/conclave-dp/conclave/examples/flchain"
	"github.com/conclave-dp/conclave/internal/certs"
	"github.com/conclave-dp/conclave/internal/kinds"
	"github.com/conclave-dp/conclave/internal/node"
	"github.com/conclave-dp/conclave/internal/pipeline/dpgan"
	"github.com/conclave-dp/conclave/internal/pipeline/embed"
	"github.com/conclave-dp/conclave/internal/pipeline/pgb"
	"github.com/conclave-dp/conclave/internal/privacy"
	"github.com/conclave-dp/conclave/internal/runfile"
	"github.com/conclave-dp/conclave/internal/sitepolicy"
	"github.com/conclave-dp/conclave/internal/testkit"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// siteOf is a site of the shipped example.
func siteOf(t testing.TB) (node.Config, *node.Site) {
	t.Helper()
	dir := t.TempDir()
	testkit.Must(t, os.CopyFS(dir, flchain.Files))
	c := node.DefaultConfig()
	c.Aggregator, c.Dataset, c.Site, c.Teachers = "127.0.0.1:1", "flchain", "north", 50
	c.Schema, c.Data = filepath.Join(dir, "schema.yaml"), filepath.Join(dir, "train.csv.gz")
	c.State = filepath.Join(dir, "state")
	c.TLS = certs.Files{CA: "ca.crt", Cert: "n.crt", Key: "n.key"}
	site, err := node.ReadSite(c, kinds.All(), nil)
	testkit.Must(t, err)
	return c, site
}

const policy = `datasets:
  - {name: flchain, epsilon: 1, delta: 1e-5, pipelines: [pategan, embed], stages: [selections], approval: automatic}
`

func kindsOf(r *Report) (kinds []sitepolicy.Kind) {
	for _, q := range r.Questions {
		kinds = append(kinds, q.Kind)
	}
	return kinds
}

// Every pipeline and stage asks what its row in the policy's table says, with messages of a known size and price;
// their total is within the run's budget.
func TestWhatWouldLeave(t *testing.T) {
	c, site := siteOf(t)
	for name, want := range map[string]struct {
		spec  func(*runfile.Spec)
		kinds []sitepolicy.Kind
	}{
		"pategan": {func(s *runfile.Spec) { runfile.Section[embed.WarmStart](s).Embed = 0 },
			[]sitepolicy.Kind{sitepolicy.ClassCounts, sitepolicy.Votes}},
		"gpate": {func(*runfile.Spec) {}, []sitepolicy.Kind{sitepolicy.ClassCounts, sitepolicy.GradientSum}},
		"dpgan": {func(s *runfile.Spec) { runfile.Section[dpgan.Options](s).Steps = 50 },
			[]sitepolicy.Kind{sitepolicy.EmbeddingSum, sitepolicy.DiscriminatorSum}},
		"embed": {func(*runfile.Spec) {}, []sitepolicy.Kind{sitepolicy.EmbeddingSum}},
		"stages": {func(s *runfile.Spec) {
			s.Pipeline, s.Post, s.Weights = "pategan", []string{"pgb"}, "logreg-debiased"
			runfile.Section[pgb.StageOptions](s).Rounds = 20
		},
			[]sitepolicy.Kind{sitepolicy.EmbeddingSum, sitepolicy.Votes, sitepolicy.ScoreSum, sitepolicy.Fit}},
	} {
		t.Run(name, func(t *testing.T) {
			pipeline := name
			if name == "stages" {
				pipeline = "pategan"
			}
			s, err := Spec(c, pipeline, 1, 1e-5)
			testkit.Must(t, err)
			want.spec(s)
			testkit.Must(t, s.Validate())
			r, err := New(c, site, s)
			testkit.Must(t, err)
			if !slices.Equal(kindsOf(r), want.kinds) {
				t.Fatalf("it asks %v, want %v", kindsOf(r), want.kinds)
			}
			var all []privacy.Event
			for _, q := range r.Questions {
				if q.Bytes < 1 || q.Times < 1 || q.Charged < 1 || len(q.Charges) == 0 || !q.WithoutNoise ||
					q.SeenBy == "" || q.Content == "" || q.Verdict != "no policy" || !(q.EpsilonAll > 0) {
					t.Errorf("%+v", q)
				}
				all = append(all, timed(q.Charges, q.Charged)...)
			}
			claim, err := privacy.Account(all, 1e-5)
			testkit.Must(t, err)
			if claim.Epsilon > 1.0001 || claim.Epsilon < 0.5 {
				t.Errorf("all charges come to %v, the run's budget is 1", claim.Epsilon)
			}
			if len(r.Hello) != 9 || r.HelloBytes < 100 || r.Hello[5].Value != site.Schema().SHA256 {
				t.Errorf("hello %+v of %d bytes", r.Hello, r.HelloBytes)
			}
			if _, err := json.Marshal(r); err != nil {
				t.Error(err)
			}
		})
	}
	if _, err := os.Stat(c.State); err == nil {
		t.Error("a dry run made the state folder")
	}
}

func TestWhatThePolicyWouldSay(t *testing.T) {
	config, site := siteOf(t)
	for name, c := range map[string]struct {
		policy, pipeline string
		epsilon          float64
		says, last       string
	}{
		"all of it": {policy, "pategan", 0.9, "allows all of it", "allowed"},
		"by hand": {strings.Replace(policy, "automatic", "by-hand", 1), "pategan", 0.9,
			"after a person at the site approves", "approves the run"},
		"a part":   {policy, "pategan", 3, "refuses it from the first round on", "own limit"},
		"pipeline": {policy, "gpate", 0.9, "refuses it from the first round on", `"gpate" is not allowed`},
		"rows": {strings.Replace(policy, "approval", "min_rows: 100000, approval", 1), "embed", 0.9,
			"refuses it", "the site does not answer"},
		"bad policy": {"datasets: []", "embed", 0.9, "refuses it", "until it is fixed"},
		"more rounds": {strings.Replace(policy, "epsilon: 1", "epsilon: 2.4", 1), "pategan", 3,
			"refuses a part of it", "of 4 times, then"},
	} {
		t.Run(name, func(t *testing.T) {
			config.Policy = filepath.Join(t.TempDir(), "policy.yaml")
			testkit.Must(t, os.WriteFile(config.Policy, []byte(c.policy), 0o600))
			s, err := Spec(config, c.pipeline, c.epsilon, 1e-5)
			testkit.Must(t, err)
			r, err := New(config, site, s)
			testkit.Must(t, err)
			if last := r.Questions[len(r.Questions)-1]; !strings.Contains(r.Policy, c.says) ||
				!strings.Contains(last.Verdict, c.last) {
				t.Errorf("it says %q and of the last question %q; want %q and %q",
					r.Policy, last.Verdict, c.says, c.last)
			}
			if _, err := os.Stat(config.State); err == nil {
				t.Error("a dry run made the state folder")
			}
		})
	}
}

// For a masked run a site's people learn who sees what, and what it may cost them.
func TestADryRunOfAMaskedRun(t *testing.T) {
	c, site := siteOf(t)
	c.Policy = filepath.Join(t.TempDir(), "policy.yaml")
	testkit.Must(t, os.WriteFile(c.Policy, []byte(strings.Replace(policy, "automatic", "by-hand", 1)), 0o600))
	s, err := Spec(c, "embed", 0.9, 1e-5)
	testkit.Must(t, err)
	s.Aggregation.Masked = true
	s.Aggregation.Members = []runfile.Member{
		{Site: "north", Key: strings.Repeat("1", 64)}, {Site: "south", Key: strings.Repeat("2", 64)}}
	r, err := New(c, site, s)
	testkit.Must(t, err)
	q := r.Questions[0]
	if q.WithoutNoise || !strings.HasPrefix(q.SeenBy, "nobody: ") || !strings.Contains(q.Content, "and masks") ||
		!strings.HasSuffix(q.Verdict, "; up to 0 times, because each may be opened 4 times") ||
		q.FitsAtLeast != 0 {
		t.Errorf("question %+v", q)
	}
	if r.RevealsAtMost != 4 || r.EpsilonMost < 1.9*r.EpsilonAll || r.Terms.Masked == nil {
		t.Errorf("report %+v", r)
	}
}

// A streaming node shows the answers that it would give with its rows in memory. Its votes use records on the disk.
func TestARehearsalOfAStream(t *testing.T) {
	c, memory := siteOf(t)
	c.Stream = true
	stream, err := node.ReadSite(c, kinds.All(), nil)
	testkit.Must(t, err)
	for pipeline, same := range map[string]bool{"embed": true, "pategan": false, "dpgan": false} { // others draw
		s, err := Spec(c, pipeline, 0.9, 1e-5)
		testkit.Must(t, err)
		var texts []string
		for _, site := range []*node.Site{memory, stream} {
			r, err := New(c, site, s)
			testkit.Must(t, err)
			answers, err := r.Rehearse(site)
			testkit.Must(t, err)
			texts = append(texts, answers[len(answers)-1].Text)
		}
		if same && texts[0] != texts[1] || texts[1] == "" {
			t.Errorf("%s in memory\n%s\nstreamed\n%s", pipeline, texts[0], texts[1])
		}
	}
	s, err := Spec(c, "pategan", 0.9, 1e-5)
	testkit.Must(t, err)
	s.Weights = "logreg-noised"
	r, err := New(c, stream, s)
	testkit.Must(t, err)
	if fit := r.Questions[len(r.Questions)-1]; r.Policy != refusesAll || fit.Fits != 0 || fit.FitsAtLeast != 0 ||
		!strings.HasPrefix(fit.Verdict, "refused: this node streams its records") {
		t.Errorf("policy %q of a fit: %+v", r.Policy, fit)
	}
	if _, err := os.Stat(c.State); err == nil {
		t.Error("a rehearsal made the state folder")
	}
}

// The node's own teachers answer, and leave no trace in the state folder or for the next start.
func TestARehearsalLeavesNoTrace(t *testing.T) {
	c, site := siteOf(t)
	for pipeline, lines := range map[string]int{"pategan": 9, "embed": 2, "gpate": 2} {
		s, err := Spec(c, pipeline, 0.9, 1e-5)
		testkit.Must(t, err)
		r, err := New(c, site, s)
		testkit.Must(t, err)
		answers, err := r.Rehearse(site)
		testkit.Must(t, err)
		if len(answers) != len(r.Questions) {
			t.Fatalf("%s: %d answers", pipeline, len(answers))
		}
		last := answers[len(answers)-1]
		measure := map[bool]string{true: " teachers for ", false: " numbers, in steps "}[pipeline == "pategan"]
		if got := strings.Count(last.Text, "\n"); got != lines || !strings.Contains(last.Text, measure) {
			t.Errorf("%s: %d lines:\n%s", pipeline, got, last.Text)
		}
		if pipeline == "pategan" && (!strings.Contains(last.Text, " 0") || !strings.Contains(last.Text, " 1")) {
			t.Errorf("votes that are all alike:\n%s", last.Text)
		}
	}
	if _, err := os.Stat(c.State); err == nil {
		t.Error("a rehearsal made the state folder")
	}
}
