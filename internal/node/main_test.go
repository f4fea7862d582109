package node

import (
	"flag"
	"os"
	"path/filepath"
	"testing"

	"go.uber.org/goleak"
	"go.uber.org/zap"
	"google.golang.org/protobuf/proto"

	"github.com/conclave-dp/conclave/internal/certs"
	"github.com/conclave-dp/conclave/internal/kinds"
	"github.com/conclave-dp/conclave/internal/nn/safetensors"
	"github.com/conclave-dp/conclave/internal/question/questiontest"
	"github.com/conclave-dp/conclave/internal/testkit"
	"github.com/conclave-dp/conclave/partition"
	conclavev1 "github.com/conclave-dp/conclave/proto/conclave/v1"
)

func TestMain(m *testing.M) {
	flag.Parse()
	testkit.WaitTogether()
	goleak.VerifyTestMain(m)
}

// smallConfig is a valid configuration with its own state folder.
func smallConfig(t testing.TB, teachers int) Config {
	c := DefaultConfig()
	c.Aggregator, c.Dataset, c.Site = "127.0.0.1:1", "d", "north"
	c.Schema, c.Data, c.Teachers = "schema.yaml", "table.csv", teachers
	c.State = filepath.Join(t.TempDir(), "state")
	c.TLS = certs.Files{CA: "ca.crt", Cert: "node.crt", Key: "node.key"}
	return c
}

// start starts a node from a table, already welcomed by the aggregator.
func start(t testing.TB, c Config, table *partition.Table) *Node {
	t.Helper()
	n := unknown(t, c, table)
	testkit.Must(t, n.manifest.store())
	return n
}

// unknown makes a node that no aggregator has welcomed yet.
func unknown(t testing.TB, c Config, table *partition.Table) *Node {
	t.Helper()
	site, err := NewSite(c, table, kinds.All())
	testkit.Must(t, err)
	n, err := site.Node(c.Aggregator, zap.NewNop())
	testkit.Must(t, err)
	return n
}

// smallNode is a node of questiontest.SmallSchema with about 20 records per teacher.
func smallNode(t testing.TB, teachers int) *Node {
	t.Helper()
	return start(t, smallConfig(t, teachers), questiontest.SmallTable(t, 20*teachers, 1))
}

// partsOf splits a round into parts of this size.
func partsOf(t testing.TB, r *conclavev1.Round, size int) []*conclavev1.RoundPart {
	t.Helper()
	raw, err := proto.MarshalOptions{Deterministic: true}.Marshal(r)
	testkit.Must(t, err)
	return cut(r, raw, size)
}

// cut splits the bytes of a round into parts.
func cut(r *conclavev1.Round, raw []byte, size int) []*conclavev1.RoundPart {
	total := (len(raw) + size - 1) / size
	var parts []*conclavev1.RoundPart
	for i := range total {
		parts = append(parts, &conclavev1.RoundPart{
			Run: r.Run, Round: r.Number, Part: uint32(i), Parts: uint32(total),
			Data: raw[i*size : min((i+1)*size, len(raw))],
		})
	}
	return parts
}

// messagesOf are the messages that ask a round: small parts, the first with terms.
func messagesOf(
	t testing.TB, r *conclavev1.Round, terms *conclavev1.RoundTerms, attempt uint64,
) (all []*conclavev1.WorkResponse) {
	t.Helper()
	for _, p := range partsOf(t, r, 300) {
		all = append(all, &conclavev1.WorkResponse{
			Attempt: attempt, Terms: terms, Message: &conclavev1.WorkResponse_Part{Part: p},
		})
		terms = nil
	}
	return all
}

// ask sends a node the messages of a round and returns its one reply.
func ask(t testing.TB, n *Node, r *conclavev1.Round) *conclavev1.WorkRequest {
	t.Helper()
	return askUnder(t, n, r, nil)
}

// askUnder asks a node a round with terms. The reply repeats the attempt.
func askUnder(t testing.TB, n *Node, r *conclavev1.Round, terms *conclavev1.RoundTerms) *conclavev1.WorkRequest {
	t.Helper()
	const attempt = 7
	in, parts := newInbox(), assembly{}
	for _, m := range messagesOf(t, r, terms, attempt) {
		testkit.Must(t, n.dispatch(m, &parts, in))
	}
	todo, ok := in.take()
	if !ok {
		t.Fatal("the round did not arrive")
	}
	reply := n.reply(todo)
	if reply.Attempt != attempt {
		t.Errorf("round %d, asked as attempt %d, was answered as %d: %v", r.Number, attempt, reply.Attempt, reply)
	}
	reply.Attempt = 0
	return reply
}

// votesOf asks a round of votes that must be answered, and returns the packed votes.
func votesOf(t testing.TB, n *Node, r *conclavev1.Round) []byte {
	t.Helper()
	m := ask(t, n, r)
	if m.GetVotes() == nil {
		t.Fatalf("round %d was not answered: %v", r.Number, m.GetRefusal().GetReason())
	}
	return m.GetVotes().Packed
}

// keptOf is what a node stores of a run's teachers between rounds: their weights and metadata.
func keptOf(t testing.TB, n *Node, run string) *safetensors.Set {
	t.Helper()
	kept, err := safetensors.Load(filepath.Join(n.cfg.State, "run-"+run+".safetensors"))
	testkit.Must(t, err)
	return kept
}

// exists reports whether a file exists in a node's state folder.
func exists(c Config, name string) bool {
	_, err := os.Stat(filepath.Join(c.State, name))
	return err == nil
}

// copyState gives a configuration its own state folder with the key and the manifest of the first.
func copyState(t *testing.T, c Config) Config {
	t.Helper()
	out := c
	out.State = filepath.Join(t.TempDir(), "state")
	testkit.Must(t, os.MkdirAll(out.State, 0o700))
	for _, name := range []string{"partition.key", "manifest.json"} {
		raw := testkit.Read(t, filepath.Join(c.State, name))
		testkit.Must(t, os.WriteFile(filepath.Join(out.State, name), raw, 0o600))
	}
	return out
}
