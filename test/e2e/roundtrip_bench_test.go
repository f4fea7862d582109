package e2e

import (
	"bytes"
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"go.uber.org/zap"
	"golang.org/x/sync/errgroup"

	"github.com/conclave-dp/conclave/internal/aggregator"
	"github.com/conclave-dp/conclave/internal/certs"
	"github.com/conclave-dp/conclave/internal/kinds"
	"github.com/conclave-dp/conclave/internal/nn/safetensors"
	"github.com/conclave-dp/conclave/internal/node"
	"github.com/conclave-dp/conclave/internal/pipeline/pategan"
	"github.com/conclave-dp/conclave/internal/privacy"
	"github.com/conclave-dp/conclave/internal/question"
	"github.com/conclave-dp/conclave/internal/student"
	"github.com/conclave-dp/conclave/internal/teachers"
	"github.com/conclave-dp/conclave/partition"
	conclavev1 "github.com/conclave-dp/conclave/proto/conclave/v1"
)

// The size of the measured cluster.
const (
	benchTeachers = 1000
	benchFeatures = 30
	benchRecords  = 6 // per teacher
	benchQueries  = 64
)

// BenchmarkRoundTrip measures one round from the student's question to its release: student, aggregator with an
// embedded etcd, and one node with 1,000 teachers in this process, over TLS on loopback. The question is serialized
// and sent, the teachers train, vote and are saved, the votes are counted and noised, and the release is charged and
// synced to disk.
//
// CPU-ms/teacher is the figure to watch: the process's processor time over all cores, per teacher and round. It
// excludes what the student learns from the release.
func BenchmarkRoundTrip(b *testing.B) {
	for _, c := range []struct {
		name   string
		change func(*conclavev1.TeacherSpec)
	}{
		{"defaults", func(*conclavev1.TeacherSpec) {}}, // of pategan
		{"steps30", func(s *conclavev1.TeacherSpec) { s.Steps = 30 }},
		{"plain30", func(s *conclavev1.TeacherSpec) {
			s.Steps, s.Features = 30, conclavev1.TeacherSpec_FEATURES_PLAIN
		}},
		{"hidden16", func(s *conclavev1.TeacherSpec) { s.Model, s.Hidden = conclavev1.TeacherSpec_MODEL_HIDDEN, 16 }},
	} {
		b.Run(c.name, func(b *testing.B) {
			client := benchCluster(b)
			spec := defaultTeacher()
			c.change(spec)
			rng := rand.New(rand.NewPCG(1, 2))
			number := uint64(0)
			ask := func() {
				v := &conclavev1.VoteQuestion{Teacher: spec, AnswerClasses: 2}
				v.Training, v.TrainingClasses = benchRows(rng, pategan.DefaultOptions().Teacher.Training)
				v.Queries, v.QueryClasses = benchRows(rng, benchQueries)
				r := question.Ask(teachers.Votes.Name, v,
					question.Shape{Votes: &question.Histogram{Queries: benchQueries, Classes: 2}})
				r.Run, r.Number = "bench", number
				release, err := client.Ask(b.Context(), r, student.Asking{}, nil)
				if err != nil {
					b.Fatal(err)
				}
				if release.GetTeachers() != benchTeachers || len(release.GetVotes().GetLabels()) != benchQueries {
					b.Fatalf("round %d: %d labels by %d teachers",
						number, len(release.GetVotes().GetLabels()), release.GetTeachers())
				}
				number++
			}
			ask() // creates the teachers
			before := cpuTime(b)
			for b.Loop() {
				ask()
			}
			used := cpuTime(b) - before
			b.ReportMetric(1e3*used.Seconds()/float64(b.N)/benchTeachers, "CPU-ms/teacher")
		})
	}
}

// cpuTime is the processor time this process has used.
func cpuTime(b *testing.B) time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

func defaultTeacher() *conclavev1.TeacherSpec {
	o := pategan.DefaultOptions().Teacher
	return &conclavev1.TeacherSpec{
		Model: conclavev1.TeacherSpec_MODEL_LOGISTIC, Vote: conclavev1.TeacherSpec_VOTE_RELATIVE,
		Features: conclavev1.TeacherSpec_FEATURES_STANDARD, Classes: 2,
		Steps: uint32(o.Steps), Batch: uint32(o.Batch), LearningRate: float32(o.Rate), WeightDecay: float32(o.Decay),
		Seed: 1,
	}
}

// benchRows draws generated records and their classes.
func benchRows(rng *rand.Rand, rows int) (*conclavev1.Tensor, []uint32) {
	values := make([]float32, rows*benchFeatures)
	for i := range values {
		values[i] = rng.Float32()
	}
	classes := make([]uint32, rows)
	for i := range classes {
		classes[i] = rng.Uint32N(2)
	}
	return &conclavev1.Tensor{Shape: []uint32{uint32(rows), benchFeatures}, Data: safetensors.Bytes(values)}, classes
}

