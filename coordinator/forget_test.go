package coordinator

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/conclave-dp/conclave/internal/privacy"
	"github.com/conclave-dp/conclave/internal/testkit"
)

func TestForget(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	ctx := testkit.Within(t)
	// The second run's name starts with the first one's, to check that only one drops its releases.
	mustOpen(t, c.store, c.lead, testRun("first-b"))
	for round := range uint64(6) {
		for _, run := range []string{"first", "first-b"} {
			charge := testCharge(run, round, fmt.Sprintf("answer %d of %s", round, run))
			if run == "first" && round >= 3 {
				charge.Forget = round - 1
			}
			mustCharge(t, c.store, c.lead, charge)
		}
	}
	check := func(s *Store) {
		t.Helper()
		for round := range uint64(7) {
			release, _, found, err := s.Release(ctx, "first", round)
			if want := round == 4 || round == 5; err != nil || found != want ||
				found && string(release) != fmt.Sprintf("answer %d of first", round) {
				t.Errorf("round %d: %q, %v, %v", round, release, found, err)
			}
			if _, _, found, err := s.Release(ctx, "first-b", round); err != nil || found != (round < 6) {
				t.Errorf("round %d of the other run: %v, %v", round, found, err)
			}
		}
		run, err := s.Run(ctx, "first")
		if err != nil || run.Forgotten != 4 || run.Releases != 6 {
			t.Errorf("run %+v, %v", run, err)
		}
		if entries, v := ledgerOf(t, s); len(entries) != 3+12 || v.Runs["first"].Releases != 6 {
			t.Errorf("%d entries", len(entries))
		}
	}
	check(c.store)

	charged := func(s *Store, lead *Leadership) {
		t.Helper()
		before := everything(t, s)
		for round := range uint64(4) {
			_, _, err := s.Charge(ctx, lead, testCharge("first", round, "another answer"))
			var forgotten *ForgottenError
			if !errors.Is(err, ErrForgotten) || !errors.As(err, &forgotten) || forgotten.Round != round ||
				!strings.Contains(err.Error(),
					fmt.Sprintf(`round %d of run "first" was released, and its answer was deleted`, round)) {
				t.Errorf("round %d was charged again: %v", round, err)
			}
		}
		if after := everything(t, s); len(after) != len(before) {
			t.Errorf("refusals wrote: %d keys, %d before", len(after), len(before))
		}
		release, _, err := s.Charge(ctx, lead, testCharge("first", 4, "another answer"))
		if err != nil || string(release) != "answer 4 of first" {
			t.Errorf("a round that is kept: %q, %v", release, err)
		}
	}
	charged(c.store, c.lead)

	// A restart of the aggregator.
	s := openStore(t, Config{Endpoints: c.etcd.Endpoints()})
	lead := leadAs(t, s, "agg")
	testkit.Must(t, s.OpenDataset(ctx, lead, testDataset))
	check(s)
	charged(s, lead)
	mustClose(t, s, lead, "first")
	charged(s, lead)
}

func TestForgetAtMostWhatCameBefore(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	ctx := testkit.Within(t)
	charge := testCharge("first", 0, "answer 0")
	charge.Forget = 1
	if _, _, err := c.store.Charge(ctx, c.lead, charge); err == nil || errors.Is(err, ErrForgotten) {
		t.Errorf("a round that forgets itself: %v", err)
	}
	charge.Forget = 0
	mustCharge(t, c.store, c.lead, charge)
	// A refused charge drops nothing, and a later one with a smaller Forget restores nothing.
	charge = testCharge("first", 1, "answer 1")
	charge.Forget, charge.Use = 1, votes(1, 4)
	if _, _, err := c.store.Charge(ctx, c.lead, charge); !errors.Is(err, privacy.ErrOverBudget) {
		t.Fatal(err)
	}
	if _, _, found, err := c.store.Release(ctx, "first", 0); err != nil || !found {
		t.Errorf("after a refusal: %v, %v", found, err)
	}
	for round, forget := range []uint64{0, 1, 0} {
		charge = testCharge("first", uint64(round), fmt.Sprint("answer ", round))
		charge.Forget = forget
		mustCharge(t, c.store, c.lead, charge)
	}
	run, err := c.store.Run(ctx, "first")
	if err != nil || run.Forgotten != 1 || run.Releases != 3 {
		t.Errorf("run %+v, %v", run, err)
	}
}
