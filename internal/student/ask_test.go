package student

import (
	"bytes"
	"errors"
	"io"
	"strings"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/conclave-dp/conclave/internal/testkit"
	conclavev1 "github.com/conclave-dp/conclave/proto/conclave/v1"
	"github.com/conclave-dp/conclave/proto/conclave/v1/rpc"
)

// received assembles a round as the aggregator does, and checks its parts.
func received(t *testing.T, stream rpc.StudentService_AskServer) ([]byte, int) {
	var raw []byte
	for n := uint32(0); ; n++ {
		m, err := stream.Recv()
		if errors.Is(err, io.EOF) {
			return raw, int(n)
		}
		if err != nil {
			t.Errorf("part %d: %v", n, err)
			return nil, 0
		}
		p := m.Part
		if p.Run != "r" || p.Round != 7 || p.Part != n || p.Part >= p.Parts || len(p.Data) > partSize {
			t.Errorf("part %d is part %d of %d of round %d of %q with %d bytes",
				n, p.Part, p.Parts, p.Round, p.Run, len(p.Data))
		}
		raw = append(raw, p.Data...)
	}
}

func release(run string, round uint64) *conclavev1.AskResponse {
	return &conclavev1.AskResponse{Message: &conclavev1.AskResponse_Release{
		Release: &conclavev1.Release{Run: run, Round: round, Teachers: 3},
	}}
}

func question(bytes int) *conclavev1.Round {
	data := make([]byte, bytes)
	for i := range data {
		data[i] = byte(i * i >> 3)
	}
	return &conclavev1.Round{Run: "r", Number: 7, Kind: "votes", Params: data}
}

func TestRoundsTravelInPartsAndRepeatToTheBit(t *testing.T) {
	for name, c := range map[string]struct{ bytes, parts int }{
		"small":              {100, 1},
		"one part and more":  {partSize, 2},
		"two and a half MiB": {5 * partSize / 2, 3},
	} {
		t.Run(name, func(t *testing.T) {
			want, err := proto.MarshalOptions{Deterministic: true}.Marshal(question(c.bytes))
			testkit.Must(t, err)
			s := &service{ask: func(call int, stream rpc.StudentService_AskServer) error {
				raw, parts := received(t, stream)
				if parts != c.parts || !bytes.Equal(raw, want) {
					t.Errorf("call %d: %d bytes in %d parts, want %d in %d", call, len(raw), parts, len(want), c.parts)
				}
				if call == 0 {
					return status.Error(codes.Unavailable, "stopping")
				}
				return stream.Send(release("r", 7))
			}}
			got, err := connected(t, s).Ask(testkit.Within(t), question(c.bytes), Asking{}, nil)
			if err != nil || got.Teachers != 3 || s.count() != 2 {
				t.Errorf("release %v, error %v after %d calls", got, err, s.count())
			}
		})
	}
}

// A student must notice a refusal that comes before all parts are sent.
func TestARefusalInTheMiddleOfTheParts(t *testing.T) {
	s := &service{ask: func(int, rpc.StudentService_AskServer) error {
		return status.Error(codes.ResourceExhausted, "over budget")
	}}
	_, err := connected(t, s).Ask(testkit.Within(t), question(20*partSize), Asking{}, nil)
	if !errors.Is(err, ErrOverBudget) {
		t.Errorf("error %v, want ErrOverBudget", err)
	}
}

func TestProgressIsPassedOn(t *testing.T) {
	s := &service{ask: func(_ int, stream rpc.StudentService_AskServer) error {
		received(t, stream)
		for live := range uint32(3) {
			if err := stream.Send(&conclavev1.AskResponse{Message: &conclavev1.AskResponse_Progress{
				Progress: &conclavev1.Progress{TeachersNeeded: 2, TeachersLive: live, WaitingForQuorum: live < 2},
			}}); err != nil {
				return err
			}
		}
		return stream.Send(release("r", 7))
	}}
	var live []uint32
	_, err := connected(t, s).Ask(testkit.Within(t), question(10), Asking{}, func(p *conclavev1.Progress) {
		if p.WaitingForQuorum != (p.TeachersLive < p.TeachersNeeded) {
			t.Errorf("progress %v", p)
		}
		live = append(live, p.TeachersLive)
	})
	if err != nil || len(live) != 3 || live[2] != 2 {
		t.Errorf("live %v, error %v; want all three", live, err)
	}
	if _, err := connected(t, s).Ask(testkit.Within(t), question(10), Asking{}, nil); err != nil {
		t.Errorf("without a callback: %v", err)
	}
}

func TestAnswersThatAreNone(t *testing.T) {
	t.Run("an end without a release is asked again", func(t *testing.T) {
		s := &service{ask: func(call int, stream rpc.StudentService_AskServer) error {
			received(t, stream)
			if call == 0 {
				return nil
			}
			return stream.Send(release("r", 7))
		}}
		if _, err := connected(t, s).Ask(testkit.Within(t), question(10), Asking{}, nil); err != nil || s.count() != 2 {
			t.Errorf("error %v after %d calls, want none after 2", err, s.count())
		}
	})
	for name, answer := range map[string]*conclavev1.AskResponse{
		"of another run":   release("x", 7),
		"of another round": release("r", 8),
	} {
		t.Run("a release "+name, func(t *testing.T) {
			s := &service{ask: func(_ int, stream rpc.StudentService_AskServer) error {
				received(t, stream)
				return stream.Send(answer)
			}}
			_, err := connected(t, s).Ask(testkit.Within(t), question(10), Asking{}, nil)
			if !errors.Is(err, ErrRefused) || !strings.Contains(err.Error(), "the release is of round") {
				t.Errorf("error %v; want a refusal that names the round", err)
			}
		})
	}
}