// benchCluster runs an aggregator and a node until the benchmark ends, opens a run with budget for every round, and
// returns its student.
func benchCluster(b *testing.B) *student.Client {
	dir := benchFolder(b)
	schema, data := benchData(b, dir)
	t := node.DefaultConfig()
	t.Site, t.Teachers, t.Schema, t.Data = "north", benchTeachers, filepath.Join(dir, "schema.yaml"), data
	client := loopback(b, dir, aggregator.DatasetConfig{
		SchemaSHA256: schema.SHA256, Unit: "record", Budget: privacy.Budget{Epsilon: 1000, Delta: 1e-5},
	}, aggregator.Options{}, zap.NewNop(), t)
	_, err := client.OpenRun(b.Context(), &conclavev1.RunSpec{
		Name: "bench", Dataset: dataset, Pipeline: "pategan", SchemaSha256: schema.SHA256, Epsilon: 100, Delta: 1e-5,
		Unit: "record", Guarantee: "data-independent", Teachers: benchTeachers, Quorum: 1, DeadlineSeconds: 60,
		Plan: []*conclavev1.Planned{{Kind: "votes", Mechanism: &conclavev1.PrivacyEvent{Kind: "gnmax", Sigma: 1000},
			Variant: "histogram"}},
	})
	check(b, err)
	return client
}

// benchFolder is removed when the benchmark ends. Its path is short, for etcd's socket.
func benchFolder(b *testing.B) string {
	dir, err := os.MkdirTemp("", "e2e")
	check(b, err)
	b.Cleanup(func() { os.RemoveAll(dir) })
	return dir
}

// loopback runs an aggregator with an embedded etcd and a dataset, and a node at each site, in this process until the
// benchmark ends. It returns a student's connection. log is the nodes' log.
func loopback(b *testing.B, dir string, d aggregator.DatasetConfig, o aggregator.Options, log *zap.Logger,
	sites ...node.Config) *student.Client {
	a := aggregator.DefaultConfig()
	a.Listen, a.TLS = "127.0.0.1:0", certs.IssuedFiles(built.certs, certs.RoleAggregator, "aggregator")
	a.Etcd.Embedded, a.Etcd.Dir = true, filepath.Join(dir, "etcd")
	d.Name = dataset
	a.Datasets = []aggregator.DatasetConfig{d}
	server, err := aggregator.New(b.Context(), a, o)
	check(b, err)
	b.Cleanup(func() { check(b, server.Close()) })

	ctx, cancel := context.WithCancel(context.Background())
	var roles errgroup.Group
	for _, t := range sites {
		t.Dataset, t.State, t.TLS = dataset, filepath.Join(dir, "node-"+t.Site),
			certs.IssuedFiles(built.certs, certs.RoleNode, t.Site)
		site, err := node.ReadSite(t, kinds.All(), nil)
		check(b, err)
		n, err := site.Node(server.Addr().String(), log)
		check(b, err)
		roles.Go(func() error { return n.Run(ctx) })
	}
	roles.Go(func() error { return server.Serve(ctx) })
	b.Cleanup(func() {
		cancel()
		check(b, roles.Wait())
	})

	s := student.DefaultConfig()
	s.Aggregator, s.Dataset, s.Run = server.Addr().String(), dataset, "run.yaml"
	s.TLS = certs.IssuedFiles(built.certs, certs.RoleStudent, "lab")
	client, err := student.Dial(s, zap.NewNop())
	check(b, err)
	b.Cleanup(func() { client.Close() })
	return client
}

// benchData writes a schema of numbers and a table for all teachers.
func benchData(b *testing.B, dir string) (*partition.Schema, string) {
	text := "label: y\ncolumns:\n"
	var table bytes.Buffer
	for i := range benchFeatures {
		text += fmt.Sprintf("  - {name: x%d, kind: continuous, lower: 0, upper: 1}\n", i)
		fmt.Fprintf(&table, "x%d,", i)
	}
	text += "  - {name: y, kind: binary}\n"
	table.WriteString("y\n")
	rng := rand.New(rand.NewPCG(3, 4))
	for range benchTeachers * benchRecords {
		for range benchFeatures {
			fmt.Fprintf(&table, "%.6f,", rng.Float64())
		}
		fmt.Fprintf(&table, "%d\n", rng.IntN(2))
	}
	path, data := filepath.Join(dir, "schema.yaml"), filepath.Join(dir, "data.csv")
	check(b, os.WriteFile(path, []byte(text), 0o600))
	check(b, os.WriteFile(data, table.Bytes(), 0o600))
	schema, err := partition.LoadSchema(path)
	check(b, err)
	return schema, data
}

func check(b *testing.B, err error) {
	b.Helper()
	if err != nil {
		b.Fatal(err)
	}
}
