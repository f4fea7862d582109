package parts

import (
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"

	"github.com/conclave-dp/conclave/internal/testkit"
	conclavev1 "github.com/conclave-dp/conclave/proto/conclave/v1"
)

// answer is a sum of so many values.
func answer(n int) *conclavev1.WorkRequest {
	values := make([]int64, n)
	for i := range values {
		values[i] = int64(i) * 3
	}
	return &conclavev1.WorkRequest{Attempt: 7, Message: &conclavev1.WorkRequest_Sum{
		Sum: &conclavev1.Sum{Run: "r", Round: 2, Values: values},
	}}
}

func TestSumsComeBackWhole(t *testing.T) {
	for n, want := range map[int]int{
		0: 1, 1: 1, sumValues: 1, sumValues + 1: 2, 2 * sumValues: 2, maxSumParts * sumValues: maxSumParts,
	} {
		whole := answer(n)
		messages := OfSum(whole)
		if len(messages) != want {
			t.Errorf("%d values in %d parts, want %d", n, len(messages), want)
		}
		var s Sum
		for i, m := range messages {
			if size := proto.Size(m); size > 2<<20 {
				t.Errorf("a message of %d bytes", size)
			}
			got, err := s.Add(proto.Clone(m).(*conclavev1.WorkRequest))
			testkit.Must(t, err)
			if last := i == len(messages)-1; (got != nil) != last {
				t.Fatalf("part %d of %d: %v", i, len(messages), got != nil)
			} else if last && !proto.Equal(got, whole) {
				t.Errorf("%d values came back as %d", n, len(got.GetSum().GetValues()))
			}
		}
	}
	refusal := &conclavev1.WorkRequest{
		Message: &conclavev1.WorkRequest_Refusal{Refusal: &conclavev1.Refusal{Reason: "no"}},
	}
	if got, err := new(Sum).Add(refusal); err != nil || got != refusal {
		t.Errorf("another answer: %v, %v", got, err)
	}
}

// What is wrong is found at its part, and nothing of it is held.
func TestPartsOfSumsAreChecked(t *testing.T) {
	for name, c := range map[string]struct {
		change func(m []*conclavev1.WorkRequest)
		at     int
		want   string
	}{
		"begins late": {func(m []*conclavev1.WorkRequest) {
			m[0] = m[1]
		}, 0, "got part 1 of a sum, want part 0"},
		"skips one": {func(m []*conclavev1.WorkRequest) {
			m[1] = m[2]
		}, 1, "got part 2 of a sum, want part 1"},
		"another run":     {func(m []*conclavev1.WorkRequest) { m[1].GetSum().Run = "s" }, 1, "another answer"},
		"another round":   {func(m []*conclavev1.WorkRequest) { m[1].GetSum().Round++ }, 1, "another answer"},
		"another attempt": {func(m []*conclavev1.WorkRequest) { m[1].Attempt++ }, 1, "another answer"},
		"another total":   {func(m []*conclavev1.WorkRequest) { m[1].GetSum().Parts++ }, 1, "another answer"},
		"one part":        {func(m []*conclavev1.WorkRequest) { m[0].GetSum().Parts = 1 }, 0, "part 0 of 1 of a sum"},
		"too many": {func(m []*conclavev1.WorkRequest) {
			m[0].GetSum().Parts = maxSumParts + 1
		}, 0, "part 0 of 17"},
		"beyond":   {func(m []*conclavev1.WorkRequest) { m[0].GetSum().Part = 3 }, 0, "part 3 of 3"},
		"no total": {func(m []*conclavev1.WorkRequest) { m[1].GetSum().Parts = 0 }, 1, "part 1 of 0"},
		"short": {func(m []*conclavev1.WorkRequest) {
			m[0].GetSum().Values = m[0].GetSum().Values[1:]
		}, 0, "has 131071 values"},
		"empty": {func(m []*conclavev1.WorkRequest) { m[2].GetSum().Values = nil }, 2, "has 0 values"},
		"long": {func(m []*conclavev1.WorkRequest) {
			m[2].GetSum().Values = make([]int64, sumValues+1)
		}, 2, "has 131073 values"},
	} {
		messages := OfSum(answer(2*sumValues + 5))
		c.change(messages)
		var s Sum
		for i := 0; i <= c.at; i++ {
			got, err := s.Add(messages[i])
			if failed := err != nil; got != nil || failed != (i == c.at) ||
				failed && !strings.Contains(err.Error(), c.want) {
				t.Errorf("%s, part %d: %v, %v; want %q", name, i, got, err, c.want)
			}
		}
		if s.held != nil {
			t.Errorf("%s: a part is held", name)
		}
	}
	// An answer that is given up is no obstacle to the next.
	var s Sum
	_, err := s.Add(OfSum(answer(sumValues + 1))[0])
	testkit.Must(t, err)
	small := answer(3)
	if got, err := s.Add(small); err != nil || got != small || s.held != nil {
		t.Errorf("the next answer: %v, %v", got, err)
	}
}

