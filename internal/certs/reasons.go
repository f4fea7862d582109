package certs

import "slices"

// Why a certificate is revoked, in the words and numbers of RFC 5280, section 5.3.1.
const (
	ReasonUnspecified   = "unspecified"
	ReasonKeyCompromise = "key-compromise"
	// ReasonSuperseded is for a certificate that was renewed: its key may still be used.
	ReasonSuperseded = "superseded"
	ReasonLeft       = "cessation-of-operation"
	ReasonWithdrawn  = "privilege-withdrawn"
)

// ReasonCodes are the numbers of reasons in lists of revoked certificates.
var ReasonCodes = map[string]int{
	ReasonUnspecified: 0, ReasonKeyCompromise: 1, ReasonSuperseded: 4, ReasonLeft: 5, ReasonWithdrawn: 9,
}

// Reasons lists the words for why a certificate is revoked.
func Reasons() []string {
	var all []string
	for word := range ReasonCodes {
		all = append(all, word)
	}
	slices.Sort(all)
	return all
}
