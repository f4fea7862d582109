package node

import (
	"encoding/binary"
	"fmt"
	"hash/fnv"
	"math"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"

	"go.uber.org/zap"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/conclave-dp/conclave/internal/discriminator"
	"github.com/conclave-dp/conclave/internal/nn"
	"github.com/conclave-dp/conclave/internal/testkit"
	"github.com/conclave-dp/conclave/partition"
	conclavev1 "github.com/conclave-dp/conclave/proto/conclave/v1"
)

const (
	logisticLoss    = conclavev1.DiscriminatorSum_LOSS_LOGISTIC
	wassersteinLoss = conclavev1.DiscriminatorSum_LOSS_WASSERSTEIN
)

// discriminatorRound asks for the gradients of a discriminator of smallSchema, with weights
// of this spread.
func discriminatorRound(run string, number uint64, spread float64, change func(q *conclavev1.DiscriminatorSum)) *conclavev1.Round {
	q := &conclavev1.DiscriminatorSum{
		Discriminator: &conclavev1.Discriminator{
			Kind: conclavev1.Discriminator_KIND_DENSE, Hidden: 6, Layers: 1, Classes: 2, ByClass: conclavev1.Discriminator_CLASSES_EACH,
		},
		Loss: logisticLoss, Rate: 0.5, Clip: 0.8, Bound: 1 << 16,
	}
	if change != nil {
		change(q)
	}
	if q.Weights == nil && q.Discriminator != nil {
		q.Weights = nn.Bytes(randomWeights(weightsBy(q.Discriminator), spread, number))
	}
	return &conclavev1.Round{Run: run, Number: number, Question: &conclavev1.Round_Sum{Sum: &conclavev1.SumQuestion{
		Statistic: &conclavev1.SumQuestion_Discriminator{Discriminator: q},
	}}}
}

// widths are those of the layers of a dense discriminator of smallSchema, inputs first.
func widths(d *conclavev1.Discriminator) []int {
	in, out := smallFeatures, 1
	switch {
	case d.Standard:
		in++
	case d.Pieces:
		in += 13
	}
	in += int(d.Fourier)
	if d.ByClass == conclavev1.Discriminator_CLASSES_EACH {
		out = 2
	} else {
		in += 2
	}
	w := []int{in}
	for range d.Layers {
		w = append(w, int(d.Hidden))
	}
	return append(w, out)
}

func weightsBy(d *conclavev1.Discriminator) int {
	n, w := 0, widths(d)
	for l := range w[1:] {
		n += (w[l] + 1) * w[l+1]
	}
	return n
}

func randomWeights(n int, spread float64, seed uint64) []float32 {
	rng := rand.New(rand.NewPCG(seed, 17))
	w := make([]float32, n)
	for i := range w {
		w[i] = float32(spread * rng.NormFloat64())
	}
	return w
}

// standardUnits sets units of standard inputs.
func standardUnits(q *conclavev1.DiscriminatorSum) {
	q.Discriminator.Standard = true
	mean, scale := make([]float32, 2*smallFeatures), make([]float32, 2*smallFeatures)
	for i := range mean {
		mean[i], scale[i] = 0.1*float32(i%7), 1+0.3*float32(i)
	}
	shape := []uint32{2, smallFeatures}
	q.Mean, q.Scale = &conclavev1.Tensor{Shape: shape, Data: nn.Bytes(mean)}, &conclavev1.Tensor{Shape: shape, Data: nn.Bytes(scale)}
}

// rowsOf are the records of 60 units of one record each, or of people with 1 to 9.
func rowsOf(t testing.TB, unit string, who func(person int) bool) *partition.Table {
	t.Helper()
	all, at := smallTable(t, 400, 1), 0
	text := smallSchema
	if unit != partition.UnitRecord {
		text = strings.Replace(smallSchema, "columns:\n", "columns:\n  - {name: who, role: unit}\n", 1)
	}
	table := partition.NewTable(mustSchema(t, text))
	for person := range 60 {
		records := 1
		if unit != partition.UnitRecord {
			records += person % 9
		}
		for range records {
			if who(person) && unit == partition.UnitRecord {
				testkit.Must(t, table.Append(slices.Clone(all.Cells(at)), ""))
			} else if who(person) {
				testkit.Must(t, table.Append(append([]float64{math.NaN()}, all.Cells(at)...), fmt.Sprint("p", person)))
			}
			at++
		}
	}
	return table
}

