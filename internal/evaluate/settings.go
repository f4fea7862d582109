package evaluate

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"

	"golang.org/x/sync/errgroup"

	"github.com/conclave-dp/conclave/internal/evaluate/classify"
	"github.com/conclave-dp/conclave/internal/evaluate/measure"
	"github.com/conclave-dp/conclave/partition/encode"
)

// The share of the synthetic rows that setting C tests on.
const (
	settingCTest = 0.25
	settingCSeed = 1
)

// settings holds the rows that the settings train and test on. Missing tables have no rows.
type settings struct {
	real, synthetic, coin, test classify.Rows
	learnC, examC               classify.Rows
}

// utility fills in the classifiers' part of an evaluation: for every model the settings that have rows.
func (e *Evaluation) utility(ctx context.Context, in Input) (notes []string, err error) {
	note := func(format string, a ...any) { notes = append(notes, fmt.Sprintf(format, a...)) }
	schema := in.Test.Schema()
	if len(schema.Classes()) < 2 || schema.Positive() < 0 {
		return []string{"The schema has no label with a positive class, so no classifier can be trained."}, nil
	}
	encoder := encode.New(schema)
	kept := in.coarse()
	s := settings{synthetic: kept.label(encoder, in.Synthetic), test: kept.label(encoder, in.Test)}
	if err := measure.CheckClasses(s.test.Positive); err != nil {
		return []string{"The test rows have only one class, so nothing can be ranked."}, nil
	}
	if in.Train != nil {
		s.real = kept.label(encoder, in.Train)
	}
	if in.CoinFlips != nil {
		s.coin = kept.label(encoder, in.CoinFlips)
	}
	s.learnC, s.examC = divide(s.synthetic)
	e.Utility = make([]ModelUtility, len(in.Models))
	var group errgroup.Group
	group.SetLimit(runtime.GOMAXPROCS(0))
	for i, name := range in.Models {
		u := &e.Utility[i]
		u.Model = name
		for _, part := range []struct {
			into        **Ranking
			learn, exam classify.Rows
		}{{&u.A, s.real, s.test}, {&u.B, s.synthetic, s.test}, {&u.C, s.learnC, s.examC},
			{&u.CoinFlips, s.coin, s.test}} {
			if part.learn.X.Rows == 0 || part.exam.X.Rows == 0 {
				continue
			}
			models, err := classify.Named(name)
			if err != nil {
				return nil, err
			}
			group.Go(func() error {
				if err := ctx.Err(); err != nil {
					return err
				}
				r, err := trainTest(models[0], part.learn, part.exam)
				if errors.Is(err, ErrOneClass) {
					return nil // reported below
				}
				if err != nil {
					return err
				}
				*part.into = &r
				return nil
			})
		}
	}
	if err := group.Wait(); err != nil {
		return nil, fmt.Errorf("utility: %w", err)
	}
	for _, side := range []struct {
		name string
		rows classify.Rows
	}{{"synthetic", s.synthetic}, {"real training", s.real}, {"coin-flip", s.coin}} {
		if side.rows.X.Rows > 0 && !bothClasses(side.rows) {
			note("The %s rows have only one class, so no classifier can be trained on them.", side.name)
		}
	}
	if w := s.synthetic.Weight; w != nil {
		if n, total := float64(len(w)), measure.Sum(w); total < n/2 || total > 2*n {
			note("The weights of the %d synthetic rows add up to %.4g. Classifiers learn as from that many rows; "+
				"scale the weights to mean 1 to keep the number.", len(w), total)
		}
	}
	if bothClasses(s.synthetic) && !(bothClasses(s.learnC) && bothClasses(s.examC)) {
		note("There are too few synthetic rows, in total or of one class, to train on some and test on others " +
			"(setting C).")
	}
	return notes, nil
}

func bothClasses(rows classify.Rows) bool {
	var seen [2]bool
	for i, positive := range rows.Positive {
		if rows.Weight == nil || rows.Weight[i] > 0 {
			seen[0], seen[1] = seen[0] || !positive, seen[1] || positive
		}
	}
	return seen[0] && seen[1]
}

// divide splits rows at random, in the same way each time.
func divide(rows classify.Rows) (learn, exam classify.Rows) {
	order := rand.New(rand.NewPCG(settingCSeed, 0xc)).Perm(rows.X.Rows)
	at := int(settingCTest * float64(len(order)))
	return chosen(rows, order[at:]), chosen(rows, order[:at])
}

func chosen(rows classify.Rows, which []int) classify.Rows {
	r := classify.Rows{
		X: classify.Matrix{Rows: len(which), Cols: rows.X.Cols,
			Data: make([]float64, 0, len(which)*rows.X.Cols)},
		Positive: make([]bool, 0, len(which)),
	}
	for _, i := range which {
		r.X.Data = append(r.X.Data, rows.X.Row(i)...)
		r.Positive = append(r.Positive, rows.Positive[i])
		if rows.Weight != nil {
			r.Weight = append(r.Weight, rows.Weight[i])
		}
	}
	return r
}
