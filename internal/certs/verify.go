package certs

import (
	"crypto/x509"
	"errors"
	"fmt"
	"strings"
	"time"
)

// CheckTime returns ErrExpired if a certificate, read from file, is not valid now.
func CheckTime(cert *x509.Certificate, file string, now time.Time) error {
	switch {
	case now.After(cert.NotAfter):
		return fmt.Errorf("%s: %w: it expired on %s; issue a new one",
			file, ErrExpired, cert.NotAfter.Format(time.RFC3339))
	case now.Before(cert.NotBefore):
		return fmt.Errorf("%s: %w: it is not valid before %s; check this machine's clock",
			file, ErrExpired, cert.NotBefore.Format(time.RFC3339))
	}
	return nil
}

// VerifyChain verifies chain[0] with the rest as intermediates, and maps the reason to an error of this package.
func VerifyChain(chain []*x509.Certificate, roots *x509.CertPool, usage x509.ExtKeyUsage, now time.Time) error {
	intermediates := x509.NewCertPool()
	for _, c := range chain[1:] {
		intermediates.AddCert(c)
	}
	_, err := chain[0].Verify(x509.VerifyOptions{
		Roots:         roots,
		Intermediates: intermediates,
		CurrentTime:   now,
		KeyUsages:     []x509.ExtKeyUsage{usage},
	})
	var foreign x509.UnknownAuthorityError
	var invalid x509.CertificateInvalidError
	switch {
	case err == nil:
		return nil
	case errors.As(err, &foreign):
		return fmt.Errorf("%w: %w; use files from the same authority on both sides", ErrForeign, unknown{foreign})
	case errors.As(err, &invalid) && invalid.Reason == x509.Expired:
		return fmt.Errorf("%w (%w); issue a new one, or check the clocks", ErrExpired, err)
	case errors.As(err, &invalid) && invalid.Reason == x509.IncompatibleUsage:
		return fmt.Errorf("%w (%w)", ErrWrongRole, err)
	}
	return fmt.Errorf("%w (%w)", ErrForeign, err)
}

// unknown says in plain words what x509 says of a signer that it does not know. The name of an authority is in the
// certificate; the signature shows whether it is the same one.
type unknown struct{ x509.UnknownAuthorityError }

func (u unknown) Error() string {
	if strings.Contains(u.UnknownAuthorityError.Error(), "verification failure") {
		return "it was signed with another key by an authority of the same name"
	}
	return "it was signed by an authority whose certificate is not given here"
}

func (u unknown) Unwrap() error { return u.UnknownAuthorityError }
