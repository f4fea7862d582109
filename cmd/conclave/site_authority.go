package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/conclave-dp/conclave/internal/certs"
)

func approveRequest(_ context.Context, args []string) error {
	f := flags("site approve", "site approve --dir CA_DIR [--days N] [--site NAME] [--role ROLE] [--fingerprint HEX] REQUEST.csr")
	dir := f.String("dir", "", "folder of the authority")
	length := f.Int("days", 365, "days the certificate is valid")
	name := f.String("site", "", "refuse a request of another name")
	role := roleFlag(f, "node", "refuse a request for another role")
	fingerprint := f.String("fingerprint", "", "refuse another key than the one that was read out; without it you are asked")
	out := f.String("out", "", "file for the certificate; by default beside the request, with .crt for .csr")
	yes := f.Bool("yes", false, "do not ask")
	format := formatFlag(f)
	path, args := operand(f, args)
	if err := parse(f, args); err != nil {
		return err
	}
	if *dir == "" || path == "" {
		return misuse(f, "--dir and the file of a request are needed")
	}
	if *length < 1 || *length > maxDays {
		return misuse(f, "--days %d: use 1 to %d", *length, maxDays)
	}
	if err := checkRole(f, *role); err != nil {
		return err
	}
	if *out == "" {
		*out = strings.TrimSuffix(path, ".csr") + ".crt"
	}
	q, err := certs.ReadRequest(path)
	if err != nil {
		return err
	}
	switch {
	case *name != "" && q.Identity.Name != *name:
		return fmt.Errorf("the request is of %s, not of %q; do not approve it", q.Identity, *name)
	case string(q.Identity.Role) != *role:
		return fmt.Errorf("the request is of %s, not of a %s; if that is meant say --role %s", q.Identity, *role, q.Identity.Role)
	}
	if *fingerprint != "" {
		if err := q.CheckFingerprint(*fingerprint); err != nil {
			return err
		}
	}
	if _, err := os.Lstat(*out); err == nil {
		return fmt.Errorf("%s: %w; name another file with --out", *out, certs.ErrExists)
	}
	fmt.Fprintf(os.Stderr, "request of   %s\n", q.Identity)
	if len(q.Hosts) > 0 {
		fmt.Fprintf(os.Stderr, "dialled by   %s\n", strings.Join(q.Hosts, ", "))
	}
	fmt.Fprintf(os.Stderr, "valid for    %d days\nfingerprint  %s\n", *length, certs.SpellFingerprint(q.Fingerprint))
	if *fingerprint == "" && !*yes {
		if err := confirm(); err != nil {
			return err
		}
	}
	issued, err := certs.Approve(*dir, q, days(*length))
	if err != nil {
		return err
	}
	if err := issued.SaveAs(*out); err != nil {
		return err
	}
	if *format == "json" {
		return printJSON(struct {
			Cert string `json:"cert"`
			*certs.Issued
		}{*out, issued})
	}
	fmt.Println(*out)
	return nil
}

// confirm asks whether the fingerprint is the one that the site sees.
func confirm() error {
	fmt.Fprint(os.Stderr, "is this the fingerprint that the site reads out to you? yes or no: ")
	answer, _ := bufio.NewReader(os.Stdin).ReadString('\n')
	if strings.TrimSpace(answer) != "yes" {
		return errors.New("not approved; answer yes, or give the fingerprint with --fingerprint")
	}
	return nil
}

func revokeCertificate(_ context.Context, args []string) error {
	f := flags("site revoke", "site revoke --dir CA_DIR [--role ROLE] [--reason WORD] [--crl-days N] NAME | --serial HEX")
	dir := f.String("dir", "", "folder of the authority")
	serial := f.String("serial", "", "revoke one certificate, by its serial; by default all valid ones of the name")
	role := f.String("role", "", "role of the name, where several have it: node, student or aggregator")
	reason := f.String("reason", certs.ReasonUnspecified, "why: "+strings.Join(certs.Reasons(), ", "))
	length := f.Int("crl-days", 0, "days after which the list must have been replaced; 0: as long as the authority lasts")
	format := formatFlag(f)
	name, args := operand(f, args)
	if err := parse(f, args); err != nil {
		return err
	}
	if *dir == "" || (name == "") == (*serial == "") {
		return misuse(f, "--dir, and either a name or --serial, are needed")
	}
	if *role != "" {
		if err := checkRole(f, *role); err != nil {
			return err
		}
	}
	if *length < 0 || *length > maxDays {
		return misuse(f, "--crl-days %d: use 0 to %d", *length, maxDays)
	}
	revoked, err := certs.Revoke(*dir, certs.Revocation{
		Serial: *serial, Name: name, Role: certs.Role(*role), Reason: *reason, ListFor: days(*length),
	})
	if err != nil {
		return err
	}
	if *format == "json" {
		return printJSON(map[string]any{"list": certs.RevokedFile(*dir), "revoked": revoked})
	}
	for _, e := range revoked {
		fmt.Printf("revoked %s %s %s\n", e.Role, e.Name, e.Serial)
	}
	fmt.Println(certs.RevokedFile(*dir))
	fmt.Fprintln(os.Stderr, "copy the list to where tls.revoked of every role says, first of all to the aggregators; until then nothing changes")
	return nil
}

func writeRevoked(_ context.Context, args []string) error {
	f := flags("site crl", "site crl --dir CA_DIR [--crl-days N]")
	dir := f.String("dir", "", "folder of the authority")
	length := f.Int("crl-days", 0, "days after which the list must have been replaced; 0: as long as the authority lasts")
	format := formatFlag(f)
	if err := parse(f, args); err != nil {
		return err
	}
	if *dir == "" {
		return misuse(f, "--dir: name the folder of the authority")
	}
	if *length < 0 || *length > maxDays {
		return misuse(f, "--crl-days %d: use 0 to %d", *length, maxDays)
	}
	info, err := certs.WriteList(*dir, days(*length))
	if err != nil {
		return err
	}
	if *format == "json" {
		return printJSON(info)
	}
	fmt.Printf("%s, %d certificates, until %s\n", info.Path, info.Revoked, info.Until.Format(time.DateOnly))
	return nil
}

func listCertificates(_ context.Context, args []string) error {
	f := flags("site list", "site list --dir CA_DIR")
	dir := f.String("dir", "", "folder of the authority")
	format := formatFlag(f)
	if err := parse(f, args); err != nil {
		return err
	}
	if *dir == "" {
		return misuse(f, "--dir: name the folder of the authority")
	}
	all, err := certs.Inventory(*dir)
	if err != nil {
		return err
	}
	if *format == "json" {
		return printJSON(map[string]any{"certificates": append([]certs.Holding{}, all...)})
	}
	w := tabwriter.NewWriter(os.Stdout, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "role\tname\tserial\tvalid until\tstate")
	for _, h := range all {
		until, state := "-", h.State
		if !h.NotAfter.IsZero() {
			until = h.NotAfter.Format(time.DateTime)
		}
		if h.State == certs.StateRevoked {
			state += fmt.Sprintf(" %s, %s", h.RevokedAt.Format(time.DateTime), h.Reason)
		}
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\n", dash(string(h.Role)), dash(h.Name), h.Serial, until, state)
	}
	return w.Flush()
}
