package questiontest

import (
	"fmt"
	"maps"
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"

	"github.com/conclave-dp/conclave/internal/question"
	"github.com/conclave-dp/conclave/internal/testkit"
	"github.com/conclave-dp/conclave/partition"
)

// The numbers of units and teachers at the sites of the suite.
const (
	units    = 60
	teachers = 2
)

// Run checks that a kind keeps the rules for every kind.
func Run(t *testing.T, k question.Kind, c Cases) {
	if c.Units == nil {
		c.Units = SmallUnits
	}
	if len(c.Bounds) == 0 || !slices.ContainsFunc(c.Adversaries, func(a Adversary) bool { return a.Records >= 30 }) {
		t.Fatal("a bound is tested by nothing: name questions in Bounds, and in Adversaries a unit of 30 records")
	}
	r := &runner{k, c}
	t.Run("shape", r.shape)
	t.Run("bound", r.bound)
	t.Run("overlap", r.overlap)
	t.Run("nodes", r.nodes)
	t.Run("baseline", r.baseline)
	t.Run("again", r.again)
	t.Run("restart", r.restart)
	t.Run("refusal", r.refusal)
	t.Run("streams", r.streams)
}

type runner struct {
	kind question.Kind
	c    Cases
}

func (r *runner) sites(t testing.TB, unit string, nodes int) []*question.Site {
	t.Helper()
	out := make([]*question.Site, nodes)
	for i := range out {
		out[i] = Site(t, r.c.Units(t, unit, units, func(u int) bool { return u%nodes == i }), teachers)
		SampleByRecords(out[i])
	}
	return out
}

func (r *runner) site(t testing.TB) *question.Site {
	return r.sites(t, UnitColumn, 1)[0]
}

func (r *runner) answered() map[string]proto.Message {
	all := map[string]proto.Message{}
	for of, questions := range map[string]map[string]proto.Message{
		"": r.c.Good, "zeros: ": r.c.Zeros, "coins: ": r.c.Coins,
	} {
		for name, params := range questions {
			all[of+name] = params
		}
	}
	return all
}

// shape checks that an answer has the shape of its question, which follows from public facts.
func (r *runner) shape(t *testing.T) {
	s := r.site(t)
	other := question.NewPublic(s.Schema, teachers, 12)
	for name, params := range r.answered() {
		a := MustAsk(t, s, r.kind, params, name, 1)
		CheckAnswer(t, s, a)
		checked, err := r.kind.Read(other, question.Marshal(params))
		testkit.Must(t, err)
		if !reflect.DeepEqual(checked.Shape, a.Shape) || (checked.Votes != nil) == (checked.Sum != nil) {
			t.Errorf("%s: shape %+v at one node and %+v at another", name, a.Shape, checked.Shape)
		}
	}
}

// bound checks that a unit moves an integer sum by at most its bound, or at most the votes of one teacher: for any
// number and content of its records, and any other units at the node.
func (r *runner) bound(t *testing.T) {
	others := r.c.Units(t, UnitColumn, units, func(int) bool { return true })
	for i, adversary := range r.c.Adversaries {
		table := others.Subset(Rows(others.Len()))
		for i := range adversary.Records {
			Append(t, table, "adversary", adversary.Record(i))
		}
		without, with := Site(t, others, teachers), Site(t, table, teachers)
		SampleByRecords(without)
		SampleByRecords(with)
		for j, params := range r.c.Bounds {
			run := fmt.Sprint("r", i, "-", j)
			a, b := MustAsk(t, without, r.kind, params, run, 1), MustAsk(t, with, r.kind, params, run, 1)
			if !reflect.DeepEqual(a.Shape, b.Shape) {
				t.Fatalf("%s: shapes %+v and %+v", adversary.Name, a.Shape, b.Shape)
			}
			distance := r.moved(t, adversary, a, b)
			if r.c.Moved != nil {
				r.c.Moved(t, adversary, params, distance)
			}
		}
	}
}

// moved checks and returns how far an adversary moved an answer, in votes or steps.
func (r *runner) moved(t *testing.T, by Adversary, a, b Answer) float64 {
	if h := a.Shape.Votes; h != nil {
		x, y := Unpack(t, a.Votes, teachers, h.Queries, h.Classes), Unpack(t, b.Votes, teachers, h.Queries, h.Classes)
		votes, changed := 0, map[int]bool{}
		for i := range x {
			if x[i] != y[i] {
				votes++
				changed[i/h.Queries] = true
			}
		}
		if len(changed) > 1 {
			t.Fatalf("%s: %d teachers vote otherwise", by.Name, len(changed))
		}
		return float64(votes)
	}
	difference := slices.Clone(b.Sum)
	for i, v := range a.Sum {
		difference[i] -= v
	}
	times := int64(1)
	if a.Shape.Sum.Per == question.PerTeacher {
		times = 2
	}
	distance, within := norm(a.Shape.Sum, difference, times)
	if !within {
		t.Fatalf("%s: the sum moved by %v, the bound is %d", by.Name, distance, a.Shape.Sum.Bound)
	}
	return distance
}