// sites divides the 60 units among so many nodes, at which a unit is in the sample by its
// records alone: at any node, it is or is not.
func sites(t testing.TB, unit string, nodes int) []*Node {
	t.Helper()
	out := make([]*Node, nodes)
	for i := range out {
		c := smallConfig(t, 2)
		c.Unit, c.Site = unit, fmt.Sprint("site", i)
		out[i] = start(t, c, rowsOf(t, unit, func(person int) bool { return person%nodes == i }))
		byRecords(out[i])
	}
	return out
}

// byRecords has a node sample units by a hash of their records.
func byRecords(n *Node) {
	n.sampled = func(rate float64) []int {
		var sample []int
		for u := range n.units {
			h := fnv.New64a()
			for _, r := range recordsOf(n, u) {
				for _, v := range r.x {
					_ = binary.Write(h, binary.LittleEndian, v)
				}
			}
			if float64(h.Sum64()%1000) < 1000*rate {
				sample = append(sample, u)
			}
		}
		return sample
	}
}

type record struct {
	x     []float32
	class int
}

func recordsOf(n *Node, unit int) []record {
	var out []record
	for _, p := range n.units[unit] {
		out = append(out, record{n.examples[p.teacher].ByClass[p.class][p.at*n.features : (p.at+1)*n.features], p.class})
	}
	return out
}

func discriminatorSumOf(t testing.TB, n *Node, r *conclavev1.Round) []int64 {
	t.Helper()
	m := ask(t, n, r)
	if m.GetSum() == nil || m.GetSum().Run != r.Run || m.GetSum().Round != r.Number {
		t.Fatalf("answered with %v", m)
	}
	return m.GetSum().Values
}

func addedUp(t testing.TB, nodes []*Node, r *conclavev1.Round) []int64 {
	t.Helper()
	var sum []int64
	for _, n := range nodes {
		values := discriminatorSumOf(t, n, r)
		if sum == nil {
			sum = make([]int64, len(values))
		}
		for i, v := range values {
			sum[i] += v
		}
	}
	return sum
}

// discriminators are questions about all kinds of networks of tables.
func discriminators() map[string]func(q *conclavev1.DiscriminatorSum) {
	return map[string]func(q *conclavev1.DiscriminatorSum){
		"each":        func(*conclavev1.DiscriminatorSum) {},
		"told":        func(q *conclavev1.DiscriminatorSum) { q.Discriminator.ByClass = conclavev1.Discriminator_CLASSES_TOLD },
		"wasserstein": func(q *conclavev1.DiscriminatorSum) { q.Loss = wassersteinLoss },
		"linear":      func(q *conclavev1.DiscriminatorSum) { q.Discriminator.Layers, q.Loss = 0, wassersteinLoss },
		"two layers":  func(q *conclavev1.DiscriminatorSum) { q.Discriminator.Layers, q.Clip = 2, 0.05 },
		"standard":    func(q *conclavev1.DiscriminatorSum) { standardUnits(q); q.Clip = 20 },
		"standard told": func(q *conclavev1.DiscriminatorSum) {
			standardUnits(q)
			q.Discriminator.ByClass, q.Loss = conclavev1.Discriminator_CLASSES_TOLD, wassersteinLoss
		},
		"pieces": func(q *conclavev1.DiscriminatorSum) { q.Discriminator.Pieces = true },
		"fourier": func(q *conclavev1.DiscriminatorSum) {
			d := q.Discriminator
			d.Pieces, d.Fourier, d.Seed, d.Layers = true, 20, 3, 0
		},
		"everybody":                             func(q *conclavev1.DiscriminatorSum) { q.Rate = 1 },
		"few steps":                             func(q *conclavev1.DiscriminatorSum) { q.Bound = 1 << 8 },
		"no weight is zero, and steps are many": func(q *conclavev1.DiscriminatorSum) { q.Bound = 1 << 20 },
	}
}

// The sum does not depend on how many nodes the units are divided among, not in its last
// bit: whoever is in the sample adds whole numbers of their own.
func TestDiscriminatorSumsDoNotDependOnTheNumberOfNodes(t *testing.T) {
	for _, unit := range []string{partition.UnitRecord, "who"} {
		one, two, seven := sites(t, unit, 1), sites(t, unit, 2), sites(t, unit, 7)
		for name, change := range discriminators() {
			for number := range uint64(3) {
				r := discriminatorRound("r", number, 0.5, change)
				want := addedUp(t, one, r)
				if slices.Max(want) == 0 && slices.Min(want) == 0 {
					t.Fatalf("%s: all is zero", name)
				}
				for _, nodes := range [][]*Node{two, seven} {
					if got := addedUp(t, nodes, r); !slices.Equal(got, want) {
						t.Errorf("unit %s, %s, round %d: %d nodes add up to %v, one to %v", unit, name, number, len(nodes), got, want)
					}
				}
			}
		}
	}
}

