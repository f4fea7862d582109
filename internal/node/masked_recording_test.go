package node

import (
	"context"
	"encoding/binary"
	"math"
	"slices"
	"strings"
	"sync"
	"testing"

	"gonum.org/v1/gonum/stat/distuv"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/protobuf/proto"

	"github.com/conclave-dp/conclave/gnmax"
	"github.com/conclave-dp/conclave/internal/certs"
	"github.com/conclave-dp/conclave/internal/certs/pemfile"
	"github.com/conclave-dp/conclave/internal/certs/tlsconfig"
	"github.com/conclave-dp/conclave/internal/masking"
	"github.com/conclave-dp/conclave/internal/question/questiontest"
	"github.com/conclave-dp/conclave/internal/student"
	"github.com/conclave-dp/conclave/internal/testkit"
	conclavev1 "github.com/conclave-dp/conclave/proto/conclave/v1"
	"github.com/conclave-dp/conclave/proto/conclave/v1/rpc"
)

// recorder keeps all that a node sends, as it leaves the node.
type recorder struct {
	mu   sync.Mutex
	sent []*conclavev1.WorkRequest
}

func (r *recorder) intercept(
	ctx context.Context, d *grpc.StreamDesc, c *grpc.ClientConn, method string, open grpc.Streamer,
	o ...grpc.CallOption,
) (grpc.ClientStream, error) {
	s, err := open(ctx, d, c, method, o...)
	return recorded{s, r}, err
}

type recorded struct {
	grpc.ClientStream
	by *recorder
}

func (s recorded) SendMsg(m any) error {
	s.by.mu.Lock()
	s.by.sent = append(s.by.sent, proto.Clone(m.(*conclavev1.WorkRequest)).(*conclavev1.WorkRequest))
	s.by.mu.Unlock()
	return s.ClientStream.SendMsg(m)
}

// runRecorded runs a node at an aggregator, and records what it sends.
func runRecorded(t *testing.T, n *Node) *recorder {
	t.Helper()
	r := &recorder{}
	tlsConfig := testkit.Value(tlsconfig.Client(n.cfg.TLS, "127.0.0.1"))
	conn := testkit.Value(grpc.NewClient(n.cfg.Aggregator, grpc.WithStreamInterceptor(r.intercept),
		grpc.WithTransportCredentials(credentials.NewTLS(tlsConfig))))
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- n.work(ctx, rpc.NewTeacherServiceClient(conn)) }()
	t.Cleanup(func() {
		cancel()
		testkit.Receive(t, ended)
		testkit.Must(t, conn.Close())
	})
	testkit.Eventually(t, n.cfg.Site+" is welcome", n.watch.metrics.connected.Load)
	return r
}

// memberOf is a node as a run's spec lists it.
func memberOf(t testing.TB, c Config) masking.Member {
	t.Helper()
	key, err := pemfile.LoadKey(c.TLS.Key)
	testkit.Must(t, err)
	return testkit.Value(masking.MemberOf(c.Site, key.Public()))
}

// voteNoise is the noise on a count of votes.
const voteNoise = 40

// perCheck is the probability with which a statistical check fails although all is right.
const perCheck = 1e-12

// wantUniform checks the bytes of numbers by a chi-squared test.
func wantUniform(t *testing.T, what string, values []int64) {
	t.Helper()
	var counts [256]float64
	for _, v := range values {
		for _, b := range binary.LittleEndian.AppendUint64(nil, uint64(v)) {
			counts[b]++
		}
	}
	expected, statistic := float64(8*len(values))/256, 0.0
	for _, n := range counts {
		statistic += (n - expected) * (n - expected) / expected
	}
	if limit := (distuv.ChiSquared{K: 255}).Quantile(1 - perCheck); statistic > limit || expected < 20 {
		t.Errorf("%s: chi-squared %.0f of %d numbers, above %.0f with a probability of %g", what, statistic,
			len(values), limit, perCheck)
	}
}

