package coordinator

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/conclave-dp/conclave/internal/privacy"
	"github.com/conclave-dp/conclave/internal/testkit"
)

func testSubmission(name string) Submission {
	return Submission{
		Name: name, Dataset: "flchain", Pipeline: "embed", Spec: []byte("spec of " + name),
		Budget: privacy.Budget{Epsilon: 1, Delta: 1e-5}, Plan: testPlan(), By: "lab", RunFile: "hash of " + name,
	}
}

func submit(t testing.TB, c *cluster, name string) Submission {
	t.Helper()
	q, existing, err := c.store.Submit(testkit.Within(t), c.lead, testSubmission(name), Files{
		Run: []byte("run.yaml of " + name), Schema: []byte("schema"), Study: []byte("study of " + name),
	})
	if err != nil || existing {
		t.Fatalf("existing %v, %v", existing, err)
	}
	return q
}

func claim(t testing.TB, c *cluster, name, claim string) Submission {
	t.Helper()
	q, err := c.store.Claim(testkit.Within(t), c.lead, name, Holder{Worker: "w", By: "lab", Claim: claim})
	testkit.Must(t, err)
	return q
}

func TestTheQueueIsInTheOrderOfSubmission(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	ctx := testkit.Within(t)
	for _, name := range []string{"zebra", "ant", "mole"} {
		submit(t, c, name)
	}
	claim(t, c, "zebra", "c1") // changes do not move it
	testkit.Must(t, second(c.store.GiveBack(ctx, c.lead, "zebra", "c1", "its worker stops")))
	all, err := c.store.Submissions(ctx)
	testkit.Must(t, err)
	var names []string
	for _, q := range all {
		names = append(names, q.Name)
		if q.State != Waiting {
			t.Errorf("%s is %s", q.Name, q.State)
		}
	}
	if !slices.Equal(names, []string{"zebra", "ant", "mole"}) {
		t.Errorf("the queue is %v", names)
	}
	if all[0].Reason != "its worker stops" || all[0].Claims != 1 || all[0].Claim != "" || all[0].Worker != "w" {
		t.Errorf("%+v", all[0])
	}
	files, err := c.store.SubmittedFiles(ctx, all[1])
	if err != nil || string(files.Run) != "run.yaml of ant" || string(files.Schema) != "schema" ||
		string(files.Study) != "study of ant" {
		t.Errorf("files %q, %v", files, err)
	}
}

func TestNamesOfRunsAreUsedOnce(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	ctx := testkit.Within(t)
	first := submit(t, c, "a")
	// A repeated submission is the same run, because an answer may have been lost.
	xy := Files{Run: []byte("x"), Schema: []byte("y")}
	again, existing, err := c.store.Submit(ctx, c.lead, testSubmission("a"), xy)
	if err != nil || !existing || again.Order != first.Order {
		t.Errorf("existing %v, %v", existing, err)
	}
	for what, change := range map[string]func(*Submission){
		"by another":          func(q *Submission) { q.By = "eve" },
		"with another file":   func(q *Submission) { q.RunFile = "other" },
		"with another spec":   func(q *Submission) { q.Spec = []byte("other") },
		"of a student's run":  func(q *Submission) { q.Name = "first" },
		"on no dataset":       func(q *Submission) { q.Name, q.Dataset = "b", "none" },
		"of an unusable name": func(q *Submission) { q.Name = "a/b" },
	} {
		q := testSubmission("a")
		change(&q)
		_, _, err := c.store.Submit(ctx, c.lead, q, Files{})
		if want := map[bool]error{true: ErrRunExists, false: ErrNoDataset}[q.Name != "b"]; !errors.Is(err, want) &&
			!errors.Is(err, ErrBadName) {
			t.Errorf("a run %s: %v", what, err)
		}
	}
	// The message says what differs and who submitted it.
	for want, change := range map[string]func(*Submission){
		`not submitted by "eve"`: func(q *Submission) { q.By = "eve" },
		"with another run.yaml":  func(q *Submission) { q.RunFile = "other" },
		"with another spec":      func(q *Submission) { q.Spec = []byte("other") },
	} {
		q := testSubmission("a")
		change(&q)
		if _, _, err := c.store.Submit(ctx, c.lead, q, Files{}); !errors.Is(err, ErrRunExists) ||
			!strings.Contains(err.Error(), want) {
			t.Errorf("want %q, got %v", want, err)
		}
	}
	_, _, err = c.store.Submit(ctx, c.lead, testSubmission("c"), Files{Run: make([]byte, MaxRunFile+1)})
	if !errors.Is(err, ErrTooLarge) {
		t.Errorf("a large run.yaml: %v", err)
	}
	_, _, err = c.store.Submit(ctx, c.lead, testSubmission("c"), Files{Study: make([]byte, MaxStudyFile+1)})
	if !errors.Is(err, ErrTooLarge) {
		t.Errorf("a large study: %v", err)
	}
	// The largest allowed files fit.
	if _, _, err := c.store.Submit(ctx, c.lead, testSubmission("d"), Files{bytes.Repeat([]byte{'a'}, MaxRunFile),
		bytes.Repeat([]byte{'b'}, MaxSchemaFile), bytes.Repeat([]byte{'c'}, MaxStudyFile)}); err != nil {
		t.Errorf("the largest files: %v", err)
	}
	// A queued run cannot be opened without its claim.
	if _, err := c.store.OpenRun(ctx, c.lead, testRun("a")); !errors.Is(err, ErrQueue) {
		t.Errorf("a run that waits was opened: %v", err)
	}
	testkit.Must(t, second(c.store.Finish(ctx, c.lead, "a", End{State: Cancelled, Reason: "by lab"})))
	if _, err := c.store.OpenRun(ctx, c.lead, testRun("a")); !errors.Is(err, ErrRunExists) {
		t.Errorf("a run that was cancelled before it began was opened: %v", err)
	}
	_, _, err = c.store.Submit(ctx, c.lead, testSubmission("a"), xy)
	if !errors.Is(err, ErrRunExists) || !strings.Contains(err.Error(), "has ended (cancelled)") {
		t.Errorf("submitted again after its end: %v", err)
	}
}

