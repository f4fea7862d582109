package run

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"

	"github.com/conclave-dp/conclave/internal/pipeline"
	"github.com/conclave-dp/conclave/internal/pipeline/drs"
	"github.com/conclave-dp/conclave/internal/pipeline/iw"
	"github.com/conclave-dp/conclave/internal/pipeline/pgb"
	"github.com/conclave-dp/conclave/internal/ratio"
	"github.com/conclave-dp/conclave/partition"
	"github.com/conclave-dp/conclave/partition/encode"
)

// paired is a student that keeps generators with their discriminators.
type paired interface {
	Pairs() ([]pipeline.Pair, error)
}

// rows are the encoded records of a release.
type rows struct {
	x       []float32 // shape [len(classes), width]
	classes []int
	// odds are the log-odds of each to be real, by a discriminator that nothing is paid
	// for; nil where there is none.
	odds []float64
}

// take returns the rows at some places.
func (r rows) take(places []int, width int) rows {
	var t rows
	for _, i := range places {
		t.x = append(t.x, r.x[i*width:(i+1)*width]...)
		t.classes = append(t.classes, r.classes[i])
		if r.odds != nil {
			t.odds = append(t.odds, r.odds[i])
		}
	}
	return t
}

// post makes n rows of what was trained, through the stages of the spec.
type post struct {
	spec  *Spec
	model *pipeline.Model
	width int
	pairs []pipeline.Pair
	plays *pgb.Plays
	// pool are the candidates of boosting.
	pool rows
	// made are the rows that were made last, after boosting and rejection.
	made rows
	// notes say what the stages did, for the report.
	notes []string
}

// newPost takes what the student kept.
func newPost(s *Spec, model *pipeline.Model, trained trainer) (*post, error) {
	p := &post{spec: s, model: model, width: model.Generator.Width()}
	if len(s.Post) == 0 && s.Weights != iw.Discriminator {
		return p, nil
	}
	with, ok := trained.(paired)
	if !ok {
		return nil, fmt.Errorf("the student of %s keeps no discriminators", s.Pipeline)
	}
	var err error
	if p.pairs, err = with.Pairs(); err != nil {
		return nil, err
	}
	if len(p.pairs) == 0 {
		return nil, fmt.Errorf("no discriminators are stored: the run had too few rounds, or %s.student.keep is 0", s.Pipeline)
	}
	return p, nil
}

// scores are the probabilities that the discriminators give rows, shape [pairs, rows].
func (p *post) scores(r rows) [][]float64 {
	const batch = 4096
	all := make([][]float64, len(p.pairs))
	for j, pair := range p.pairs {
		for from := 0; from < len(r.classes); from += batch {
			to := min(len(r.classes), from+batch)
			all[j] = pair.Probabilities(all[j], r.x[from*p.width:to*p.width], r.classes[from:to])
		}
	}
	return all
}