// byHand computes the sum of the sample's clipped gradients in float64, in units of the clip
// norm times bound: a dense network with leaky rectifiers, a unit's loss the mean over its
// records. Only what a network sees of a record is taken from elsewhere where it is more
// than the columns or their units. It returns how many units were in the sample.
func byHand(t testing.TB, n *Node, q *conclavev1.DiscriminatorSum) (sum []float64, units int) {
	t.Helper()
	weights, err := nn.Floats(q.Weights)
	testkit.Must(t, err)
	w := widths(q.Discriminator)
	sum = make([]float64, len(weights))
	for _, u := range n.sampled(q.Rate) {
		units++
		gradient := make([]float64, len(weights))
		records := recordsOf(n, u)
		for _, r := range records {
			addGradient(gradient, weights, w, seenByHand(t, n, q, r), r.class, q, 1/float64(len(records)))
		}
		norm := 0.0
		for _, g := range gradient {
			norm += g * g
		}
		scale := float64(q.Bound) / max(q.Clip, math.Sqrt(norm))
		for i, g := range gradient {
			sum[i] += g * scale
		}
	}
	return sum, units
}

// seenByHand is what the network sees of a record.
func seenByHand(t testing.TB, n *Node, q *conclavev1.DiscriminatorSum, r record) []float64 {
	t.Helper()
	d := q.Discriminator
	var seen []float64
	switch {
	case d.Standard:
		mean, err := nn.Floats(q.Mean.Data)
		testkit.Must(t, err)
		scale, err := nn.Floats(q.Scale.Data)
		testkit.Must(t, err)
		for j, v := range r.x {
			k := r.class*smallFeatures + j
			seen = append(seen, max(-4, min(4, (float64(v)-float64(mean[k]))*float64(scale[k]))))
		}
		seen = append(seen, (seen[0]*seen[0]-1)/math.Sqrt2) // x is the one number
	case d.Pieces || d.Fourier > 0:
		s := discriminator.Spec{
			Features: smallFeatures, Numbers: []int{0}, Classes: 2, Kind: discriminator.Dense, Each: true,
			Pieces: d.Pieces, Fourier: int(d.Fourier), Seed: d.Seed,
		}
		net, err := discriminator.New(s, rand.New(rand.NewPCG(1, 1)))
		testkit.Must(t, err)
		for _, v := range net.Inputs(nil, r.x, []int{r.class}) {
			seen = append(seen, float64(v))
		}
	default:
		for _, v := range r.x {
			seen = append(seen, 2*float64(v)-1)
		}
	}
	if d.ByClass == conclavev1.Discriminator_CLASSES_TOLD {
		told := []float64{0, 0}
		told[r.class] = 1
		seen = append(seen, told...)
	}
	return seen
}

// addGradient adds the gradient of one record's loss by all weights, times factor. Weights
// of a layer are [inputs, outputs], its biases come after them.
func addGradient(gradient []float64, weights []float32, w []int, x []float64, class int, q *conclavev1.DiscriminatorSum, factor float64) {
	inputs, starts, at := [][]float64{x}, []int{}, 0
	var before [][]float64 // the rectifiers
	for l := range w[1:] {
		in, out := w[l], w[l+1]
		y := make([]float64, out)
		for o := range y {
			y[o] = float64(weights[at+in*out+o])
			for i, v := range inputs[l] {
				y[o] += v * float64(weights[at+i*out+o])
			}
		}
		before, starts = append(before, y), append(starts, at)
		after := make([]float64, out)
		for o, v := range y {
			after[o] = max(v, 0.2*v)
		}
		inputs, at = append(inputs, after), at+(in+1)*out
	}
	scores := before[len(before)-1]
	head := 0
	if q.Discriminator.ByClass == conclavev1.Discriminator_CLASSES_EACH {
		head = class
	}
	dy := make([]float64, len(scores))
	dy[head] = -factor // of -score
	if q.Loss == logisticLoss {
		dy[head] /= 1 + math.Exp(scores[head]) // of log(1 + exp(-score))
	}
	for l := len(w) - 2; l >= 0; l-- {
		in, out := w[l], w[l+1]
		dx := make([]float64, in)
		for o, d := range dy {
			gradient[starts[l]+in*out+o] += d
			for i, v := range inputs[l] {
				gradient[starts[l]+i*out+o] += d * v
				dx[i] += d * float64(weights[starts[l]+i*out+o])
			}
		}
		if l > 0 {
			for i, v := range before[l-1] {
				if v < 0 {
					dx[i] *= 0.2
				}
			}
		}
		dy = dx
	}
}

