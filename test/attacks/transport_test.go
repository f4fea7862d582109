package attacks

import (
	"bytes"
	"compress/gzip"
	"encoding/binary"
	"fmt"
	"math"
	"strings"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/conclave-dp/conclave/internal/certs"
	"github.com/conclave-dp/conclave/internal/testkit"
	conclavev1 "github.com/conclave-dp/conclave/proto/conclave/v1"
	"github.com/conclave-dp/conclave/proto/conclave/v1/rpc"
)

// checkUnharmed checks that an honest round works as usual, and that nothing of an attack is left.
func (w *world) checkUnharmed(t testing.TB, s *scene, number uint64) {
	t.Helper()
	w.healthy(t)
	if r := s.answer(t, s.ask(t, number)); r.GetTeachers() != honestTeachers {
		t.Errorf("%d teachers took part", r.GetTeachers())
	}
	s.exact(t)
}

// ends waits until the goroutines of an attack are gone.
func ends(t testing.TB, goroutines int) {
	t.Helper()
	testkit.Eventually(t, fmt.Sprintf("at most %d goroutines", goroutines), func() bool {
		_, now := heap()
		return now <= goroutines
	})
}

// What HTTP/2 lets a client do outside of our calls.
func TestHostileTransport(t *testing.T) {
	w := attacked(t)
	s := w.scene(t, votes())
	w.checkUnharmed(t, s, 0)
	_, idle := settled()
	round := uint64(0)
	for name, attack := range map[string]func(t *testing.T, c *h2){
		"a thousand streams": func(t *testing.T, c *h2) {
			_, before := heap()
			for i := range uint32(1000) {
				c.write(call(2*i+1, workMethod))
			}
			refused := func() (n int) {
				for _, f := range c.got(frameReset) {
					if binary.BigEndian.Uint32(f.payload) == errRefusedStream {
						n++
					}
				}
				return n
			}
			testkit.Eventually(t, "streams to be refused", func() bool { return refused() >= 1000-128 })
			if n := refused(); n != 1000-128 {
				t.Errorf("%d streams were refused, want all but 128", n)
			}
			if _, now := heap(); now-before > 128*4+50 {
				t.Errorf("%d goroutines for 128 streams", now-before)
			}
		},
		"streams that are reset at once": func(t *testing.T, c *h2) {
			for i := range uint32(5000) {
				c.write(call(2*i+1, workMethod), rawFrame(frameReset, 0, 2*i+1, []byte{0, 0, 0, 8}))
			}
		},
		"a flood of pings": func(t *testing.T, c *h2) {
			for range 100 {
				c.write(rawFrame(framePing, 0, 0, make([]byte, 8)))
			}
			wantCalm(t, c)
		},
		"a flood of settings": func(t *testing.T, c *h2) {
			for range 10000 {
				c.write(rawFrame(frameSettings, 0, 0, []byte{0, 4, 0, 1, 0, 0}))
			}
		},
		"headers of 1 MiB": func(t *testing.T, c *h2) {
			block := headers(workMethod, "x", strings.Repeat("h", 1<<20))
			c.write(rawFrame(frameHeaders, 0, 1, block[:1<<14]))
			for at := 1 << 14; at < len(block); at += 1 << 14 {
				c.write(rawFrame(frameContinued, 0, 1, block[at:min(len(block), at+1<<14)]))
			}
			c.write(rawFrame(frameContinued, flagEndHeaders, 1, nil))
			testkit.Eventually(t, "the stream to be refused", func() bool {
				return c.closed() || len(c.got(frameReset)) == 1
			})
			if n := len(c.got(frameHeaders)); n != 0 {
				t.Errorf("%d answers to headers of 1 MiB", n)
			}
		},
		"headers without an end": func(t *testing.T, c *h2) {
			c.write(rawFrame(frameHeaders, 0, 1, headers(workMethod)))
			for range 1000 {
				c.write(rawFrame(frameContinued, 0, 1, headers(workMethod)))
			}
			testkit.Eventually(t, "the connection to be closed", c.closed)
		},
		"no window, and nothing is read": func(t *testing.T, c *h2) {
			never := w.deaf(t, s)
			for range 20 {
				round++
				w.checkUnharmed(t, s, round)
			}
			if n := len(never.got(frameData)); n != 0 {
				t.Errorf("%d frames of data into a window of 0", n)
			}
			never.Close()
			w.connected(t, s, 1)
		},
		"a frame of data on a stream that is none": func(t *testing.T, c *h2) {
			c.write(message(17, 0, []byte("x")), rawFrame(frameWindow, 0, 17, []byte{0x7f, 0xff, 0xff, 0xff}))
		},
		"a window beyond its bounds": func(t *testing.T, c *h2) {
			c.write(call(1, workMethod))
			for range 10 {
				c.write(rawFrame(frameWindow, 0, 0, []byte{0x7f, 0xff, 0xff, 0xff}),
					rawFrame(frameWindow, 0, 1, []byte{0x7f, 0xff, 0xff, 0xff}))
			}
		},
		"a frame longer than agreed": func(t *testing.T, c *h2) {
			c.write(rawFrame(frameData, 0, 1, make([]byte, 1<<16)))
			testkit.Eventually(t, "the connection to be closed", c.closed)
		},
	} {
		t.Run(name, func(t *testing.T) {
			c := w.h2(t, certs.RoleNode, "mallory")
			attack(t, c)
			round++
			w.checkUnharmed(t, s, round)
			c.Close()
			ends(t, idle+6)
		})
	}
}

