package main

import (
	"context"
	"errors"
	"fmt"
	"math"
	"os"

	"github.com/conclave-dp/conclave/bench/table"
	"github.com/conclave-dp/conclave/internal/local"
	"github.com/conclave-dp/conclave/internal/run"
)

// once runs a line. One that stops at a data-dependent epsilon runs twice: a first run finds
// how many rounds that pays for.
func once(ctx context.Context, c *table.Cluster) (*table.Table, error) {
	epsilon := dependent[c.Line.Name]
	if epsilon == 0 {
		rows, _, err := c.Run(ctx, nil, local.Options{})
		return rows, err
	}
	collected := &votes{}
	_, outcome, err := c.Run(ctx, nil, local.Options{Votes: collected.see})
	if err != nil {
		return nil, err
	}
	rounds, _, err := collected.roundsFor(epsilon, outcome.Outputs["ledger"])
	if err != nil {
		return nil, err
	}
	fmt.Fprintf(os.Stderr, "%s: %d rounds fit a data-dependent epsilon of %v\n", c.Line.Name, rounds, epsilon)
	if rounds == 0 {
		return nil, errors.New("not one round fits the data-dependent epsilon; give the votes more noise")
	}
	*collected = votes{}
	rows, outcome, err := c.Run(ctx, func(s *run.Spec) { s.GPATE.Rounds = rounds }, local.Options{Votes: collected.see})
	if err != nil {
		return nil, err
	}
	if _, c.Result.Dependent, err = collected.roundsFor(math.Inf(1), outcome.Outputs["ledger"]); err != nil {
		return nil, err
	}
	c.Result.Epsilon = outcome.EpsilonSpent
	return rows, nil
}