// What nodes add up is the sum of the clipped gradients, but for the part of a step that
// each unit's numbers are cut by: less than the root of their number in length. A network
// computes in float32, to about a millionth.
func TestDiscriminatorSumsAreThoseOfOneMachine(t *testing.T) {
	for _, unit := range []string{partition.UnitRecord, "who"} {
		nodes := sites(t, unit, 2)
		for name, change := range discriminators() {
			for number, spread := range []float64{0, 0.3, 1} {
				r := discriminatorRound("r", uint64(number), spread, change)
				q := r.GetSum().GetDiscriminator()
				got := addedUp(t, nodes, r)
				want, units := make([]float64, len(got)), 0
				for _, n := range nodes {
					of, sampled := byHand(t, n, q)
					units += sampled
					for i, v := range of {
						want[i] += v
					}
				}
				square := 0.0
				for i, v := range got {
					square += (float64(v) - want[i]) * (float64(v) - want[i])
				}
				if units == 0 || units == 60 && q.Rate < 1 {
					t.Fatalf("%d units in the sample", units)
				}
				if off, most := math.Sqrt(square), float64(units)*(math.Sqrt(float64(len(got)))+1e-5*float64(q.Bound)); off > most {
					t.Errorf("unit %s, %s, spread %v: the sum of %d units is off by %v steps, at most %v", unit, name, spread, units, off, most)
				}
			}
		}
	}
}

// A node with nobody in its sample answers as any other, with zeros, and so does one that
// is asked for nothing. An answer says which run and round it is of, and the sum: not how
// many are in it.
func TestADiscriminatorSumDoesNotTellTheSizeOfItsSample(t *testing.T) {
	n := sites(t, partition.UnitRecord, 1)[0]
	r := discriminatorRound("r", 4, 0.5, nil)
	length := weightsBy(r.GetSum().GetDiscriminator().Discriminator)
	fields := func(m proto.Message) map[string]bool {
		out := map[string]bool{}
		m.ProtoReflect().Range(func(f protoreflect.FieldDescriptor, _ protoreflect.Value) bool {
			out[string(f.Name())] = true
			return true
		})
		return out
	}
	bytes := 0
	for name, sample := range map[string][]int{"nobody": nil, "one": {3}, "all": byNumber(60)} {
		n.sampled = func(float64) []int { return sample }
		m := ask(t, n, r)
		// Encryption does not hide lengths.
		if size := proto.Size(m); bytes != 0 && size != bytes {
			t.Errorf("%s: an answer of %d bytes, another one has %d", name, size, bytes)
		} else {
			bytes = size
		}
		if len(m.GetSum().GetValues()) != length {
			t.Fatalf("%s: %d numbers of %d weights: %v", name, len(m.GetSum().GetValues()), length, m.GetRefusal())
		}
		if got := fields(m.GetSum()); !reflect.DeepEqual(got, map[string]bool{"run": true, "round": true, "values": true}) {
			t.Errorf("%s: the sum has %v", name, got)
		}
		if got := fields(m); len(got) != 1 || !got["sum"] || len(m.ProtoReflect().GetUnknown()) != 0 || len(m.GetSum().ProtoReflect().GetUnknown()) != 0 {
			t.Errorf("%s: the answer has %v", name, got)
		}
		zeros := !slices.ContainsFunc(m.GetSum().Values, func(v int64) bool { return v != 0 })
		if zeros != (name == "nobody") {
			t.Errorf("%s: the sum is %v", name, m.GetSum().Values)
		}
	}
	r.GetSum().GetDiscriminator().Nothing = true
	if got := discriminatorSumOf(t, n, r); !slices.Equal(got, make([]int64, length)) {
		t.Errorf("of nothing: %v", got)
	}
}

func byNumber(n int) []int {
	out := make([]int, n)
	for i := range out {
		out[i] = i
	}
	return out
}

// Nodes of programs draw: all units of rate 1, none or few of a tiny one, and other ones
// each time.
func TestNodesDrawTheirSamples(t *testing.T) {
	n := start(t, smallConfig(t, 2), rowsOf(t, partition.UnitRecord, func(int) bool { return true }))
	if n.sampled != nil {
		t.Fatal("a node that does not draw")
	}
	ask := func(rate float64) []int64 {
		return discriminatorSumOf(t, n, discriminatorRound("r", 1, 0.5, func(q *conclavev1.DiscriminatorSum) { q.Rate = rate }))
	}
	all := ask(1)
	n.sampled = func(float64) []int { return byNumber(60) }
	if !slices.Equal(all, ask(1)) {
		t.Error("at rate 1 somebody is left out")
	}
	n.sampled = nil
	if got := ask(0x1p-64); slices.ContainsFunc(got, func(v int64) bool { return v != 0 }) { // with a chance of 60 x 2^-64
		t.Errorf("rate 2^-64: %v", got)
	}
	if a, b := ask(0.5), ask(0.5); slices.Equal(a, b) || slices.Equal(a, all) { // two samples of 60 are alike with a chance of 2^-60
		t.Error("two samples are the same")
	}
}