// wantCalm waits until the server sends ENHANCE_YOUR_CALM.
func wantCalm(t testing.TB, c *h2) {
	t.Helper()
	testkit.Eventually(t, "the connection to be sent away", func() bool {
		return len(c.got(frameGoAway)) > 0 || c.closed()
	})
	for _, f := range c.got(frameGoAway) {
		if binary.BigEndian.Uint32(f.payload[4:]) != errCalm || string(f.payload[8:]) != "too_many_pings" {
			t.Errorf("sent away with code %d, %q", binary.BigEndian.Uint32(f.payload[4:]), f.payload[8:])
		}
	}
}

// deaf is a second node of a scene that reads nothing.
func (w *world) deaf(t testing.TB, s *scene) *h2 {
	t.Helper()
	c := w.h2(t, certs.RoleNode, "mallory", 0, 4, 0, 0, 0, 0) // SETTINGS_INITIAL_WINDOW_SIZE of 0
	h := encoded(t, &conclavev1.WorkRequest{Message: &conclavev1.WorkRequest_Hello{Hello: helloOf(s.spec.GetDataset(),
		"mallory", "deaf", hostileTeachers)}})
	c.write(call(1, workMethod), message(1, 0, h))
	w.connected(t, s, 2)
	return c
}

// connected waits until this many nodes are connected.
func (w *world) connected(t testing.TB, s *scene, nodes float64) {
	t.Helper()
	testkit.Eventually(t, fmt.Sprintf("%v connected nodes", nodes), func() bool {
		return w.metrics(t)[`conclave_connected_nodes{dataset="`+s.spec.GetDataset()+`"}`] == nodes
	})
}

