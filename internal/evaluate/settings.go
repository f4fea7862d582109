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

// Of the synthetic rows of setting C, this share is kept to test on.
const (
	settingCTest = 0.25
	settingCSeed = 1
)

// settings are the rows that the settings train and test on. What is missing has
// no rows.
type settings struct {
	real, synthetic, coin, test classify.Rows
	learnC, examC               classify.Rows
}

// utility fills in the classifiers' part of an evaluation: for every model the
// settings that there are rows for.
func (e *Evaluation) utility(ctx context.Context, in Input) error {
	schema := in.Test.Schema()
	if len(schema.Classes()) < 2 || schema.Positive() < 0 {
		e.note("The schema names no label with a positive class, so that no classifier can be trained.")
		return nil
	}
	encoder := encode.New(schema)
	s := settings{synthetic: label(encoder, in.Synthetic), test: label(encoder, in.Test)}
	if err := measure.CheckClasses(s.test.Positive); err != nil {
		e.note("The test rows hold one class only, so that nothing can be ranked.")
		return nil
	}
	if in.Train != nil {
		s.real = label(encoder, in.Train)
	}
	if in.CoinFlips != nil {
		s.coin = label(encoder, in.CoinFlips)
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
				return err
			}
			group.Go(func() error {
				if err := ctx.Err(); err != nil {
					return err
				}
				r, err := trainTest(models[0], part.learn, part.exam)
				if errors.Is(err, ErrOneClass) {
					return nil // said below
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
		return fmt.Errorf("utility: %w", err)
	}
	for _, side := range []struct {
		name string
		rows classify.Rows
	}{{"synthetic", s.synthetic}, {"real training", s.real}, {"coin-flip", s.coin}} {
		if side.rows.X.Rows > 0 && !bothClasses(side.rows) {
			e.note(fmt.Sprintf("The %s rows hold one class only, so that no classifier can be trained on them.",
				side.name))
		}
	}
	if w := s.synthetic.Weight; w != nil {
		total := 0.0
		for _, v := range w {
			total += v
		}
		if n := float64(len(w)); total < n/2 || total > 2*n {
			e.note(fmt.Sprintf("The weights of the %d synthetic rows add up to %.4g. Classifiers take a weight for a "+
				"number of rows, and so learn as from that many: weights of mean 1 keep the number.", len(w), total))
		}
	}
	if bothClasses(s.synthetic) && !(bothClasses(s.learnC) && bothClasses(s.examC)) {
		e.note(
			"The synthetic rows are too few, or too few of one class, to train on some and test on others (setting C).")
	}
	return nil
}

func bothClasses(rows classify.Rows) bool {
	var seen [2]bool
	for i, positive := range rows.Positive {
		if rows.Weight != nil && rows.Weight[i] == 0 {
			continue
		}
		if positive {
			seen[1] = true
		} else {
			seen[0] = true
		}
	}
	return seen[0] && seen[1]
}

// divide splits rows at random, always in the same way.
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

func (e *Evaluation) note(text string) { e.Notes = append(e.Notes, text) }
