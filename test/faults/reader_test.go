package faults

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"math"
	"math/rand/v2"
	"os"

	"go.uber.org/zap"
	"google.golang.org/protobuf/proto"

	"github.com/conclave-dp/conclave/internal/question"
	"github.com/conclave-dp/conclave/internal/student"
	conclavev1 "github.com/conclave-dp/conclave/proto/conclave/v1"
)

// reading is a reader's job: it asks the rounds of a run, and earlier rounds again, and writes down the answers. Two
// readers ask the same run at the same time.
type reading struct {
	Run, Dataset, Schema string
	Teachers, Features   int
	Rounds, Queries      int
	Quorum               float64
	Log                  string // gets a line "run round sha256" for every answer
}

// readOverAndOver reads according to the file in its second argument, with the student configuration in the first.
func readOverAndOver(ctx context.Context) error {
	config, err := student.LoadConfig(os.Args[1])
	if err != nil {
		return err
	}
	raw, err := os.ReadFile(os.Args[2])
	if err != nil {
		return err
	}
	var r reading
	if err := json.Unmarshal(raw, &r); err != nil {
		return err
	}
	log, err := os.OpenFile(r.Log, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return err
	}
	defer log.Close()
	client, err := student.Dial(config, zap.NewNop())
	if err != nil {
		return err
	}
	defer client.Close()
	if _, err := client.OpenRun(ctx, r.spec()); err != nil {
		return err
	}
	ask := func(n int) error {
		release, err := client.Ask(ctx, r.round(n), student.Asking{}, nil)
		if err != nil {
			return err
		}
		raw, err := proto.MarshalOptions{Deterministic: true}.Marshal(release)
		if err != nil {
			return err
		}
		// One write, so that lines stay whole if the process is killed.
		_, err = fmt.Fprintf(log, "%s %d %x\n", r.Run, n, sha256.Sum256(raw))
		return err
	}
	random := rand.New(rand.NewPCG(1, 1))
	for n := range r.Rounds {
		if err := ask(n); err != nil {
			return err
		}
		if err := ask(random.IntN(n + 1)); err != nil {
			return err
		}
	}
	if _, err = client.CloseRun(ctx, r.Run, nil); err != nil {
		return err
	}
	for n := range r.Rounds {
		if err := ask(n); err != nil {
			return err
		}
	}
	return nil
}

func (r reading) spec() *conclavev1.RunSpec {
	return &conclavev1.RunSpec{
		Name: r.Run, Dataset: r.Dataset, Pipeline: "pategan", SchemaSha256: r.Schema, Epsilon: 10, Delta: 1e-5,
		Unit: "record", Guarantee: "data-independent", Teachers: uint32(r.Teachers), Quorum: r.Quorum,
		DeadlineSeconds: 1.5,
		Plan: []*conclavev1.Planned{{Kind: "votes", Mechanism: &conclavev1.PrivacyEvent{Kind: "gnmax", Sigma: 20},
			Variant: "histogram"}},
	}
}

// round is the same for both readers, and different for every number.
func (r reading) round(number int) *conclavev1.Round {
	const training = 4
	draw := rand.New(rand.NewPCG(uint64(number), 1))
	tensor := func(records int) *conclavev1.Tensor {
		var data []byte
		for range records * r.Features {
			data = binary.LittleEndian.AppendUint32(data, math.Float32bits(draw.Float32()))
		}
		return &conclavev1.Tensor{Shape: []uint32{uint32(records), uint32(r.Features)}, Data: data}
	}
	classes := func(records int) []uint32 {
		of := make([]uint32, records)
		for i := range of {
			of[i] = uint32(i % 2)
		}
		return of
	}
	round := question.Ask("votes", &conclavev1.VoteQuestion{
		Teacher: &conclavev1.TeacherSpec{
			Model: conclavev1.TeacherSpec_MODEL_LOGISTIC, Vote: conclavev1.TeacherSpec_VOTE_RELATIVE, Classes: 2,
			Steps: 1, Batch: 4,
			LearningRate: 0.1, Features: conclavev1.TeacherSpec_FEATURES_PLAIN,
		},
		Training: tensor(training), TrainingClasses: classes(training),
		Queries: tensor(r.Queries), QueryClasses: classes(r.Queries), AnswerClasses: 2,
	}, question.Shape{Votes: &question.Histogram{Queries: r.Queries, Classes: 2}})
	round.Run, round.Number = r.Run, uint64(number)
	return round
}
