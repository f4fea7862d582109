package coordinator

import (
	"errors"
	"strings"
	"testing"

	"github.com/conclave-dp/conclave/internal/ledger"
	"github.com/conclave-dp/conclave/internal/testkit"
)

// A run continues only closed runs of its own student and dataset: an entry that names another run would break the
// ledger for everybody.
func TestWhatARunGoesOnFrom(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	ctx := testkit.Within(t)
	later := func(student string, earlier ...string) Run {
		r := testRun("later")
		r.Student, r.Facts.Earlier = student, earlier
		return r
	}
	refused := func(r Run) {
		t.Helper()
		if _, err := c.store.OpenRun(ctx, c.lead, r); !errors.Is(err, ErrNoRun) {
			t.Errorf("%+v: %v, want ErrNoRun", r.Facts, err)
		}
	}
	refused(later("ada", "first")) // that run is open
	mustClose(t, c.store, c.lead, "first")
	refused(later("eve", "first"))
	refused(later("ada", "first", "none"))
	mustOpen(t, c.store, c.lead, later("ada", "first"))
	mustClose(t, c.store, c.lead, "later")
	entries, v := ledgerOf(t, c.store)
	if got := v.Runs["later"].Facts; got.Student != "ada" || len(got.Earlier) != 1 || got.Earlier[0] != "first" {
		t.Errorf("the ledger says %+v in %v", got, types(entries))
	}
	many := later("ada")
	many.Name, many.Facts.Earlier = "many", make([]string, ledger.MaxEarlier+1)
	if _, err := c.store.OpenRun(ctx, c.lead, many); err == nil {
		t.Error("a run that goes on from too many others was opened")
	}
}

// A run has one roster, set before its first question, and keeps the list of files from its first closing.
func TestARunHasOneRosterAndOneList(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	ctx := testkit.Within(t)
	ask := func(digest string, sites ...ledger.Site) {
		t.Helper()
		q := testQuestion("first", 0, digest)
		q.Roster = sites
		testkit.Must(t, c.store.Ask(ctx, c.lead, q))
	}
	north := ledger.Site{Site: "north", Nodes: 1, Teachers: 4}
	ask("a", north)
	ask("b", north, ledger.Site{Site: "south", Nodes: 1, Teachers: 4})
	list, other := strings.Repeat("ab", 32), strings.Repeat("cd", 32)
	for _, manifest := range []string{list, other, ""} {
		if _, sealed, err := c.store.CloseRun(ctx, c.lead, "first", manifest, ""); err != nil || sealed != list {
			t.Errorf("closed with %.4q: %.4q, %v", manifest, sealed, err)
		}
	}
	entries, v := ledgerOf(t, c.store)
	testkit.Same(t, "entries", types(entries), []string{"open", "run", "roster", "abandoned", "abandoned", "close"})
	if r := v.Runs["first"]; len(r.Roster) != 1 || r.Roster[0] != north || r.Manifest != list {
		t.Errorf("the ledger says %+v", r)
	}
}