// How often a unit is in a node's sample is the rate: of a linear discriminator without a
// bound on gradients, the numbers of the biases add up to minus the units in the sample.
func TestNodesSampleAtTheirRate(t *testing.T) {
	const units, rounds, clip, bound = 60, 400, 1 << 10, 1 << 20
	for _, unit := range []string{partition.UnitRecord, "who"} {
		c := smallConfig(t, 2)
		c.Unit = unit
		n := start(t, c, rowsOf(t, unit, func(int) bool { return true }))
		for _, rate := range []float64{0.1, 0.7} {
			r := discriminatorRound("r", 1, 0, func(q *conclavev1.DiscriminatorSum) {
				q.Discriminator.Layers, q.Loss, q.Rate, q.Clip, q.Bound = 0, wassersteinLoss, rate, clip, bound
			})
			var mean, square float64
			for range rounds {
				sum := discriminatorSumOf(t, n, r)
				size := 0.0
				for _, v := range sum[len(sum)-2:] {
					size -= float64(v) * clip / bound
				}
				if math.Abs(size-math.Round(size)) > 0.2 { // each unit's part is cut by two steps at most
					t.Fatalf("a sample of %v units", size)
				}
				d := math.Round(size) - units*rate
				mean, square = mean+d/rounds, square+d*d/rounds
			}
			// Six standard deviations of both: passed with a chance below 1e-6 in all.
			v := units * rate * (1 - rate)
			if math.Abs(mean) > 6*math.Sqrt(v/rounds) || math.Abs(square-v) > 6*math.Sqrt(2*v*v/rounds) {
				t.Errorf("unit %s, rate %v: sizes are %v beyond %v, with variance %v, want %v", unit, rate, mean, units*rate, square, v)
			}
		}
	}
}

// Samples that are taken piece by piece add up to the same.
func TestLargeDiscriminatorSums(t *testing.T) {
	const units = 2*sampleChunk + 300
	table := smallTable(t, units, 3)
	part := func(from, to int) *Node {
		c := smallConfig(t, 2)
		c.Site = fmt.Sprint("from", from)
		n := start(t, c, table.Subset(byNumber(to)[from:]))
		byRecords(n)
		return n
	}
	one := []*Node{part(0, units)}
	parts := []*Node{part(0, 400), part(400, 400+sampleChunk), part(400+sampleChunk, units)}
	for _, rate := range []float64{0.9, 1} {
		r := discriminatorRound("r", 1, 0.5, func(q *conclavev1.DiscriminatorSum) { q.Rate = rate })
		if sampled := len(one[0].sampled(rate)); sampled <= 2*sampleChunk || (rate == 1) != (sampled == units) {
			t.Fatalf("%d units in the sample", sampled)
		}
		if a, b := addedUp(t, one, r), addedUp(t, parts, r); !slices.Equal(a, b) {
			t.Errorf("rate %v: three nodes add up to %v, one to %v", rate, b, a)
		}
	}
}

