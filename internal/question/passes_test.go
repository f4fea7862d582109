package question_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/conclave-dp/conclave/internal/question"
	"github.com/conclave-dp/conclave/internal/question/questiontest"
	"github.com/conclave-dp/conclave/internal/testkit"
)

// One charge pays for the passes that one question can take, of one kind of sum, also after a restart.
func TestPassesOfAQuestionAreBounded(t *testing.T) {
	state := t.TempDir()
	table := questiontest.SmallTable(t, 20, 1)
	site := func() *question.Site { return questiontest.SiteIn(t, table, 2, state) }
	ask := func(s *question.Site, run, serves, common, params string) error {
		return s.Pass(run, []byte(serves), []byte(common), []byte(params), 3)
	}
	s := site()
	for _, pass := range []string{"0", "1", "0", "2", "1"} {
		testkit.Must(t, ask(s, "r", "q", "features", pass))
	}
	// A record that a crash truncated counts as nothing, and disturbs nothing.
	path := filepath.Join(state, "run-r.passes")
	raw := testkit.Value(os.ReadFile(path))
	testkit.Must(t, os.WriteFile(path, append(raw, "torn"...), 0o600))
	for _, s := range []*question.Site{s, site()} {
		err := ask(s, "r", "q", "features", "3")
		if err == nil || !strings.Contains(err.Error(), "3 different passes") {
			t.Errorf("a pass too many: %v", err)
		}
		testkit.Must(t, ask(s, "r", "q", "features", "2"))
		if err := ask(s, "r", "q", "others", "2"); err == nil || !strings.Contains(err.Error(), "other features") {
			t.Errorf("a pass of another kind: %v", err)
		}
		testkit.Must(t, ask(s, "other", "q", "others", "3")) // which is kept by itself
		testkit.Must(t, ask(s, "r", "p", "others", "3"))     // and so is another question
	}
	testkit.Must(t, question.ForgetSums(state))
	testkit.Must(t, ask(site(), "r", "q", "others", "4"))
}
