package main

import (
	"context"
	"errors"
	"fmt"
	"syscall"
	"time"

	"github.com/conclave-dp/conclave/gnmax"
	"github.com/conclave-dp/conclave/internal/question"
	"github.com/conclave-dp/conclave/internal/student"
	conclavev1 "github.com/conclave-dp/conclave/proto/conclave/v1"
)

// inTurn is the number of blocks in which rounds are measured, plain and masked ones alternately. There are few,
// since reading a process's state takes time itself, and time is counted in steps of 10 ms.
const inTurn = 2

// cost is what rounds took altogether, in seconds and bytes.
type cost struct{ clock, node, server, up float64 }

// sums measures rounds of one length.
func (r *rig) sums(ctx context.Context, entries, rounds int) (string, error) {
	for _, a := range r.aggregator.students { // exchanges keys, and warms up
		if _, err := r.ask(ctx, a, entries, 1); err != nil {
			return "", err
		}
	}
	var of [2]cost
	for block := range inTurn {
		for k, a := range r.aggregator.students {
			c, err := r.ask(ctx, a, entries, (rounds+block)/inTurn)
			if err != nil {
				return "", err
			}
			of[k] = cost{of[k].clock + c.clock, of[k].node + c.node, of[k].server + c.server, of[k].up + c.up}
		}
	}
	noise, err := noiseTime(entries)
	if err != nil {
		return "", err
	}
	plain, masked, each := of[0], of[1], float64(rounds)
	ms := 1000 / each
	return fmt.Sprintf("| %d | %d | %.1f | %.1f | %.2f | %.2f | %.2f | %.2f | %.1f | %.1f | %.0f | %.0f |\n",
		r.size.nodes, entries, ms*plain.clock, ms*masked.clock, ms*plain.node, ms*masked.node, 1000*noise,
		masked.node/(plain.node+each*noise), ms*plain.server, ms*masked.server, plain.up/each, masked.up/each), nil
}

// ask asks a number of rounds as a student, and returns their cost. Costs of the nodes are those of one node.
func (r *rig) ask(ctx context.Context, a *asker, entries, rounds int) (cost, error) {
	serverBefore, nodesBefore, err := r.read(ctx, r.aggregator)
	if err != nil {
		return cost{}, err
	}
	began := time.Now()
	for range rounds {
		q := sumRound(a.run, a.next, entries)
		if _, err := a.client.Ask(ctx, q, student.Asking{Forget: q.Number}, nil); err != nil {
			return cost{}, err
		}
		a.next++
	}
	took := cost{clock: time.Since(began).Seconds()}
	serverAfter, nodesAfter, err := r.read(ctx, r.aggregator)
	each, wire := 1/float64(r.size.nodes), socketBytes(aggregatorSide, "up")
	took.node = (nodesAfter[cpuMetric] - nodesBefore[cpuMetric]) * each
	took.server = serverAfter[cpuMetric] - serverBefore[cpuMetric]
	took.up = (nodesAfter[wire] - nodesBefore[wire]) * each
	return took, err
}

func sumRound(run string, number uint64, entries int) *conclavev1.Round {
	r := question.Ask(sumKind, &conclavev1.EmbeddingSum{Entries: uint32(entries)},
		question.Shape{Sum: &question.Vector{Entries: entries, Bound: sumBound, Rate: 1}})
	r.Run, r.Number = run, number
	return r
}

// noiseTime is the processor time of one vector of exact noise.
func noiseTime(entries int) (float64, error) {
	sum, err := gnmax.NewGaussianSum(sumBound, sumNoise)
	if err != nil {
		return 0, err
	}
	share, err := sum.Share(1)
	if err != nil {
		return 0, err
	}
	vectors, dst := max(5, 100_000/entries), make([]int64, entries)
	before, err := processorTime()
	for range vectors {
		err = errors.Join(err, share.Draw(gnmax.NewSource(), dst))
	}
	after, last := processorTime()
	return (after - before).Seconds() / float64(vectors), errors.Join(err, last)
}

// processorTime is what this process took so far.
func processorTime() (time.Duration, error) {
	var used syscall.Rusage
	err := syscall.Getrusage(syscall.RUSAGE_SELF, &used)
	return time.Duration(used.Utime.Nano() + used.Stime.Nano()), err
}
