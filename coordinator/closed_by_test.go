package coordinator

import (
	"bytes"
	"strings"
	"testing"

	"github.com/conclave-dp/conclave/internal/ledger"
	"github.com/conclave-dp/conclave/internal/testkit"
)

// The entry that closes a run with a list of files names the student that stands for them, if that is not the student
// that wanted the run.
func TestTheLedgerSaysWhichStudentGaveOutFiles(t *testing.T) {
	manifest := strings.Repeat("ab", 32)
	for name, c := range map[string]struct{ manifest, by, want string }{
		"a worker":              {manifest, "worker", "worker"},
		"who wanted it":         {manifest, "lab", "lab"},
		"a worker without file": {"", "worker", "lab"},
	} {
		t.Run(name, func(t *testing.T) {
			at, ctx := newCluster(t), testkit.Within(t)
			r := testRun("second")
			r.By, r.Student = "worker", "lab"
			mustClose(t, at.store, at.lead, "first")
			mustOpen(t, at.store, at.lead, r)
			_, _, err := at.store.CloseRun(ctx, at.lead, "second", c.manifest, c.by)
			testkit.Must(t, err)
			lines, err := at.store.Entries(ctx, testDataset.Name, 0, 100)
			testkit.Must(t, err)
			v, err := ledger.VerifyStrict(bytes.NewReader(append(bytes.Join(lines, []byte("\n")), '\n')))
			testkit.Must(t, err)
			if got := v.Runs["second"].GaveOut; got != c.want {
				t.Errorf("%q stands for the files, want %q", got, c.want)
			}
		})
	}
}
