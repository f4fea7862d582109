package attacks

import (
	"bytes"
	"context"
	"crypto/tls"
	"fmt"
	"math/rand/v2"
	"net"
	"slices"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"

	"github.com/conclave-dp/conclave/internal/certs"
	"github.com/conclave-dp/conclave/internal/certs/authority"
	"github.com/conclave-dp/conclave/internal/certs/tlsconfig"
	"github.com/conclave-dp/conclave/internal/testkit"
	conclavev1 "github.com/conclave-dp/conclave/proto/conclave/v1"
)

const (
	// batch is how many inputs are tried with one certificate during one round. A site whose streams fail 256 times
	// is banned, and nothing more would be tested.
	batch = 150
	// fuzzTeachers is the number of the honest node's teachers in a fuzzed run: no round ends without all of them, so
	// no forged votes end one.
	fuzzTeachers = 500
	// mostGrown bounds what inputs may leave on the heap, and mostGoroutines in goroutines, relative to the first
	// batch. etcd, in the same process, keeps nodes' joins for a while, and the fuzzing engine keeps a buffer of
	// 50 MiB from its first mutation on, which may come after the first batch.
	mostGrown, mostGoroutines = 24<<20 + 50<<20, 24
)

// separator splits an input into messages.
var separator = []byte{0xfe, 0xed}

// fuzzed is a run with a round that is open while inputs are tried.
type fuzzed struct {
	w    *world
	s    *scene
	over <-chan outcome
	open asked // the open round, as the honest node received it

	inputs, rounds int
	node           *grpc.ClientConn // of a new site in each batch
	student        *grpc.ClientConn
	site           string
	heap           int64
	goroutines     int
}

// fuzz is the state of the process.
var fuzz *fuzzed

// try tries an input during the open round, and checks the effect after each batch.
func try(t testing.TB, input func(*fuzzed)) {
	ready(t)
	f := fuzz
	if f.inputs%batch == 0 {
		f.begin(t)
	}
	input(f)
	if f.inputs++; f.inputs%batch == 0 {
		f.end(t)
	}
}

// ready starts what inputs are tried on.
func ready(t testing.TB) {
	if fuzz != nil {
		return
	}
	w := attacked(t)
	q := votes()
	q.open = func(s *conclavev1.RunSpec) { s.Teachers = 2 * fuzzTeachers }
	q.honest = func(a asked) *conclavev1.WorkRequest { return votesOf(a, fuzzTeachers, 5, 2, alternating) }
	q.counts = histogram(5, 2, fuzzTeachers, alternating)
	fuzz = &fuzzed{w: w, s: w.lasting(t, q)}
	w.closers = append(w.closers, fuzz.hangUp)
}

// lasting is a scene that outlives its first test.
func (w *world) lasting(t testing.TB, q question) *scene {
	s := w.openScene(t, q)
	var err error
	s.honest, err = begin(w.honest(t, certs.RoleNode, "north"), permitted)
	testkit.Must(t, err)
	w.closers = append(w.closers, s.honest.leave)
	s.honest.join(t, helloOf(s.spec.GetDataset(), "north", "a", fuzzTeachers))
	return s
}

// begin opens a round, and connections of a new site.
func (f *fuzzed) begin(t testing.TB) {
	t.Helper()
	over := make(chan outcome, 1)
	round := f.s.q.round(f.s.spec.GetName(), uint64(f.rounds))
	go func() {
		ctx, cancel := context.WithTimeout(context.Background(), testkit.Patience)
		defer cancel()
		r, err := ask(ctx, f.s.student, round)
		over <- outcome{r, err}
	}()
	f.over, f.open = over, f.s.honest.next(t)
	f.site = fmt.Sprintf("fuzz%d", f.rounds)
	testkit.Must(t, authority.Issue(f.w.certs, certs.RoleNode, f.site, nil, time.Hour))
	var err error
	f.node, err = f.w.connect(certs.RoleNode, f.site)
	testkit.Must(t, err)
	f.student, err = f.w.connect(certs.RoleStudent, "lab")
	testkit.Must(t, err)
}

