//go:build unix

package node

import (
	"fmt"
	"math/rand/v2"
	"syscall"
	"testing"
	"time"

	"github.com/conclave-dp/conclave/internal/question/questiontest"
	"github.com/conclave-dp/conclave/internal/teachers"
	"github.com/conclave-dp/conclave/internal/teachers/teacherstest"
	"github.com/conclave-dp/conclave/internal/testkit"
	"github.com/conclave-dp/conclave/partition"
	conclavev1 "github.com/conclave-dp/conclave/proto/conclave/v1"
)

// cpu is the processor time this process has used.
func cpu(b *testing.B) time.Duration {
	var u syscall.Rusage
	testkit.Must(b, syscall.Getrusage(syscall.RUSAGE_SELF, &u))
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// wideTable draws records of that many numbers and a binary class.
func wideTable(b *testing.B, rows, features int, rng *rand.Rand) *partition.Table {
	schema := "columns:\n"
	for i := range features {
		schema += fmt.Sprintf("  - {name: x%d, kind: continuous, lower: 0, upper: 1}\n", i)
	}
	table := partition.NewTable(questiontest.Schema(b, schema+"  - {name: y, kind: binary}\nlabel: y\n",
		partition.UnitRecord))
	cells := make([]float64, features+1)
	for range rows {
		for i := range features {
			cells[i] = rng.Float64()
		}
		cells[features] = float64(rng.IntN(2))
		testkit.Must(b, table.Append(cells, ""))
	}
	return table
}

// BenchmarkNodeRound is a node's part of a round, from the message to the
// packed votes and the state on disk: 1,000 teachers of 30 features with about
// 6 records each, 64 generated records to train on, 64 queries. CPU-ms/teacher
// is the figure to watch: processor time, over all cores.
func BenchmarkNodeRound(b *testing.B) {
	const logistic, hidden = conclavev1.TeacherSpec_MODEL_LOGISTIC, conclavev1.TeacherSpec_MODEL_HIDDEN
	const plain, standard = conclavev1.TeacherSpec_FEATURES_PLAIN, conclavev1.TeacherSpec_FEATURES_STANDARD
	for _, c := range []struct {
		name     string
		model    conclavev1.TeacherSpec_Model
		features conclavev1.TeacherSpec_Features
		vote     conclavev1.TeacherSpec_Vote
		steps    uint32
	}{
		{"defaults", logistic, standard, conclavev1.TeacherSpec_VOTE_RELATIVE, 10}, // of pategan
		{"plain30", logistic, plain, conclavev1.TeacherSpec_VOTE_CALIBRATED, 30},
		{"standard30", logistic, standard, conclavev1.TeacherSpec_VOTE_CALIBRATED, 30},
		{"hidden16", hidden, standard, conclavev1.TeacherSpec_VOTE_RELATIVE, 10},
	} {
		b.Run(c.name, func(b *testing.B) {
			const models, features, records, rows = 1000, 30, 6, 64
			rng := rand.New(rand.NewPCG(1, 2))
			n := start(b, smallConfig(b, models), wideTable(b, records*models, features, rng))
			var used time.Duration
			for number := uint64(0); b.Loop(); number++ {
				q := &conclavev1.VoteQuestion{AnswerClasses: 2, Teacher: &conclavev1.TeacherSpec{
					Model: c.model, Features: c.features, Vote: c.vote, Classes: 2, Hidden: 16,
					Steps: c.steps, Batch: 32, LearningRate: 0.1, WeightDecay: 0.1, Seed: 1,
				}}
				q.Training, q.TrainingClasses = teacherstest.Generated(rows, features, rng)
				q.Queries, q.QueryClasses = teacherstest.Generated(rows, features, rng)
				m := &conclavev1.WorkResponse{Message: &conclavev1.WorkResponse_Part{Part: partsOf(b,
					askedOf(n.site.Public, "r", number, teachers.Votes, q), 1<<20)[0]}}
				before := cpu(b)
				in, parts := newInbox(), assembly{}
				testkit.Must(b, n.dispatch(m, &parts, in))
				todo, _ := in.take()
				if reply := n.reply(todo); len(reply.GetVotes().GetPacked()) != models*rows/8 {
					b.Fatalf("answered with %v", reply)
				}
				used += cpu(b) - before
			}
			b.ReportMetric(1e3*used.Seconds()/float64(b.N)/models, "CPU-ms/teacher")
		})
	}
}
