package node

import (
	"errors"
	"testing"

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
	in.withdraw("r", 9) // never came
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

// A round that finds no room is refused at once, and the receiver goes on reading: permits and the
// ledger's entries stand behind it. What waits has a bound, and so have refusals.
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
