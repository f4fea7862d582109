package question_test

import (
	"context"
	"errors"
	"testing"

	"github.com/conclave-dp/conclave/internal/question"
	"github.com/conclave-dp/conclave/internal/question/questiontest"
	"github.com/conclave-dp/conclave/internal/testkit"
	"github.com/conclave-dp/conclave/partition"
	"github.com/conclave-dp/conclave/partition/grouping"
)

// Records that cannot be read are an error, and one text of it leaves: a row that was not there when units were counted
// is one, and never a unit of no records. Nobody who waits any longer is the end of it.
func TestRecordsThatCannotBeRead(t *testing.T) {
	s, dir := questiontest.Schema(t, questiontest.SmallSchema, questiontest.UnitColumn), t.TempDir()
	stream := &rows{table: partition.NewTable(s)}
	for _, unit := range []string{"p", "q"} {
		questiontest.Append(t, stream.table, unit, []float64{0.5, 1, 0, 0})
	}
	g := grouping.New(t.Context(), dir)
	testkit.Must(t, g.Add([]int{0}, [][32]byte{{1}}))
	places, err := g.Places()
	testkit.Must(t, err)
	defer places.Close()
	site := question.NewStreamedSite(question.NewPublic(s, 2, 1), stream, places, 1, dir)
	begun := 0
	add := func() question.Adder { begun++; return func(*question.Block, []int64) {} }
	if _, err := site.Add(3, add); !errors.Is(err, question.ErrRows) || !errors.Is(err, partition.ErrChanged) {
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
	stream.gone = errors.New("the file is gone")
	if _, err := site.Add(3, add); !errors.Is(err, question.ErrRows) || !errors.Is(err, stream.gone) {
		t.Errorf("a file that is gone: %v", err)
	}
}

// rows is a table that is read in one block, until it is gone.
type rows struct {
	table *partition.Table
	gone  error
}

func (r *rows) Blocks(ctx context.Context, do func(*partition.Block) error) error {
	if err := errors.Join(r.gone, context.Cause(ctx)); err != nil {
		return err
	}
	return do(&partition.Block{Table: r.table, Numbers: questiontest.Rows(r.table.Len())})
}