func release(n int) *conclavev1.Release {
	r := &conclavev1.Release{Run: "r", Round: 3, Teachers: 5, LedgerHash: "hash"}
	r.Answer = &conclavev1.Release_Sum{Sum: &conclavev1.NoisySum{Values: answer(n).GetSum().GetValues(), Scale: 9}}
	return r
}

func TestReleasesComeBackWhole(t *testing.T) {
	for _, n := range []int{0, 1000, 1 << 19, 1 << 21} {
		messages, err := OfRelease(release(n))
		testkit.Must(t, err)
		if (len(messages) > 1) != (n > 1000) {
			t.Errorf("%d values in %d parts", n, len(messages))
		}
		var r Release
		var got *conclavev1.Release
		for i, m := range messages {
			progress, err := r.Add(&conclavev1.AskResponse{Message: &conclavev1.AskResponse_Progress{}})
			if progress != nil || err != nil {
				t.Fatalf("progress: %v, %v", progress, err)
			}
			got, err = r.Add(m)
			testkit.Must(t, err)
			if (got != nil) != (i == len(messages)-1) {
				t.Fatalf("part %d of %d: %v", i, len(messages), got != nil)
			}
		}
		if !proto.Equal(release(n), got) {
			t.Errorf("%d values come back as %d", n, len(got.GetSum().GetValues()))
		}
	}
}

func TestPartsOfReleasesAreChecked(t *testing.T) {
	for name, change := range map[string]func([]*conclavev1.AskResponse){
		"begins late":   func(m []*conclavev1.AskResponse) { m[0] = m[1] },
		"skips one":     func(m []*conclavev1.AskResponse) { m[1] = m[2] },
		"repeats one":   func(m []*conclavev1.AskResponse) { m[1] = m[0] },
		"another total": func(m []*conclavev1.AskResponse) { m[1].GetPart().Parts++ },
		"too many":      func(m []*conclavev1.AskResponse) { m[0].GetPart().Parts = 1 << 31 },
		"too long":      func(m []*conclavev1.AskResponse) { m[0].GetPart().Data = make([]byte, releaseBytes+1) },
		"not a message": func(m []*conclavev1.AskResponse) { m[0].GetPart().Data[0] ^= 0xff },
	} {
		messages, err := OfRelease(release(750_000))
		testkit.Must(t, err)
		change(messages)
		var r Release
		var failed error
		for _, m := range messages {
			var got *conclavev1.Release
			if got, failed = r.Add(m); failed != nil {
				break
			}
			if got != nil && len(got.GetSum().GetValues()) == 750_000 {
				t.Errorf("%s: a release was read", name)
			}
		}
		if failed == nil {
			t.Errorf("%s: nothing was found wrong", name)
		}
	}
}

// FuzzSum feeds the assembly of sums what might come: no input panics, and what is returned is
// no larger than the parts that may be sent.
func FuzzSum(f *testing.F) {
	f.Add([]byte("\x00\x02\x01\x02"), uint8(2))
	f.Fuzz(func(t *testing.T, script []byte, of uint8) {
		var s Sum
		full := make([]int64, sumValues)
		for i := 0; i+1 < len(script) && i < 40; i += 2 {
			m := answer(int(script[i+1] % 3))
			if script[i+1]&0x80 != 0 {
				m.GetSum().Values = full
			}
			m.GetSum().Part, m.GetSum().Parts = uint32(script[i]), uint32(of)
			got, err := s.Add(m)
			if n := len(got.GetSum().GetValues()); err != nil && got != nil || n > maxSumParts*sumValues {
				t.Fatalf("%d values, %v", n, err)
			}
		}
	})
}
