package questiontest

import (
	"encoding/binary"
	"hash/fnv"
	"testing"

	"google.golang.org/protobuf/proto"

	"github.com/conclave-dp/conclave/gnmax"
	"github.com/conclave-dp/conclave/internal/question"
	"github.com/conclave-dp/conclave/internal/testkit"
	"github.com/conclave-dp/conclave/partition"
)

// Site is a node's site with its own state folder. All sites have the same key, so a unit belongs to the same
// teacher at every site.
func Site(t testing.TB, table *partition.Table, teachers int) *question.Site {
	t.Helper()
	return SiteIn(t, table, teachers, t.TempDir())
}

// SiteIn is a Site with a state folder that may be shared with another one.
func SiteIn(t testing.TB, table *partition.Table, teachers int, state string) *question.Site {
	t.Helper()
	unit := unitOf(table.Schema())
	assignment, err := partition.Assign(partition.Key{1, 2, 3}, table, teachers, unit)
	testkit.Must(t, err)
	return question.NewSite(question.NewPublic(table.Schema(), teachers, 11), table, assignment, unit, state)
}

// unitOf is the privacy unit of a schema.
func unitOf(s *partition.Schema) string {
	if column := s.UnitColumn(); column >= 0 {
		return s.Columns[column].Name
	}
	return partition.UnitRecord
}

// SampleByRecords makes a site sample units by a hash of their records: whether a unit is in the sample does not
// depend on its site or on other units.
func SampleByRecords(s *question.Site) {
	s.Sample = func(rate gnmax.Rate) ([]int, error) {
		var sample []int
		for u, places := range s.Units {
			h := fnv.New64a()
			for _, p := range places {
				_ = binary.Write(h, binary.LittleEndian, s.Record(p))
			}
			if float64(h.Sum64()%1000) < 1000*rate.Float() {
				sample = append(sample, u)
			}
		}
		return sample, nil
	}
}

// Answer is a site's answer to a question.
type Answer struct {
	Shape question.Shape
	Votes []byte
	Sum   []int64
}

// Ask asks a site a question, as round number of a run.
func Ask(s *question.Site, k question.Kind, params proto.Message, run string, number uint64) (Answer, error) {
	checked, err := k.Read(s.Public, question.Marshal(params))
	if err != nil {
		return Answer{}, err
	}
	a := Answer{Shape: checked.Shape}
	r := question.Round{Run: run, Number: number, Digest: func() string { return digest(params) }}
	if checked.Votes != nil {
		a.Votes, err = checked.Votes(s, r)
	} else {
		a.Sum, err = checked.Sum(s, r)
	}
	return a, err
}

func digest(params proto.Message) string {
	return question.Digest(question.Marshal(params))
}

// MustAsk is Ask for a question that must be answered.
func MustAsk(t testing.TB, s *question.Site, k question.Kind, params proto.Message, run string, number uint64) Answer {
	t.Helper()
	a, err := Ask(s, k, params, run, number)
	if err != nil {
		t.Fatalf("round %d of run %q was not answered: %v", number, run, err)
	}
	return a
}

// Sum asks for a sum that must be answered.
func Sum(t testing.TB, s *question.Site, k question.Kind, params proto.Message) []int64 {
	t.Helper()
	return MustAsk(t, s, k, params, "r", 1).Sum
}

// AddUp asks several sites for a sum and adds up their answers.
func AddUp(t testing.TB, sites []*question.Site, k question.Kind, params proto.Message) []int64 {
	t.Helper()
	var sum []int64
	for _, s := range sites {
		values := Sum(t, s, k, params)
		if sum == nil {
			sum = make([]int64, len(values))
		}
		for i, v := range values {
			sum[i] += v
		}
	}
	return sum
}