// Messages whose frame header is false.
func TestHostileFrames(t *testing.T) {
	w := attacked(t)
	s := w.scene(t, votes())
	var bomb bytes.Buffer
	zip, err := gzip.NewWriterLevel(&bomb, gzip.BestCompression)
	testkit.Must(t, err)
	for range 48 {
		_, err := zip.Write(make([]byte, 1<<20))
		testkit.Must(t, err)
	}
	testkit.Must(t, zip.Close())
	zero := make([]byte, 4)
	for name, c := range map[string]struct {
		more    []string
		message []byte
		kind    string
	}{
		"a length of 4 GiB":      {nil, []byte{0, 0xff, 0xff, 0xff, 0xff, 1}, "oversized"},
		"one byte too long":      {nil, append([]byte{0}, binary.BigEndian.AppendUint32(nil, 4<<20+1)...), "oversized"},
		"compressed, by nothing": {nil, append([]byte{1}, zero...), "malformed"},
		"compressed, by nobody":  {[]string{"grpc-encoding", "snappy"}, append([]byte{1}, zero...), ""},
		"48 MiB of zeros, zipped": {[]string{"grpc-encoding", "gzip"},
			append(append([]byte{1}, binary.BigEndian.AppendUint32(nil, uint32(bomb.Len()))...), bomb.Bytes()...),
			"oversized"},
		"zipped, and it is not":      {[]string{"grpc-encoding", "gzip"}, []byte{1, 0, 0, 0, 3, 1, 2, 3}, "malformed"},
		"flags that nobody knows":    {nil, append([]byte{0xfe}, zero...), ""},
		"a message that breaks off":  {nil, []byte{0, 0, 0, 0, 100, 1, 2, 3}, ""},
		"a prefix that breaks off":   {nil, []byte{0, 0}, ""},
		"another content type":       {[]string{"content-type", "text/html"}, nil, ""},
		"a timeout that is none":     {[]string{"grpc-timeout", "soon"}, nil, ""},
		"a timeout of no time":       {[]string{"grpc-timeout", "0n"}, nil, ""},
		"a path that is none":        {[]string{":path", "x"}, nil, ""},
		"binary that is not base 64": {[]string{"x-bin", "!!!"}, nil, ""},
	} {
		t.Run(name, func(t *testing.T) {
			before := w.rejections(t)
			c2 := w.h2(t, certs.RoleNode, "mallory")
			c2.write(call(1, workMethod, c.more...))
			for at := 0; at < len(c.message); at += 1 << 14 {
				c2.write(rawFrame(frameData, 0, 1, c.message[at:min(len(c.message), at+1<<14)]))
			}
			c2.write(rawFrame(frameData, flagEndStream, 1, nil))
			testkit.Eventually(t, "the end of the stream", func() bool {
				for _, f := range append(c2.got(frameHeaders), c2.got(frameReset)...) {
					if f.kind == frameReset || f.flags&flagEndStream != 0 {
						return true
					}
				}
				return c2.closed()
			})
			if n := len(c2.got(frameData)); n != 0 {
				t.Errorf("%d frames of data came back", n)
			}
			if c.kind != "" {
				w.awaitRejections(t, before, c.kind, 1)
			}
		})
	}
	w.checkUnharmed(t, s, 0)
}

// Calls that a node's certificate does not allow, and calls that nobody may make.
func TestHostileCalls(t *testing.T) {
	w := attacked(t)
	conn := w.dial(t, certs.RoleNode, "mallory")
	for method, code := range map[string]codes.Code{
		"/conclave.v1.StudentService/OpenRun":                            codes.PermissionDenied,
		askMethod:                                                        codes.PermissionDenied,
		"/conclave.v1.StudentService/CloseRun":                           codes.PermissionDenied,
		"/conclave.v1.StudentService/ReadLedger":                         codes.PermissionDenied,
		"/conclave.v1.TeacherService/Other":                              codes.Unimplemented,
		"/grpc.reflection.v1.ServerReflection/ServerReflectionInfo":      codes.Unimplemented,
		"/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo": codes.Unimplemented,
		"/grpc.channelz.v1.Channelz/GetServers":                          codes.Unimplemented,
		"/etcdserverpb.KV/Range":                                         codes.Unimplemented,
		"/" + strings.Repeat("x", 8000):                                  codes.Unimplemented,
	} {
		stream, err := rawStream(testkit.Within(t), conn, method)
		testkit.Must(t, err)
		_ = stream.SendMsg([]byte{})
		_ = stream.CloseSend()
		if err := drained(stream); status.Code(err) != code {
			t.Errorf("%.60s: %.300v, want %v", method, err, code)
		}
	}
	student := w.dial(t, certs.RoleStudent, "eve")
	stream, err := rawStream(testkit.Within(t), student, workMethod)
	testkit.Must(t, err)
	if err := drained(stream); status.Code(err) != codes.PermissionDenied {
		t.Errorf("a student that works: %v", err)
	}
}