// nodes checks that a sum over units does not depend on how the units are divided among nodes, not even in its
// last step.
func (r *runner) nodes(t *testing.T) {
	for _, unit := range []string{partition.UnitRecord, UnitColumn} {
		one, two, seven := r.sites(t, unit, 1), r.sites(t, unit, 2), r.sites(t, unit, 7)
		for name, params := range r.c.Good {
			checked, err := r.kind.Read(one[0].Public, question.Marshal(params))
			testkit.Must(t, err)
			v := checked.Shape.Sum
			if v == nil || v.Per != question.PerUnit {
				continue
			}
			exact := v.Entries
			if r.c.PerNode != nil {
				exact -= r.c.PerNode(v)
			}
			want := AddUp(t, one, r.kind, params)
			if zeros(want) {
				t.Fatalf("%s: all is zero", name)
			}
			for _, nodes := range [][]*question.Site{two, seven} {
				got := AddUp(t, nodes, r.kind, params)
				if !slices.Equal(got[:exact], want[:exact]) {
					t.Errorf("unit %s, %s: %d nodes add up to %v, one to %v", unit, name, len(nodes), got, want)
				}
				for i := exact; i < v.Entries; i++ {
					if d := got[i] - want[i]; d > int64(len(nodes)) || d < -int64(len(nodes)) {
						t.Errorf("unit %s, %s: entry %d of %d nodes is %d, of one %d",
							unit, name, i, len(nodes), got[i], want[i])
					}
				}
			}
		}
	}
}

// baseline checks that answers to baselines do not depend on the records.
func (r *runner) baseline(t *testing.T) {
	one := r.site(t)
	other := Site(t, r.c.Units(t, partition.UnitRecord, 2*units, func(u int) bool { return u > 4 }), teachers)
	for _, questions := range []map[string]proto.Message{r.c.Zeros, r.c.Coins} {
		for name, params := range questions {
			a, b := MustAsk(t, one, r.kind, params, name, 1), MustAsk(t, other, r.kind, params, name, 1)
			if !reflect.DeepEqual(a, b) {
				t.Errorf("%s: two nodes answer %v and %v", name, a, b)
			}
			if _, zero := r.c.Zeros[name]; zero && !zeros(a.Sum) {
				t.Errorf("%s: the sum is %v", name, a.Sum)
			}
		}
	}
}

// again checks that a repeated question gets the same answer, whatever was asked or refused in between. Other
// questions must be answered as by a node that was asked nothing before.
func (r *runner) again(t *testing.T) {
	s, first := r.site(t), slices.Sorted(maps.Keys(r.c.Good))[0]
	want := MustAsk(t, s, r.kind, r.c.Good[first], first, 1)
	asked := func(name string) {
		t.Helper()
		if again := MustAsk(t, s, r.kind, r.c.Good[first], first, 1); !reflect.DeepEqual(again, want) {
			t.Errorf("%s after %s: %v, first it was %v", first, name, again, want)
		}
	}
	for name, params := range r.answered() {
		got := MustAsk(t, s, r.kind, params, name, 1)
		if fresh := MustAsk(t, r.site(t), r.kind, params, name, 1); !reflect.DeepEqual(got, fresh) {
			t.Errorf("%s: %v, of a node that was asked nothing before %v", name, got, fresh)
		}
		if name != first && r.c.Good[name] != nil && reflect.DeepEqual(got, want) {
			t.Errorf("%s is answered as %s is: %v", name, first, got)
		}
		asked(name)
	}
	for name, bad := range r.c.Bad {
		if a, err := Ask(s, r.kind, bad.Params, first, 1); err == nil {
			t.Errorf("%s was answered with %v", name, a)
		}
		asked(name)
	}
}

// restart checks that a node that restarts gives the same answer as before.
func (r *runner) restart(t *testing.T) {
	table := r.c.Units(t, UnitColumn, units, func(int) bool { return true })
	first := Site(t, table, teachers)
	SampleByRecords(first)
	for name, params := range r.answered() {
		want := MustAsk(t, first, r.kind, params, name, 1)
		second := SiteIn(t, table, teachers, first.State)
		SampleByRecords(second)
		if got := MustAsk(t, second, r.kind, params, name, 1); !reflect.DeepEqual(got, want) {
			t.Errorf("%s: after a start %v, before %v", name, got, want)
		}
	}
}

// refusal checks that a refusal says what is wrong, is the same at all nodes, and leaves no state.
func (r *runner) refusal(t *testing.T) {
	s := r.site(t)
	for name, bad := range r.c.Bad {
		a, err := Ask(s, r.kind, bad.Params, "r", 1)
		if err == nil || !strings.Contains(err.Error(), bad.Want) {
			t.Errorf("%s: answered with %v (%v), want a refusal with %q", name, a, err, bad.Want)
		}
		_, other := r.kind.Read(question.NewPublic(s.Schema, teachers, 12), question.Marshal(bad.Params))
		if other == nil || err != nil && other.Error() != err.Error() {
			t.Errorf("%s: two nodes refuse with %q and %q", name, err, other)
		}
	}
	kept, err := os.ReadDir(s.State)
	testkit.Must(t, err)
	if len(kept) > 0 {
		t.Errorf("refused questions left %v", kept)
	}
	first := slices.Sorted(maps.Keys(r.c.Good))[0]
	MustAsk(t, s, r.kind, r.c.Good[first], "r", 1)
}
