package question_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/conclave-dp/conclave/internal/question"
	"github.com/conclave-dp/conclave/internal/question/questiontest"
	"github.com/conclave-dp/conclave/internal/testkit"
	"github.com/conclave-dp/conclave/partition/grouping"
	"github.com/conclave-dp/conclave/partition/tabular"
)

// Records that cannot be read are an error, and one text of it leaves: a row that was not there when units were counted
// is one, and never a unit of no records. Nobody who waits any longer is the end of it.
func TestRecordsThatCannotBeRead(t *testing.T) {
	s, dir := questiontest.Schema(t, questiontest.SmallSchema, questiontest.UnitColumn), t.TempDir()
	path := filepath.Join(dir, "table.csv")
	testkit.Must(t, os.WriteFile(path, []byte("who,x,b,c,y\np,0.5,1,p,no\nq,0.5,1,p,no\n"), 0o600))
	stream, err := tabular.OpenStream(s, path, tabular.Options{}, dir)
	testkit.Must(t, err)
	g := grouping.New(t.Context(), dir)
	testkit.Must(t, g.Add([]int{0}, [][32]byte{{1}}))
	places, err := g.Places()
	testkit.Must(t, err)
	defer places.Close()
	site := question.NewStreamedSite(question.NewPublic(s, 2, 1), stream, places, 1, dir)
	begun := 0
	add := func() question.Adder { begun++; return func(*question.Block, []int64) {} }
	if _, err := site.Add(3, add); !errors.Is(err, question.ErrRows) || !errors.Is(err, tabular.ErrChanged) {
		t.Errorf("a row without a place: %v", err)
	}
	if begun > 0 || !site.Streams {
		t.Errorf("%d sums were begun; streams: %v", begun, site.Streams)
	}
	why := errors.New("nobody waits")
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(why)
	site.Asked = ctx
	if _, err := site.Add(3, add); !errors.Is(err, why) || errors.Is(err, question.ErrRows) {
		t.Errorf("nobody waits: %v", err)
	}
	site.Asked = nil
	testkit.Must(t, os.Remove(path))
	if _, err := site.Add(3, add); !errors.Is(err, question.ErrRows) {
		t.Errorf("a file that is gone: %v", err)
	}
}