// A student's rounds that promise more than they contain, or would expand beyond their size.
func TestHostileQuestions(t *testing.T) {
	w := attacked(t)
	s := w.scene(t, votes())
	run := s.spec.GetName()
	eve := rpc.NewStudentServiceClient(w.dial(t, certs.RoleStudent, "lab"))
	part := func(i, n uint32, data []byte) *conclavev1.RoundPart {
		return &conclavev1.RoundPart{Run: run, Part: i, Parts: n, Data: data}
	}
	one := func(change func(*conclavev1.Round)) []*conclavev1.RoundPart {
		r := s.q.round(run, 0)
		change(r)
		return []*conclavev1.RoundPart{part(0, 1, encoded(t, r))}
	}
	foreign := part(1, 2, []byte("x"))
	foreign.Run = "other"
	long := part(0, 1, []byte("x"))
	long.Run = strings.Repeat("r", 1<<20)
	for name, c := range map[string]struct {
		parts []*conclavev1.RoundPart
		code  codes.Code
		says  string
	}{
		"half of a round": {[]*conclavev1.RoundPart{part(0, 2, []byte("x"))}, codes.InvalidArgument, "1 of 2 parts"},
		"nothing":         {nil, codes.InvalidArgument, "0 of 0 parts"},
		"no part":         {[]*conclavev1.RoundPart{nil}, codes.InvalidArgument, "no round part"},
		"the second part first": {[]*conclavev1.RoundPart{part(1, 2, []byte("x"))}, codes.InvalidArgument,
			"want part 0"},
		"a part twice": {[]*conclavev1.RoundPart{part(0, 3, []byte("x")), part(0, 3, []byte("x"))},
			codes.InvalidArgument, "want part 1"},
		"2^32-1 parts": {[]*conclavev1.RoundPart{part(0, math.MaxUint32, []byte("x"))}, codes.InvalidArgument,
			"4294967295 parts"},
		"part 2^32-1": {[]*conclavev1.RoundPart{part(math.MaxUint32, 2, []byte("x"))}, codes.InvalidArgument,
			"want part 0"},
		"a part of another run": {[]*conclavev1.RoundPart{part(0, 2, []byte("x")), foreign},
			codes.InvalidArgument, "different rounds"},
		"an empty part": {[]*conclavev1.RoundPart{part(0, 1, nil)}, codes.InvalidArgument, "0 bytes"},
		"a part of 2 MiB": {[]*conclavev1.RoundPart{part(0, 1, make([]byte, 2<<20))}, codes.InvalidArgument,
			"2097152 bytes"},
		"a part of 5 MiB": {[]*conclavev1.RoundPart{part(0, 1, make([]byte, 5<<20))},
			codes.ResourceExhausted, "larger than max"},
		"a run's name of 1 MiB": {[]*conclavev1.RoundPart{long}, codes.InvalidArgument, "rrr..."},
		"garbage": {[]*conclavev1.RoundPart{part(0, 1, []byte{0xff})}, codes.InvalidArgument,
			"cannot be read"},
		"another round inside": {one(func(r *conclavev1.Round) {
			r.Number = 7
		}), codes.InvalidArgument, "round 7"},
		"no question": {one(func(r *conclavev1.Round) {
			r.Shape = nil
		}), codes.InvalidArgument, "is empty; set votes"},
		"2^32-1 queries":              {one(votesOn(math.MaxUint32, 2)), codes.InvalidArgument, "4294967295 queries"},
		"2^32-1 answers to choose of": {one(votesOn(5, math.MaxUint32)), codes.InvalidArgument, "4294967295 classes"},
		"2^32-1 class counts": {one(func(r *conclavev1.Round) {
			*r = *sumRound(run, 0, paysCounts, "class-counts", &conclavev1.Vector{Entries: math.MaxUint32, Bound: 1})
		}), codes.InvalidArgument, "entries"},
		"an embedding of 2^32-1": {one(func(r *conclavev1.Round) {
			*r = *sumRound(run, 0, paysEmbedding, "embedding",
				&conclavev1.Vector{Entries: math.MaxUint32, Bound: fixed})
		}), codes.InvalidArgument, "entries"},
		"a pass of its own": {one(func(r *conclavev1.Round) {
			r.Serves = make([]byte, 32)
		}), codes.InvalidArgument, "leave it out"},
		"paid by what there is not": {one(func(r *conclavev1.Round) {
			r.Planned = math.MaxUint32
		}), codes.FailedPrecondition, "uses entry 4294967295"},
		"paid by another kind": {one(func(r *conclavev1.Round) {
			r.Planned = paysScores
		}), codes.FailedPrecondition, "pays for scores"},
	} {
		t.Run(name, func(t *testing.T) {
			before := w.metrics(t)
			stream, err := eve.Ask(testkit.Within(t))
			testkit.Must(t, err)
			for _, p := range c.parts {
				_ = stream.Send(&conclavev1.AskRequest{Part: p})
			}
			_ = stream.CloseSend()
			_, err = stream.Recv()
			if text := status.Convert(err).Message(); status.Code(err) != c.code || !strings.Contains(text, c.says) ||
				len(text) > 5000 {
				t.Errorf("the stream ended with %.500v, want %v and %q", err, c.code, c.says)
			}
			reason := map[codes.Code]string{codes.InvalidArgument: "malformed", codes.FailedPrecondition: "not_allowed",
				codes.ResourceExhausted: "budget"}[c.code]
			counter := `conclave_rounds_refused_total{reason="` + reason + `"}`
			testkit.Eventually(t, "one more "+counter, func() bool {
				return w.metrics(t)[counter]-before[counter] == 1
			})
		})
	}
	select {
	case <-s.honest.rounds:
		t.Error("a node was asked such a round")
	default:
	}
	w.checkUnharmed(t, s, 0)
}

