package marginals

import (
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/conclave-dp/conclave/internal/nn/safetensors"
	"github.com/conclave-dp/conclave/internal/nn/tensor"
	"github.com/conclave-dp/conclave/internal/pipeline"
	"github.com/conclave-dp/conclave/internal/pipeline/marginals/tree"
	"github.com/conclave-dp/conclave/partition"
)

// modelKind is the kind of this pipeline's models.
var modelKind = pipeline.ModelKind{Name: "tree", Load: load}

// model draws rows: cells from the tree, then fine cells within these by their shares, then values.
type model struct {
	schema  *partition.Schema
	columns []drawn
	hidden  int // cells of a column after all others that connects them and is not drawn; 0 for none
	orders  []order
	tree    *tree.Tree
	cliques []cliqueJSON
	tables  [][]float32
}

// drawn is a column: its fine cells, the coarse cell of each, and its share of that.
type drawn struct {
	cells
	of     []int
	shares []float32
}

// modelJSON is the content of model.json. The other file has the tensors "shares0", "shares1" and so on, for
// each column's fine cells, and "clique0" and so on, for each clique's cells; the last column varies fastest.
type modelJSON struct {
	pipeline.ModelHeader
	Columns []columnJSON `json:"columns"`
	// Hidden is the number of cells of the hidden column, which is in cliques but not in rows; 0 for none.
	Hidden int `json:"hidden,omitempty"`
	// Cliques come after the cliques with which they share columns.
	Cliques []cliqueJSON `json:"cliques"`
}

type columnJSON struct {
	Name string `json:"name"`
	// From are the lower ends of a number's fine cells. Other columns have one cell for each value, and
	// nullable columns have one more.
	From []float64 `json:"from,omitempty"`
	// Cells are the coarse cells of the fine ones.
	Cells []int `json:"cells"`
}

type cliqueJSON struct {
	Columns []int `json:"columns"` // places in columns, in rising order
	Parent  int   `json:"parent"`  // place of an earlier clique, -1 for none
}

// newModel returns the fitted model, in the precision in which it is saved. ties are nil except for a wide
// table.
func newModel(
	schema *partition.Schema, fine []fineColumn, coarse []cells, of [][]int, fitted *tree.Tree, with *ties,
) *model {
	m := &model{schema: schema}
	for i, f := range fine {
		f, of := f.withHeaps(of[i])
		d := drawn{f.cells, of, make([]float32, len(of))}
		sums, sizes := make([]float64, coarse[i].n), make([]float64, coarse[i].n)
		for j, cell := range of {
			sums[cell] += f.records[j]
			sizes[cell]++
		}
		for j, cell := range of {
			d.shares[j] = float32(1 / sizes[cell])
			if sums[cell] > 0 {
				d.shares[j] = float32(f.records[j] / sums[cell])
			}
			if f.constrained {
				d.shares[j] = (1-unseen)*d.shares[j] + unseen*float32(1/sizes[cell])
			}
		}
		m.columns = append(m.columns, d)
	}
	m.orders = m.findOrders()
	cliques := m.beforeRejection(fitted, coarse).Cliques()
	if with != nil {
		cliques, m.hidden = with.hang(cliques), len(with.points)
	}
	for _, c := range cliques {
		m.cliques = append(m.cliques, cliqueJSON{c.Columns, c.Parent})
		table := make([]float32, len(c.Table))
		for i, p := range c.Table {
			table[i] = float32(p)
		}
		m.tables = append(m.tables, table)
	}
	m.build()
	return m
}

// unseen is the share of a cell that is spread over its fine cells if a constraint names the column. Otherwise
// all fine cells with a count above 0 may break the constraint.
const unseen = 1e-3

// sizes returns the numbers of cells of the columns.
func (m *model) sizes() []int {
	sizes := make([]int, len(m.columns))
	for i, c := range m.columns {
		sizes[i] = slices.Max(c.of) + 1
	}
	if m.hidden > 0 {
		sizes = append(sizes, m.hidden)
	}
	return sizes
}

// build makes the tree of the tables.
func (m *model) build() {
	cliques := make([]tree.Clique, len(m.cliques))
	for i, c := range m.cliques {
		cliques[i] = tree.Clique{Columns: c.Columns, Parent: c.Parent, Table: make([]float64, len(m.tables[i]))}
		for j, p := range m.tables[i] {
			cliques[i].Table[j] = float64(p)
		}
	}
	m.tree = tree.Of(m.sizes(), cliques)
}