// A run that opens or ends after the queue and before the room is read counts once.
func TestARunThatOpensMeanwhileCountsOnce(t *testing.T) {
	t.Parallel()
	c := newCluster(t) // has the open run "first" with 1 of 3 epsilon
	ctx := testkit.Within(t)
	for _, name := range []string{"a", "b", "c"} {
		submit(t, c, name)
		claim(t, c, name, "c-"+name)
	}
	queued, err := c.store.Submissions(ctx)
	if err != nil || len(queued) != 3 {
		t.Fatalf("%v, %v", queued, err)
	}
	for _, name := range []string{"a", "b"} {
		r := testRun(name)
		r.Claim = "c-" + name
		mustOpen(t, c.store, c.lead, r)
	}
	testkit.Must(t, second(c.store.Finish(ctx, c.lead, "b", End{State: Done, Claim: "c-b"})))
	room, err := c.store.Room(ctx, "flchain", everOpened(t, c.store))
	if err != nil || len(room.Open) != 2 {
		t.Fatalf("%+v, %v", room, err)
	}
	waiting := room.Unopened(queued)
	if len(waiting) != 1 || waiting[0].Budget != queued[2].Budget {
		t.Fatalf("%d runs count as waiting, want c alone: a is open, and b was closed", len(waiting))
	}
	reserved, err := room.Reserved(waiting...)
	testkit.Must(t, err)
	// Three runs of epsilon 1 may still spend: first, a and c.
	three, err := Room{Budget: room.Budget}.Reserved(queued[0].Spending(), queued[1].Spending(), queued[2].Spending())
	testkit.Must(t, err)
	got, err := room.Budget.Taken(reserved)
	testkit.Must(t, err)
	if want, err := room.Budget.Taken(three); err != nil || math.Abs(got-want) > 1e-9 {
		t.Errorf("epsilon %v is taken, want %v; %v", got, want, err)
	}
}