// boost plays the game of boosting: candidates of all kept generators and of the last
// average are weighted until no kept discriminator tells them from real records.
func (p *post) boost(ctx context.Context, s pgb.Selector, progress func(done, rounds int)) error {
	rng := rand.New(rand.NewPCG(p.spec.Seed, 0xb0057))
	generators := []*pipeline.Generator{p.model.Generator}
	for _, pair := range p.pairs {
		generators = append(generators, pair.Generator)
	}
	n := p.spec.candidates()
	var classes []int
	have := p.model.Counts(n)
	for c, wanted := range p.model.Counts(p.spec.Release.Rows) {
		if wanted > 0 && have[c] == 0 {
			return fmt.Errorf("%w: none of %d candidates is of class %d, and %d rows are to be; raise pgb.candidates", pgb.ErrScores, n, c+1, wanted)
		}
		classes = append(classes, slices.Repeat([]int{c}, have[c])...)
	}
	rng.Shuffle(n, func(i, j int) { classes[i], classes[j] = classes[j], classes[i] })
	for i, g := range generators {
		of := classes[i*n/len(generators) : (i+1)*n/len(generators)]
		p.pool.x, p.pool.classes = append(p.pool.x, pipeline.DrawOf(g, of, rng)...), append(p.pool.classes, of...)
	}
	scores := p.scores(p.pool)
	if Section[pgb.StageOptions](p.spec).Complements {
		for _, row := range scores[:len(p.pairs)] {
			opposite := make([]float64, len(row))
			for b, d := range row {
				opposite[b] = 1 - d
			}
			scores = append(scores, opposite)
		}
	}
	options := Section[pgb.StageOptions](p.spec).Options
	if options.Rate == 0 && Section[pgb.StageOptions](p.spec).Complements {
		options.Rate = pgb.TightRate(n, options.Rounds)
	}
	game, err := pgb.New(scores, options)
	if err != nil {
		return err
	}
	if err := game.Within(p.pool.classes); err != nil {
		return err
	}
	if p.plays, err = game.Play(ctx, s, progress); err != nil {
		return err
	}
	p.pool.odds = logOdds(p.plays.Mixed(scores))
	var used int
	for _, share := range p.plays.Mixture {
		if share > 0 {
			used++
		}
	}
	effective, err := ratio.EffectiveSize(p.plays.Weights)
	if err != nil {
		return err
	}
	p.notes = append(p.notes, fmt.Sprintf("Boosting weighted %d records of %d generators in %d rounds, with %d of %d discriminators; by effective size %.0f of them remain.",
		n, len(generators), len(p.plays.Selected), used, len(scores), effective))
	if effective < uneven*float64(n) {
		p.notes = append(p.notes, "So few records carry most of the weight that the rows repeat them; fewer pgb.rounds, a lower pgb.rate, or pgb.complements keeps more of them.")
	}
	return nil
}

func logOdds(probabilities []float64) []float64 {
	odds := make([]float64, len(probabilities))
	for i, p := range probabilities {
		p = math.Min(math.Max(p, 1e-7), 1-1e-7)
		odds[i] = math.Log(p / (1 - p))
	}
	return odds
}

// make returns n rows.
func (p *post) make(ctx context.Context, n int) (r rows, err error) {
	switch {
	case p.spec.rejects():
		r, err = p.reject(ctx, n)
	case p.plays != nil:
		r, err = p.boosted(n)
	default:
		r = p.fresh(n, rand.New(rand.NewPCG(p.spec.Seed, 0xda7a)))
	}
	p.made = r
	return r, err
}