// A unit's records move the sum by no more than the bound, in whole numbers: whatever and
// however many they are, whatever the weights, and whoever else is in the sample.
func TestAUnitMovesADiscriminatorSumByAtMostTheBound(t *testing.T) {
	c := smallConfig(t, 2)
	c.Unit = "who"
	others := rowsOf(t, "who", func(int) bool { return true })
	rng := rand.New(rand.NewPCG(3, 4))
	for name, unit := range map[string]func(i int) []float64{
		"one record": func(int) []float64 { return []float64{1, 1, 2, 1} },
		"700 alike":  func(int) []float64 { return []float64{1, 1, 2, 1} },
		"300 of corners": func(i int) []float64 {
			return []float64{float64(i & 1), float64(i >> 1 & 1), float64(i % 3), float64(i >> 2 & 1)}
		},
		"200 at random": func(int) []float64 {
			return []float64{rng.Float64(), float64(rng.IntN(2)), float64(rng.IntN(3)), float64(rng.IntN(2))}
		},
	} {
		records := 1
		_, _ = fmt.Sscanf(name, "%d", &records)
		table := others.Subset(byNumber(others.Len()))
		for i := range records {
			testkit.Must(t, table.Append(append([]float64{math.NaN()}, unit(i)...), "adversary"))
		}
		without := start(t, c, others)
		with := withKeyOf(t, without, table)
		for _, spread := range []float64{0, 1e-20, 0.5, 30, 1e6, 1e19, 3e37} {
			for _, clip := range []float64{1e-18, 1e-3, 1, 1e30} {
				for _, loss := range []conclavev1.DiscriminatorSum_Loss{logisticLoss, wassersteinLoss} {
					for _, bound := range []uint64{1 << 8, 1 << 16, 1 << 20} {
						r := discriminatorRound("r", 1, spread, func(q *conclavev1.DiscriminatorSum) {
							q.Rate, q.Clip, q.Bound, q.Loss = 1, clip, bound, loss
							if spread < 1 {
								standardUnits(q)
							}
						})
						a, b := discriminatorSumOf(t, without, r), discriminatorSumOf(t, with, r)
						square := uint64(0) // of numbers below 2^20, 100 of them
						for i := range a {
							d := a[i] - b[i]
							if d < -1<<21 || d > 1<<21 {
								t.Fatalf("entry %d moved by %d", i, d)
							}
							square += uint64(d * d)
						}
						if square > bound*bound {
							t.Fatalf("%s, spread %v, clip %v, %v: the sum moved by %v of %d", name, spread, clip, loss, math.Sqrt(float64(square)), bound)
						}
						if clip <= 1e-3 && spread <= 0.5 && square < bound*bound*9/10 && bound > 1<<8 {
							t.Errorf("%s, spread %v, clip %v, %v: the sum moved by %v only, of %d", name, spread, clip, loss, math.Sqrt(float64(square)), bound)
						}
					}
				}
			}
		}
	}
}

// A question that is asked again is answered again, also an older one: nothing is kept of
// a round.
func TestDiscriminatorQuestionsAreAnsweredAgain(t *testing.T) {
	n := sites(t, partition.UnitRecord, 1)[0]
	first := discriminatorRound("r", 1, 0.5, nil)
	want := discriminatorSumOf(t, n, first)
	i := 0
	for name, change := range discriminators() {
		i++
		other := discriminatorRound("r", 2, 0.5, change)
		if got, want := discriminatorSumOf(t, n, other), discriminatorSumOf(t, sites(t, partition.UnitRecord, 1)[0], other); !slices.Equal(got, want) {
			t.Errorf("%s: %v, of a node that was asked nothing before %v", name, got, want)
		}
		votesOf(t, n, voteRound("votes", uint64(i)))
		if got := discriminatorSumOf(t, n, first); !slices.Equal(got, want) {
			t.Errorf("after %s: %v, first it was %v", name, got, want)
		}
		if m := ask(t, n, discriminatorRound("r", 3, 0.5, func(q *conclavev1.DiscriminatorSum) { q.Loss = 0 })); m.GetRefusal() == nil {
			t.Errorf("a loss that is not known was answered with %v", m)
		}
		if got := discriminatorSumOf(t, n, first); !slices.Equal(got, want) {
			t.Errorf("after a refusal: %v, first it was %v", got, want)
		}
	}
}

