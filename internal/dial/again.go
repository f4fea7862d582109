package dial

import (
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/conclave-dp/conclave/internal/report/text"
)

// longestRest bounds the pause that an aggregator asks for: a peer that must wait longer asks again in between.
const longestRest = time.Minute

// Again is the pause that an aggregator asks of a peer that called too often; 0 if err is another error.
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