// tensorOf returns a vector as a tensor with a name.
func tensorOf(name string, v []float32) []tensor.Param {
	return []tensor.Param{pipeline.Vector(name, v)}
}

func (m *model) tensors() (all []tensor.Param) {
	for i, c := range m.columns {
		all = append(all, tensorOf(fmt.Sprintf("shares%d", i), c.shares)...)
	}
	for i, t := range m.tables {
		all = append(all, tensorOf(fmt.Sprintf("clique%d", i), t)...)
	}
	return all
}

func (m *model) Schema() *partition.Schema { return m.schema }

// Save writes the model folder.
func (m *model) Save(dir string) error {
	set := safetensors.New()
	set.Add("", m.tensors())
	return pipeline.SaveModel(dir, modelKind.Name, m.schema, set, func(h pipeline.ModelHeader) any {
		j := modelJSON{ModelHeader: h, Hidden: m.hidden, Cliques: m.cliques}
		for _, c := range m.columns {
			j.Columns = append(j.Columns, columnJSON{c.cells.of.Name, c.from, c.of})
		}
		return j
	})
}

func load(s *pipeline.SavedModel) (pipeline.Model, error) {
	var j modelJSON
	if err := s.Fields(&j); err != nil {
		return nil, err
	}
	m, err := parseModel(s.Schema, &j)
	if err != nil {
		return nil, s.Wrong(err)
	}
	if err := s.Tensors.CopyTo("", m.tensors()); err != nil {
		return nil, s.Wrong(err)
	}
	for _, p := range m.tensors() {
		for _, v := range p.Value {
			if !(v >= 0 && v <= 1) {
				return nil, s.Wrong(fmt.Errorf("%s has a number that is not a share", p.Name))
			}
		}
	}
	m.orders = m.findOrders()
	m.build()
	return m, nil
}

// maxModel bounds the cells of a model that is loaded.
const maxModel = 1 << 26

// parseModel returns the model without its numbers.
func parseModel(schema *partition.Schema, j *modelJSON) (*model, error) {
	m := &model{schema: schema, hidden: j.Hidden, cliques: j.Cliques}
	sizes := make([]int, len(j.Columns))
	for i, c := range j.Columns {
		at := schema.ColumnIndex(c.Name)
		if at < 0 || !schema.Columns[at].HasCell() || isNumber(&schema.Columns[at]) != (len(c.From) > 0) {
			return nil, fmt.Errorf("column %q is not as the schema has it", c.Name)
		}
		d := drawn{cells: plain(schema, at, c.From), of: c.Cells}
		for k, f := range c.From {
			if math.IsNaN(f) || k > 0 && f <= c.From[k-1] {
				return nil, fmt.Errorf("the cells of column %q do not rise", c.Name)
			}
		}
		if len(c.Cells) != d.n || d.n > maxCells {
			return nil, fmt.Errorf("column %q has %d cells for %d values", c.Name, len(c.Cells), d.n)
		}
		for _, cell := range c.Cells {
			if cell < 0 || cell >= d.n {
				return nil, fmt.Errorf("column %q has a cell beyond their number", c.Name)
			}
			sizes[i] = max(sizes[i], cell+1)
		}
		d.shares = make([]float32, d.n)
		m.columns = append(m.columns, d)
	}
	if len(m.columns) == 0 {
		return nil, errors.New("it has no columns")
	}
	if m.hidden < 0 || m.hidden > maxCells {
		return nil, fmt.Errorf("its hidden column has %d cells", m.hidden)
	}
	if m.hidden > 0 {
		sizes = append(sizes, m.hidden)
	}
	all := 0
	for i, c := range j.Cliques {
		n, before := 1, -1
		for _, column := range c.Columns {
			if column <= before || column >= len(sizes) {
				return nil, fmt.Errorf("the columns of clique %d do not rise", i)
			}
			if before, n = column, n*sizes[column]; n > maxModel {
				return nil, fmt.Errorf("clique %d is too large", i)
			}
		}
		if c.Parent < -1 || c.Parent >= i {
			return nil, fmt.Errorf("clique %d comes before its parent", i)
		}
		if all += n; all > maxModel {
			return nil, errors.New("its cliques are too large")
		}
		m.tables = append(m.tables, make([]float32, n))
	}
	return m, nil
}
