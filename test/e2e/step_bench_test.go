package e2e

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"
	"google.golang.org/protobuf/proto"

	"github.com/conclave-dp/conclave/gnmax"
	"github.com/conclave-dp/conclave/internal/aggregator"
	"github.com/conclave-dp/conclave/internal/nn/safetensors"
	"github.com/conclave-dp/conclave/internal/node"
	"github.com/conclave-dp/conclave/internal/pipeline"
	"github.com/conclave-dp/conclave/internal/pipeline/dpgan"
	"github.com/conclave-dp/conclave/internal/privacy"
	"github.com/conclave-dp/conclave/internal/question"
	jobs "github.com/conclave-dp/conclave/internal/run"
	"github.com/conclave-dp/conclave/internal/runfile"
	"github.com/conclave-dp/conclave/internal/student"
	"github.com/conclave-dp/conclave/partition"
	"github.com/conclave-dp/conclave/partition/encode"
	"github.com/conclave-dp/conclave/partition/idx"
	conclavev1 "github.com/conclave-dp/conclave/proto/conclave/v1"
)

// stepRecords is the number of measured records of all sites together.
const stepRecords = 6000

// BenchmarkDiscriminatorStep measures a step of DPGAN: student, aggregator with an embedded etcd and one or two nodes
// in this process, over TLS on loopback. The discriminator has 101,121 weights, 784 pixels and 10 classes to 127 to
// 1; samples have 600 and 3,000 expected records; the student has the defaults of images. It reports steps/s, and the
// parts of a step, in ms and per cent:
//
//   - student: from a release to the next question, the student's own work: a step of the
//     discriminator on 512 generated images, and every second time one of the generator on
//     256. It excludes a real run's checkpoint, at most a twentieth of the time.
//   - node: from a question in a node's memory to its sum, as the node itself measures it
//     for its log: weights are set, the sample is drawn, the gradients are computed, clipped
//     and added. With several nodes, which work in parallel, the slowest.
//   - noise: [gnmax.GaussianSum.Release] for as many numbers, measured once after each step
//     in this process, off the clock, because in a step it also runs alone.
//   - ledger: from the hook before the charge to the one after it, with etcd's fsync.
//   - wire: the rest. The question is encoded, sent to the aggregator, checked, hashed,
//     checked against the budget, sent to the nodes and decoded; sums and the release
//     return; goroutines wait for each other.
//
// These parts follow each other, so they add up to the step.
func BenchmarkDiscriminatorStep(b *testing.B) {
	for _, sites := range [][]string{{"north"}, {"north", "south"}} {
		for _, sample := range []int{600, stepRecords / 2} {
			b.Run(fmt.Sprintf("nodes=%d/sample=%d", len(sites), sample), func(b *testing.B) {
				s := newStepStudent(b, sample, sites...)
				s.steps(b, 2) // allocates networks and connects
				s.took = stepTimes{}
				total := time.Duration(0)
				for b.Loop() {
					begun := time.Now()
					s.steps(b, 1)
					total += time.Since(begun)
					b.StopTimer()
					s.took.noise += s.timeNoise(b)
					b.StartTimer()
				}
				n := float64(b.N)
				s.took.student = total - s.took.asking
				s.took.wire = s.took.asking - s.took.node - s.took.noise - s.took.ledger
				b.ReportMetric(n/total.Seconds(), "steps/s")
				for name, d := range map[string]time.Duration{
					"student": s.took.student, "node": s.took.node, "noise": s.took.noise, "ledger": s.took.ledger,
					"wire": s.took.wire,
				} {
					b.ReportMetric(1e3*d.Seconds()/n, name+"-ms")
					b.ReportMetric(100*d.Seconds()/total.Seconds(), name+"-%")
				}
				b.ReportMetric(100*(s.took.wire+s.took.ledger).Seconds()/total.Seconds(), "wire+ledger-%")
			})
		}
	}
}

// stepTimes are sums over steps.
type stepTimes struct{ asking, student, node, noise, ledger, wire time.Duration }

// stepStudent is a student of DPGAN, and the oracle that it asks.
type stepStudent struct {
	*dpgan.Trainer
	client *student.Client
	job    *jobs.Job
	round  *conclavev1.Round
	asked  *conclavev1.DiscriminatorSum // of the round, without its weights
	nodes  *observer.ObservedLogs
	sites  int

	charged time.Time // start of the charge
	took    stepTimes
}

