package question

import (
	"context"
	"errors"

	"github.com/conclave-dp/conclave/gnmax"
	"github.com/conclave-dp/conclave/internal/nn/ensemble"
	"github.com/conclave-dp/conclave/partition"
	"github.com/conclave-dp/conclave/partition/encode"
	"github.com/conclave-dp/conclave/partition/tally"
)

// Site is the part of a node that the answer to a question may see. It is not safe for concurrent use: a node
// answers one question at a time.
type Site struct {
	*Public
	// Rows are all records, which may be on disk.
	Rows Rows
	// Count lets the database count, if it holds the records; Rows is nil then. It is nil for other sites.
	Count func(context.Context, *tally.Tally) ([]int64, error)
	// Examples holds each teacher's encoded records by class. At streaming nodes it is set after [Site.Divide].
	Examples []ensemble.Examples
	// Units lists the records of each privacy unit. It is empty at streaming nodes; see [Site.Unit].
	Units [][]Place
	// Divisible is what can be divided at a streaming node; nil elsewhere.
	Divisible *Divisible
	// UnitsOf is the number of privacy units of each teacher. At a streaming node it is the total number until
	// records are divided.
	UnitsOf []int
	// Sample draws which units are in a sample, each with the same probability. Tests may replace it.
	Sample func(rate gnmax.Rate) ([]int, error)
	// Chance is the source of a sample; nil for fresh random bits.
	Chance func() *gnmax.Source
	// State is the folder for what a kind stores between rounds, in files named after their run.
	State string
	// Asked ends when the answer in progress is no longer wanted; nil if that never happens.
	Asked context.Context

	divided *divided
}

// Wanted is nil, or the reason why the answer is no longer wanted. Long computations call it regularly, and stop
// with its error.
func (s *Site) Wanted() error {
	if s.Asked == nil || s.Asked.Err() == nil {
		return nil
	}
	return context.Cause(s.Asked)
}

// context ends when the answer is no longer wanted.
func (s *Site) context() context.Context {
	if s.Asked == nil {
		return context.Background()
	}
	return s.Asked
}

// Place is the position of a record among the examples.
type Place struct{ Teacher, Class, At int }

// NewSite encodes the records of a table and sorts them by teacher and class, and by privacy
// unit.
func NewSite(p *Public, table *partition.Table, teachers *partition.Assignment, unit, state string) *Site {
	encoded := encode.New(p.Schema).Encode(table)
	s := &Site{Public: p, Examples: make([]ensemble.Examples, p.Teachers), State: state}
	s.Rows, s.UnitsOf = inMemory{s}, teachers.Units
	for t := range s.Examples {
		s.Examples[t].ByClass = make([][]float32, p.Classes)
	}
	units := map[string]int{}
	for row, t := range teachers.Of {
		class := encoded.Classes[row]
		of := s.Examples[t].ByClass
		here := Place{t, class, len(of[class]) / p.Features}
		of[class] = append(of[class], encoded.Row(row)...)
		if unit == partition.UnitRecord {
			s.Units = append(s.Units, []Place{here})
			continue
		}
		u, ok := units[table.Unit(row)]
		if !ok {
			u = len(s.Units)
			units[table.Unit(row)] = u
			s.Units = append(s.Units, nil)
		}
		s.Units[u] = append(s.Units[u], here)
	}
	s.Sample = s.draw
	return s
}

// Record is the encoded record at a place.
func (s *Site) Record(at Place) []float32 {
	return s.Examples[at.Teacher].ByClass[at.Class][at.At*s.Features : (at.At+1)*s.Features]
}

// AppendRecord appends the encoded record at a place; it also works at a streaming node.
func (s *Site) AppendRecord(x []float32, at Place) []float32 {
	return s.Examples[at.Teacher].Seen(s.Features).Append(x, at.Class, at.At, at.At+1)
}

// Unit returns the places of a unit's records; it also works at a streaming node.
func (s *Site) Unit(u int) []Place {
	if s.divided != nil {
		return s.divided.unit(u)
	}
	return s.Units[u]
}

// draw draws a Poisson sample of the units.
func (s *Site) draw(rate gnmax.Rate) ([]int, error) {
	chance := s.Chance
	if chance == nil {
		chance = gnmax.NewSource
	}
	units := 0
	for _, n := range s.UnitsOf {
		units += n
	}
	sample, err := chance().PoissonSample(nil, units, rate)
	if err != nil {
		return nil, errSample
	}
	return sample, nil
}

// errSample does not depend on records.
var errSample = errors.New("the node cannot draw random numbers")
