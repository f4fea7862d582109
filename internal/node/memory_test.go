package node

import (
	"fmt"
	"math"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"go.uber.org/zap"

	"github.com/conclave-dp/conclave/internal/kinds"
	"github.com/conclave-dp/conclave/internal/question/questiontest"
	"github.com/conclave-dp/conclave/internal/testkit"
	"github.com/conclave-dp/conclave/partition"
)

// retained is the memory that is in use after a function ran, in bytes beyond what was.
func retained(do func()) int64 {
	use := func() int64 {
		least := int64(math.MaxInt64)
		for range 5 { // what a pool gave up, and what ends in the background, is freed by a later collection
			var m runtime.MemStats
			runtime.GC()
			runtime.ReadMemStats(&m)
			least = min(least, int64(m.HeapAlloc))
			time.Sleep(10 * time.Millisecond)
		}
		return least
	}
	before := use()
	do()
	return use() - before
}

// A start of a node that streams, with the checks of all cells, the digest of all rows and the count of units, keeps
// none of its rows in memory, and neither does a question that needs them by teacher.
func TestANodeThatStreamsHoldsNoRows(t *testing.T) {
	const rows, few = 100_000, 3 << 20
	for _, unit := range []string{partition.UnitRecord, questiontest.UnitColumn} {
		c := onFile(t, unit, "csv")
		var text strings.Builder
		header, _, _ := strings.Cut(string(testkit.Read(t, c.Data)), "\n")
		text.WriteString(header + "\n")
		for i := range rows {
			if unit != partition.UnitRecord {
				fmt.Fprintf(&text, "%07d,", i/3)
			}
			fmt.Fprintf(&text, "0.%06d,%d,%c,no\n", i%1000, i%2, "pqr"[i%3])
		}
		testkit.Must(t, os.WriteFile(c.Data, []byte(text.String()), 0o600))
		text.Reset()
		start := func(stream bool) *Node {
			c.Stream, c.State = stream, filepath.Join(t.TempDir(), "state")
			if c.SortedBy = ""; stream && unit != partition.UnitRecord {
				c.SortedBy = "unit"
			}
			site, err := ReadSite(c, kinds.All(), nil)
			testkit.Must(t, err)
			return testkit.Value(site.Node(c.Aggregator, zap.NewNop()))
		}
		var n *Node
		if took := retained(func() { n = start(false) }); took < few+few/2 {
			t.Fatalf("%s: a node that holds its rows took %d KiB; this measures nothing", unit, took>>10)
		}
		runtime.KeepAlive(n)
		n = nil
		if took := retained(func() { n = start(true) }); took > few {
			t.Errorf("%s: a start keeps %d KiB of %d rows", unit, took>>10, rows)
		}
		if took := retained(func() { testkit.Must(t, n.site.Divide()) }); took > few {
			t.Errorf("%s: divided, the records take %d KiB", unit, took>>10)
		}
		if r := ask(t, n, voteRound("r", 1)); r.GetVotes() == nil {
			t.Errorf("%s: %v", unit, r)
		}
	}
}