func TestOnlyTheClaimHolds(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	ctx := testkit.Within(t)
	submit(t, c, "a")
	claim(t, c, "a", "c1")
	if _, err := c.store.Claim(ctx, c.lead, "a", Holder{Claim: "c2"}); !errors.Is(err, ErrQueue) {
		t.Errorf("claimed twice: %v", err)
	}
	if q := claim(t, c, "a", "c1"); q.Claims != 1 { // an answer was lost
		t.Errorf("the same claim counts %d times", q.Claims)
	}
	r := testRun("a")
	r.Claim = "c0"
	if _, err := c.store.OpenRun(ctx, c.lead, r); !errors.Is(err, ErrQueue) {
		t.Errorf("opened with another claim: %v", err)
	}
	r.Claim, r.Budget.Epsilon = "c1", 2
	if _, err := c.store.OpenRun(ctx, c.lead, r); !errors.Is(err, ErrRunExists) {
		t.Errorf("opened with another budget: %v", err)
	}
	r.Budget.Epsilon = 1
	if existing, err := c.store.OpenRun(ctx, c.lead, r); err != nil || existing {
		t.Fatalf("existing %v, %v", existing, err)
	}
	// The worker is gone: the old claim is invalid.
	if _, err := c.store.Lose(ctx, c.lead, "a", "c0", "gone", 0); !errors.Is(err, ErrQueue) {
		t.Errorf("lost by another claim: %v", err)
	}
	testkit.Must(t, second(c.store.Lose(ctx, c.lead, "a", "c1", "gone", 0)))
	q, err := c.store.Claim(ctx, c.lead, "a", Holder{Worker: "v", By: "lab", Claim: "c2"})
	if err != nil || q.Claims != 2 || q.Worker != "v" {
		t.Fatalf("%+v, %v", q, err)
	}
	if _, err := c.store.OpenRun(ctx, c.lead, r); !errors.Is(err, ErrQueue) {
		t.Errorf("opened again with an old claim: %v", err)
	}
	for what, err := range map[string]error{
		"given back": second(c.store.GiveBack(ctx, c.lead, "a", "c1", "")),
		"finished":   second(c.store.Finish(ctx, c.lead, "a", End{State: Done, Claim: "c1"})),
		"to no end":  second(c.store.Finish(ctx, c.lead, "a", End{State: Running, Claim: "c2"})),
		"too much": second(c.store.Finish(ctx, c.lead, "a",
			End{State: Done, Claim: "c2", Results: make([]Result, maxResults+1)})),
	} {
		if err == nil {
			t.Errorf("%s with a claim that is not the run's", what)
		}
	}
	results := []Result{{"certificate", "/out/a/certificate.json", "abc"}}
	for range 2 { // the second time, as if the answer was lost
		q, err = c.store.Finish(ctx, c.lead, "a",
			End{State: Failed, Reason: strings.Repeat("ü", maxReason), Claim: "c2", Results: results})
		if err != nil || q.State != Failed || len(q.Reason) > maxReason+3 || !slices.Equal(q.Results, results) ||
			q.Ended == "" {
			t.Fatalf("%+v, %v", q, err)
		}
	}
	if _, err := c.store.Finish(ctx, c.lead, "a", End{State: Cancelled}); !errors.Is(err, ErrQueue) {
		t.Errorf("ended twice: %v", err)
	}
	if files, err := c.store.SubmittedFiles(ctx, q); err != nil || files.Run != nil || files.Study != nil {
		t.Errorf("the files are kept: %q, %v", files, err)
	}
}

func second[T any](_ T, err error) error { return err }

// A run that ends is closed in the ledger in the same transaction, and spends nothing more.
func TestTheEndClosesTheLedger(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	ctx := testkit.Within(t)
	submit(t, c, "a")
	claim(t, c, "a", "c1")
	r := testRun("a")
	r.Claim = "c1"
	mustOpen(t, c.store, c.lead, r)
	mustCharge(t, c.store, c.lead, testCharge("a", 0, "answer"))
	testkit.Must(t, second(c.store.Finish(ctx, c.lead, "a", End{State: Cancelled, Reason: "by lab"})))
	stored, err := c.store.Run(ctx, "a")
	if err != nil || !stored.Closed || stored.Head == "" {
		t.Fatalf("%+v, %v", stored, err)
	}
	if _, _, err := c.store.Charge(ctx, c.lead, testCharge("a", 1, "answer")); !errors.Is(err, ErrRunClosed) {
		t.Errorf("a charge after the end: %v", err)
	}
	if head, _, err := c.store.CloseRun(ctx, c.lead, "a", "", ""); err != nil || head != stored.Head {
		t.Errorf("closed again: %q, %v", head, err)
	}
	_, v := ledgerOf(t, c.store)
	if total := v.Runs["a"]; !total.Closed || total.Releases != 1 {
		t.Errorf("the ledger has %+v", total)
	}
	// What OpenDataset checks when the next leader begins.
	if err := c.store.OpenDataset(ctx, c.lead, testDataset); err != nil {
		t.Error(err)
	}
	// A run that its student closed also ends.
	submit(t, c, "b")
	claim(t, c, "b", "c2")
	r = testRun("b")
	r.Claim = "c2"
	mustOpen(t, c.store, c.lead, r)
	mustClose(t, c.store, c.lead, "b")
	if _, err := c.store.Finish(ctx, c.lead, "b", End{State: Done, Claim: "c2"}); err != nil {
		t.Error(err)
	}
}