func badDiscriminators() map[string]struct {
	change func(q *conclavev1.DiscriminatorSum)
	want   string
} {
	nan, inf := math.NaN(), math.Inf(1)
	weights := func(change func(w []float32) []float32) func(q *conclavev1.DiscriminatorSum) {
		return func(q *conclavev1.DiscriminatorSum) {
			q.Weights = nn.Bytes(change(randomWeights(weightsBy(q.Discriminator), 0.5, 1)))
		}
	}
	units := func(change func(q *conclavev1.DiscriminatorSum)) func(q *conclavev1.DiscriminatorSum) {
		return func(q *conclavev1.DiscriminatorSum) { standardUnits(q); change(q) }
	}
	with := func(t *conclavev1.Tensor, at int, v float64) {
		x, _ := nn.Floats(t.Data)
		x[at] = float32(v)
		t.Data = nn.Bytes(x)
	}
	type bad = struct {
		change func(q *conclavev1.DiscriminatorSum)
		want   string
	}
	sum := func(change func(q *conclavev1.DiscriminatorSum), want string) bad { return bad{change, want} }
	spec := func(change func(d *conclavev1.Discriminator), want string) bad {
		return bad{func(q *conclavev1.DiscriminatorSum) { q.Weights = []byte{}; change(q.Discriminator) }, want}
	}
	return map[string]bad{
		"clip 0":          sum(func(q *conclavev1.DiscriminatorSum) { q.Clip = 0 }, "clipped at 0"),
		"negative clip":   sum(func(q *conclavev1.DiscriminatorSum) { q.Clip = -2 }, "clipped at -2"),
		"clip NaN":        sum(func(q *conclavev1.DiscriminatorSum) { q.Clip = nan }, "clipped at NaN"),
		"infinite clip":   sum(func(q *conclavev1.DiscriminatorSum) { q.Clip = inf }, "clipped at +Inf"),
		"tiny clip":       sum(func(q *conclavev1.DiscriminatorSum) { q.Clip = 1e-19 }, "norm 1e-19"),
		"huge clip":       sum(func(q *conclavev1.DiscriminatorSum) { q.Clip = 1e39 }, "norm 1e+39"),
		"no bound":        sum(func(q *conclavev1.DiscriminatorSum) { q.Bound = 0 }, "bound of gradients is 0"),
		"small bound":     sum(func(q *conclavev1.DiscriminatorSum) { q.Bound = 1<<8 - 1 }, "bound of gradients is 255"),
		"large bound":     sum(func(q *conclavev1.DiscriminatorSum) { q.Bound = 1<<20 + 1 }, "bound of gradients is 1048577"),
		"absurd bound":    sum(func(q *conclavev1.DiscriminatorSum) { q.Bound = math.MaxUint64 }, "bound of gradients is 18446744073709551615"),
		"rate 0":          sum(func(q *conclavev1.DiscriminatorSum) { q.Rate = 0 }, "sampling rate is 0"),
		"rate above 1":    sum(func(q *conclavev1.DiscriminatorSum) { q.Rate = 1.01 }, "sampling rate is 1.01"),
		"negative rate":   sum(func(q *conclavev1.DiscriminatorSum) { q.Rate = -0.5 }, "sampling rate is -0.5"),
		"rate NaN":        sum(func(q *conclavev1.DiscriminatorSum) { q.Rate = nan }, "sampling rate is NaN"),
		"no loss":         sum(func(q *conclavev1.DiscriminatorSum) { q.Loss = 0 }, "loss LOSS_UNSPECIFIED"),
		"unknown loss":    sum(func(q *conclavev1.DiscriminatorSum) { q.Loss = 77 }, "loss 77"),
		"no network":      sum(func(q *conclavev1.DiscriminatorSum) { q.Discriminator = nil }, "does not describe its discriminator"),
		"no weights":      sum(weights(func([]float32) []float32 { return []float32{} }), "0 weights for a discriminator of 50"),
		"a weight less":   sum(weights(func(w []float32) []float32 { return w[1:] }), "49 weights for a discriminator of 50"),
		"a weight more":   sum(weights(func(w []float32) []float32 { return append(w, 0) }), "51 weights for a discriminator of 50"),
		"part of one":     sum(func(q *conclavev1.DiscriminatorSum) { q.Weights = make([]byte, 201) }, "201 bytes are not a whole number"),
		"a weight of NaN": sum(weights(func(w []float32) []float32 { w[7] = float32(nan); return w }), "weight 7 is not finite"),
		"infinite weight": sum(weights(func(w []float32) []float32 { w[49] = float32(-inf); return w }), "weight 49 is not finite"),
		"no units": sum(units(func(q *conclavev1.DiscriminatorSum) { q.Mean, q.Scale = nil, nil }),
			"units of 0 means and 0 scales"),
		"no mean":       sum(units(func(q *conclavev1.DiscriminatorSum) { q.Mean = nil }), "units of 0 means and 10 scales"),
		"no scale":      sum(units(func(q *conclavev1.DiscriminatorSum) { q.Scale = nil }), "units of 10 means and 0 scales"),
		"a mean of NaN": sum(units(func(q *conclavev1.DiscriminatorSum) { with(q.Mean, 6, nan) }), "column 1 in class 1"),
		"infinite mean": sum(units(func(q *conclavev1.DiscriminatorSum) { with(q.Mean, 2, inf) }), "column 2 in class 0"),
		"scale of NaN":  sum(units(func(q *conclavev1.DiscriminatorSum) { with(q.Scale, 9, nan) }), "column 4 in class 1"),
		"scale 0":       sum(units(func(q *conclavev1.DiscriminatorSum) { with(q.Scale, 0, 0) }), "column 0 in class 0"),
		"part of a scale": sum(units(func(q *conclavev1.DiscriminatorSum) { q.Scale.Data = q.Scale.Data[1:] }),
			"not a whole number"),
		"no classes":      spec(func(d *conclavev1.Discriminator) { d.Classes = 0 }, "a discriminator of 0 classes; the schema has 2"),
		"other classes":   spec(func(d *conclavev1.Discriminator) { d.Classes = 3 }, "a discriminator of 3 classes; the schema has 2"),
		"unknown kind":    spec(func(d *conclavev1.Discriminator) { d.Kind = 9 }, "kind"),
		"no kind":         spec(func(d *conclavev1.Discriminator) { d.Kind = 0 }, "kind"),
		"no class rule":   spec(func(d *conclavev1.Discriminator) { d.ByClass = 0 }, "knows the class, CLASSES_UNSPECIFIED,"),
		"a class rule":    spec(func(d *conclavev1.Discriminator) { d.ByClass = 7 }, "knows the class, 7,"),
		"cosines":         spec(func(d *conclavev1.Discriminator) { d.Cosines = 4 }, "cosines are for images only"),
		"a convolution":   spec(func(d *conclavev1.Discriminator) { d.Kind = conclavev1.Discriminator_KIND_CONVOLUTION }, "needs images"),
		"both features":   spec(func(d *conclavev1.Discriminator) { d.Standard, d.Pieces = true, true }, "not both"),
		"no units wide":   spec(func(d *conclavev1.Discriminator) { d.Hidden = 0 }, "hidden layers of 0 units"),
		"absurdly wide":   spec(func(d *conclavev1.Discriminator) { d.Hidden = math.MaxUint32 }, "hidden layers of 4294967295 units"),
		"too many layers": spec(func(d *conclavev1.Discriminator) { d.Layers = math.MaxUint32 }, "4294967295 layers"),
		"too large":       spec(func(d *conclavev1.Discriminator) { d.Hidden, d.Layers = 1<<16, 16 }, "more than 131072 weights"),
		"absurd fourier":  spec(func(d *conclavev1.Discriminator) { d.Fourier = math.MaxUint32 }, "4294967295 random features"),
	}
}