func votesOn(queries, classes uint32) func(*conclavev1.Round) {
	return func(r *conclavev1.Round) {
		r.Shape = &conclavev1.Round_Votes{Votes: &conclavev1.Histogram{Queries: queries, Classes: classes}}
	}
}

// A student may have 128 MiB of rounds in transit; when it leaves they are freed. Three rounds of 63 MiB are too many,
// and the one that is refused is told.
func TestRoundsUnderWayAreBounded(t *testing.T) {
	if testing.Short() {
		t.Skip("sends 190 MiB")
	}
	w := attacked(t)
	s := w.scene(t, votes())
	before, _ := settled()
	eve := rpc.NewStudentServiceClient(w.dial(t, certs.RoleStudent, "lab"))
	ctx, cancel := withCancel(t)
	ended := make(chan error, 3)
	data := make([]byte, 1<<20)
	for range cap(ended) {
		stream, err := eve.Ask(ctx)
		testkit.Must(t, err)
		go func() {
			_, err := stream.Recv()
			ended <- err
		}()
		for i := range uint32(63) { // of 64
			// A refused stream takes no more parts. If its last parts are refused, they are sent before it knows.
			if stream.Send(&conclavev1.AskRequest{Part: &conclavev1.RoundPart{Run: s.spec.GetName(), Part: i, Parts: 64,
				Data: data}}) != nil {
				break
			}
		}
	}
	err := testkit.Receive(t, ended)
	if status.Code(err) != codes.Unavailable || !strings.Contains(err.Error(), "at once") {
		t.Errorf("a student that sends too much is told %v", err)
	}
	if held, _ := settled(); held-before > 400<<20 {
		t.Errorf("%d MiB are held", (held-before)>>20)
	}
	w.checkUnharmed(t, s, 0) // another student can ask as usual
	cancel()
	testkit.Eventually(t, "all of it to be let go", func() bool {
		held, _ := heap()
		return held-before < 32<<20
	})
}
