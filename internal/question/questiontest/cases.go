package questiontest

import (
	"testing"

	"google.golang.org/protobuf/proto"

	"github.com/conclave-dp/conclave/internal/question"
	"github.com/conclave-dp/conclave/partition"
)

// Cases are the questions on which a kind is tested. Map keys are descriptions.
type Cases struct {
	// Units makes the records of those units, of the given number, that belong; nil means SmallUnits.
	Units func(t testing.TB, unit string, units int, belongs func(unit int) bool) *partition.Table
	// Good are answered. The first one by name has an answer different from all others.
	Good map[string]proto.Message
	// Zeros and Coins are baselines, whose answers do not depend on records; those of Zeros are all zero.
	Zeros, Coins map[string]proto.Message
	// Bad are refused.
	Bad map[string]Bad
	// Adversaries are added to a site to test the bounds.
	Adversaries []Adversary
	Bounds      []proto.Message
	// Moved is called with how far each adversary moved each answer, in steps; nil for none.
	Moved func(t testing.TB, a Adversary, params proto.Message, distance float64)
	// PerNode says how many entries at the end of an answer are rounded once per node, and not for each unit; nil
	// for none.
	PerNode func(v *question.Vector) int
	// Slow reports whether a question takes too long to be answered many times; nil for none.
	Slow func(params proto.Message) bool
}

// Bad is a question that no node answers, with a part of the expected reason.
type Bad struct {
	Params proto.Message
	Want   string
}

// Adversary is a privacy unit with the given records, as cells.
type Adversary struct {
	Name    string
	Records int
	Record  func(i int) []float64
}
