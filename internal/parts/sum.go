// Package parts sends what is too large for one message in several, and puts it together again.
package parts

import (
	"fmt"

	conclavev1 "github.com/conclave-dp/conclave/proto/conclave/v1"
)

const (
	// sumValues is how many values a message holds: 1 MiB, well under gRPC's 4 MiB.
	sumValues = 1 << 17
	// maxSumParts bounds a sum to two million values.
	maxSumParts = 16
)

// OfSum returns an answer of a node as it is sent: a long sum in parts.
func OfSum(answer *conclavev1.WorkRequest) []*conclavev1.WorkRequest {
	values := answer.GetSum().GetValues()
	if len(values) <= sumValues {
		return []*conclavev1.WorkRequest{answer}
	}
	total := (len(values) + sumValues - 1) / sumValues
	out := make([]*conclavev1.WorkRequest, total)
	for i := range out {
		out[i] = &conclavev1.WorkRequest{
			Attempt: answer.GetAttempt(),
			Message: &conclavev1.WorkRequest_Sum{Sum: &conclavev1.Sum{
				Run: answer.GetSum().GetRun(), Round: answer.GetSum().GetRound(),
				Part: uint32(i), Parts: uint32(total),
				Values: values[i*sumValues : min((i+1)*sumValues, len(values))],
			}},
		}
	}
	return out
}

// Sum puts the parts of a sum together. The zero value is ready for use. It holds the parts of
// one answer at a time, 16 MiB at most.
type Sum struct {
	held *conclavev1.WorkRequest // with the values of the parts so far
	next uint32                  // the part that is due, 0 where none is held
}

// Add takes a message of a node. It returns the answer that is whole with it, nil while parts of
// it are due. The error says that the parts are not those of one answer; what was held is
// dropped then.
func (s *Sum) Add(m *conclavev1.WorkRequest) (*conclavev1.WorkRequest, error) {
	part := m.GetSum()
	if part.GetParts() == 0 && part.GetPart() == 0 {
		*s = Sum{} // an answer that was given up for another one
		return m, nil
	}
	before := *s
	*s = Sum{}
	if err := check(part); err != nil {
		return nil, err
	}
	if part.GetPart() == 0 {
		*s = Sum{m, 1}
		return nil, nil
	}
	held := before.held.GetSum()
	if part.GetPart() != before.next {
		return nil, fmt.Errorf("got part %d of a sum, want part %d", part.GetPart(), before.next)
	}
	if m.GetAttempt() != before.held.GetAttempt() || part.GetRun() != held.GetRun() ||
		part.GetRound() != held.GetRound() || part.GetParts() != held.GetParts() {
		return nil, fmt.Errorf("part %d of a sum belongs to another answer than the previous part", part.GetPart())
	}
	held.Values = append(held.Values, part.GetValues()...)
	if before.next++; before.next < held.GetParts() {
		*s = before
		return nil, nil
	}
	held.Part, held.Parts = 0, 0
	return before.held, nil
}

// check checks a part by itself: full parts bound what is held.
func check(part *conclavev1.Sum) error {
	n, last := len(part.GetValues()), part.GetPart()+1 == part.GetParts()
	switch {
	case part.GetParts() < 2 || part.GetParts() > maxSumParts || part.GetPart() >= part.GetParts():
		return fmt.Errorf("part %d of %d of a sum; send 2 to %d parts", part.GetPart(), part.GetParts(), maxSumParts)
	case !last && n != sumValues, n == 0 || n > sumValues:
		return fmt.Errorf("part %d of a sum has %d values; send %d in each part except the last", part.GetPart(), n,
			sumValues)
	}
	return nil
}
