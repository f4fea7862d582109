package aggregator

import (
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/testing/protocmp"

	"github.com/conclave-dp/conclave/coordinator"
	"github.com/conclave-dp/conclave/gnmax"
	"github.com/conclave-dp/conclave/internal/ledger"
	"github.com/conclave-dp/conclave/internal/privacy"
	"github.com/conclave-dp/conclave/internal/runspec"
	"github.com/conclave-dp/conclave/internal/testkit"
	conclavev1 "github.com/conclave-dp/conclave/proto/conclave/v1"
)

// embedding is an entry of a plan for embeddings, as many as the budget admits.
func embedding(sigma float64) privacy.Planned {
	return planned(runspec.Embedding, gaussian(sigma), 0)
}

// embeddingOf opens a run that may ask for embeddings with this noise.
func embeddingOf(sigma float64) func(*conclavev1.RunSpec) {
	return func(s *conclavev1.RunSpec) {
		s.Pipeline = "embed"
		asks(embedding(sigma))(s)
	}
}

// embeddingRound asks for an embedding of so many entries.
func embeddingRound(run string, number uint64, entries int, change func(*conclavev1.EmbeddingSum)) *conclavev1.Round {
	q := &conclavev1.EmbeddingSum{
		Embedding: &conclavev1.Embedding{Classes: 2, Parts: []*conclavev1.Embedding_Part{
			{Kind: conclavev1.Embedding_Part_KIND_ONES, Weight: 0.3},
			{Kind: conclavev1.Embedding_Part_KIND_FOURIER, Weight: 1, Count: 20, Spread: 0.8, Seed: 1},
		}},
		Entries: uint32(entries), Bound: 1 << 16,
	}
	if change != nil {
		change(q)
	}
	return &conclavev1.Round{Run: run, Number: number, Question: &conclavev1.Round_Sum{Sum: &conclavev1.SumQuestion{
		Statistic: &conclavev1.SumQuestion_Embedding{Embedding: q}}}}
}

