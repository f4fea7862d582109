package dial

import (
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
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