func newStepStudent(b *testing.B, sample int, sites ...string) *stepStudent {
	dir := benchFolder(b)
	var data string
	for _, site := range sites {
		stepImages(b, dir, site, stepRecords/len(sites))
		data += fmt.Sprintf("{site: %s, file: %s-images-idx3-ubyte}, ", site, site)
	}
	path := filepath.Join(dir, "run.yaml")
	check(b, os.WriteFile(path, fmt.Appendf(nil, `name: bench
schema: schema.yaml
data: [%s]
privacy: {epsilon: 10, delta: 1e-5}
teachers: %d
pipeline: dpgan
warm_start: {embed: 0}
dpgan: {steps: 10000, batch: %d, units: %d,
  discriminator: {kind: dense, hidden: 127, layers: 1, classes: told, features: plain}}
`, data, len(sites), sample, stepRecords), 0o600))
	spec, err := runfile.Load(path)
	check(b, err)
	s := &stepStudent{sites: len(sites)}
	s.job, err = jobs.Prepare(spec)
	check(b, err)
	s.round = s.job.Round()
	s.asked = new(conclavev1.DiscriminatorSum)
	check(b, proto.Unmarshal(s.round.GetParams(), s.asked))

	var configs []node.Config
	for i, site := range sites {
		c := node.DefaultConfig()
		c.Site, c.Teachers, c.Schema, c.Data = site, 1, spec.Schema, spec.Data[i].File
		configs = append(configs, c)
	}
	core, logs := observer.New(zap.DebugLevel)
	s.nodes = logs
	s.client = loopback(b, dir, aggregator.DatasetConfig{
		SchemaSHA256: s.job.Schema.SHA256, Unit: "record",
		Budget: privacy.Budget{Epsilon: spec.Privacy.Epsilon, Delta: spec.Privacy.Delta, Filter: s.job.Plan.Filter()},
	}, aggregator.Options{Hooks: aggregator.Hooks{
		BeforeCharge: func(string, uint64) { s.charged = time.Now() },
		AfterCharge:  func(string, uint64) { s.took.ledger += time.Since(s.charged) },
	}}, zap.New(core), configs...)
	_, err = s.client.OpenRun(b.Context(), jobs.RunSpec(s.job.Plan, spec, s.job.Schema, dataset, false))
	check(b, err)
	s.Trainer, err = dpgan.New(*runfile.Section[dpgan.Options](spec), encode.New(s.job.Schema), s.job.Plan.Classes, 1)
	check(b, err)
	return s
}

// steps takes the given number of further steps.
func (s *stepStudent) steps(b *testing.B, n int) {
	err := s.Run(b.Context(), s, s.Rounds()+n, func() error { return nil }, func(pipeline.Progress) {})
	check(b, err)
}

// ClassCounts is not part of a step, so the cluster is not asked.
func (s *stepStudent) ClassCounts(context.Context, uint64, int) (*pipeline.CountAnswer, error) {
	counts := make([]float64, s.job.Plan.Classes)
	for c := range counts {
		counts[c] = stepRecords / float64(len(counts))
	}
	return &pipeline.CountAnswer{Counts: counts, Paid: pipeline.Paid{Teachers: s.sites}}, nil
}

// Discriminator asks the cluster.
func (s *stepStudent) Discriminator(ctx context.Context, round uint64,
	q *pipeline.DiscriminatorQuestion) (*pipeline.DiscriminatorAnswer, error) {
	begun := time.Now()
	r := proto.Clone(s.round).(*conclavev1.Round)
	r.Number = round - 1 // without the class counts, which the first entry of the plan pays
	r.Planned = 1
	s.asked.Weights = safetensors.Bytes(q.Weights)
	r.Params = question.Marshal(s.asked)
	release, err := s.client.Ask(ctx, r, student.Asking{Forget: r.Number / 100 * 100}, nil)
	if err != nil {
		return nil, err
	}
	sum := release.GetSum()
	a := &pipeline.DiscriminatorAnswer{
		Sum: make([]float32, len(q.Weights)), Share: 1,
		Paid: pipeline.Paid{Receipt: release.GetLedgerHash(), Teachers: int(release.GetTeachers())},
	}
	for i, v := range sum.GetValues() {
		a.Sum[i] = float32(float64(v) * s.asked.Clip / float64(sum.Scale))
	}
	s.took.asking += time.Since(begun)
	answers, slowest := 0, time.Duration(0)
	for _, l := range s.nodes.TakeAll() {
		if took, ok := l.ContextMap()["took"].(time.Duration); ok {
			answers, slowest = answers+1, max(slowest, took)
		}
	}
	if answers != s.sites {
		return nil, fmt.Errorf("round %d: %d nodes answered", r.Number, answers)
	}
	s.took.node += slowest
	return a, nil
}

// timeNoise measures the noise of a step.
func (s *stepStudent) timeNoise(b *testing.B) time.Duration {
	m, err := gnmax.NewGaussianSum(int64(s.round.GetSum().GetBound()), s.job.Plan.Training.Mechanism.NoiseMultiplier)
	check(b, err)
	sum := make([]int64, s.job.Plan.PerRound)
	begun := time.Now()
	_, err = m.Release(gnmax.NewSource(), sum)
	check(b, err)
	return time.Since(begun)
}

// stepImages writes a schema of MNIST's shape and a site's random images.
func stepImages(b *testing.B, dir, site string, n int) {
	check(b, os.WriteFile(filepath.Join(dir, "schema.yaml"), []byte(`name: noise
label: y
format: idx
image: {height: 28, width: 28, channels: 1}
columns:
  - {name: pixel, kind: integer, lower: 0, upper: 255, repeat: 784}
  - {name: y, kind: categorical, categories: ["0", "1", "2", "3", "4", "5", "6", "7", "8", "9"]}
`), 0o600))
	rng := rand.New(rand.NewPCG(5, uint64(len(site))))
	x := &idx.Images{Shape: partition.Image{Height: 28, Width: 28, Channels: 1}}
	for i := range n {
		for range 28 * 28 {
			x.Pixels = append(x.Pixels, byte(rng.Uint32()))
		}
		x.Classes = append(x.Classes, i%10)
	}
	images, labels, err := idx.Encode(x, false)
	check(b, err)
	check(b, os.WriteFile(filepath.Join(dir, site+"-images-idx3-ubyte"), images, 0o600))
	check(b, os.WriteFile(filepath.Join(dir, site+"-labels-idx1-ubyte"), labels, 0o600))
}
