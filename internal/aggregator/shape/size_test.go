package shape

import (
	"math"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"

	"github.com/conclave-dp/conclave/coordinator"
	"github.com/conclave-dp/conclave/internal/aggregator/round"
	"github.com/conclave-dp/conclave/internal/aggregator/roundtest"
	"github.com/conclave-dp/conclave/internal/testkit"
	conclavev1 "github.com/conclave-dp/conclave/proto/conclave/v1"
)

// The bound holds for the longest name and the largest numbers, and is tight enough not to refuse useful rounds.
func TestNoReleaseIsLargerThanItsBound(t *testing.T) {
	for _, shape := range []struct{ queries, classes int }{{maxQueries, 2}, {maxCounts / 256, 256},
		{maxCounts / 65, 65}, {1, 2}} {
		for _, whole := range []bool{true, false} {
			q := &Votes{asked: shape.queries, classes: shape.classes, whole: whole}
			out := &conclavev1.NoisyVotes{Classes: uint32(shape.classes)}
			for range shape.queries {
				out.Labels = append(out.Labels, int32(shape.classes-1))
				for range shape.classes {
					if whole {
						out.Histogram = append(out.Histogram, clampNoisyVotes(math.MinInt64))
					}
				}
			}
			r := largestRelease()
			r.Answer = &conclavev1.Release_Votes{Votes: out}
			checkSize(t, q, r)
		}
	}
}

func largestRelease() *conclavev1.Release {
	return &conclavev1.Release{
		Run: strings.Repeat("r", 128), Round: math.MaxUint64, Teachers: math.MaxUint32,
		QuestionSha256: make([]byte, 32),
	}
}

func checkSize(t *testing.T, q round.Question, r *conclavev1.Release) {
	t.Helper()
	raw, err := proto.MarshalOptions{Deterministic: true}.Marshal(r)
	testkit.Must(t, err)
	if bound := q.Largest(); len(raw) > bound || bound > len(raw)+releaseFrame || bound > coordinator.MaxRelease {
		t.Errorf("%+v: %d bytes, bound %d, storable %d", q, len(raw), bound, coordinator.MaxRelease)
	}
}

func TestClampNoisyVotes(t *testing.T) {
	for in, want := range map[int64]int64{
		0: 0, -5: -5, 1 << 40: 1 << 40, maxNoisyVotes: maxNoisyVotes, maxNoisyVotes + 1: maxNoisyVotes,
		math.MinInt64: -maxNoisyVotes, math.MaxInt64: maxNoisyVotes,
	} {
		if got := clampNoisyVotes(in); got != want {
			t.Errorf("%d becomes %d, want %d", in, got, want)
		}
	}
}

// Tests of other packages use the same limits.
func TestLimits(t *testing.T) {
	for name, same := range map[string]bool{
		"queries": roundtest.MaxQueries == maxQueries, "entries": roundtest.MaxEntries == maxEntries,
		"counts": roundtest.MaxCounts == maxCounts, "units": roundtest.MaxUnits == maxUnits,
		"units of fits": roundtest.MaxFitted == maxFitted,
	} {
		if !same {
			t.Errorf("the limit of %s is another", name)
		}
	}
}
