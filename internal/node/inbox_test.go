package node

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/conclave-dp/conclave/internal/question/questiontest"
	"github.com/conclave-dp/conclave/internal/testkit"
	conclavev1 "github.com/conclave-dp/conclave/proto/conclave/v1"
)

func TestTheInboxGivesOutTasksInOrderWithoutTheWithdrawnOnes(t *testing.T) {
	in := newInbox()
	for round := range uint64(5) {
		testkit.Must(t, in.put(task{run: "r", round: round}))
	}
	testkit.Must(t, in.put(task{run: "s", round: 1}))
	in.withdraw("r", 1)
	in.withdraw("r", 4)
	in.withdraw("r", 9) // never arrived
	var got []uint64
	for todo, ok := in.take(); ok; todo, ok = in.take() {
		if todo.run == "r" {
			got = append(got, todo.round)
		}
	}
	if len(got) != 3 || got[0] != 0 || got[1] != 2 || got[2] != 3 {
		t.Errorf("rounds %v of run r, want 0, 2 and 3", got)
	}
	if in.bytes != 0 {
		t.Errorf("the empty inbox counts %d bytes", in.bytes)
	}
}

// A round without room is refused at once, and the receiver continues to read, because permits and ledger entries
// follow. Waiting tasks and refusals are bounded.
func TestAFullInboxRefuses(t *testing.T) {
	large := &received{bytes: maxRoundBytes}
	for name, c := range map[string]struct {
		question *received
		room     uint64
	}{"rounds": {&received{bytes: 1}, maxWaiting}, "bytes": {large, maxWaitingBytes / maxRoundBytes}} {
		t.Run(name, func(t *testing.T) {
			in := newInbox()
			for round := range c.room {
				testkit.Must(t, in.put(task{run: "r", round: round, question: c.question}))
			}
			if _, refused := in.beside.take(); refused {
				t.Fatal("a round was refused that had room")
			}
			testkit.Must(t, in.put(task{run: "r", round: 99999, question: c.question}))
			testkit.Must(t, in.putBeside(task{run: "s", permit: &conclavev1.Permit{}}))
			more, _ := in.beside.take()
			permit, _ := in.beside.take()
			if more.round != 99999 || !errors.Is(more.refusal, errFull) || more.bytes() != 0 || permit.permit == nil {
				t.Errorf("beside the rounds are %+v and %+v", more, permit)
			}
			in.withdraw("r", 3)
			testkit.Must(t, in.put(task{run: "r", round: 100000, question: c.question}))
			if _, refused := in.beside.take(); refused {
				t.Error("a round was refused that has the room of one that was withdrawn")
			}
			var err error
			for range maxWaiting + 1 {
				err = in.put(task{run: "r", question: large})
			}
			if !errors.Is(err, errFlooded) {
				t.Errorf("refusals without end gave %v", err)
			}
		})
	}
}

// Work on a round ends when the round continues without the node, when its run ends, or when it exceeds the
// operator's limit. What the teachers learned in it is dropped, so the next question finds them unchanged.
func TestWorkThatNobodyWaitsForEnds(t *testing.T) {
	table := questiontest.SmallTable(t, 80, 1)
	first, long, next := voteRound("r", 1), questiontest.Change(voteRound("r", 2), func(q *conclavev1.VoteQuestion) {
		q.Teacher.Steps = 10_000
	}), voteRound("r", 3)
	answered := func(n *Node, r *conclavev1.Round) *conclavev1.WorkRequest {
		in := newInbox()
		testkit.Must(t, in.put(task{run: "r", round: r.GetNumber(), question: asReceived(r)}))
		todo, _ := in.take()
		return n.reply(todo)
	}
	for name, c := range map[string]struct {
		ends  func(*inbox, *Node)
		error error
	}{
		"withdrawn": {func(in *inbox, _ *Node) { in.withdraw("r", 2) }, errWithdrawn},
		"run over":  {func(in *inbox, _ *Node) { in.over("r") }, errWithdrawn},
		"too long":  {func(_ *inbox, n *Node) { n.cfg.MaxTime = time.Nanosecond }, errTooLong},
	} {
		config := smallConfig(t, 4)
		n := start(t, config, table)
		answered(n, first)
		undisturbed := config
		undisturbed.State = filepath.Join(t.TempDir(), "copy")
		testkit.Must(t, os.CopyFS(undisturbed.State, os.DirFS(config.State)))
		testkit.Must(t, os.Chmod(filepath.Join(undisturbed.State, "partition.key"), 0o600))
		want := answered(start(t, undisturbed, table), next).GetVotes()
		in := newInbox()
		testkit.Must(t, in.put(task{run: "r", round: 2, question: asReceived(long)}))
		todo, _ := in.take()
		in.withdraw("r", 1) // for another round
		in.over("s")
		if todo.wanted.Err() != nil {
			t.Fatalf("%s: the end of another round ended the work", name)
		}
		c.ends(in, n)
		if reason := n.reply(todo).GetRefusal().GetReason(); reason != c.error.Error() {
			t.Errorf("%s: the reply is a refusal for %q, want %q", name, reason, c.error)
		}
		n.cfg.MaxTime = time.Hour
		if got := answered(n, next).GetVotes(); !proto.Equal(got, want) {
			t.Errorf("%s: the next round is answered with %v, want %v", name, got, want)
		}
	}
}

func asReceived(r *conclavev1.Round) *received {
	return &received{round: r, digest: func() string { return fmt.Sprint(r.GetNumber()) }}
}