// What cannot be answered is refused with a reason, and found before a run is open.
func TestDiscriminatorQuestionsAreChecked(t *testing.T) {
	c := smallConfig(t, 3)
	table := smallTable(t, 60, 1)
	n := start(t, c, table)
	c.State = t.TempDir()
	site, err := NewSite(c, table)
	testkit.Must(t, err)
	if err := site.CheckRound(discriminatorRound("r", 1, 0.5, nil)); err != nil {
		t.Errorf("a good question: %v", err)
	}
	for name, c := range badDiscriminators() {
		r := discriminatorRound("r", 1, 0.5, c.change)
		if got := ask(t, n, r).GetRefusal().GetReason(); !strings.Contains(got, c.want) {
			t.Errorf("%s: refused with %q, want %q", name, got, c.want)
		}
		if err := site.CheckRound(r); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: checked as %v, want %q", name, err, c.want)
		}
	}
}

// Images, by their cosines and by convolutions, wherever they are.
func TestDiscriminatorSumsOfImages(t *testing.T) {
	c := imageConfig(t, 2, 60)
	node := func(share [2]float64) *Node {
		c.Share, c.State = share, t.TempDir()
		site, err := ReadSite(c)
		testkit.Must(t, err)
		n, err := site.Node(c.Aggregator, zap.NewNop())
		testkit.Must(t, err)
		byRecords(n)
		return n
	}
	one, two := []*Node{node([2]float64{0, 1})}, []*Node{node([2]float64{0, 0.5}), node([2]float64{0.5, 1})}
	if a, b := len(two[0].units), len(two[1].units); a+b != 60 || a == 0 || b == 0 {
		t.Fatalf("%d and %d units", a, b)
	}
	for name, change := range map[string]func(d *conclavev1.Discriminator) int{
		"pixels":  func(*conclavev1.Discriminator) int { return 5*6 + 7*3 },
		"cosines": func(d *conclavev1.Discriminator) int { d.Cosines = 1; return 2*6 + 7*3 },
		"convolution": func(d *conclavev1.Discriminator) int {
			d.Kind = conclavev1.Discriminator_KIND_CONVOLUTION
			return 17*6 + 7*3
		},
	} {
		r := discriminatorRound("r", 1, 0, func(q *conclavev1.DiscriminatorSum) {
			q.Discriminator.Classes = 3
			q.Weights = nn.Bytes(randomWeights(change(q.Discriminator), 0.5, 2))
		})
		got := addedUp(t, two, r)
		if want := addedUp(t, one, r); !slices.Equal(got, want) || slices.Max(got) == 0 {
			t.Errorf("%s: two nodes add up to %v, one to %v", name, got, want)
		}
	}
}