// hangUp closes what begin opened.
func (f *fuzzed) hangUp() {
	if f.node != nil {
		f.node.Close()
		f.student.Close()
	}
}

// end checks the effect of a batch. In the histogram each query has a vote of each teacher that took part, including
// all honest ones, and nothing is left behind.
func (f *fuzzed) end(t testing.TB) {
	t.Helper()
	f.hangUp()
	f.w.healthy(t)
	f.s.honest.say(f.s.q.honest(f.open))
	var o outcome
	select {
	case o = <-f.over:
		testkit.Must(t, o.err)
	case <-time.After(testkit.Patience):
		t.Fatal("the honest round does not end")
	}
	counts := f.w.countsOf(f.s.spec.GetName())
	for q := range 5 {
		if total := counts[2*q] + counts[2*q+1]; total != int64(o.release.GetTeachers()) {
			t.Fatalf("query %d has %d votes of %d teachers", q, total, o.release.GetTeachers())
		}
	}
	for i, c := range counts {
		if forged := int64(o.release.GetTeachers()) - fuzzTeachers; c < f.s.q.counts[i] || c > f.s.q.counts[i]+forged {
			t.Fatalf("count %d is %d; honest teachers make it %d, and %d others took part",
				i, c, f.s.q.counts[i], forged)
		}
	}
	f.rounds++
	bytes, goroutines := heap()
	if f.rounds == 1 {
		f.heap, f.goroutines = bytes, goroutines
	}
	if bytes > f.heap+mostGrown || goroutines > f.goroutines+mostGoroutines {
		bytes, goroutines = settled()
	}
	if bytes > f.heap+mostGrown || goroutines > f.goroutines+mostGoroutines {
		t.Fatalf("after %d inputs: %d KiB of heap, %d after the first batch; %d goroutines, %d then",
			f.inputs, bytes>>10, f.heap>>10, goroutines, f.goroutines)
	}
}

// Ways to send an input.
const (
	toAsk      = 1 << iota // to Ask, not to Work
	afterHello             // Work, after a valid hello
	addressed              // parsed messages are addressed to the open round
)

// streams sends the messages of an input down one stream.
func (f *fuzzed) streams(t testing.TB, input []byte, way uint8) {
	ctx, cancel := context.WithTimeout(context.Background(), testkit.Patience)
	defer cancel()
	conn, method := f.node, workMethod
	if way&toAsk != 0 {
		conn, method = f.student, askMethod
	}
	stream, err := rawStream(ctx, conn, method)
	testkit.Must(t, err)
	if way&toAsk == 0 && way&afterHello != 0 {
		h := helloOf(f.s.spec.GetDataset(), f.site, fmt.Sprintf("n%d", f.inputs), 1)
		_ = stream.SendMsg(encoded(t, &conclavev1.WorkRequest{Message: &conclavev1.WorkRequest_Hello{Hello: h}}))
		if way&addressed != 0 {
			var m []byte
			for range 2 { // the welcome, and the round
				_ = stream.RecvMsg(&m)
			}
		}
	}
	for m := range bytes.SplitSeq(input, separator) {
		if way&addressed != 0 {
			m = f.address(m)
		}
		_ = stream.SendMsg(m)
	}
	_ = stream.CloseSend()
	if err := drained(stream); ctx.Err() != nil {
		t.Fatalf("the stream does not end: %v", err)
	}
}

