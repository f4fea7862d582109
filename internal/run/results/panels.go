package results

import (
	"errors"
	"io/fs"
	"math/rand/v2"

	"github.com/conclave-dp/conclave/internal/pipelines"
	"github.com/conclave-dp/conclave/internal/report/picture"
	"github.com/conclave-dp/conclave/partition"
)

// The names of pictures of rows that several reports have.
const (
	LastGenerator = "last generator"
	realTest      = "real test rows"
)

// Snapshot holds the rows at a point of the run.
type Snapshot struct {
	Name string
	Rows *partition.Table
}

// panels are the report's pictures of rows: real test rows if there are any, which are NOT PRIVATE, the rows
// before, and the release. Without stages there are no rows before.
func panels(before []Snapshot, released Snapshot, test *partition.Table) []picture.Panel {
	if len(before) == 0 {
		return nil
	}
	var list []picture.Panel
	if test != nil {
		if p := picture.NewPanel(realTest, test, true); p != nil {
			list = append(list, *p)
		}
	}
	for _, s := range append(before, released) {
		if p := picture.NewPanel(s.Name, s.Rows, false); p != nil {
			list = append(list, *p)
		}
	}
	return list
}

// panels are the pictures of rows of the earlier report, if it had any, as far as they can be restored: rows
// between two stages are not stored.
func (f *Finished) panels(dir string, test *partition.Table) ([]picture.Panel, error) {
	earlier := f.Earlier.Points
	if len(earlier) == 0 {
		return nil, nil
	}
	model, err := pipelines.LoadModel(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil // a report needs no model
	}
	if err != nil {
		return nil, err
	}
	table, err := model.Sample(min(f.synthetic.Len(), picture.MaxPoints), nil,
		rand.New(rand.NewPCG(0, 0xda7a)))
	if err != nil {
		return nil, err
	}
	return panels([]Snapshot{{LastGenerator, table}}, Snapshot{earlier[len(earlier)-1].Name, f.synthetic}, test), nil
}