// soFar are n rows by the stages that worked before one failed; none where no stage did. What
// a stage was paid for is not thrown away with the next one.
func (p *post) soFar(n int) (*partition.Table, error) {
	r := p.made
	var err error
	switch {
	case len(p.spec.Post) > 0 && len(r.classes) >= n:
		places := make([]int, n)
		for i := range places {
			places[i] = i
		}
		r = r.take(places, p.width)
	case p.plays != nil:
		r, err = p.boosted(n)
	default:
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	return p.model.Table(r.x, r.classes)
}

// boosted draws n candidates by their weights.
func (p *post) boosted(n int) (rows, error) {
	rng := rand.New(rand.NewPCG(p.spec.Seed, 0xda7a))
	places, err := ratio.Resample(p.plays.Weights, n, rng.Uint64())
	if err != nil {
		return rows{}, err
	}
	distinct := map[int]bool{}
	for _, at := range places {
		distinct[at] = true
	}
	if !p.spec.rejects() {
		p.notes = append(p.notes, fmt.Sprintf("%d rows were drawn by weight, %d different ones.", n, len(distinct)))
	}
	rng.Shuffle(n, func(i, j int) { places[i], places[j] = places[j], places[i] })
	return p.pool.take(places, p.width), nil
}

// fresh draws n rows of the last generator.
func (p *post) fresh(n int, rng *rand.Rand) rows {
	var r rows
	r.x, r.classes = p.model.Draw(p.model.Generator, n, rng)
	if len(p.pairs) > 0 {
		last := p.scores(r)[len(p.pairs)-1]
		r.odds = logOdds(last)
	}
	return r
}

// reject draws n rows by rejection, of each class as many as it has a share of: of the
// boosted candidates with the mixture of the selected discriminators, or of the last
// generator with the last discriminator.
func (p *post) reject(ctx context.Context, n int) (rows, error) {
	rng := rand.New(rand.NewPCG(p.spec.Seed, 0xd25))
	var kept rows
	tried := 0
	for c, wanted := range p.model.Counts(n) {
		if wanted == 0 {
			continue
		}
		accepted, err := drs.Accept(ctx, *Section[drs.Options](p.spec), wanted, rng, p.source(c, rng))
		if err != nil {
			return rows{}, fmt.Errorf("class %d of %d: %w", c+1, len(p.model.Shares), err)
		}
		tried += accepted.Tried
		for _, r := range accepted.Records {
			kept.x, kept.classes, kept.odds = append(kept.x, r.x...), append(kept.classes, r.classes...), append(kept.odds, r.odds...)
		}
	}
	places := rng.Perm(len(kept.classes))
	p.notes = append(p.notes, fmt.Sprintf("Rejection kept %d of %d records that a generator made.", n, tried))
	return kept.take(places, p.width), nil
}

// source draws records of a class with the probability that each is real.
func (p *post) source(class int, rng *rand.Rand) drs.Source[rows] {
	const batch = 1024
	var members []int
	var weights []float64
	for b, c := range p.pool.classes {
		if c == class {
			members, weights = append(members, b), append(weights, p.plays.Weights[b])
		}
	}
	return func() ([]rows, []float64, error) {
		var r rows
		if p.plays == nil {
			r = rows{x: make([]float32, batch*p.width), classes: slices.Repeat([]int{class}, batch)}
			p.model.Generator.Sample(r.x, r.classes, rng)
			r.odds = logOdds(p.scores(r)[len(p.pairs)-1])
		} else if len(members) == 0 {
			return nil, nil, fmt.Errorf("%w: no candidate is of this class; raise pgb.candidates", drs.ErrScores)
		} else {
			places, err := ratio.Resample(weights, batch, rng.Uint64())
			if err != nil {
				return nil, nil, err
			}
			for i, at := range places {
				places[i] = members[at]
			}
			r = p.pool.take(places, p.width)
		}
		list, scores := make([]rows, batch), make([]float64, batch)
		for i := range list {
			list[i] = r.take([]int{i}, p.width)
			scores[i] = 1 / (1 + math.Exp(-r.odds[i]))
		}
		return list, scores, nil
	}
}

// records is the public number of privacy units: what was set, or what the released class
// counts add up to.
func records(set int, learned *pipeline.Learned) (int, error) {
	if set > 0 {
		return set, nil
	}
	if len(learned.Counts) == 0 {
		return 0, errors.New("the run has no class counts; set the public number of privacy units in records")
	}
	var sum float64
	for _, c := range learned.Counts {
		sum += c
	}
	return int(math.Min(math.Max(math.Round(sum), 1), pipeline.MostUnits)), nil
}

// realScores are the mean probabilities that the discriminators give real rows. NOT PRIVATE.
func (p *post) realScores(table *partition.Table) []float64 {
	e := encode.New(table.Schema()).Encode(table)
	means := make([]float64, len(p.pairs))
	for j, row := range p.scores(rows{x: e.Features, classes: e.Classes}) {
		for _, v := range row {
			means[j] += v / float64(len(row))
		}
	}
	if Section[pgb.StageOptions](p.spec).Complements {
		for _, m := range means[:len(p.pairs)] {
			means = append(means, 1-m)
		}
	}
	return means
}
