package node

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/conclave-dp/conclave/internal/certs"
	"github.com/conclave-dp/conclave/internal/question/questiontest"
	"github.com/conclave-dp/conclave/internal/testkit"
	conclavev1 "github.com/conclave-dp/conclave/proto/conclave/v1"
)

// A node whose connection is dropped returns with the same manifest and teachers. It repeats earlier answers without
// training again, and later rounds continue as if nothing had happened.
func TestTeachersSurviveAReconnect(t *testing.T) {
	f := newFakeAggregator(t)
	table := questiontest.SmallTable(t, 80, 1)
	c := f.config(4)
	n := start(t, c, table)
	undisturbed := start(t, copyState(t, c), table)
	stop, log := run(t, n)

	j := f.next()
	var last []byte
	for number := range uint64(3) {
		if last = j.votes(voteRound("r", number)); !bytes.Equal(last, votesOf(t, undisturbed, voteRound("r", number))) {
			t.Fatalf("round %d: other votes than a node that was never disturbed", number)
		}
	}
	hello := j.hello
	j.leave <- status.Error(codes.Unavailable, "gone")

	j = f.next()
	if j.hello.String() != hello.String() || hello.Manifest != n.manifest.Fingerprint {
		t.Errorf("it came back as %v, before %v", j.hello, hello)
	}
	if again := j.votes(voteRound("r", 2)); !bytes.Equal(again, last) {
		t.Errorf("round 2 asked again: votes %x, before %x", again, last)
	}
	// The connection is lost between a question and its answer.
	j.ask(voteRound("r", 3))
	j.leave <- status.Error(codes.Unavailable, "gone")

	j = f.next()
	for number := range uint64(3) {
		number += 3
		if got := j.votes(voteRound("r", number)); !bytes.Equal(got, votesOf(t, undisturbed, voteRound("r", number))) {
			t.Errorf("round %d: other votes than a node that was never disturbed", number)
		}
	}
	if err := stop(); err != nil {
		t.Errorf("Run ended with %v", err)
	}
	a, b := keptOf(t, undisturbed, "r"), keptOf(t, n, "r")
	if !reflect.DeepEqual(a.ByName, b.ByName) || !maps.Equal(a.Metadata, b.Metadata) {
		t.Errorf("after three connections the teachers differ: %v and %v", a.Metadata, b.Metadata)
	}
	if joins := log.FilterMessage("joined").Len(); joins != 3 {
		t.Errorf("%d times joined in the log, want 3", joins)
	}
}

// The aggregator is away for a while, and returns at the same address.
func TestTheNodeWaitsForTheAggregator(t *testing.T) {
	f := newFakeAggregator(t)
	free := testkit.FreeAddress(t, "127.0.0.1")
	c := f.config(2)
	c.Aggregator = free
	_, log := run(t, start(t, c, questiontest.SmallTable(t, 40, 1)))
	testkit.Eventually(t, "a log that says that the node is not connected", func() bool {
		return log.FilterMessageSnippet("not connected").Len() > 0
	})
	f.serve(free)
	f.next().votes(voteRound("r", 1))
}

func TestLastingRefusalsEndTheNode(t *testing.T) {
	f := newFakeAggregator(t)
	for _, code := range []codes.Code{codes.InvalidArgument, codes.FailedPrecondition, codes.PermissionDenied,
		codes.Unimplemented, codes.NotFound, codes.Aborted} {
		f.setRefusal(status.Error(code, "not like this"))
		err := refusal(t, start(t, f.config(2), questiontest.SmallTable(t, 40, 1)))
		if !strings.Contains(err.Error(), "not like this") {
			t.Errorf("%v: Run ended with %v, want a refusal with its reason", code, err)
		}
	}
	f.setRefusal(nil)
	_, log := run(t, start(t, f.config(2), questiontest.SmallTable(t, 40, 1)))
	f.next().leave <- status.Error(codes.Unavailable, "leadership lost")
	f.next().leave <- nil // an aggregator that ends the stream without a message
	f.next()
	if log.FilterMessageSnippet("not connected").Len() < 2 {
		t.Error("the lost connections are not in the log")
	}
}