// A release is the sum of what the nodes sent with Gaussian noise of bound x sigma on every
// number, for one Gaussian event, in the first round of a run of any mechanism.
func TestEmbeddingSums(t *testing.T) {
	var private [][]int64
	c := newCluster(t, Options{Hooks: Hooks{Sums: func(_ string, _ uint64, counts []int64) { private = append(private, slices.Clone(counts)) }}})
	student := c.student(t)
	const entries, sigma, bound = 12000, 3.5, 1 << 12
	for name, change := range map[string]func(*conclavev1.RunSpec){
		"sums":              embeddingOf(sigma),
		"votes":             also(embedding(sigma)),
		"sums of gradients": both(sumsOf(2), also(embedding(sigma))),
	} {
		private = nil
		d := c.dataset()
		spec, opened := student.open(t, d, change)
		if opened.GetRounds() != 0 || opened.GetEpsilonSpent() != 0 {
			t.Errorf("%s: opened with %v", name, opened)
		}
		north, south := make([]int64, entries), make([]int64, entries)
		for i := range north {
			north[i], south[i] = int64(i%7-3)*100, int64(i%1000)*40
		}
		c.node(t, hello(d, "north", "a", 5), sums(north))
		n := c.node(t, hello(d, "south", "a", 3), sums(south))
		testkit.Eventually(t, "8 teachers", func() bool { return c.server.datasets[d].liveTeachers() == 8 })
		round := paid(spec, "", embeddingRound(spec.Name, 0, entries, func(q *conclavev1.EmbeddingSum) { q.Bound = bound }))
		r := student.mustAsk(t, round)
		if r.GetSum().GetScale() != bound || r.GetTeachers() != 8 || len(r.GetSum().GetValues()) != entries {
			t.Fatalf("%s: a release of %d numbers at scale %d by %d teachers", name, len(r.GetSum().GetValues()), r.GetSum().GetScale(), r.GetTeachers())
		}
		if want := gaussianEpsilon(1/sigma, 1e-5); math.Abs(r.GetEpsilonSpent()-want) > 1e-9*want {
			t.Errorf("%s: epsilon %v, want %v", name, r.GetEpsilonSpent(), want)
		}
		// As in TestGradientSums: six standard deviations each, passed with a chance of 2e-9.
		var mean, square, product float64
		noise := make([]float64, entries)
		for i, v := range r.GetSum().GetValues() {
			noise[i] = float64(v-north[i]-south[i]) / (bound * sigma)
		}
		for i, v := range noise {
			mean, square, product = mean+v/entries, square+v*v/entries, product+v*noise[(i+1)%entries]/entries
		}
		if limit := 6 / math.Sqrt(entries); math.Abs(mean) > limit || math.Abs(square-1) > math.Sqrt2*limit || math.Abs(product) > limit {
			t.Errorf("%s: mean %v, mean square %v, mean product %v; want 0, 1, 0 +- %v", name, mean, square, product, limit)
		}
		for range 2 {
			if again := student.mustAsk(t, round); !cmp.Equal(again, r, protocmp.Transform()) {
				t.Errorf("%s: asked again it has another release", name)
			}
		}
		if len(n.rounds) != 1 || len(private) != 1 || private[0][7] != north[7]+south[7] || private[0][entries-1] != north[entries-1]+south[entries-1] {
			t.Errorf("%s: a node saw %d rounds, %d sums were drawn from", name, len(n.rounds), len(private))
		}
		got := student.ledger(t, spec.Name)
		if len(got) != 1 || !cmp.Equal(got[0].Events, times(1, gaussian(sigma))) || got[0].Kind != runspec.Embedding ||
			*got[0].Planned != int(round.Planned) || got[0].Queries != 1 || got[0].Answered != 1 || got[0].Entries != entries {
			t.Fatalf("%s: the ledger has %+v", name, got)
		}
		_, err := student.CloseRun(testkit.Within(t), &conclavev1.CloseRunRequest{Run: spec.Name})
		testkit.Must(t, err)
		if _, err := ledger.VerifyStrict(strings.NewReader(student.lines(t, spec.Name))); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// The plan of a run of samples holds one embedding, which may come in any round.
func TestAPlanHoldsOneEmbedding(t *testing.T) {
	c := newCluster(t, Options{})
	student := c.student(t)
	const sigma, multiplier = 4., 2.
	d := c.planned()
	plan := privacy.Plan{planned(runspec.Discriminator, subsampled(multiplier, 0.25), 2), planned(runspec.Embedding, gaussian(sigma), 1)}
	spec, _ := student.open(t, d, both(wholly, asks(plan...)))
	of := func(number uint64) *conclavev1.Round {
		return paid(spec, "", embeddingRound(spec.Name, number, 6, nil))
	}
	n := c.node(t, hello(d, "north", "a", 8), sums(make([]int64, 6)))
	if diff := cmp.Diff(plan, planOf(t, student.lines(t, spec.Name), spec.Name)); diff != "" {
		t.Errorf("the plan: %s", diff)
	}
	student.mustAsk(t, of(0))
	_, err := student.ask(testkit.Within(t), of(1), nil)
	wantStatus(t, err, codes.ResourceExhausted, spec.Name, "1 of them are used and 1 more")
	_, err = student.ask(testkit.Within(t), countRound(spec.Name, 1, 2, 1<<16), nil)
	wantStatus(t, err, codes.FailedPrecondition, "entry 1 of the plan of run", "pays for embedding, and the round asks for class-counts")
	if len(n.rounds) != 1 {
		t.Errorf("the node saw %d rounds", len(n.rounds))
	}
	for number := range uint64(2) {
		student.mustAsk(t, discriminatorRound(spec.Name, number+1, 6, nil))
	}
	_, err = student.CloseRun(testkit.Within(t), &conclavev1.CloseRunRequest{Run: spec.Name})
	testkit.Must(t, err)
	verified, err := ledger.VerifyStrict(strings.NewReader(student.lines(t, spec.Name)))
	testkit.Must(t, err)
	claim, err := privacy.Account(plan.Events(), 1e-5)
	testkit.Must(t, err)
	if got := verified.Runs[spec.Name]; got.Releases != 3 || math.Abs(got.Claim.Epsilon-claim.Epsilon) > 1e-9 {
		t.Errorf("the ledger has %+v, want epsilon %v", got, claim.Epsilon)
	}
	// The embedding is part of what has to fit when the run is opened.
	over := goodSpec()
	over.Dataset, over.Name = c.planned(), "over"
	both(wholly, asks(planned(runspec.Discriminator, subsampled(100, 0.01), 1), planned(runspec.Embedding, gaussian(2), 1)))(over)
	over.Epsilon = 1
	_, err = student.OpenRun(testkit.Within(t), &conclavev1.OpenRunRequest{Spec: over})
	wantStatus(t, err, codes.ResourceExhausted, "the whole plan")
}

// What a node cannot have computed is rejected by its name, and nothing is charged.
func TestEmbeddingSumsThatCannotBeAreRejected(t *testing.T) {
	c := newCluster(t, Options{})
	student := c.student(t)
	const limit = maxUnits << 16
	good := []int64{5, limit, -limit, 0, 1, 2}
	with := func(at int, v int64) []int64 {
		x := slices.Clone(good)
		x[at] = v
		return x
	}
	for name, bad := range map[string]struct {
		answer answerFunc
		want   string
	}{
		"too large an entry": {sums(with(3, limit+1)), "entry 3 of the sum is out of range"},
		"too small an entry": {sums(with(5, -limit-1)), "entry 5 of the sum is out of range"},
		"the least integer":  {sums(with(0, math.MinInt64)), "entry 0 of the sum is out of range"},
		"one number less":    {sums(good[1:]), "5 entries where 6 were asked"},
		"one number more":    {sums(append(slices.Clone(good), 0)), "7 entries where 6 were asked"},
		"no number":          {sums(nil), "0 entries where 6 were asked"},
		"votes":              {votes(8, alternating), "votes where a sum was asked"},
	} {
		t.Run(name, func(t *testing.T) {
			d := c.dataset()
			spec, _ := student.open(t, d, func(s *conclavev1.RunSpec) { embeddingOf(2)(s); s.DeadlineSeconds = 0.2 })
			round := embeddingRound(spec.Name, 0, 6, nil)
			c.node(t, hello(d, "north", "bad", 2), bad.answer)
			n := c.node(t, hello(d, "south", "bad", 5), bad.answer)
			_, err := student.ask(testkit.Within(t), round, nil)
			wantStatus(t, err, codes.FailedPrecondition, "north/bad", "south/bad", bad.want)
			if text := err.Error(); strings.Contains(text, "1099511627776") || strings.Contains(text, "1099511627777") {
				t.Errorf("%q tells of the sum", err)
			}
			if entries := student.ledger(t, spec.Name); len(entries) != 0 {
				t.Fatalf("charged %v", entries)
			}
			n.leave()
			c.node(t, hello(d, "south", "good", 6), sums(good))
			testkit.Eventually(t, "8 teachers", func() bool { return c.server.datasets[d].liveTeachers() == 8 })
			r := student.mustAsk(t, round)
			// Noise of 2 bounds: ten of its standard deviations are passed with a chance below 1e-21.
			if v := float64(r.GetSum().GetValues()[0]); r.GetTeachers() != 6 || math.Abs(v-5) > 20<<16 {
				t.Errorf("%d teachers took part, entry 0 is %v", r.GetTeachers(), v)
			}
			if values := r.GetSum().GetValues(); values[1] > limit || values[2] < -limit { // and no wider for the noise
				t.Errorf("the release %v is beyond its limit", values)
			}
			if entries := student.ledger(t, spec.Name); len(entries) != 1 {
				t.Errorf("%d releases in the ledger", len(entries))
			}
		})
	}
}

// badEmbeddings are questions that no run takes.
func badEmbeddings() map[string]struct {
	change func(*conclavev1.EmbeddingSum)
	want   string
} {
	type bad = struct {
		change func(*conclavev1.EmbeddingSum)
		want   string
	}
	weight := func(v float64) func(*conclavev1.EmbeddingSum) {
		return func(q *conclavev1.EmbeddingSum) { q.Embedding.Parts[1].Weight = v }
	}
	bound := func(v uint64) func(*conclavev1.EmbeddingSum) {
		return func(q *conclavev1.EmbeddingSum) { q.Bound = v }
	}
	return map[string]bad{
		"no entries":      {func(q *conclavev1.EmbeddingSum) { q.Entries = 0 }, "an embedding of 0 entries; ask for 1 to"},
		"many entries":    {func(q *conclavev1.EmbeddingSum) { q.Entries = maxHistogram + 1 }, "an embedding of 131073 entries"},
		"absurdly many":   {func(q *conclavev1.EmbeddingSum) { q.Entries = math.MaxUint32 }, "an embedding of 4294967295 entries"},
		"no bound":        {bound(0), "bound of embeddings is 0; use 256 to 1048576"},
		"a small bound":   {bound(255), "bound of embeddings is 255"},
		"a large bound":   {bound(1<<20 + 1), "bound of embeddings is 1048577"},
		"an absurd bound": {bound(math.MaxUint64), "use 256 to 1048576"},
		"nothing at all":  {func(q *conclavev1.EmbeddingSum) { q.Embedding = nil }, "an embedding of 0 parts"},
		"no parts":        {func(q *conclavev1.EmbeddingSum) { q.Embedding.Parts = nil }, "an embedding of 0 parts; use 1 to 64"},
		"many parts": {func(q *conclavev1.EmbeddingSum) { q.Embedding.Parts = slices.Repeat(q.Embedding.Parts, 33) },
			"an embedding of 66 parts"},
		"weight 0":         {weight(0), "part 2 of the embedding has weight 0"},
		"negative weight":  {weight(-1), "part 2 of the embedding has weight -1"},
		"a weight of NaN":  {weight(math.NaN()), "part 2 of the embedding has weight NaN"},
		"infinite weight":  {weight(math.Inf(1)), "part 2 of the embedding has weight +Inf"},
		"a part of no one": {func(q *conclavev1.EmbeddingSum) { q.Embedding.Parts[0] = &conclavev1.Embedding_Part{} }, "part 1 of the embedding has weight 0"},
	}
}

// Questions that a run does not allow are refused before a node sees them, and cost nothing.
func TestEmbeddingQuestionsAreRefused(t *testing.T) {
	c := newCluster(t, Options{AllowCoin: true})
	student := c.student(t)
	opened := func(change func(*conclavev1.RunSpec)) (string, *testNode) {
		d := c.dataset()
		spec, _ := student.open(t, d, change)
		return spec.Name, c.node(t, hello(d, "north", "a", 8), sums(make([]int64, 6)))
	}
	refused := func(run string, n *testNode, round *conclavev1.Round, code codes.Code, names ...string) {
		t.Helper()
		_, err := student.ask(testkit.Within(t), round, nil)
		wantStatus(t, err, code, names...)
		if entries := student.ledger(t, run); len(n.rounds) != 0 || len(entries) != 0 {
			t.Fatalf("the node saw %d rounds, charged was %v", len(n.rounds), entries)
		}
	}
	run, n := opened(embeddingOf(2))
	for _, bad := range badEmbeddings() {
		refused(run, n, embeddingRound(run, 0, 6, bad.change), codes.InvalidArgument, bad.want)
	}
	nothing := func(q *conclavev1.EmbeddingSum) { q.Nothing = true }
	refused(run, n, embeddingRound(run, 0, 6, nothing), codes.FailedPrecondition, "leave out embedding.nothing")
	// Votes that a run of sums has no noise for stay refused beside the embedding.
	refused(run, n, voteRound(run, 0, 2), codes.FailedPrecondition, "pays for embedding, and the round asks for votes")

	for _, change := range []func(*conclavev1.RunSpec){nil, sumsOf(2), samplesOf(2, 0.25, 2)} {
		other, n := opened(change)
		refused(other, n, embeddingRound(other, 0, 6, nil), codes.FailedPrecondition, other, "and the round asks for embedding; open a run whose plan has it")
	}
	// Noise on a sample has another price.
	sample, n := opened(both(wholly, asks(planned(runspec.Embedding, subsampled(2, 0.25), 1))))
	refused(sample, n, embeddingRound(sample, 0, 6, nil), codes.InvalidArgument, sample, "the plan answers embedding by subsampled-gaussian")
	over, n := opened(func(s *conclavev1.RunSpec) { embeddingOf(2)(s); s.Epsilon = 1 })
	refused(over, n, embeddingRound(over, 0, 6, nil), codes.ResourceExhausted, over)
	// Noise that can be drawn for a coarser sum only.
	wide, n := opened(embeddingOf(1e5))
	refused(wide, n, embeddingRound(wide, 0, 6, nil), codes.InvalidArgument, wide, "noise multiplier 100000 times bound 65536")
	student.mustAsk(t, embeddingRound(wide, 0, 6, func(q *conclavev1.EmbeddingSum) { q.Bound = 1 << 12 }))

	// Nothing is asked for by the baseline, in a run that says so, where that is allowed.
	coin, _ := opened(func(s *conclavev1.RunSpec) { embeddingOf(2)(s); s.CoinVotes = true })
	r := student.mustAsk(t, embeddingRound(coin, 0, 6, nothing))
	if entries := student.ledger(t, coin); len(entries) != 1 || r.GetTeachers() != 8 {
		t.Errorf("the baseline was charged %v", entries)
	}
	// A question that is right after all those is answered.
	if r := student.mustAsk(t, embeddingRound(run, 0, 6, nil)); r.GetTeachers() != 8 {
		t.Errorf("released %v", r)
	}
	// Without a plan the budget alone bounds how many there are: each is charged.
	for number := uint64(1); ; number++ {
		r, err := student.ask(testkit.Within(t), embeddingRound(run, number, 6, nil), nil)
		if err != nil {
			wantStatus(t, err, codes.ResourceExhausted, run)
			break
		}
		if want := gaussianEpsilon(math.Sqrt(float64(number+1))/2, 1e-5); math.Abs(r.GetEpsilonSpent()-want) > 1e-9*want || number > 100 {
			t.Fatalf("epsilon %v after %d embeddings, want %v", r.GetEpsilonSpent(), number+1, want)
		}
	}

	// And where the baseline is not allowed, a run that says so is not either.
	strict := newCluster(t, Options{})
	spec := goodSpec()
	spec.Dataset = strict.dataset()
	embeddingOf(2)(spec)
	spec.CoinVotes = true
	if _, err := strict.student(t).OpenRun(testkit.Within(t), &conclavev1.OpenRunRequest{Spec: spec}); err == nil {
		_, err = strict.student(t).ask(testkit.Within(t), embeddingRound(spec.Name, 0, 6, nothing), nil)
		wantStatus(t, err, codes.FailedPrecondition, "leave out embedding.nothing")
	}
}

// Noise that no embedding can have is found when the run is opened.
func TestEmbeddingNoiseIsCheckedWhenTheRunIsOpened(t *testing.T) {
	for name, sigma := range map[string]float64{
		"NaN": math.NaN(), "negative": -1, "infinite": math.Inf(1), "negative infinity": math.Inf(-1),
		"too small": 1e-9, "tiny": 5e-324, "too large": 1e9,
	} {
		for _, change := range []func(*conclavev1.RunSpec){nil, sumsOf(2), samplesOf(2, 0.25, 2)} {
			spec := goodSpec()
			if change != nil {
				change(spec)
			}
			also(planned(runspec.Embedding, gaussian(sigma), 1))(spec)
			if _, err := newRunSpec(spec); err == nil || !strings.Contains(err.Error(), "plan, entry 2: gaussian") || !strings.Contains(err.Error(), spec.Name) {
				t.Errorf("%s: %v", name, err)
			}
		}
	}
	if s := mustSpec(t, embeddingOf(3)); !cmp.Equal(s.plan, privacy.Plan{embedding(3)}) || s.budget.Filter != "" {
		t.Errorf("read as %+v", s)
	}
}

// The largest release, of any bound, is within what is set aside for it.
func TestNoEmbeddingReleaseIsLargerThanItsBound(t *testing.T) {
	for _, bound := range []int64{minBound, 1 << 16, maxBound} {
		for _, entries := range []int{1, maxHistogram} {
			q := &embeddingSum{entries: entries, bound: bound}
			r := largestRelease()
			r.Answer = &conclavev1.Release_Sum{Sum: &conclavev1.NoisySum{Values: slices.Repeat([]int64{-q.limit()}, entries), Scale: uint64(bound)}}
			checkSize(t, q, r)
			r.GetSum().Values = slices.Repeat([]int64{q.limit()}, entries)
			checkSize(t, q, r)
		}
	}
}

// Noise is drawn also where there is no record anywhere. The mean square of 20,000 numbers
// of unit variance is within 6.5 standard deviations of 1 but for a chance of 2e-10.
func TestEmbeddingsOfNobodyHaveNoise(t *testing.T) {
	const entries, sigma, bound = 20000, 1.5, 1 << 12
	q, err := newEmbeddingSum(embeddingRound("r", 0, entries, func(q *conclavev1.EmbeddingSum) { q.Bound = bound }).GetSum().GetEmbedding(),
		embedding(sigma), mustSpec(t, embeddingOf(sigma)), false)
	testkit.Must(t, err)
	r := new(conclavev1.Release)
	if _, err := q.answer(gnmax.NewSource(), make([]int64, entries), r); err != nil {
		t.Fatal(err)
	}
	square := 0.0
	for _, v := range r.GetSum().GetValues() {
		square += math.Pow(float64(v)/(bound*sigma), 2) / entries
	}
	if limit := 6.5 * math.Sqrt(2./entries); math.Abs(square-1) > limit {
		t.Errorf("mean square %v, want 1 +- %v", square, limit)
	}
}

// FuzzEmbedding decodes a question for an embedding and a node's answer from the wire: no
// input may panic, a question that is taken is charged by the run's noise and can be
// released and stored, and an answer that is taken is within its limit.
func FuzzEmbedding(f *testing.F) {
	spec := mustSpec(f, embeddingOf(1.5))
	raw := func(m proto.Message) []byte {
		b, err := proto.Marshal(m)
		testkit.Must(f, err)
		return b
	}
	answer := func(values ...int64) []byte {
		return raw(&conclavev1.WorkRequest{Message: &conclavev1.WorkRequest_Sum{Sum: &conclavev1.Sum{Values: values}}})
	}
	f.Add(raw(embeddingRound("r", 1, 2, nil)), answer(maxUnits<<16, -maxUnits<<16))
	f.Add(raw(embeddingRound("r", 1, 2, nil)), answer(maxUnits<<16+1, 0))
	f.Add(raw(embeddingRound("r", 1, 2, nil)), answer(1))
	f.Add(raw(embeddingRound("r", 1, 2, func(q *conclavev1.EmbeddingSum) { q.Nothing = true })), answer(0, 0))
	for _, bad := range badEmbeddings() {
		f.Add(raw(embeddingRound("r", 1, 2, bad.change)), answer(1, 2))
	}
	f.Add(raw(voteRound("r", 1, 1)), raw(&conclavev1.WorkRequest{Message: &conclavev1.WorkRequest_Votes{Votes: &conclavev1.Votes{Teachers: 3}}}))
	f.Fuzz(func(t *testing.T, question, answer []byte) {
		round, reply := new(conclavev1.Round), new(conclavev1.WorkRequest)
		if proto.Unmarshal(question, round) != nil || proto.Unmarshal(answer, reply) != nil {
			return
		}
		q, err := parseQuestion(&payload{key: roundKey{"r", 1}, round: round}, &run{spec: spec}, true)
		if err != nil {
			return
		}
		e, ok := q.(*embeddingSum)
		if !ok {
			return
		}
		asked := round.GetSum().GetEmbedding()
		if q.length() != int(asked.GetEntries()) || q.length() < 1 || asked.GetNothing() || q.largest() > coordinator.MaxRelease ||
			q.queries() != 1 || round.GetPlanned() != 0 {
			t.Fatalf("a question for %d numbers, %d bytes, %d uses of entry %d", q.length(), q.largest(), q.queries(), round.GetPlanned())
		}
		counts, err := q.read(reply, 3)
		if err != nil {
			return
		}
		for _, v := range counts {
			if v > e.limit() || v < -e.limit() {
				t.Fatalf("%d of at most %d", v, e.limit())
			}
		}
		r := new(conclavev1.Release)
		answered, err := q.answer(gnmax.NewSource(), counts, r)
		if err != nil || len(r.GetSum().GetValues()) != q.length() || answered != 1 {
			t.Fatalf("released %v for %d answers, %v", r, answered, err)
		}
	})
}