// Losses count from the last release on.
func TestLossesAreCounted(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	submit(t, c, "a")
	for i, step := range []struct {
		releases uint64
		want     uint32
	}{{0, 1}, {0, 2}, {1, 1}, {1, 2}, {1, 3}, {9, 1}} {
		name := fmt.Sprintf("c%d", i)
		claim(t, c, "a", name)
		q, err := c.store.Lose(testkit.Within(t), c.lead, "a", name, "gone", step.releases)
		if err != nil || q.Losses != step.want || q.State != Waiting || q.Reason != "gone" {
			t.Errorf("step %d: %+v, %v", i, q, err)
		}
	}
	claim(t, c, "a", "d")
	if q, err := c.store.GiveBack(testkit.Within(t), c.lead, "a", "d", "stops"); err != nil || q.Losses != 1 {
		t.Errorf("a worker that stops counts: %+v, %v", q, err)
	}
}

// A deposed leader changes nothing.
func TestTheQueueIsFenced(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	ctx := testkit.Within(t)
	submit(t, c, "a")
	old := c.lead
	c.lead = leadAs(t, c.store, "agg")
	claim(t, c, "a", "c1")
	submit(t, c, "waits")
	_, _, err := c.store.Submit(ctx, old, testSubmission("b"), Files{})
	for what, err := range map[string]error{
		"submit":    err,
		"claim":     second(c.store.Claim(ctx, old, "waits", Holder{Claim: "c2"})),
		"lose":      second(c.store.Lose(ctx, old, "a", "c1", "", 0)),
		"give back": second(c.store.GiveBack(ctx, old, "a", "c1", "")),
		"finish":    second(c.store.Finish(ctx, old, "a", End{State: Done, Claim: "c1"})),
	} {
		if !errors.Is(err, ErrNotLeader) {
			t.Errorf("%s by a leader that is over: %v", what, err)
		}
	}
	if q, err := c.store.Submission(ctx, "a"); err != nil || q.State != Running || q.Claim != "c1" {
		t.Errorf("%+v, %v", q, err)
	}
	if all, err := c.store.Submissions(ctx); err != nil || len(all) != 2 {
		t.Errorf("%d runs, %v", len(all), err)
	}
}

// everOpened returns all runs; their records tell which are open.
func everOpened(t *testing.T, s *Store) map[string]bool {
	t.Helper()
	runs, err := s.AllRuns(testkit.Within(t))
	testkit.Must(t, err)
	opened := map[string]bool{}
	for _, r := range runs {
		opened[r.Name] = true
	}
	return opened
}

func TestRoomCountsOpenRuns(t *testing.T) {
	t.Parallel()
	c := newCluster(t) // has the open run "first" with 1 of 3 epsilon
	ctx := testkit.Within(t)
	mustCharge(t, c.store, c.lead, testCharge("first", 0, "answer"))
	room, err := c.store.Room(ctx, "flchain", everOpened(t, c.store))
	if err != nil || len(room.Open) != 1 || room.Budget != testDataset.Budget {
		t.Fatalf("%+v, %v", room, err)
	}
	big := testSubmission("big")
	big.Budget.Epsilon = 2.95
	if err := room.Holds(big.Spending()); err != nil {
		t.Errorf("it fits what was spent: %v", err)
	}
	reserved, err := room.Reserved()
	testkit.Must(t, err)
	if err := room.Budget.RoomBeside(reserved, big.Budget, nil); !errors.Is(err, privacy.ErrOverBudget) {
		t.Errorf("beside a run that may spend 1 of 3: %v", err)
	}
	mustClose(t, c.store, c.lead, "first")
	if room, err = c.store.Room(ctx, "flchain", everOpened(t, c.store)); err != nil || len(room.Open) != 0 {
		t.Fatalf("%+v, %v", room, err)
	}
	if reserved, err = room.Reserved(); err != nil {
		t.Fatal(err)
	}
	if err := room.Budget.RoomBeside(reserved, big.Budget, nil); err != nil {
		t.Errorf("beside what a closed run spent: %v", err)
	}
	big.Budget.Epsilon = 3.1
	if err := room.Holds(big.Spending()); !errors.Is(err, privacy.ErrOverBudget) {
		t.Errorf("more than the dataset's budget: %v", err)
	}
	if _, err := c.store.Room(ctx, "none", everOpened(t, c.store)); !errors.Is(err, ErrNoDataset) {
		t.Errorf("a dataset that was not opened: %v", err)
	}
}