func TestWrongCertificatesEndTheNode(t *testing.T) {
	f, other := newFakeAggregator(t), newFakeAggregator(t)
	c := f.config(2)
	c.TLS = certs.IssuedFiles(other.folder, certs.RoleNode, "north")
	refusal(t, start(t, c, questiontest.SmallTable(t, 40, 1)))
	c.TLS.Key = "none.key"
	if err := start(t, c, questiontest.SmallTable(t, 40, 1)).Run(t.Context()); !errors.Is(err, certs.ErrMissing) {
		t.Errorf("a missing key: Run ended with %v", err)
	}
}

// A wrong round costs the node only its part in that round, not the connection.
func TestAWrongRoundIsRefusedAndTheNextAnswered(t *testing.T) {
	f := newFakeAggregator(t)
	run(t, start(t, f.config(3), questiontest.SmallTable(t, 60, 1)))
	j := f.next()
	parts := partsOf(t, voteRound("r", 1), 300)
	for _, p := range slices.Delete(parts, 1, 2) { // one is missing
		j.send(&conclavev1.WorkResponse{Message: &conclavev1.WorkResponse_Part{Part: p}})
	}
	if m := j.reply(); m.GetRefusal() == nil || m.GetRefusal().Run != "r" || m.GetRefusal().Round != 1 {
		t.Errorf("a round without its second part was answered with %v", m)
	}
	j.send(&conclavev1.WorkResponse{}) // from a newer protocol
	questiontest.Unpack(t, j.votes(voteRound("r", 1)), 3, 12, 2)
	j.ask(countRound("r", 2, 2, 10))
	if m := j.reply(); m.GetSum() == nil {
		t.Errorf("a sum was answered with %v", m)
	}
}

// A round that is withdrawn while the node is busy is not trained on.
func TestAWithdrawnRoundIsSkipped(t *testing.T) {
	f := newFakeAggregator(t)
	n := start(t, f.config(4), questiontest.SmallTable(t, 80, 1))
	// The node is busy with its first round until the withdrawal arrives.
	withdrawn := make(chan struct{})
	stop, log := run(t, n, zap.Hooks(func(e zapcore.Entry) error {
		switch e.Message {
		case "round continued without this node":
			close(withdrawn)
		case "answered":
			select {
			case <-withdrawn:
			case <-time.After(testkit.Patience):
				t.Error("the withdrawal was not seen while the node was busy")
			}
		}
		return nil
	}))
	j := f.next()
	j.ask(voteRound("r", 1))
	j.ask(voteRound("r", 2))
	j.withdraw(&conclavev1.Withdraw{Run: "r", Round: 2})
	j.ask(voteRound("r", 3))
	var answered []uint64
	for range 2 {
		answered = append(answered, j.reply().GetVotes().GetRound())
	}
	if !slices.Equal(answered, []uint64{1, 3}) {
		t.Errorf("rounds %v were answered, want 1 and 3", answered)
	}
	testkit.Must(t, stop())
	if m := keptOf(t, n, "r").Metadata; m["steps"] != "10" || m["rounds"] != "2" {
		t.Errorf("%s steps in %s rounds, want 10 in 2", m["steps"], m["rounds"])
	}
	if log.FilterMessageSnippet("continued without").Len() != 1 {
		t.Error("the withdrawal is not in the log")
	}
}

// No log line of a node contains record data: two nodes with different records write the same fields.
func TestLogsDoNotDependOnTheRecords(t *testing.T) {
	lines := func(table uint64) []string {
		f := newFakeAggregator(t)
		stop, log := run(t, start(t, f.config(3), questiontest.SmallTable(t, 50+int(table), table)))
		j := f.next()
		j.votes(voteRound("r", 1))
		j.ask(countRound("r", 2, 2, 10))
		j.reply()
		j.ask(countRound("r", 3, 7, 10))
		j.reply()
		testkit.Must(t, stop())
		var out []string
		for _, e := range log.All() {
			line := e.Message
			for key, value := range e.ContextMap() {
				if key != "took" { // the duration depends on the machine
					line += fmt.Sprintf(" %s=%v", key, value)
				}
			}
			words := strings.Fields(line)
			slices.Sort(words)
			out = append(out, strings.Join(words, " "))
		}
		return out
	}
	a, b := lines(1), lines(2)
	if len(a) == 0 || !slices.Equal(a, b) {
		t.Errorf("the logs differ:\n%s\n\n%s", strings.Join(a, "\n"), strings.Join(b, "\n"))
	}
}
