package run

import (
	"github.com/conclave-dp/conclave/internal/pipeline"
	"github.com/conclave-dp/conclave/internal/pipeline/gpate"
	"github.com/conclave-dp/conclave/internal/pipeline/pgb"
	"github.com/conclave-dp/conclave/internal/pipeline/plan"
	"github.com/conclave-dp/conclave/internal/privacy"
	"github.com/conclave-dp/conclave/internal/runfile"
)

// What the askers of rounds call.

const (
	mostSigma          = plan.MostSigma
	discriminatorBound = pipeline.DiscriminatorBound
	gradientBound      = gpate.Bound
)

var _ = pgb.ScoreBound

func (p *Plan) pays(kind, stage string) (uint32, error) { return p.Pays(kind, stage) }
func (p *Plan) multiplier() float64                     { return p.Multiplier() }
func (p *Plan) noise() float64                          { return p.Noise() }
func (p *Plan) releases(queries int) int64              { return p.Releases(queries) }
func (p *Plan) first() privacy.Plan                     { return p.First() }

// Spec is a run.yaml.
type Spec = runfile.Spec