// Whatever workers do with old and new claims, one worker at a time has a run, the run ends once, and an ended run is
// closed.
func TestAnyQueueHistory(t *testing.T) {
	t.Parallel()
	etcd := runEtcd(t, t.TempDir())
	histories := 0
	rapid.Check(t, func(rt *rapid.T) {
		histories++
		s, err := Open(testkit.Within(t),
			patient(Config{Endpoints: etcd.Endpoints(), Prefix: fmt.Sprintf("/queue-%d/", histories)}))
		if err != nil {
			rt.Fatal(err)
		}
		defer s.Close()
		ctx := testkit.Within(t)
		lead, err := s.Lead(ctx, "agg", 1e11)
		if err != nil {
			rt.Fatal(err)
		}
		if err := s.OpenDataset(ctx, lead, testDataset); err != nil {
			rt.Fatal(err)
		}
		files := Files{Run: []byte("r"), Schema: []byte("s")}
		if _, _, err := s.Submit(ctx, lead, testSubmission("a"), files); err != nil {
			rt.Fatal(err)
		}
		held, state, opened, closed := "", Waiting, false, false
		for step := range rapid.IntRange(1, 8).Draw(rt, "steps") {
			claim := rapid.SampledFrom([]string{"c1", "c2", "c3"}).Draw(rt, "claim")
			mine := state == Running && held == claim
			switch what := rapid.IntRange(0, 5).Draw(rt, "what"); what {
			case 0:
				_, err := s.Claim(ctx, lead, "a", Holder{Worker: claim, Claim: claim})
				if want := state == Waiting || mine; (err == nil) != want {
					rt.Fatalf("step %d: claim %s of a run that is %s by %q: %v", step, claim, state, held, err)
				}
				if err == nil {
					state, held = Running, claim
				}
			case 1:
				_, err := s.GiveBack(ctx, lead, "a", claim, "")
				if want := mine || state == Waiting; (err == nil) != want {
					rt.Fatalf("step %d: given back by %s: %v", step, claim, err)
				}
				if err == nil {
					state, held = Waiting, ""
				}
			case 2:
				r := testRun("a")
				r.Claim = claim
				_, err := s.OpenRun(ctx, lead, r)
				if want := mine || state.Final() && opened; (err == nil) != want {
					rt.Fatalf("step %d: opened by %s: %v", step, claim, err)
				}
				opened = opened || err == nil
			case 3, 4:
				end := map[int]State{3: Done, 4: Failed}[what]
				_, err := s.Finish(ctx, lead, "a", End{State: end, Claim: claim})
				if want := mine || state == end && held == claim; (err == nil) != want {
					rt.Fatalf("step %d: finished by %s: %v", step, claim, err)
				}
				if err == nil && mine {
					state, closed = end, opened
				}
			case 5:
				_, err := s.Finish(ctx, lead, "a", End{State: Cancelled})
				if (err == nil) == state.Final() {
					rt.Fatalf("step %d: cancelled a run that is %s: %v", step, state, err)
				}
				if err == nil {
					state, closed = Cancelled, opened
				}
			}
		}
		q, err := s.Submission(ctx, "a")
		if err != nil || q.State != state || state == Running && q.Claim != held {
			rt.Fatalf("%+v, %v; want %s by %q", q, err, state, held)
		}
		if r, err := s.Run(ctx, "a"); opened && (err != nil || r.Closed != closed) ||
			!opened && !errors.Is(err, ErrNoRun) {
			rt.Fatalf("%+v, %v; want opened %v, closed %v", r, err, opened, closed)
		}
	})
}