// Of real nodes a real aggregator gets, in masked runs of every kind of sum, keys, uniform numbers, tags and
// the seeds of their own masks, and no more. What it opens is the sum of what the nodes would have sent without
// masks, with noise of the variance that three shares have.
func TestWhatAnAggregatorSees(t *testing.T) {
	t.Parallel()
	table := questiontest.SmallTable(t, 60, 1)
	address, folder := startAggregator(t, table.Schema().SHA256)
	group := masking.Group{Quorum: 3, Colluding: 1}
	var twins []*Node
	var records []*recorder
	for i, site := range []string{"east", "north", "south"} {
		c := smallConfig(t, 2)
		c.Aggregator, c.Site, c.TLS = address, site, certs.IssuedFiles(folder, certs.RoleNode, site)
		own := questiontest.SmallTable(t, 60, uint64(i+1))
		n := start(t, c, own)
		twin := start(t, copyState(t, c), own) // it is asked without masks
		for _, of := range []*Node{n, twin} {
			of.site.Sample = func(gnmax.Rate) ([]int, error) { return []int{i, 5, 7}, nil }
		}
		group.Members = append(group.Members, memberOf(t, c))
		twins = append(twins, twin)
		records = append(records, runRecorded(t, n))
	}
	client := connect(t, address, folder)
	gaussian := &conclavev1.PrivacyEvent{Kind: "gaussian", Sigma: 2, Sensitivity: 1}
	for name, asks := range map[string]struct {
		round     func(run string, number uint64) *conclavev1.Round
		mechanism *conclavev1.PrivacyEvent
		rounds    int // so many that their bytes can be counted
	}{
		"embed":     {embeddingRound, gaussian, 20},
		"marginals": {marginalsOf("marginals", 1), gaussian, 60},
		"gpate": {func(run string, number uint64) *conclavev1.Round { return sumRound(run, number, 0) },
			gaussian, 15},
		"dpgan": {func(run string, number uint64) *conclavev1.Round { return discriminatorRound(run, number, nil) },
			&conclavev1.PrivacyEvent{Kind: "subsampled-gaussian", NoiseMultiplier: 2, Rate: 0.5}, 8},
		"pategan": {voteRound, &conclavev1.PrivacyEvent{Kind: "gnmax", Sigma: voteNoise}, 60},
	} {
		first := asks.round(name, 0)
		spec := &conclavev1.RunSpec{
			Name: name, Dataset: "d", Pipeline: name, SchemaSha256: table.Schema().SHA256, Epsilon: 1e4, Delta: 1e-5,
			Unit: "record", Guarantee: "data-independent", Teachers: 6, Quorum: 1, DeadlineSeconds: 60,
			Masked: group.Wire(), Filter: "pld",
			Plan: []*conclavev1.Planned{{Kind: first.Kind, Mechanism: asks.mechanism, Count: uint64(asks.rounds)}},
		}
		votes := first.GetVotes()
		if votes != nil {
			spec.Plan[0].Count *= uint64(votes.GetQueries())
			spec.Plan[0].Variant = "histogram"
		}
		_, err := client.OpenRun(testkit.Within(t), spec)
		testkit.Must(t, err)
		// Sigma times what a unit can move, and three shares where two are enough.
		deviation := 2 * float64(first.GetSum().GetBound()) * math.Sqrt(3./2)
		if first.GetSum().GetPer() == conclavev1.Vector_PER_TEACHER {
			deviation *= 2
		}
		if votes != nil {
			deviation = voteNoise * masking.VoteSteps * math.Sqrt(3./2)
		}
		var squares, mean, count float64
		var plain [][]int64
		for number := range uint64(asks.rounds) {
			r := asks.round(name, number)
			release, err := client.Ask(testkit.Within(t), r, student.Asking{}, nil)
			testkit.Must(t, err)
			noise := slices.Clone(release.GetSum().GetValues())
			for _, v := range release.GetVotes().GetHistogram() { // rounded to votes, which is much less than the noise
				noise = append(noise, v*masking.VoteSteps)
			}
			for _, twin := range twins {
				m := ask(t, twin, r)
				own := m.GetSum().GetValues()
				if m.GetVotes() != nil {
					own = testkit.Value(tally(m.GetVotes(), int(votes.GetClasses())))
				}
				if own == nil {
					t.Fatalf("%s: without masks a node says %v", name, m)
				}
				plain = append(plain, own)
				for i, v := range own {
					noise[i] -= v
				}
			}
			for _, v := range noise {
				x := float64(v) / deviation
				squares, mean, count = squares+x*x, mean+x, count+1
			}
		}
		chi := distuv.ChiSquared{K: count}
		if squares < chi.Quantile(perCheck) || squares > chi.Quantile(1-perCheck) {
			t.Errorf("%s: the noise has %.3f times the variance that is stated", name, squares/count)
		}
		if off := math.Abs(mean) / math.Sqrt(count); off > distuv.UnitNormal.Quantile(1-perCheck) {
			t.Errorf("%s: the total is off by %.1f standard errors", name, off)
		}
		var all []int64
		for i, r := range records {
			answers := r.answers(t, name, asks.rounds)
			for number, answer := range answers {
				for _, p := range plain {
					for at, v := range p {
						if v != 0 && answer[at] == v {
							t.Errorf("%s: entry %d of round %d of node %d is a plain number", name, at, number, i)
						}
					}
				}
				all = append(all, answer...)
			}
		}
		wantUniform(t, name+": single answers", all)
	}
}

func marginalsOf(kind string, second uint32) func(string, uint64) *conclavev1.Round {
	return func(run string, number uint64) *conclavev1.Round {
		r := marginalsRound(kind, second)
		r.Run, r.Number = run, number
		return r
	}
}

// answers are those that a node sent in a run in which nobody is lost. All else that it sent must be a key,
// tags or a seed of its own, each once for what it is for.
func (r *recorder) answers(t *testing.T, run string, rounds int) (answers [][]int64) {
	t.Helper()
	r.mu.Lock()
	defer r.mu.Unlock()
	sorts, own := map[string]int{}, map[string]bool{}
	for _, m := range r.sent {
		switch {
		case m.GetPermitted().GetRun() == run:
			sorts["keys"]++
		case m.GetSum().GetRun() == run:
			answers = append(answers, m.GetSum().GetValues())
		case m.GetAgreed().GetRun() == run:
			sorts["tags"]++
		case m.GetRevealed().GetRun() == run:
			sorts["seeds"]++
			own[string(m.GetRevealed().GetOwn())] = true
			if n := len(m.GetRevealed().GetLost()); n != 0 {
				t.Errorf("%d seeds were revealed that are shared with survivors", n)
			}
		case m.GetHello() == nil && !strings.Contains(m.String(), "run:"):
			t.Errorf("the node sent %v", m)
		}
	}
	if len(answers) != rounds || sorts["keys"] != 1 || sorts["tags"] != rounds || sorts["seeds"] != rounds ||
		len(own) != rounds {
		t.Errorf("%s: %d answers, and %v, of which %d seeds differ", run, len(answers), sorts, len(own))
	}
	return answers
}
