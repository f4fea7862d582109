package dial

import (
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/conclave-dp/conclave/internal/report/text"
)

// longestRest bounds a pause that an aggregator asks for: whoever is to wait longer asks again between.
const longestRest = time.Minute

// Again is the pause that an aggregator asks for, of a peer that called too often; 0 where err is
// something else.
func Again(err error) time.Duration {
	s, ok := status.FromError(err)
	if !ok || s.Code() != codes.ResourceExhausted {
		return 0
	}
	for _, detail := range s.Details() {
		if again, ok := detail.(*errdetails.RetryInfo); ok {
			return min(max(0, again.GetRetryDelay().AsDuration()), longestRest)
		}
	}
	return 0
}

// Message is what an aggregator says of an error, on one line that a terminal may show: who says it may be anybody.
func Message(err error) string { return text.Line(status.Convert(err).Message()) }
