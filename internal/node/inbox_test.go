package node

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/conclave-dp/conclave/internal/testkit"
)

func TestTheInboxGivesOutTasksInOrderWithoutTheWithdrawnOnes(t *testing.T) {
	in := newInbox()
	for round := range uint64(5) {
		testkit.Must(t, in.put(t.Context(), task{run: "r", round: round}))
	}
	testkit.Must(t, in.put(t.Context(), task{run: "s", round: 1}))
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
	if len(in.room) != 0 {
		t.Errorf("the empty inbox counts %d tasks", len(in.room))
	}
}

// A full inbox holds the receiver back until there is room or the stream ends.
func TestAFullInboxWaits(t *testing.T) {
	in := newInbox()
	for round := range uint64(maxWaiting) {
		testkit.Must(t, in.put(t.Context(), task{round: round}))
	}
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	if err := in.put(ctx, task{round: 99}); !errors.Is(err, context.DeadlineExceeded) {
		t.Fatalf("a task more gave %v, want to wait until the context ends", err)
	}
	in.take()
	testkit.Must(t, in.put(t.Context(), task{round: 100}))
	in.withdraw("", 100)
	testkit.Must(t, in.put(t.Context(), task{round: 101}))
	last := task{}
	for todo, ok := in.take(); ok; todo, ok = in.take() {
		last = todo
	}
	if last.round != 101 {
		t.Errorf("the last task is of round %d, want 101", last.round)
	}
}
