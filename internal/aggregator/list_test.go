package aggregator

import (
	"fmt"
	"strings"
	"testing"

	"github.com/conclave-dp/conclave/internal/testkit"
	conclavev1 "github.com/conclave-dp/conclave/proto/conclave/v1"
)

// A list reads only the runs that its caller may see, however many others exist. For an operator it reads each run
// once.
func TestAListReadsWhatItsCallerMaySee(t *testing.T) {
	t.Parallel()
	const others = 130 // more than a page
	c := newCluster(t, Options{}, roomy, func(c *Config) { c.Datasets[1].Students = []string{"crowd"} })
	etcd := c.tap(t)
	crowd, lab := c.studentAs(t, "crowd"), c.studentAs(t, "lab")
	named := func(name string) func(*conclavev1.RunSpec) {
		return func(s *conclavev1.RunSpec) { s.Name, s.Epsilon = name, 0.1 }
	}
	for i := range others {
		crowd.open(t, "d1", named(fmt.Sprint("crowded-", i)))
	}
	for i := range 10 {
		crowd.open(t, "d2", named(fmt.Sprint("closed-", i)))
		crowd.close(t, fmt.Sprint("closed-", i))
	}
	lab.open(t, "d2", named("mine"))
	c.queue(t, "lab").submit(t, "d2", "queued")
	reads := func(q testQueue) (names []string, read int64) {
		t.Helper()
		before := etcd.runs.Load()
		names, _ = q.list(t, "")
		return names, etcd.runs.Load() - before
	}
	// It reads its own run twice, the second time for the dataset's budget; the others are closed.
	if names, read := reads(c.queue(t, "lab")); strings.Join(names, ", ") != "mine RUNNING, queued WAITING" ||
		read != 2 {
		t.Errorf("the list is %v, and %d runs were read", names, read)
	}
	names, read := reads(c.operator(t))
	if len(names) != others+10+2 || read != others+10+1+others+1 {
		t.Errorf("an operator's list has %d runs, and %d were read", len(names), read)
	}
	_, err := c.operator(t).RemoveRun(testkit.Within(t), &conclavev1.RemoveRunRequest{Run: "closed-0"})
	testkit.Must(t, err)
	if names, _ := reads(c.operator(t)); len(names) != others+10+1 {
		t.Errorf("after one was removed the list has %d runs", len(names))
	}
}