// address makes an answer refer to the open round, so that more of an input is examined.
func (f *fuzzed) address(raw []byte) []byte {
	m := new(conclavev1.WorkRequest)
	if proto.Unmarshal(raw, m) != nil {
		return raw
	}
	run, round := f.open.round.GetRun(), f.open.round.GetNumber()
	m.Attempt = f.open.attempt
	switch a := m.GetMessage().(type) {
	case *conclavev1.WorkRequest_Votes:
		a.Votes.Run, a.Votes.Round = run, round
	case *conclavev1.WorkRequest_Sum:
		a.Sum.Run, a.Sum.Round = run, round
	case *conclavev1.WorkRequest_Refusal:
		a.Refusal.Run, a.Refusal.Round = run, round
	default:
		return raw
	}
	out, err := proto.Marshal(m)
	if err != nil {
		return raw
	}
	return out
}

// Ways to send bytes on a connection.
const (
	inTheClear = iota // instead of TLS
	inTLS             // instead of HTTP/2
	inHTTP2           // instead of its frames
	inFrames          // as the data of a call
	connections
)

// connection sends an input on a new connection.
func (f *fuzzed) connection(t testing.TB, input []byte, way uint8) {
	raw, err := net.DialTimeout("tcp", f.w.address(), testkit.Patience)
	testkit.Must(t, err)
	defer raw.Close()
	if way%connections == inTheClear {
		_, _ = raw.Write(input)
		_ = raw.(*net.TCPConn).CloseWrite()
		if got,
			err := drain(raw, testkit.Patience); len(got) > 0 && got[0] != 21 && got[0] != 22 || !refusedBy(err) {
			t.Fatalf("a connection without TLS got %q, %v", got, err)
		}
		return
	}
	config, err := tlsconfig.Client(f.w.files(certs.RoleNode, f.site), "127.0.0.1")
	testkit.Must(t, err)
	config.NextProtos = []string{"h2"}
	conn := tls.Client(raw, config)
	testkit.Must(t, conn.HandshakeContext(context.Background()))
	start := []byte("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n")
	start = append(start, rawFrame(frameSettings, 0, 0, nil)...)
	switch way % connections {
	case inTLS:
		start = nil
	case inFrames:
		start = append(start, call(1, workMethod)...)
		for rest := input; len(rest) > 0; {
			n := min(len(rest), 1<<10)
			start = append(start, rawFrame(frameData, 0, 1, rest[:n])...)
			rest = rest[n:]
		}
		input = rawFrame(frameData, flagEndStream, 1, nil)
	}
	_, _ = conn.Write(append(start, input...))
	_ = conn.CloseWrite()
	if _, err := drain(conn, testkit.Patience); !refusedBy(err) {
		t.Fatalf("the connection does not end: %v", err)
	}
}

// messages are seed inputs.
func messages(t testing.TB) [][]byte {
	a := asked{votes().round("run", 0), 1}
	sum := classCounts().round("run", 1)
	question, count := encoded(t, a.round), encoded(t, sum)
	part := func(i, n uint32, data []byte) []byte {
		return encoded(t, &conclavev1.AskRequest{Part: &conclavev1.RoundPart{Run: "run", Part: i, Parts: n,
			Data: data}})
	}
	hello := encoded(t, &conclavev1.WorkRequest{Message: &conclavev1.WorkRequest_Hello{Hello: helloOf("d0",
		"fuzz0", "n", 1)}})
	vote := encoded(t, votesOf(a, 1, 5, 2, alternating))
	return [][]byte{
		{}, hello, vote, encoded(t, sumOf(a, []int64{1, -2, 3})), encoded(t, refusalOf(a, "no\n")),
		bytes.Join([][]byte{hello, vote, vote}, separator), bytes.Join([][]byte{vote, vote}, separator),
		part(0, 1, question), part(0, 1, count),
		bytes.Join([][]byte{part(0, 2, question[:20]), part(1, 2, question[20:])}, separator),
		part(0, 1, append(field(1, []byte("run")), field(4, field(5, bytes.Repeat(field(1, nil), 100)))...)),
	}
}

// starts are seed bytes for connections.
func starts() [][]byte {
	return [][]byte{
		{}, preface(), []byte("GET / HTTP/1.1\r\n\r\n"), {22, 3, 1, 0, 5, 1, 0, 0, 1, 3}, {0, 0, 0, 0, 0},
		{1, 0, 0, 0, 1, 0},
		bytes.Join([][]byte{call(1, workMethod), message(1, 0, []byte{1}), rawFrame(framePing, 0, 0, make([]byte, 8)),
			rawFrame(frameReset, 0, 1, make([]byte, 4))}, nil),
		bytes.Join([][]byte{rawFrame(frameHeaders, 0, 1, headers(workMethod)),
			rawFrame(frameContinued, flagEndHeaders, 1, nil), rawFrame(frameGoAway, 0, 0, make([]byte, 8))}, nil),
		rawFrame(frameSettings, 0, 0, []byte{0, 1, 0, 0, 0, 0, 0, 4, 0x7f, 0xff, 0xff, 0xff}),
		rawFrame(frameWindow, 0, 0, make([]byte, 4)),
	}
}

// FuzzStreams sends any messages to a live aggregator, with a valid certificate. No input
// may end it, be counted twice or stay in memory.
func FuzzStreams(f *testing.F) {
	ready(f) // not within an input, which may take only ten seconds
	for i, m := range messages(f) {
		f.Add(m, uint8(i))
		f.Add(m, uint8(afterHello|addressed))
	}
	f.Fuzz(func(t *testing.T, input []byte, way uint8) {
		try(t, func(f *fuzzed) { f.streams(t, input, way) })
	})
}

// FuzzConnection sends any bytes to the port of a live aggregator: instead of TLS, of HTTP/2, of its frames, and as
// the data of a call.
func FuzzConnection(f *testing.F) {
	ready(f)
	for _, start := range starts() {
		for way := range uint8(connections) {
			f.Add(start, way)
		}
	}
	f.Fuzz(func(t *testing.T, input []byte, way uint8) {
		try(t, func(f *fuzzed) { f.connection(t, input, way) })
	})
}

// mutate changes, repeats, cuts and joins inputs.
func mutate(rng *rand.Rand, seeds [][]byte) []byte {
	m := slices.Clone(seeds[rng.IntN(len(seeds))])
	for range 1 + rng.IntN(4) {
		at := 0
		if len(m) > 0 {
			at = rng.IntN(len(m))
		}
		switch rng.IntN(6) {
		case 0, 1:
			if len(m) > 0 {
				m[at] ^= 1 << rng.IntN(8)
			}
		case 2:
			m = slices.Insert(m, at, byte(rng.Uint32()))
		case 3:
			m = m[:at]
		case 4:
			m = append(m, seeds[rng.IntN(len(seeds))]...)
		case 5:
			m = append(m, bytes.Repeat(m[at:], rng.IntN(8))...)
		}
	}
	return m
}

// Some hundred inputs, the same every time, run as part of the tests.
func TestSomeHundredInputs(t *testing.T) {
	const n = 600
	rng := rand.New(rand.NewPCG(10, 5))
	text, start := messages(t), starts()
	for i := range n {
		if i%3 == 2 {
			try(t, func(f *fuzzed) { f.connection(t, mutate(rng, start), uint8(rng.Uint32())) })
			continue
		}
		way := uint8(rng.IntN(8))
		if rng.IntN(2) == 0 {
			way = afterHello | addressed
		}
		try(t, func(f *fuzzed) { f.streams(t, mutate(rng, text), way) })
	}
	for fuzz.inputs%batch != 0 { // to the end of the round
		try(t, func(f *fuzzed) { f.streams(t, nil, 0) })
	}
	bytes, goroutines := settled()
	t.Logf("%d inputs, %d rounds: the heap went from %d to %d KiB, goroutines from %d to %d",
		fuzz.inputs, fuzz.rounds, fuzz.heap>>10, bytes>>10, fuzz.goroutines, goroutines)
}
